"""The environment ``atari``: observations, rewards and ends of episodes, compared with ale-py where it has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numba import cuda

import warpdrive as wd
from warpdrive.envs.atari import games, machine, palette, pictures
from warpdrive.envs.atari.atari import Atari
from warpdrive.errors import DefinitionError

ale_py = pytest.importorskip("ale_py", reason="the extra `atari`")


def started(game: str, frames: int = 0, held: int = 1) -> Any:
    """Return ale-py's interface of a game without repeated actions, after frames of random actions held for some."""
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("random_seed", 1)
    ale.loadROM(ale_py.roms.get_rom_path(game))
    ale.reset_game()
    actions, rng = ale.getMinimalActionSet(), np.random.default_rng(0)
    for _ in range(frames // held):
        action = actions[rng.integers(len(actions))]
        for _ in range(held):
            ale.act(action)
        if ale.game_over():
            ale.reset_game()
    return ale


def averaged(picture: npt.NDArray[Any], size: int) -> npt.NDArray[np.float64]:
    """Return the means of a picture over the areas of ``size x size`` pixels."""
    height, width = picture.shape
    by_line, by_column = (weights(length, size) for length in (height, width))
    means: npt.NDArray[np.float64] = by_line @ picture @ by_column.T
    return means


def weights(length: int, size: int) -> npt.NDArray[np.float64]:
    """Return the part of each output pixel, ``[size, length]``, that each input pixel covers."""
    edges, ends = np.linspace(0, size, length + 1), np.arange(size)[:, None]
    return np.clip(np.minimum(edges[1:], ends + 1) - np.maximum(edges[:-1], ends), 0, None)


def test_pictures_are_means_over_areas_of_the_brighter_pixels() -> None:
    @wd.kernel
    def shrink(target, screen, latest, both, levels, height, size):  # type: ignore[no-untyped-def]
        pictures.put_grey(target[cuda.blockIdx.x], screen[cuda.blockIdx.x], latest, both, levels, height, size)

    rng = np.random.default_rng(0)
    for height, size, both in ((210, 84, True), (250, 84, False), (210, 160, True), (210, 7, True)):
        screen = rng.integers(256, size=(2, 2, height, 160), dtype=np.uint8)
        found = np.zeros((2, size, size), np.uint8)
        shrink[2, 1](found, screen, 1, both, palette.GREY["NTSC"], height, size)
        grey = palette.GREY["NTSC"][screen].astype(np.float64)
        for row in range(2):
            expected = averaged(grey[row].max(axis=0) if both else grey[row, 1], size)
            assert np.abs(found[row] - expected).max() <= 0.5 + 1e-9
    report = wd.check_launch(shrink, 1, 1, found[:1, :2, :2], screen[:1, :, :5], 1, True, palette.GREY["NTSC"], 5, 2)
    assert report.clean, report


@pytest.mark.parametrize(("game", "standard"), [("seaquest", "NTSC"), ("air_raid", "PAL")])
def test_colours_are_those_of_ale_py(game: str, standard: str) -> None:
    ale = started(game, 300)
    screen = ale.getScreen()
    assert len(np.unique(screen)) > 5
    is_colour = screen % 2 == 0  # ale-py marks the loss of colour of PAL televisions by odd numbers
    np.testing.assert_array_equal(palette.RGB[standard][screen][is_colour], ale.getScreenRGB()[is_colour])
    np.testing.assert_array_equal(palette.GREY[standard][screen][is_colour], ale.getScreenGrayscale()[is_colour])


def test_steps_are_those_of_ale_py_with_the_wrappers_of_the_field() -> None:
    """Frame skip, the maximum over two frames, grey levels, area means, stacks and lost lives, in Breakout."""
    ale = started("breakout", 40)
    env = wd.EnvWrapper(
        Atari(
            "breakout",
            repeat_action_probability=0.0,
            terminal_on_life_loss=True,
            start_states=[wd.atari.from_ale(ale.cloneState())],
        ),
        env_backend="cpu",
    )
    actions, rng = ale.getMinimalActionSet(), np.random.default_rng(1)
    stack: list[npt.NDArray[Any]] = []
    lives, lost = ale.lives(), 0
    for step in range(400):
        choice = 1 if step % 20 == 0 else int(rng.integers(4))
        observations, rewards, terminated, truncated, info = env.step(np.array([[choice]]))
        reward, shown = 0.0, []
        for frame in range(4):
            reward += ale.act(actions[choice])
            if frame >= 2:
                shown.append(ale.getScreenGrayscale())
        assert rewards.item() == reward
        has_lost = ale.lives() < lives
        lives, lost = ale.lives(), lost + has_lost
        if ale.game_over():
            assert terminated.item() and not env.ctx["continued"].item() and env.ctx["frames"].item() == 0
            break
        np.testing.assert_array_equal(env.ctx["ram"][0], ale.getRAM())
        assert terminated.item() == env.ctx["continued"].item() == has_lost and not truncated.item()
        assert env.ctx["frames"].item() == 4 * (step + 1) and env.ctx["lives"].item() == lives
        seen = info["final_observations"] if has_lost else observations
        stack.append(averaged(np.maximum(*shown).astype(np.float64), 84))
        for place, expected in enumerate(stack[-4:][::-1]):
            assert np.abs(seen[0, 0, 3 - place].numpy() - expected).max() <= 0.5 + 1e-9
        if has_lost:
            assert (observations[0, 0] == observations[0, 0, 3]).all()  # the next episode begins with one picture
            stack = [averaged(ale.getScreenGrayscale().astype(np.float64), 84)] * 4
            assert np.abs(observations[0, 0, 3].numpy() - stack[-1]).max() <= 0.5 + 1e-9
    assert lost >= 4


MIDDLES = {
    "asterix": 1000, "beam_rider": 1200, "breakout": 900, "demon_attack": 1500, "freeway": 1000, "kung_fu_master": 1400,
    "montezuma_revenge": 800, "ms_pacman": 600, "pong": 2000, "qbert": 700, "seaquest": 1000, "skiing": 500,
    "space_invaders": 800,
}  # fmt: skip
"""Frames of random actions before the comparison, by game."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("game", MIDDLES)
def test_rewards_lives_and_ends_in_the_middle_of_games(game: str) -> None:
    """A thousand frames, but for games that end before."""
    ale = started(game, MIDDLES[game], held=4)
    env = wd.EnvWrapper(
        Atari(
            game,
            obs_type="ram",
            repeat_action_probability=0.0,
            full_action_space=True,  # of which ale-py ignores some in skiing
            start_states=[wd.atari.from_ale(ale.cloneState())],
        ),
        env_backend="cpu",
        reset_pool_size=1,
    )
    rng = np.random.default_rng(2)
    for _ in range(250):
        choice, reward = int(rng.integers(18)), 0.0
        for _ in range(4):
            reward += ale.act(choice)
            if ale.game_over():
                break
        observations, rewards, terminated, _, info = env.step(np.array([[choice]]))
        assert rewards.item() == reward and terminated.item() == ale.game_over()
        seen = info["final_observations"] if ale.game_over() else observations
        np.testing.assert_array_equal(seen[0, 0], ale.getRAM())
        if ale.game_over():
            break
        assert env.ctx["lives"].item() == ale.lives()


MEMORY = {"obs_type": "ram", "frame_skip": 2}


@pytest.fixture(scope="module")
def breakout() -> Atari:
    """Give Breakout from memory with lost lives as ends and fire at the start, and with repeated actions."""
    options = {"terminal_on_life_loss": True, "fire_on_reset": True, "clip_rewards": True}
    return Atari("breakout", **MEMORY, **options, max_num_frames_per_episode=3001)  # type: ignore[arg-type]


def test_a_replica_depends_on_the_seed_alone(breakout: Atari) -> None:
    actions = np.random.default_rng(0).integers(4, size=(60, 7, 1))
    seen = []
    for num_envs in (7, 3):
        env = wd.EnvWrapper(breakout, num_envs, env_backend="cpu", seed=5, reset_pool_size=4)
        rows = [env.step(given[:num_envs]) for given in actions]
        assert rows[-1][0].shape == (num_envs, 1, 128)
        seen.append([env.ctx[name][:3].clone() for name in ("ram", "registers", "frames", "rng", "held")])
    assert all((one == other).all() for one, other in zip(*seen, strict=True))
    assert len({row.numpy().tobytes() for row in seen[0][0]}) == 3
    draws = seen[0][3][:, 0, 3]
    assert (draws == 2 * 60).all()  # a frame draws whether it repeats the last action


def test_a_lost_life_ends_an_episode_and_fire_begins_the_next(breakout: Atari) -> None:
    env = wd.EnvWrapper(breakout, 4, env_backend="cpu", reset_pool_size=4)
    lives = env.ctx["lives"].clone()
    assert (lives == 5).all()
    assert breakout.steps_between_truncations == 751  # a step has up to 4 frames, with the fire of a new life
    ended = {"continued": 0, "anew": 0}
    for _ in range(1400):
        _, rewards, terminated, truncated, _ = env.step(np.zeros((4, 1), np.int64))
        assert set(rewards.flatten().tolist()) <= {-1.0, 0.0, 1.0} and not truncated.any()
        after, frames = env.ctx["lives"], env.ctx["frames"]
        continued = env.ctx["continued"]
        assert (terminated >= continued).all() and (env.ctx["timestep"][terminated] == 0).all()
        assert (after[continued] == lives[continued] - 1).all() and (frames[continued] > 0).all()
        assert (after[terminated & ~continued] == 5).all() and (frames[terminated & ~continued] == 0).all()
        ended["continued"] += int(continued.sum())
        ended["anew"] += int((terminated & ~continued).sum())
        lives = after.clone()
    assert ended["anew"] >= 4 and ended["continued"] >= 4 * ended["anew"]  # nobody presses fire but at the beginning


@pytest.mark.parametrize("frames_left", [11, 10])
def test_an_episode_has_no_frame_beyond_its_limit(breakout: Atari, frames_left: int) -> None:
    """Nor does a game go on if a life is lost in its last frames."""
    env = wd.EnvWrapper(breakout, env_backend="cpu", reset_pool_size=1)
    env.ctx["frames"][0] = breakout.max_frames - frames_left
    steps = -(-frames_left // 2)
    for _ in range(steps - 1):
        *_, truncated, _ = env.step(np.zeros((1, 1), np.int64))
        assert not truncated.item()
    env.ctx["lives"][0] = 6  # as if one were lost in the next frame
    *_, terminated, truncated, info = env.step(np.zeros((1, 1), np.int64))
    assert terminated.item() and truncated.item() and not env.ctx["continued"].item()
    assert env.ctx["frames"].item() == 0 and info["episode_length"].item() == steps


@pytest.mark.parametrize("game", ["ms_pacman", "pong", "solaris", "star_gunner"])
def test_a_game_begins_as_in_ale_py(game: str) -> None:
    """But for a byte of solaris, which depends on the timer."""
    ale, env = started(game), Atari(game, noop_max=0, obs_type="ram")
    for seed in range(6):
        differs = env.initial_state(np.random.default_rng(seed))["ram"] != ale.getRAM()
        assert differs.sum() <= (game == "solaris")


@pytest.mark.parametrize(("game", "second"), [("breakout", 3), ("alien", 2), ("ms_pacman", None)])
def test_fire_and_the_third_action_begin_an_episode(game: str, second: int | None) -> None:
    """As with `FireResetEnv`, which games without fire do not take."""
    ale = started(game)
    for action in () if second is None else (1, second):
        for _ in range(4):
            ale.act(action)
    state = Atari(game, fire_on_reset=True, noop_max=0, obs_type="ram").initial_state(np.random.default_rng(0))
    np.testing.assert_array_equal(state["ram"], ale.getRAM())
    assert state["held"] == (second or 0)  # the action that a sticky one repeats


@pytest.mark.parametrize(("game", "address", "bits"), [("double_dunk", 0x80, 0x40), ("mario_bros", 0x80, 0x01)])
def test_the_mode_for_two_is_selected(game: str, address: int, bits: int) -> None:
    for players in (1, 2):
        state = Atari(game, players=players, noop_max=0, obs_type="ram").initial_state(np.random.default_rng(0))
        assert (state["ram"][address - 0x80] & bits == bits) == (players == 2)


def test_two_play_against_each_other() -> None:
    env = wd.EnvWrapper(Atari("pong", players=2, **MEMORY), 2, env_backend="cpu", reset_pool_size=2)  # type: ignore[arg-type]
    assert env.policy_tags == {"first": [0], "second": [1]}
    total = np.zeros((2, 2))
    for _ in range(600):
        up, down = 2, 3  # right and left
        observations, rewards, *_ = env.step(np.array([[up, down], [down, up]]))
        total += rewards.numpy()
        assert (rewards.sum(dim=1) == 0).all() and (observations[:, 0] == observations[:, 1]).all()
    assert (total != 0).any()
    paddles = env.ctx["registers"][:, machine.PADDLES : machine.PADDLES + 2]
    assert paddles.tolist() == [[790_196, 27_450], [27_450, 790_196]]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("game", "mode_byte", "mode"), [("space_invaders", 0xDC, 32), ("wizard_of_wor", 0x81, 1)])
def test_two_with_a_score_each(game: str, mode_byte: int, mode: int) -> None:
    env = wd.EnvWrapper(Atari(game, players=2, **MEMORY), 2, env_backend="cpu", reset_pool_size=2)  # type: ignore[arg-type]
    assert (env.ctx["ram"][:, mode_byte - 0x80] == mode).all()
    generator, total = np.random.default_rng(1), np.zeros((2, 2))
    for _ in range(300):
        drawn = generator.integers(len(games.game(game).actions), size=2)
        _, rewards, *_ = env.step(np.array([[drawn[0], 0], [0, drawn[1]]]))
        total += rewards.numpy()
    # only the player who acts has points, but for 200 if the other one is hit
    assert total[0, 0] > 0 and total[1, 1] > 0 and total[0, 1] % 200 == total[1, 0] % 200 == 0


@pytest.mark.parametrize("game", ["kangaroo", "zaxxon", "surround", "yars_revenge", "name_this_game", "double_dunk"])
def test_modes_are_selected_and_start(game: str) -> None:
    rule, ale = games.game(game), started(game)
    for mode in rule.modes:
        ale.setMode(mode)
        ale.reset_game()
        ram = Atari(game, mode=mode, noop_max=0, obs_type="ram").initial_state(np.random.default_rng(0))["ram"]
        for term in rule.mode:
            assert (ram[term.address - 0x80] ^ ale.getRAM()[term.address - 0x80]) & term.mask == 0


def test_the_screen_is_rendered_whatever_is_observed() -> None:
    seen = {}
    for kind in ("ram", "grayscale"):
        env = Atari("pong", obs_type=kind)  # type: ignore[arg-type]
        seen[kind] = env.render(env.initial_state(np.random.default_rng(3)))
        assert seen[kind].shape == (210, 320, 3) and seen[kind].dtype == np.uint8
    different = (seen["ram"] != seen["grayscale"]).any(axis=2).mean()
    assert len(np.unique(seen["ram"].reshape(-1, 3), axis=0)) >= 4 and different < 0.01  # one frame later


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"game": "pogn"}, "Did you mean 'pong'?"),
        ({"obs_type": "gray"}, "obs_type is 'gray', expected one of grayscale, rgb, ram. Did you mean 'grayscale'?"),
        ({"obs_type": np.array(["rgb", "ram"])}, r"obs_type is array\(\['rgb', 'ram'\]"),
        ({"mode": 7}, "mode is 7, but pong has 0, 1"),
        ({"game": "combat"}, "players is 1, but combat is for two: players=2"),
        (
            {"game": "breakout", "players": 2},
            "players is 2, but breakout is for one; games for two are boxing, combat, double_dunk",
        ),
        ({"frame_skip": [4, 4]}, r"frame_skip is \[4, 4\], expected a second number, exclusive, from 5 to 1000"),
        ({"game": 7}, "there is no Atari game 7"),
        ({"start_states": [{"ram": np.zeros(5)}]}, r"start_states\[0\] has the array 'ram' float64 \(5,\)"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        Atari(**options)


def test_modes_may_be_numbers_of_numpy() -> None:
    assert type(Atari(mode=np.int64(1)).mode) is int  # type: ignore[arg-type]


def test_states_of_another_game_are_rejected() -> None:
    state = wd.atari.from_ale(started("breakout").cloneState())
    with pytest.raises(DefinitionError, match=r"start_states\[0\] is a state of breakout, but the game is pong"):
        Atari("pong", start_states=[state])
    state["registers"][machine.ROM] = 0xF0  # as converted before ROMs had an identity
    with pytest.raises(DefinitionError, match=r"start_states\[0\] is a state of another game than pong"):
        Atari("pong", start_states=[state])
