"""Replays: contents of each frame, of a game that encodes its state as a color."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from matplotlib.figure import Figure
from numba import cuda
from PIL import Image

import warpdrive as wd
from warpdrive.errors import ConfigError, DefinitionError, WarpDriveError
from warpdrive.training.replay import animation as animation_module, frames as frames_module
from warpdrive.training.replay.montage import GAP, Panel, columns_for
from warpdrive.training.trainer import Trainer

SIDE = 40
"""Pixels of a picture of the game."""


@wd.kernel
def burn(wick, burnt, actions, observations, rewards, terminated, timestep):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, agent] = agent + 0.25
    observations[env, agent, 0] = actions[env, agent]
    if agent == 0:
        burnt[env] += 20
        if timestep[env] == wick[env]:
            terminated[env] = True


class Candle(wd.Environment):
    """A picture is as red as much has burnt, and as green as the trail is long."""

    name = "candle"
    step = burn
    termination_meaning = "it is dark"

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 3, 6
        self.policy_tags = {"one": [0], "two": [1, 2]}
        self.observation_space = spaces.Box(0, 3, (1,), np.float32)
        self.action_space = spaces.Discrete(4)

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        return {
            "wick": np.int32(rng.integers(2, 9)),
            "burnt": np.int32(0),
            "observations": np.zeros((3, 1), np.float32),
        }

    def render(self, state: dict[str, Any], trail: Any = ()) -> Figure:
        assert state["actions"].shape == (3,) and state["observations"].shape == (3, 1)
        assert [int(earlier["burnt"]) for earlier in trail] == list(range(0, int(state["burnt"]), 20))
        return Figure(figsize=(1, 1), dpi=SIDE, facecolor=(state["burnt"] / 255, 20 * len(trail) / 255, 0))


def replicas(num_envs: int = 6, seed: int = 2) -> wd.EnvWrapper:
    return wd.EnvWrapper(Candle(), num_envs, "cpu", seed, reset_pool_size=20)


@pytest.fixture
def trainer(tmp_path: Path) -> Trainer:
    ppo = {"algorithm": "ppo", "model": {"hidden": [8]}}
    run = {"train_batch_size": 60, "total_steps": 60, "seed": 4, "reset_pool_size": 20}
    values = {"trainer": run, "policy": {"one": ppo, "two": ppo}, "saving": {"folder": str(tmp_path)}}
    return Trainer(wd.EnvWrapper(Candle(), 10, "cpu", 4, reset_pool_size=20), values)


def red(frame: Any, column: int = 0, row: int = 0, height: int = SIDE) -> int:
    """Return what a picture says has burnt, and check that the trail was as long."""
    colour = frame[row * height + 3, column * (SIDE + GAP) + 3].tolist()
    assert colour[0] == colour[1] and colour[2] == 0
    return int(colour[0])


def test_one_frame_for_each_state(tmp_path: Path) -> None:
    env = replicas()
    steps = int(env.record().lengths[0])
    animation = wd.replay(env, tmp_path / "candle.gif")
    assert [red(frame) for frame in animation.frames] == [20 * step for step in range(steps + 1)]
    with Image.open(tmp_path / "candle.gif") as gif:
        assert gif.n_frames == steps + 1
    assert (animation.frames[0][SIDE:] != animation.frames[0][-1, 0]).any(), "there is something written below"


def test_replicas_side_by_side_wait_for_the_longest() -> None:
    env = replicas()
    lengths = env.record(range(4)).lengths.tolist()
    assert len(set(lengths)) > 1
    animation = wd.replay(env, replicas=4)
    height, width = animation.frames[0].shape[:2]
    assert (width, width % 2, height % 2) == (2 * SIDE + GAP, 0, 0)
    for step, frame in enumerate(animation.frames):
        shown = [red(frame, index % 2, index // 2, (height + GAP) // 2) for index in range(4)]
        assert shown == [20 * min(step, length) for length in lengths]
    assert len(animation.frames) == max(lengths) + 1


def test_chosen_replicas_are_shown_in_their_order() -> None:
    env = replicas()
    lengths = env.record(range(6)).lengths
    longest, shortest = int(lengths.argmax()), int(lengths.argmin())
    last = wd.replay(env, replicas=[longest, shortest]).frames[-1]
    assert [red(last, column) for column in (0, 1)] == [20 * lengths[longest], 20 * lengths[shortest]]


def test_words_say_the_step_the_end_and_the_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[list[Panel]] = []
    draw = frames_module.side_by_side
    monkeypatch.setattr(
        frames_module, "side_by_side", lambda panels, columns: written.append(panels) or draw(panels, columns)
    )
    env = replicas()
    recording = env.record([1, 0], observations=True)
    frames = wd.replay(recording, env=Candle()).frames
    lengths = recording.lengths.tolist()
    assert recording.terminated.any() and recording.truncated.any()
    for step, panels in enumerate(written[-len(frames) :]):
        for panel, replica, length, terminated in zip(panels, (1, 0), lengths, recording.terminated, strict=True):
            at = min(step, length)
            end = "" if step < length else "it is dark" if terminated else "the time is up"
            first, returns = f"replica {replica}   step {at}", f"return   one {0.25 * at:.2f}   two {1.75 * at:.2f}"
            assert panel.lines == [first, returns, end], "the picture is too narrow for both on one line"
    wide = wd.replay(recording, env=Candle(), width=900)
    assert wide.frames[0].shape[1] == 900
    (panel, _), at = written[-1], lengths[0]
    assert panel.lines[0] == f"replica 1   step {at}: {'it is dark' if recording.terminated[0] else 'the time is up'}"


def test_episodes_follow_one_another_with_seeds_that_count_up(trainer: Trainer) -> None:
    singles = [wd.replay(trainer, seed=seed).frames for seed in (7, 8)]
    both = wd.replay(trainer, seed=7, episodes=2)
    assert [red(frame) for frame in both.frames] == [red(frame) for frames in singles for frame in frames]
    assert both.ends == {len(singles[0]) - 1, len(both.frames) - 1}
    seeds = {tuple(red(frame) for frame in wd.replay(trainer, seed=seed).frames) for seed in range(8)}
    assert len(seeds) > 1


def test_of_long_episodes_steps_are_left_out_but_the_last_is_shown() -> None:
    env = replicas()
    lengths = env.record(range(6)).lengths
    longest = int(lengths.argmax())
    frames = wd.replay(env, replicas=[longest], max_frames=4).frames
    assert [red(frame) for frame in frames] == [20 * step for step in (0, 2, 4, 6)]
    assert lengths[longest] == 6


def test_large_pictures_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    env = replicas()
    longest = int(env.record(range(6)).lengths.argmax())
    one = wd.replay(env, replicas=[longest]).frames[0].nbytes
    monkeypatch.setattr(animation_module, "MAX_BYTES", 4 * one)
    assert [red(frame) for frame in wd.replay(env, replicas=[longest]).frames] == [20 * step for step in (0, 2, 4, 6)]


def test_a_recorded_file_is_drawn_as_its_episode_was(trainer: Trainer, tmp_path: Path) -> None:
    episode = trainer.fetch_episode(3, seed=5, observations=True)
    frames = wd.replay(trainer, replicas=3, seed=5).frames
    path = episode.save(tmp_path / "candle.safetensors")
    with pytest.raises(WarpDriveError, match=r"'candle'.*passed as an object.*env="):
        wd.replay(path)
    np.testing.assert_array_equal(wd.replay(path, env=Candle()).frames, frames)
    one = wd.replay(path, env=Candle(), replicas=[2]).frames
    assert len(one) == episode.lengths[2] + 1
    for wrong in ([0, 3], 4, []):
        with pytest.raises(WarpDriveError, match=r"the recording has 3: \[0, 1, 2\]"):
            wd.replay(path, env=Candle(), replicas=wrong)


def test_a_width_is_kept() -> None:
    assert wd.replay(replicas(), width=100).frames[0].shape[1] == 100
    assert wd.replay(replicas(), replicas=4, width=100).frames[0].shape[1] == 100


def test_many_pictures_lie_in_a_block() -> None:
    assert [columns_for(count, 560, 600) for count in (1, 2, 3, 4, 6, 9)] == [1, 2, 3, 2, 3, 3]
    assert columns_for(2, 560, 150) == 1, "wide ones lie one above the other"


def test_what_cannot_be_shown_is_told(trainer: Trainer) -> None:
    with pytest.raises(DefinitionError, match="replica 6 does not exist: there are 6, 0 to 5"):
        wd.replay(replicas(), replicas=[6])
    with pytest.raises(WarpDriveError, match="source is an object of type Candle, expected a Trainer, an EnvWrapper"):
        wd.replay(Candle())  # type: ignore[arg-type]
    with pytest.raises(WarpDriveError, match="require a Trainer or a run"):
        wd.replay(replicas(), episodes=2)

    class Unseen(Candle):
        render = wd.Environment.render

    with pytest.raises(WarpDriveError, match=r"'candle' cannot be rendered: it has neither a draw kernel nor"):
        wd.replay(wd.EnvWrapper(Unseen(), env_backend="cpu"))


# --- fetch_episode ---


def test_an_episode_is_what_the_policies_play(trainer: Trainer) -> None:
    before = trainer.env.ctx.save_state()
    episode = trainer.fetch_episode(4, observations=True, logits=True)
    assert torch.equal(trainer.env.ctx.save_state(), before), "training is not disturbed"
    played = episode.played
    for tag, policy in trainer.policies.items():
        with torch.no_grad():
            logits = policy.model.logits(torch.from_numpy(episode.of("observations", tag)[:-1]))
        np.testing.assert_allclose(episode.logits[tag][played], logits.numpy()[played], rtol=1e-5, atol=1e-6)
    again = trainer.fetch_episode(4, deterministic=True, logits=True)
    for tag in trainer.policies:
        np.testing.assert_array_equal(
            again.of("actions", tag)[again.played], again.logits[tag].argmax(-1)[again.played]
        )


def test_tags_may_act_at_random_and_replicas_be_chosen(trainer: Trainer) -> None:
    episode = trainer.fetch_episode([3, 1], random=["two"], logits=True)
    assert episode.replicas.tolist() == [3, 1]
    assert (episode.logits["two"] == 0).all() and (episode.logits["one"] != 0).any()
    whole = trainer.fetch_episode(4, random=["two"])
    np.testing.assert_array_equal(episode.lengths, whole.lengths[[3, 1]])
    with pytest.raises(ConfigError, match=r"unknown policy tag 'tow'.*'two'"):
        trainer.fetch_episode(random=["tow"])
    for wrong in (0, [], [-1]):
        with pytest.raises(DefinitionError):
            trainer.fetch_episode(wrong)
