"""Compare the console of the environment ``atari`` with ale-py, frame by frame: RAM, screen and registers.

``python tools/atari_check.py pong`` seeds a console with the state of ale-py's after a reset, and plays the same random
actions in both. At the first difference it prints the bytes, and the registers that differ then and in the frame where
registers began to. After the end of a game both go on from the next reset. ``--skip 3000`` plays so many frames in
ale-py first, and begins in the middle of a game. ``--starts`` compares the memory at the beginning of games instead,
with ``--modes`` in every mode and difficulty.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import warpdrive as wd
from warpdrive.envs.atari import ale_state, console, machine, opcodes
from warpdrive.envs.atari.ale_conversion import from_ale
from warpdrive.envs.atari.atari import TIMERS, Atari
from warpdrive.envs.atari.games import GAMES
from warpdrive.errors import nearest

try:
    import ale_py
except ImportError:
    sys.exit("The comparison needs ale-py, which is not installed: pip install ale-py")

HELD = 4
"""Frames for which an action is held."""
CHUNK = 50
"""Frames between two comparisons."""
WITHOUT_PICTURE = 2
"""Frames after a reset whose pictures are not compared: a frame that is cut off shows that of two frames before."""
PADDLE_GAMES = {"backgammon", "blackjack", "breakout", "casino", "kaboom", "pong"}
NO_BLANKS = {"asteroids", "battle_zone", "darkchambers", "ms_pacman"}
PADDLE_STEP = 23_000
POWER_ON = 0x5A, 0x33, 0x7F, 0xFF
"""Bytes of which the memory at power-on is full, besides 0, to find what depends on it. All games start with these."""
CANDIDATES = 6
"""Values of the timer, the nearest ones, for which what depends on the memory at power-on is looked for."""
UNPLAYABLE = {
    "combat": "two players",
    "joust": "two players",
    "maze_craze": "two players",
    "warlords": "four players",
    "pitfall2": "DPC cartridge",
}
"""ROMs of ale-py that are not compared: its interface for one player refuses them, or the cartridge is not emulated."""

# registers that a state of ale-py lacks, or that hold something else at the end of a frame
_NOT_COMPARED = {
    machine.SUPPRESSED, machine.CHANGED, machine.REFLECTED, machine.BLANKED, machine.DRAWN_UNTIL,
    machine.FRAME_DONE, machine.PARITY, machine.SWCHA, machine.SWCHB, machine.INPT4, machine.INPT5,
    *range(machine.PADDLES, machine.PADDLES + 4),
}  # fmt: skip


@dataclass
class Difference:
    """First difference of a comparison."""

    frame: int
    where: str
    """Byte, pixel or register."""
    ours: int
    expected: int
    details: list[str] = field(default_factory=list)


@dataclass
class Result:
    """Comparison of a game."""

    game: str
    cartridge: str
    frames: int = 0
    resets: int = 0
    ram: Difference | None = None
    registers: Difference | None = None
    screen: Difference | None = None
    screens_differing: int = 0
    """Frames whose picture differs in any pixel."""
    seconds: float = 0.0


@wd.kernel
def run_frames(
    ram, registers, cartridge_ram, rom, screen, kind, first_line, num_lines, last_line, drawn, on_gpu, inputs,
    rams, all_registers, screens,
):  # fmt: skip
    """Emulate a frame for each row of ``inputs``, and keep RAM, registers and picture of each."""
    for frame in range(inputs.shape[0]):
        for i in range(inputs.shape[1]):
            registers[machine.SWCHA + i] = inputs[frame, i]
        console.run_frame(
            ram, registers, cartridge_ram, rom, screen, kind, first_line, num_lines, last_line, drawn, on_gpu
        )  # fmt: skip
        for i in range(128):
            rams[frame, i] = ram[i]
        for i in range(registers.size):
            all_registers[frame, i] = registers[i]
        if drawn:
            for row in range(screen.shape[1]):
                for column in range(screen.shape[2]):
                    screens[frame, row, column] = screen[registers[machine.PARITY], row, column]


def ale_console(name: str, seed: int) -> Any:
    """Return ale-py's console with a game at its start: every action has an effect, and lasts a frame."""
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("frame_skip", 1)
    ale.setInt("random_seed", seed)
    ale.loadROM(ale_py.roms.get_rom_path(name))
    ale.reset_game()
    return ale


def actions_of(ale: Any, seed: int) -> Iterator[int]:
    """Yield random actions of the minimal set, each for ``HELD`` frames."""
    generator = np.random.default_rng(seed)
    minimal = [action.value for action in ale.getMinimalActionSet()]
    while True:
        action = int(generator.choice(minimal))
        for _ in range(HELD):
            yield action


class Inputs:
    """Input levels of the controllers for an action of ale-py: SWCHA, SWCHB, INPT4, INPT5 and the paddles."""

    def __init__(self, game: str, state: ale_state.AleState) -> None:
        self.paddles = state.paddles.copy() if game in PADDLE_GAMES else None
        self.limits, self.game = state.paddle_limits, game
        self.switches = 0x3F | state.difficulty << 6

    def words(self, action: int) -> list[int]:
        """Return the inputs of a frame, and move the paddle."""
        up, right, left, down, fire = _DIRECTIONS[action]
        if self.paddles is not None:
            low, high = self.limits
            self.paddles[0] = np.clip(self.paddles[0] + PADDLE_STEP * (left - right), low, high)
            pins = 0xFF
            if fire:
                pins = 0xBF if self.game == "pong" else 0x7F
            first, second = self.paddles.tolist()
            order = (second, first, 0, 0) if self.game == "pong" else (first, second, -1, -1)
            return [pins, self.switches, 0x80, 0x80, *order]
        pins = (1 - up) << 4 | (1 - down) << 5 | (1 - left) << 6 | (1 - right) << 7 | 0x0F
        buttons = [0x00 if fire else 0x80, 0x80]
        if self.game in ("surround", "wizard_of_wor"):
            pins, buttons = pins >> 4 | 0xF0, buttons[::-1]
        return [pins, self.switches, *buttons, -1, -1, -1, -1]


def _directions() -> list[tuple[int, int, int, int, int]]:
    """Return up, right, left, down and fire of each action, in the order of ale-py's names."""
    table = []
    for action in range(18):
        words = ale_py.Action(action).name
        table.append(tuple(int(word in words) for word in ("UP", "RIGHT", "LEFT", "DOWN", "FIRE")))
    return table  # type: ignore[return-value]


_DIRECTIONS = _directions()


class Ours:
    """Our console, seeded with a state of ale-py's."""

    def __init__(self, game: str, state: ale_state.AleState, drawn: bool, on_gpu: bool = False) -> None:
        self.arrays = from_ale(state)
        if game in NO_BLANKS:
            self.arrays["registers"][machine.BLANKED] = -1
        rom = Path(ale_py.roms.get_rom_path(game)).read_bytes()
        self.rom = opcodes.decoded(rom)
        self.kind = machine.CARTRIDGES.index(state.cartridge.kind)
        tia = state.tia
        self.first_line = (tia.display_start - tia.frame_start) // machine.CLOCKS_PER_LINE
        self.num_lines = (tia.display_stop - tia.display_start) // machine.CLOCKS_PER_LINE
        self.drawn, self.on_gpu = drawn, on_gpu

    def run(self, inputs: npt.NDArray[np.int32]) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """Return RAM, registers and picture of each frame."""
        count = len(inputs)
        screen = self.arrays["screen"]
        rams = np.zeros((count, 128), np.uint8)
        registers = np.zeros((count, machine.SIZE), np.int32)
        screens = np.zeros((count if self.drawn else 1, *screen.shape[1:]), np.uint8)
        run_frames[1, 1](
            self.arrays["ram"], self.arrays["registers"], self.arrays["cartridge_ram"], self.rom, screen, self.kind,
            self.first_line, self.num_lines, 342 if self.num_lines == 250 else 290, self.drawn, self.on_gpu, inputs,
            rams, registers, screens,
        )  # fmt: skip
        return rams, registers, screens


def differing_registers(ours: npt.NDArray[Any], expected: npt.NDArray[Any]) -> list[int]:
    """Return the indices of registers that differ, except those without a meaning at the time."""
    ignored = set(_NOT_COMPARED)
    if not expected[machine.TIMER_READ]:
        ignored.add(machine.TIMER_FLAG_RESET)
    if expected[machine.VBLANK] & 0x80:
        ignored.add(machine.DUMP_END)
    if not expected[machine.VSYNC] & 2:
        ignored.add(machine.VSYNC_END)
    return [int(i) for i in np.nonzero(ours != expected)[0] if int(i) not in ignored]


def compare(
    name: str,
    frames: int,
    seed: int,
    *,
    screen: bool = True,
    registers: bool = False,
    skip: int = 0,
    on_gpu: bool = False,
    on_frames: Callable[[int], None] | None = None,
) -> Result:
    """Compare a game with ale-py.

    Args:
        name: Name of ale-py's ROM.
        frames: Number of frames, across resets.
        seed: Seed of ale-py and of the actions.
        screen: If False, the screen is not drawn.
        registers: If True, all registers are compared after every frame; else only when the RAM differs.
        skip: Number of frames that ale-py plays before the comparison begins.
        on_gpu: If True, instructions are executed as on a GPU, all from their table entries.
        on_frames: Called with the number of frames compared so far.

    Returns:
        The result. The comparison ends with the first frame whose RAM differs.
    """
    started = time.perf_counter()
    ale = ale_console(name, seed)
    chosen = actions_of(ale, seed)
    for _ in range(skip):
        if ale.game_over():
            ale.reset_game()
        ale.act(next(chosen))
    if ale.game_over():
        ale.reset_game()
    state = ale_state.parse(ale.cloneState())
    result = Result(name, state.cartridge.kind)
    ours, controllers = Ours(name, state, screen, on_gpu), Inputs(name, state)
    drawn_from = WITHOUT_PICTURE
    while result.frames < frames and not result.ram:
        inputs, states, rams, pictures = [], [], [], []
        while len(inputs) < min(CHUNK, frames - result.frames) and not ale.game_over():
            action = next(chosen)
            ale.act(action)
            inputs.append(controllers.words(action))
            states.append(ale.cloneState())
            rams.append(ale.getRAM())
            if screen:
                pictures.append(ale.getScreen().copy())
        our_rams, our_registers, our_screens = ours.run(np.array(inputs, np.int32))
        bad = np.nonzero((our_rams != np.array(rams)).any(1))[0]
        until = int(bad[0]) + 1 if len(bad) else len(inputs)
        for i in range(until if (registers or len(bad)) and not result.registers else 0):
            expected = from_ale(states[i].serialize())["registers"]
            differing = differing_registers(our_registers[i], expected)
            if differing:
                result.registers = _registers(result.frames + i, differing, our_registers[i], expected)
                break
        if screen:
            wrong = our_screens[:until] != np.array(pictures[:until])
            wrong[: max(drawn_from - result.frames, 0)] = False
            if wrong.any() and not result.screen:
                i, row, column = (int(k[0]) for k in np.nonzero(wrong))
                rows = np.nonzero(wrong[i].any(1))[0]
                note = f"{int(wrong[i].sum())} pixels, in lines {rows[0]} to {rows[-1]}"
                if not ale_state.parse(states[i]).processor.stopped & 1:
                    note += "; ale-py cut the frame off"
                result.screen = Difference(
                    result.frames + i, f"line {row}, pixel {column}", int(our_screens[i, row, column]),
                    int(pictures[i][row, column]), [note],
                )  # fmt: skip
            result.screens_differing += int(wrong.any((1, 2)).sum())
        if len(bad):
            i = int(bad[0])
            places = np.nonzero(our_rams[i] != rams[i])[0]
            expected = from_ale(states[i].serialize())["registers"]
            shown = _registers(0, differing_registers(our_registers[i], expected), our_registers[i], expected)
            details = [f"{0x80 + p:#x}: {our_rams[i, p]:#04x}, ale-py {rams[i][p]:#04x}" for p in places]
            result.ram = Difference(
                result.frames + i, f"{0x80 + int(places[0]):#x}", int(our_rams[i, places[0]]),
                int(rams[i][places[0]]), details + (shown.details if shown else []),
            )  # fmt: skip
        result.frames += until
        if on_frames:
            on_frames(result.frames)
        if ale.game_over() and not result.ram:
            ale.reset_game()
            result.resets += 1
            drawn_from = result.frames + WITHOUT_PICTURE
            state = ale_state.parse(ale.cloneState())
            ours, controllers = Ours(name, state, screen), Inputs(name, state)
    result.seconds = round(time.perf_counter() - started, 1)
    return result


def _registers(
    frame: int, differing: list[int], ours: npt.NDArray[Any], expected: npt.NDArray[Any]
) -> Difference | None:
    """Return the difference of registers, with a line for each of them."""
    if not differing:
        return None
    names = machine.names()
    details = []
    for i in differing:
        details.append(f"{names[i]}: {ours[i]} ({ours[i]:#x}), ale-py {expected[i]} ({expected[i]:#x})")
    first = differing[0]
    return Difference(frame, names[first], int(ours[first]), int(expected[first]), details)


@dataclass
class Start:
    """Comparison of the memory at the beginning of a game."""

    game: str
    differing: list[str]
    """Addresses whose bytes differ, for the value of the timer with which fewest do."""
    from_power_on: int
    """Number of bytes whose differences are ignored: they depend on the memory at power-on, which ale-py does not
    clear."""


def compare_start(
    name: str, seed: int, resets: int = 4, mode: int | None = None, difficulty: int | None = None
) -> Start:
    """Compare the memory at the beginning of a game with that after resets of ale-py.

    Both turn the console on with some value of the timer, so that each reset is compared with all values.

    Args:
        name: Name of ale-py's ROM.
        seed: Seed of ale-py.
        resets: Number of resets.
        mode: Mode of the game, by default the first.
        difficulty: Difficulty of the game, by default the lowest.

    Returns:
        The result.
    """
    env = Atari(name, obs_type="ram", noop_max=0, mode=mode, difficulty=difficulty)
    ale = ale_console(name, seed)
    ale.setMode(env.mode)
    ale.setDifficulty(env.difficulty)
    begun: dict[int, npt.NDArray[Any]] = {}
    differing: npt.NDArray[Any] = np.zeros(128, bool)
    depends: npt.NDArray[Any] = np.zeros(128, bool)
    for _ in range(resets):
        ale.reset_game()
        expected = ale.getRAM()
        fewest: npt.NDArray[Any] = np.ones(128, bool)
        ignored: npt.NDArray[Any] = np.zeros(128, bool)
        for timer in range(*TIMERS):
            if timer not in begun:
                begun[timer] = env.begun(timer)["ram"]
            if (begun[timer] == expected).all():
                break
        nearest_first = sorted(begun, key=lambda timer: int((begun[timer] != expected).sum()))
        for timer in nearest_first[:CANDIDATES]:
            differs = begun[timer] != expected
            from_power_on: npt.NDArray[Any] = np.zeros(128, bool)
            if differs.any():
                from_power_on = (begun[timer] != [env.begun(timer, memory)["ram"] for memory in POWER_ON]).any(0)
            counted = differs & ~from_power_on
            if counted.sum() < fewest.sum():
                fewest, ignored = counted, differs & from_power_on
            if not counted.any():
                break
        differing |= fewest
        depends |= ignored
    return Start(name, [f"{0x80 + int(i):#x}" for i in np.nonzero(differing)[0]], int(depends.sum()))


def show_starts(names: list[str], seed: int, modes: bool) -> int:
    """Print whether games begin as in ale-py, with ``modes`` in all modes and difficulties; return the exit status."""
    equal = 0
    for name in names:
        game = GAMES[name]
        chosen = list(itertools.product(game.modes, game.difficulties)) if modes else [(None, None)]
        starts = {pair: compare_start(name, seed, 4 // len(chosen) or 1, *pair) for pair in chosen}
        different = {pair: start for pair, start in starts.items() if start.differing}
        equal += not different
        found = "is equal" + (f" in all {len(chosen)} modes and difficulties" if len(chosen) > 1 else "")
        if different:
            found = "differs in " + (f"{len(different)} of {len(chosen)} modes and difficulties: " if modes else "")
            found += "; ".join(
                (f"mode {mode}, difficulty {difficulty} in " if modes else "")
                + f"{len(start.differing)} bytes: {' '.join(start.differing)}"
                for (mode, difficulty), start in different.items()
            )
        most = max(start.from_power_on for start in starts.values())
        if most:
            found += f"; {most} from power-on not compared"
        print(f"{name:20} memory at the beginning {found}", flush=True)
    print(f"memory at the beginning is equal in {equal} of {len(names)} games")
    return int(equal < len(names))


def playable() -> list[str]:
    """Return the names of ale-py's ROMs that can be compared."""
    return [name for name in sorted(ale_py.roms.get_all_rom_ids()) if name not in UNPLAYABLE]


def show(result: Result, screen: bool) -> None:
    """Print the result of one game."""
    for title, difference in (("RAM", result.ram), ("screen", result.screen), ("registers", result.registers)):
        if difference:
            print(f"{result.game}: {title} differs in frame {difference.frame}: {difference.where} is ", end="")
            print(f"{difference.ours:#x}, ale-py has {difference.expected:#x}")
            for line in difference.details:
                print(f"    {line}")
    if not result.ram:
        equal = "RAM" if result.screen or not screen else "RAM and screen"
        print(f"{result.game}: {equal} of {result.frames} frames equal ({result.resets} resets, {result.seconds} s)")
    if result.screens_differing:
        print(f"{result.game}: {result.screens_differing} of {result.frames} pictures differ")


def table(results: list[Result], screen: bool) -> None:
    """Print a line per differing game, and the numbers of equal ones."""
    print(f"{'game':20} {'kind':5} {'frames':>7} {'RAM':>9} {'screen':>9} {'screens':>8} {'registers':>9}")
    for result in results:
        if result.ram or result.screen or result.registers:
            cells = [str(d.frame) if d else "equal" for d in (result.ram, result.screen, result.registers)]
            print(
                f"{result.game:20} {result.cartridge:5} {result.frames:>7} {cells[0]:>9} "
                f"{cells[1] if screen else '-':>9} {result.screens_differing:>8} {cells[2]:>9}"
            )
    print(f"RAM equal in {sum(not r.ram for r in results)} of {len(results)} games", end="")
    print(f", screen equal in {sum(not r.screen for r in results)}" if screen else "")


def _whole(least: int) -> Callable[[str], int]:
    """Return a converter of arguments to whole numbers."""

    def convert(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
        return int(text)

    return convert


def main() -> int:
    """Compare the named games, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("games", nargs="+", help='names of ale-py\'s ROMs, or "all"')
    parser.add_argument("--frames", type=_whole(1), default=2000)
    parser.add_argument("--seed", type=_whole(0), default=0)
    parser.add_argument("--skip", type=_whole(0), default=0, metavar="FRAMES", help="begin in the middle of a game")
    parser.add_argument("--screen", action=argparse.BooleanOptionalAction, default=True, help="compare pictures")
    parser.add_argument(
        "--registers",
        action=argparse.BooleanOptionalAction,
        help="compare all registers after every frame (default: if one game is compared)",
    )
    parser.add_argument("--on-gpu", action="store_true", help="execute instructions as on a GPU, without short forms")
    parser.add_argument(
        "--starts",
        action="store_true",
        help="compare the memory at the beginning of games instead, before frames without action; "
        '"all" are those with rules for rewards and ends',
    )
    parser.add_argument("--modes", action="store_true", help="with --starts: compare all modes and difficulties")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to a file")
    options = parser.parse_args()
    with_rules = [name for name in playable() if name in GAMES and GAMES[name].modes]
    known = with_rules if options.starts else playable()
    names = known if "all" in options.games else options.games
    for name in names:
        if name in UNPLAYABLE:
            sys.exit(f"{name} cannot be compared: {UNPLAYABLE[name]}")
        if name not in playable():
            sys.exit(f"ale-py has no ROM {name!r}.{nearest(name, playable())}")
        if name not in known:
            sys.exit(f"{name} has no rules: --starts is for {', '.join(known)}")
    if options.starts:
        if options.json:
            parser.error("--json is for comparisons of frames, not for --starts")
        return show_starts(names, options.seed, options.modes)
    if options.modes:
        parser.error("--modes is for --starts")
    registers = len(names) == 1 if options.registers is None else options.registers
    results = []
    columns = TextColumn("{task.description:20}"), BarColumn(), MofNCompleteColumn(), TextColumn("frames")
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("compiling", total=len(names) * options.frames)
        for number, name in enumerate(names):

            def advance(frames: int, name: str = name, before: int = number * options.frames) -> None:
                progress.update(task, description=name, completed=before + frames)

            result = compare(
                name, options.frames, options.seed,
                screen=options.screen, registers=registers, skip=options.skip, on_gpu=options.on_gpu,
                on_frames=advance,
            )  # fmt: skip
            results.append(result)
            if len(names) <= 3:
                show(result, options.screen)
            if options.json:
                options.json.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")
    if len(names) > 1:
        table(results, options.screen)
    return 1 if any(r.ram or r.screen or r.registers for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
