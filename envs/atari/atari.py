"""Games of the Atari 2600, emulated by a kernel: one thread for each console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from inspect import Parameter, signature
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.atari import console, controllers, games, machine, palette, pictures, roms, rules
from warpdrive.envs.atari.opcodes import PADDING
from warpdrive.envs.common import parameters
from warpdrive.errors import DefinitionError, shown

ZERO = np.float32(0)
Kind = Literal["grayscale", "rgb", "ram"]
KINDS = ("grayscale", "rgb", "ram")
STACKED = {"grayscale": 4, "rgb": 1, "ram": 1}
"""Default number of stacked pictures of each kind."""
SECOND_LINES = {"NTSC": 290, "PAL": 342}
"""Line after which a frame ends without vertical synchronisation, by television standard."""
CONSOLE = ("ram", "registers", "cartridge_ram", "screen")
"""Arrays of a console."""
CHOOSING = 10
"""Frames for which keys are pressed in menus."""
TIMERS = 25, 100
"""Values of the timer at power-on: the first, and the end of the range."""
LONGEST_SELECTION = 150
"""Number of times that SELECT is pressed in search of a mode."""


@wd.kernel
def step(
    # state
    ram, registers, cartridge_ram, screen, held, score, second_score, lives, frames,
    # actions
    actions, rng,
    # constants
    rom, game_rules, second_rules, buttons, cartridge, first_line, height, last_line, has_paddles, swapped_ports,
    num_agents, shortest_skip, longest_skip, repeat_probability, is_drawn, ends_with_life, frames_of_fire, max_frames,
    clips_rewards, zero_sum, on_gpu,
    # out
    rewards, terminated, truncated, continued,
):  # fmt: skip
    """Emulate the frames of a step, in the first thread."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent == 0:
        remaining = shortest_skip
        if longest_skip > shortest_skip:
            remaining += wd.random.integer(rng, env, 0, longest_skip - shortest_skip + 1)
        remaining = min(remaining, max_frames - frames[env])
        gained, gained_by_second, over, lost = 0, 0, 0, False
        before = cuda.local.array(128, np.uint8)
        while remaining > 0:
            for player in range(num_agents):
                if lost and remaining <= frames_of_fire:
                    held[env, player] = controllers.FIRE
                elif repeat_probability == ZERO or wd.random.uniform(rng, env, player) >= repeat_probability:
                    held[env, player] = buttons[actions[env, player]]
            second = held[env, 1] if num_agents > 1 else 0
            controllers.press(registers[env], held[env, 0], second, has_paddles, swapped_ports)
            for address in range(before.size):
                before[address] = ram[env, address]
            console.run_frame(
                ram[env], registers[env], cartridge_ram[env], rom, screen[env], cartridge, first_line, height,
                last_line, is_drawn and remaining <= 2, on_gpu,
            )  # fmt: skip
            frames[env] += 1
            remaining -= 1
            score[env], reward, lives_left, over = rules.evaluate(before, ram[env], game_rules, score[env], lives[env])
            gained += reward
            if zero_sum:
                gained_by_second -= reward
            else:
                second_score[env], reward, _, _ = rules.evaluate(before, ram[env], second_rules, second_score[env], 0)
                gained_by_second += reward
            if over != 0:
                remaining = 0
            elif ends_with_life and not lost and 0 < lives_left < lives[env]:
                lost = True
                remaining = min(remaining + frames_of_fire, max_frames - frames[env])
            lives[env] = lives_left
        if clips_rewards:
            gained, gained_by_second = _sign(gained), _sign(gained_by_second)
        rewards[env, 0] = gained
        if num_agents > 1:
            rewards[env, 1] = gained_by_second
        terminated[env] = over != 0 or lost
        truncated[env] = over == 0 and frames[env] >= max_frames
        continued[env] = lost and over == 0 and frames[env] < max_frames


@wd.device_function
def _sign(number):
    return 1 if number > 0 else (-1 if number < 0 else 0)


@wd.kernel
def observe_grey(screen, registers, observations, timestep, grey_levels, height, screen_size, blends):
    """Write the greyscale picture into the stack, ``[pictures, screen_size, screen_size]``."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    is_first, latest = timestep[env] == 0, registers[env, machine.PARITY]
    stack = observations[env, agent]
    if not is_first:
        pictures.drop_oldest(stack, 1)
    newest = stack[stack.shape[0] - 1]
    pictures.put_grey(newest, screen[env], latest, blends and not is_first, grey_levels, height, screen_size)
    if is_first:
        pictures.repeat_newest(stack, 1)


@wd.kernel
def observe_colours(screen, registers, observations, timestep, colours, height, blends):
    """Write the picture in RGB into the stack, ``[pictures * 3, height, 160]``."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    is_first, latest = timestep[env] == 0, registers[env, machine.PARITY]
    stack = observations[env, agent]
    if not is_first:
        pictures.drop_oldest(stack, 3)
    newest = stack[stack.shape[0] - 3 :]
    pictures.put_colours(newest, screen[env], latest, blends and not is_first, colours, height)
    if is_first:
        pictures.repeat_newest(stack, 3)


@wd.kernel
def observe_memory(ram, observations, timestep):
    """Write the 128 bytes of memory to the end of the observation, after those of earlier steps."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    size = ram.shape[1]
    others = observations.shape[2] - size
    for index in range(others):
        observations[env, agent, index] = (
            ram[env, index % size] if timestep[env] == 0 else observations[env, agent, index + size]
        )
    for index in range(size):
        observations[env, agent, others + index] = ram[env, index]


@wd.kernel
def play(
    ram, registers, cartridge_ram, screen, script, rom, cartridge, first_line, height, last_line, has_paddles,
    swapped_ports, drawn, on_gpu,
):  # fmt: skip
    """Emulate the frames of a script for one console: rows of two actions and SWCHB."""
    for frame in range(script.shape[0]):
        registers[machine.SWCHB] = script[frame, 2]
        controllers.press(registers, script[frame, 0], script[frame, 1], has_paddles, swapped_ports)
        console.run_frame(
            ram, registers, cartridge_ram, rom, screen, cartridge, first_line, height, last_line, drawn, on_gpu
        )  # fmt: skip


class Atari(wd.Environment):
    """Play an Atari 2600 game, such as Pong or Breakout, emulated on the device.

    ## Description

    Each replica is a console: processor, memory and picture are emulated by one thread. The games are those of
    `wd.atari.games()`; their ROMs are read from the installed package `ale-py`: `pip install "warpdrive[atari]"`.
    `wd.make("atari/pong")` is `wd.make("atari", game="pong")`. Arguments have the names, meanings and defaults of
    `ale-py` (`ALE/Pong-v5`) and of Gymnasium's `AtariPreprocessing`. By default an observation is a stack of four
    greyscale pictures of 84 x 84 pixels. The [guide](../guides/atari.md) describes the accuracy and speed of the
    emulator.

    In each step the console emulates `frame_skip` frames with the chosen action. The policy tag is `agent`. With
    `players=2`, in games in which two play against each other, it is `first` and `second`.

    ## Action Space

    `Discrete(n)`, stored as `actions[env, agent]` (int32). The choices are the actions that have an effect in the game,
    in ale-py's order, or with `full_action_space` these 18:

    | Actions | Meaning |
    | --- | --- |
    | 0, 1 | nothing, fire |
    | 2 to 5 | up, right, left, down |
    | 6 to 9 | up and right, up and left, down and right, down and left |
    | 10 to 17 | 2 to 9 with fire |

    In paddle games right and left turn the paddle. With probability `repeat_action_probability` a frame repeats the
    action of the previous frame instead, as with sticky actions in ale-py (Machado et al. 2018).

    ## Observation Space

    `Box` from 0 to 255, uint8. Models divide pictures by 255.

    | `obs_type` | Shape | Observation |
    | --- | --- | --- |
    | `grayscale` | `(frame_stack, screen_size, screen_size)` | the screen in grey levels, averaged over areas |
    | `rgb` | `(3 * frame_stack, 210, 160)` | the screen in colours; 250 lines in games for PAL televisions |
    | `ram` | `(128 * frame_stack,)` | the console's memory; the screen is not drawn, which is faster |

    With `max_pool` a picture is the pixelwise maximum of the last two frames of the step, since many games draw objects
    in every second frame only. Pictures of the last `frame_stack` steps are stacked, the latest one last; at the
    beginning of an episode all are the first picture.

    ## Rewards

    The increase of the score in the frames of the step, as in ale-py; with `clip_rewards` its sign. With two players
    the game is zero-sum, except for `joust`, `mario_bros`, `space_invaders` and `wizard_of_wor`, in which each
    player has a score.

    ## Starting State

    The console is turned on with a random value of its timer, runs for 60 frames, and is reset, in the mode and
    difficulty of the arguments. The game's start actions follow, then from 1 to `noop_max` frames without action, and
    with `fire_on_reset` a step of fire and one of action 2, in games whose action 1 is fire. This is done
    `reset_pool_size` times when an `EnvWrapper` is created, so that the start of an episode costs a copy. With
    `start_states` an episode begins in one of these.

    ## Episode End

    - Termination: the game is over. With `terminal_on_life_loss` also at the loss of a life, after which the next
      episode continues the same game (after a step of fire with `fire_on_reset`), as with the wrapper of OpenAI
      Baselines and Stable-Baselines3; returns are then those of lives. Only the last two frames of a step are drawn: if
      the game is over before them, the final picture is an earlier one, as with `AtariPreprocessing`.
    - Truncation: after `max_num_frames_per_episode` frames.

    ## Arguments

    Args:
        game: Name of the game, one of `wd.atari.games()`.
        players: 1, or 2 in the [games for two](../guides/atari.md#two-players).
        obs_type: `grayscale`, `rgb` or `ram`.
        frame_skip: Number of frames of a step; or a pair, of which each step draws a number from the first up to the
            second, exclusively.
        repeat_action_probability: Probability that a frame repeats the last action instead of the chosen one.
        full_action_space: If True, all 18 actions can be chosen.
        mode: Mode of the game, by default the first; with two players one of those for two.
        difficulty: Difficulty of the game, by default the lowest.
        max_num_frames_per_episode: Number of frames after which an episode is truncated.
        screen_size: Height and width of grey pictures, from 1 to 160.
        frame_stack: Number of stacked pictures, by default 4 for `grayscale` and 1 for the others.
        max_pool: If True, a picture is the maximum of the last two frames of a step.
        noop_max: Maximum number of frames without action at the beginning of a game; 0 for none.
        fire_on_reset: If True, fire is pressed at the beginning, which starts some games. Without effect in games
            whose action 1 is not fire.
        terminal_on_life_loss: If True, a lost life ends an episode.
        clip_rewards: If True, rewards are -1, 0 or 1.
        start_states: Console states in which episodes begin, as returned by `wd.atari.from_ale`.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range, or there is no ROM.

    ## References

    - M. G. Bellemare, Y. Naddaf, J. Veness and M. Bowling (2013), "The arcade learning environment: an evaluation
      platform for general agents", [arXiv 1207.4708](https://arxiv.org/abs/1207.4708).
    - M. C. Machado et al. (2018), "Revisiting the arcade learning environment: evaluation protocols and open problems
      for general agents", [arXiv 1709.06009](https://arxiv.org/abs/1709.06009).
    - S. Dalton, I. Frosio and M. Garland (2020), "Accelerating reinforcement learning through GPU Atari emulation",
      [arXiv 1907.08467](https://arxiv.org/abs/1907.08467).
    """

    name = "atari"
    original_names: ClassVar[Mapping[str, str]] = {  # of ale-py, and of wrappers of Gymnasium
        "frameskip": "frame_skip",
        "rom": "game",
        "grayscale_obs": "obs_type",
        "scale_obs": "Observations are uint8.",
        "num_stack": "frame_stack",
        "stack_size": "frame_stack",
        "stack_num": "frame_stack",
        "img_height": "screen_size",
        "img_width": "screen_size",
        "episodic_life": "terminal_on_life_loss",
        "reward_clipping": "clip_rewards",
        "use_fire_reset": "fire_on_reset",
        "max_episode_steps": "max_num_frames_per_episode",
        "continuous": "Actions are discrete.",
    }
    termination_meaning: ClassVar[str] = "the game is over"
    check_parameters: ClassVar[Mapping[str, Any]] = {"obs_type": "ram", "frame_skip": 1}
    step = step

    def __init__(
        self,
        game: str = "pong",
        players: int = 1,
        obs_type: Kind = "grayscale",
        frame_skip: int | Sequence[int] = 4,
        repeat_action_probability: float = 0.25,
        full_action_space: bool = False,
        mode: int | None = None,
        difficulty: int | None = None,
        max_num_frames_per_episode: int = 108_000,
        screen_size: int = 84,
        frame_stack: int | None = None,
        max_pool: bool = True,
        noop_max: int = 30,
        fire_on_reset: bool = False,
        terminal_on_life_loss: bool = False,
        clip_rewards: bool = False,
        start_states: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        whole, flag = parameters.whole, parameters.flag
        rule = games.game(game)
        self.num_agents = whole("players", players, at_least=1, at_most=2)
        second_score: tuple[games.Term, ...] = ()
        if self.num_agents == 2:
            if rule.two is None:
                two = ", ".join(name for name, other in games.GAMES.items() if other.two is not None)
                raise DefinitionError(f"players is 2, but {rule.name} is for one; games for two are {two}")
            second_score = rule.two.second_score
            rule = rule.for_two()
        elif not rule.modes:
            raise DefinitionError(f"players is {self.num_agents}, but {rule.name} is for two: players=2")
        self.game = rule
        self.shortest_skip, self.longest_skip = _frame_skips(frame_skip)
        self.repeat_probability = parameters.real(
            "repeat_action_probability", repeat_action_probability, at_least=0, at_most=1
        )
        self.clips_rewards, self.ends_with_life = (
            flag("clip_rewards", clip_rewards),
            flag("terminal_on_life_loss", terminal_on_life_loss),
        )
        self.max_frames = whole("max_num_frames_per_episode", max_num_frames_per_episode, at_least=1)
        self.noop_max = whole("noop_max", noop_max, at_least=0, at_most=1000)
        with_two = " with players=2" if self.num_agents == 2 else ""
        self.mode = _one_of("mode", mode, rule.modes, rule.name + with_two)
        self.difficulty = _one_of("difficulty", difficulty, rule.difficulties, rule.name)
        actions = range(controllers.NUM_ACTIONS) if flag("full_action_space", full_action_space) else rule.actions
        has_fire = actions[1] == controllers.FIRE
        self.pressed_on_reset = list(actions[1:3]) if flag("fire_on_reset", fire_on_reset) and has_fire else []
        self.frames_of_fire = self.shortest_skip if self.pressed_on_reset else 0
        self.episode_length = -(-self.max_frames // self.shortest_skip)
        self.steps_between_truncations = -(-self.max_frames // (self.longest_skip + self.frames_of_fire))

        self.rom = roms.load(rule.name, rule.md5)
        self.cartridge = machine.CARTRIDGES.index(rule.cartridge)
        self.game_rules, self.second_rules = rules.program(rule), rules.sum_of(second_score, rule)
        self.zero_sum = not second_score
        self.has_paddles, self.swapped_ports = rule.controller == "paddles", rule.swapped_ports
        self.first_line, self.height, self.last_line = rule.first_line, rule.height, SECOND_LINES[rule.display]
        self.buttons = np.zeros(controllers.NUM_ACTIONS, np.int32)
        self.buttons[: len(actions)] = [0 if action in rule.ignored else action for action in actions]
        self.policy_tags = {"agent": [0]} if self.num_agents == 1 else {"first": [0], "second": [1]}
        self.action_space = spaces.Discrete(len(actions))
        self._prepare_observations(obs_type, screen_size, frame_stack, flag("max_pool", max_pool))
        self.start_states = None if start_states is None else _checked_starts(start_states, rule)
        self._begun: dict[int, dict[str, npt.NDArray[Any]]] = {}  # by the timer
        self.state_checks = {"registers": self._check_registers, "held": _check_held}

    def _prepare_observations(self, kind: Any, screen_size: Any, stack: Any, blends: bool) -> None:
        kind = parameters.one_of("obs_type", kind, KINDS)
        stacked = STACKED[kind] if stack is None else parameters.whole("frame_stack", stack, at_least=1, at_most=64)
        self.screen_size = parameters.whole("screen_size", screen_size, at_least=1, at_most=machine.WIDTH)
        self.is_drawn = kind != "ram"
        self.blends = blends and self.longest_skip > 1
        self.grey_levels, self.colours = palette.GREY[self.game.display], palette.RGB[self.game.display]
        shape: tuple[int, ...]
        if kind == "grayscale":
            shape, self.observe = (stacked, self.screen_size, self.screen_size), observe_grey
        elif kind == "rgb":
            shape, self.observe = (3 * stacked, self.height, machine.WIDTH), observe_colours
        else:
            shape, self.observe = (128 * stacked,), observe_memory
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)

    def _check_registers(self, registers: npt.NDArray[Any]) -> None:
        games.check_rom(registers, self.game.md5, "the snapshot")
        machine.check(registers, self.game.cartridge, "the snapshot")

    @classmethod
    def variant(cls, name: str) -> type[wd.Environment]:
        """Return the class of ``atari/<game>``: that of the game without the parameter ``game``."""
        return _of_game(games.game(name).name)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return the state after power-on, the start of the game, and a random number of frames without action."""
        if self.start_states is not None:
            return self._started(self._drawn(self.start_states[int(rng.integers(len(self.start_states)))]))
        timer = int(rng.integers(*TIMERS))
        if timer not in self._begun:
            self._begun[timer] = self.begun(timer)
        machine_state = {name: array.copy() for name, array in self._begun[timer].items()}
        neutral = controllers.CONSOLE_SWITCHES | self.difficulty << 6
        idle = int(rng.integers(1, self.noop_max + 1)) if self.noop_max > 0 else 0
        pressed = [(action, 0, neutral) for action in self.pressed_on_reset for _ in range(self.shortest_skip)]
        self._play(machine_state, [(0, 0, neutral)] * idle + pressed)
        state = self._started(machine_state)
        state["held"][0] = pressed[-1][0] if pressed else 0  # what a sticky first action repeats, as in ale-py
        return state

    def begun(self, timer: int, memory: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of a console whose game has begun.

        Args:
            timer: Value of the timer at power-on, which ale-py draws.
            memory: Value of each byte of the memory at power-on.
        """
        machine_state = self._power_on(timer)
        machine_state["ram"][:] = memory
        neutral = controllers.CONSOLE_SWITCHES | self.difficulty << 6
        reset = [(0, 0, neutral & ~controllers.RESET)] * 4
        self._play(machine_state, [(0, 0, neutral)] * 60 + reset)
        resets = self.game.resets if len(self.game.modes) > 1 else 1
        start = reset * resets + [(action, 0, neutral) for action in self.game.start_actions]
        if self.game.mode:
            self._select_mode(machine_state, start, neutral)
        self._play(machine_state, start)
        return machine_state

    def _power_on(self, timer: int) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of a console at power-on, with cleared memory."""
        registers = np.zeros(machine.SIZE, np.int32)
        last = self.rom.size - PADDING
        registers[machine.PC] = int(self.rom[last - 4]) & 0xFFFF  # the bytes at 0xFFFC and 0xFFFD
        registers[machine.S], registers[machine.P] = 0xFF, 0x24
        registers[machine.BLANKED] = 0 if self.game.blanks else -1
        registers[machine.ROM] = machine.identity(self.game.md5)
        if self.game.cartridge in ("F8", "F8SC"):
            registers[machine.BANK] = 0x1000
        elif self.game.cartridge == "E0":
            registers[machine.SLICES : machine.SLICES + 3] = 0x1000, 0x1400, 0x1800
        registers[machine.TIMER], registers[machine.TIMER_SHIFT] = timer, 6
        registers[machine.VSYNC_END], registers[machine.FRAME_DONE] = 0x7FFFFFFF, 1
        registers[machine.SWCHA] = 0xFF
        registers[[machine.INPT4, machine.INPT5]] = 0x80
        registers[machine.PADDLES : machine.PADDLES + 4] = controllers.resistances(
            controllers.CENTRE_OHM, controllers.CENTRE_OHM, self.has_paddles, self.swapped_ports
        )
        shape = (2, self.height, machine.WIDTH) if self.is_drawn else (2, 1, 1)
        return {
            "ram": np.zeros(128, np.uint8),
            "registers": registers,
            "cartridge_ram": np.zeros(128, np.uint8),
            "screen": np.zeros(shape, np.uint8),
        }

    def _play(
        self, state: Mapping[str, npt.NDArray[Any]], script: Sequence[tuple[int, int, int]], drawn: bool | None = None
    ) -> None:
        """Emulate frames, in place: ``script`` has the actions of both players and the console's switches of each."""
        chips = (state[name] for name in ("ram", "registers", "cartridge_ram", "screen"))
        lines = (self.first_line, self.height, self.last_line)
        settings = (*lines, self.has_paddles, self.swapped_ports, self.is_drawn if drawn is None else drawn)
        on_gpu = False
        play[1, 1](*chips, np.array(script, np.int32).reshape(-1, 3), self.rom, self.cartridge, *settings, on_gpu)

    def _drawn(self, state: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return the state of a console with the picture of its next frame, without emulating the frame."""
        shape = (2, self.height, machine.WIDTH) if self.is_drawn else (2, 1, 1)
        drawn = {name: array.copy() for name, array in state.items()} | {"screen": np.zeros(shape, np.uint8)}
        if not self.is_drawn:
            return drawn
        neutral = int(state["registers"][machine.SWCHB])
        self._play(drawn, [(0, 0, neutral)])
        registers = state["registers"].copy()
        registers[machine.PARITY] = drawn["registers"][machine.PARITY]
        return {**state, "registers": registers, "screen": drawn["screen"]}

    def _select_mode(
        self, state: Mapping[str, npt.NDArray[Any]], start: Sequence[tuple[int, int, int]], neutral: int
    ) -> None:
        """Press SELECT until the game is in the given mode, which most games show in a started copy of the console."""
        select = [(0, 0, neutral & ~controllers.SELECT)] * self.game.select_frames + [(0, 0, neutral)]
        self._play(state, [(0, 0, neutral)] * self.game.frames_before_select)
        if self.game.menu:
            self._play(state, select)
        for bit in self.game.menu:
            for action in [controllers.RIGHT] * bool(self.mode & bit) + [controllers.DOWN]:
                self._play(state, [(action, 0, neutral)] * CHOOSING + [(0, 0, neutral)] * CHOOSING)
        table = rules.sum_of(self.game.mode_before or self.game.mode, self.game)
        for _ in range(LONGEST_SELECTION):
            trial = {name: state[name].copy() for name in CONSOLE}
            if not self.game.mode_before:
                self._play(trial, start, drawn=False)
            if rules.score_and_lives(trial["ram"], table)[0] == self.mode:
                return
            self._play(state, select)
        raise DefinitionError(f"mode {self.mode} of {self.game.name} was not reached by pressing SELECT")

    def _started(self, console_state: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of a console as those of a replica whose episode begins."""
        score, lives = rules.score_and_lives(console_state["ram"], self.game_rules)
        second_score, _ = rules.score_and_lives(console_state["ram"], self.second_rules)
        return {
            **{name: console_state[name].copy() for name in CONSOLE},
            "held": np.zeros(self.num_agents, np.int32),
            "score": np.array(score, np.int32),
            "second_score": np.array(second_score, np.int32),
            "lives": np.array(console_state.get("lives", lives), np.int32),
            "frames": np.zeros((), np.int32),
        }

    def render(self, state: dict[str, Any], trail: Sequence[dict[str, Any]] = ()) -> npt.NDArray[np.uint8]:
        """Return the screen, ``[height, 320, 3]`` uint8. If it is not part of the state, the next frame is drawn."""
        registers, screen = state["registers"], state["screen"]
        if not self.is_drawn:
            copy = {name: state[name].copy() for name in ("ram", "registers", "cartridge_ram")}
            registers, screen = copy["registers"], np.zeros((2, self.height, machine.WIDTH), np.uint8)
            first, second = (int(action) for action in (*state["held"], 0)[:2])
            self._play({**copy, "screen": screen}, [(first, second, int(registers[machine.SWCHB]))], drawn=True)
        picture: npt.NDArray[np.uint8] = self.colours[screen[registers[machine.PARITY]]]
        return np.repeat(picture, 2, axis=1)


@cache
def _of_game(name: str) -> type[Atari]:
    """Return the class of one game."""

    def create(self: Atari, **options: Any) -> None:
        Atari.__init__(self, game=name, **options)

    own = signature(Atari)
    taken = [parameter for parameter in own.parameters.values() if parameter.name != "game"]
    only_by_name = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in taken]
    members = {
        "__init__": create,
        "__doc__": Atari.__doc__,
        "__module__": __name__,
        "__signature__": own.replace(parameters=only_by_name),
    }
    return type("Atari", (Atari,), members)


def _frame_skips(given: Any) -> tuple[int, int]:
    """Return the smallest and the largest number of frames of a step."""
    pair = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given, None]
    if len(pair) != 2:
        raise DefinitionError(f"frame_skip is {shown(given)}, but it must be a whole number or a list of two")
    low = parameters.whole("frame_skip", pair[0], at_least=1, at_most=1000)
    if pair[1] is None:
        return low, low
    try:
        return low, parameters.whole("frame_skip", pair[1], at_least=low + 1, at_most=1000) - 1
    except DefinitionError:
        what = f"expected a second number, exclusive, from {low + 1} to 1000"
        raise DefinitionError(f"frame_skip is {shown(given)}, {what}") from None


def _checked_starts(given: Any, game: games.Game) -> list[dict[str, npt.NDArray[Any]]]:
    """Return the arrays of consoles without their screens."""
    expected = {
        "ram": (np.uint8, (128,)),
        "registers": (np.int32, (machine.SIZE,)),
        "cartridge_ram": (np.uint8, (128,)),
    }
    states = list(given) if isinstance(given, Sequence) and not isinstance(given, str | bytes) else []
    if not states:
        raise DefinitionError(f"start_states is {shown(given)}, but it must be a list of results of wd.atari.from_ale")
    for number, state in enumerate(states):
        for name, (dtype, shape) in expected.items():
            found = state.get(name) if isinstance(state, Mapping) else None
            if not isinstance(found, np.ndarray) or found.dtype != dtype or found.shape != shape:
                what = f"{found.dtype} {found.shape}" if isinstance(found, np.ndarray) else shown(found)
                raise DefinitionError(
                    f"start_states[{number}] has the array '{name}' {what}, but it must be {np.dtype(dtype)} {shape}"
                )
        games.check_rom(state["registers"], game.md5, f"start_states[{number}]")
        if state.get("md5", game.md5) != game.md5:  # registers from before ROMs had an identity
            raise DefinitionError(f"start_states[{number}] is a state of another game than {game.name}")
        machine.check(state["registers"], game.cartridge, f"start_states[{number}]")
    starts = [{name: np.array(state[name]) for name in (*expected, "lives") if name in state} for state in states]
    for state in starts:
        state["registers"][machine.BLANKED] = 0 if game.blanks else -1
    return starts


def _check_held(held: npt.NDArray[Any]) -> None:
    """Raise for actions that do not exist."""
    last = controllers.NUM_ACTIONS - 1
    for action in held[(held < 0) | (held > last)][:1]:
        raise DefinitionError(f"the snapshot is damaged: a held action is {action}, but it must be from 0 to {last}")


def _one_of(name: str, given: Any, known: Sequence[int], game: str) -> int:
    """Return the mode or difficulty, by default the first."""
    if given is None:
        return known[0]
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given not in known:
        raise DefinitionError(f"{name} is {shown(given)}, but {game} has {', '.join(map(str, known))}")
    return int(given)
