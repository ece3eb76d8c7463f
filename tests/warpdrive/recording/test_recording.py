"""Recorded episodes equal those stepped one by one, and are unchanged when read from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.backends.loading import usable_backends
from warpdrive.env_wrapper import EnvWrapper
from warpdrive.errors import DefinitionError, WarpDriveError
from warpdrive.recording.recording import Recording

STATES = ("position", "visits", "active", "timestep")


def record(walkers: Callable[..., Any], backend: str = "cpu", **options: Any) -> wd.Recording:
    return EnvWrapper(walkers(), 4, backend, seed=3).record([3, 0], observations=True, logits=True, **options)


@pytest.mark.parametrize("backend", usable_backends())
def test_a_recording_is_the_episode_that_single_steps_give(walkers: Callable[..., Any], backend: str) -> None:
    recording = record(walkers, backend)
    lengths = recording.lengths.tolist()
    assert len(set(lengths)) == 2 and max(lengths) == recording.num_steps, "one ends before the other"
    again = EnvWrapper(walkers(), 4, backend, seed=3, auto_reset=False)
    again.reset()
    actions = np.zeros((4, 3), np.int32)
    for t in range(recording.num_steps + 1):
        for row, replica in enumerate([3, 0]):
            if t > lengths[row]:
                continue
            expected = again.state(replica)
            for name in STATES:
                np.testing.assert_array_equal(recording.states[name][t, row], expected[name], name)
            np.testing.assert_array_equal(recording.observations[t, row], expected["observations"])
            found = recording.state(row, t)
            assert found.keys() == expected.keys() - {"final_observations"}
            if t > 0:
                np.testing.assert_array_equal(recording.rewards[t - 1, row], expected["rewards"])
                for name, value in found.items():
                    np.testing.assert_array_equal(value, expected[name], name)
            if t == lengths[row]:
                assert recording.terminated[row] == expected["terminated"]
                assert recording.truncated[row] == expected["truncated"]
        if t < recording.num_steps:
            actions[[3, 0]] = recording.actions[t]
            again.step(actions)


def test_what_comes_after_an_end_changes_no_sum(walkers: Callable[..., Any]) -> None:
    recording = record(walkers)
    short = int(recording.lengths.argmin())
    end = int(recording.lengths[short])
    assert recording.played.sum(axis=0).tolist() == recording.lengths.tolist()
    for array in (recording.actions, recording.rewards, recording.log_probabilities, *recording.logits.values()):
        assert not array[end:, short].any()
    for array in (*recording.states.values(), recording.observations):
        assert (array[end:, short] == array[end, short]).all()
    for tag, agents in {"odd": [0, 2], "even": [1]}.items():
        returns = recording.returns[tag]
        assert (returns[0] == 0).all()
        np.testing.assert_allclose(returns[-1], recording.rewards[:, :, agents].sum(axis=0).mean(axis=-1))
    last = recording.state(short, recording.num_steps)
    assert last["terminated"] and int(last["timestep"]) == end
    np.testing.assert_array_equal(last["rewards"], recording.rewards[end - 1, short])
    assert not recording.state(short, end - 1)["terminated"]


def test_parts_that_were_not_recorded_are_named(walkers: Callable[..., Any]) -> None:
    recording = record(walkers)
    np.testing.assert_array_equal(recording.of("logits", "even"), recording.logits["even"])
    for call, message in [
        (lambda: recording.of("reward", "odd"), "'reward' is not recorded by agent: .* Did you mean 'rewards'"),
        (lambda: recording.of("terminated", "odd"), "'terminated' is not recorded by agent"),
        (lambda: replace(recording, logits=None).of("logits", "odd"), r"logits were not recorded: .*logits=True"),
        (lambda: recording.state(0, -1), rf"after 0 to {recording.num_steps} steps: found -1"),
        (lambda: recording.state(0, recording.num_steps + 1), "states after 0 to"),
        (lambda: recording.state(2, 0), "the recording has 2 replicas, 0 to 1: found 2"),
        (lambda: recording.of_replicas([]), "indices is empty"),
    ]:
        with pytest.raises(WarpDriveError, match=message):
            call()


def test_an_episode_is_cut_out_at_its_end(walkers: Callable[..., Any]) -> None:
    recording = record(walkers)
    for row in range(2):
        episode = recording.episode(row)
        length = int(recording.lengths[row])
        assert (episode.num_steps, episode.num_replicas) == (length, 1)
        assert episode.replicas.tolist() == [[3, 0][row]]
        np.testing.assert_array_equal(episode.states["position"][:, 0], recording.states["position"][: length + 1, row])
        np.testing.assert_array_equal(episode.actions[:, 0], recording.actions[:length, row])
        assert episode.logits["odd"].shape == (length, 1, 2, 3)
    with pytest.raises(WarpDriveError, match="2 replicas, 0 to 1: found 2"):
        recording.episode(2)


def test_probabilities_are_those_of_the_policy(walkers: Callable[..., Any], backend: str) -> None:
    def act(env: EnvWrapper) -> None:
        env.logits("odd").copy_(env.observations("odd")[..., :3] * 2)

    recording = record(walkers, backend, act=act)
    for tag, agents in {"odd": [0, 2], "even": [1]}.items():
        logits = torch.from_numpy(recording.logits[tag])
        expected = torch.softmax(logits, -1).gather(
            -1, torch.from_numpy(recording.of("actions", tag)).long()[..., None]
        )
        np.testing.assert_allclose(
            recording.of("probabilities", tag)[recording.played], expected[..., 0].numpy()[recording.played], rtol=1e-5
        )
        assert recording.of("log_probabilities", tag).shape == (*recording.played.shape, len(agents))
    seen = recording.of("observations", "odd")[:-1][..., :3] * 2
    np.testing.assert_array_equal(recording.logits["odd"][recording.played], seen[recording.played])


def test_the_replicas_go_on_as_if_nothing_had_been_recorded(walkers: Callable[..., Any], backend: str) -> None:
    def act(env: EnvWrapper) -> None:
        env.logits("even").fill_(5)

    recorded, other = (EnvWrapper(walkers(), 4, backend, seed=3) for _ in range(2))
    rollouts = [env.allocate_rollout(6) for env in (recorded, other)]
    recorded.record([1], act=act)
    assert (recorded.logits("even") == other.logits("even")).all()
    first = recorded.record([2, 1])
    for name, array in recorded.record([2, 1]).states.items():
        np.testing.assert_array_equal(array, first.states[name], "recorded again it is the same")
    for env, rollout in zip((recorded, other), rollouts, strict=True):
        rollout.begin()
        for _ in range(6):
            env.step_rollout(rollout)
    for name in ("observations", "actions", "rewards", "log_probabilities", "terminated"):
        assert torch.equal(getattr(rollouts[0], name), getattr(rollouts[1], name)), name
    expected = other.episode_statistics()
    for name, total in recorded.episode_statistics().items():
        assert torch.equal(total, expected[name]), name


def test_another_episode_comes_after_a_reset(walkers: Callable[..., Any]) -> None:
    env = EnvWrapper(walkers(), 4, "cpu", seed=3)
    one = env.record()
    rollout = env.allocate_rollout(1)
    env.step_rollout(rollout)  # the random streams go on
    another = env.record()
    assert one.num_steps != another.num_steps or (one.actions != another.actions).any()


def test_actions_may_be_given_and_the_middle_of_an_episode_recorded(walkers: Callable[..., Any], backend: str) -> None:
    env = EnvWrapper(walkers(), 4, backend, seed=3)
    forward = np.full((4, 3), 2, np.int32)  # all go round, so that nobody meets
    env.step(forward)
    recording = env.record([1], act=lambda _: forward, reset=False, max_steps=3)
    assert recording.states["timestep"][:, 0].tolist() == [1, 2, 3, 4]
    assert recording.lengths.tolist() == [3]
    assert not recording.terminated.any() and not recording.truncated.any()
    assert (recording.actions == 2).all() and (recording.probabilities == 1).all()
    moved = (recording.states["position"][1:] - recording.states["position"][:-1]) % 7
    assert (moved == 1).all()


def test_no_replica_goes_on_after_its_end(walkers: Callable[..., Any]) -> None:
    """Kernels may rely on what holds in every state but the last one."""
    seen = []

    def act(env: EnvWrapper) -> None:
        position = env.ctx["position"]
        seen.append(bool((position[:, 0] == position[:, 1]).any()))  # where an episode ends

    env = EnvWrapper(walkers(), 30, "cpu", seed=3)
    ends = env.record(range(30)).lengths
    longest = int(ends.argmax())
    assert ends.min() < ends[longest]
    env.record([longest], act=act)
    assert len(seen) == ends[longest] and not any(seen)

    env = EnvWrapper(walkers(), 30, "cpu", seed=3, auto_reset=False)
    while not (has_ended := env.ctx["terminated"].clone()).any():
        env.step()
    seen.clear()
    assert env.record([int((~has_ended).nonzero()[0])], act=act, reset=False).num_steps == len(seen) and not any(seen)
    with pytest.raises(DefinitionError, match="has ended: reset it, or record with reset=True"):
        env.record([int(has_ended.nonzero()[0])], reset=False)


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        ([0, 4], "replica 4 does not exist: there are 4, 0 to 3"),
        ([-1], "replica -1 does not exist"),
        ([0.5], "replica 0.5 does not exist"),
        ([True], "replica True does not exist"),
        ([1, 1], "each can be recorded once"),
        ([], "no replica to record"),
    ],
)
def test_replicas_that_do_not_exist_are_refused(walkers: Callable[..., Any], replicas: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        EnvWrapper(walkers(), 4, "cpu").record(replicas)


@wd.kernel
def draw(canvas, actions_painter, actions_picker, observations_painter, observations_picker_hue, rewards, timestep):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent < 2:
        for k in range(12):
            canvas[env, agent, k % 2, k // 2 % 3, k // 6] += actions_painter[env, agent, k // 4, k % 4]
            observations_painter[env, agent, k % 2, k // 2 % 3, k // 6] = timestep[env]
    else:
        observations_picker_hue[env, agent - 2, 0] = actions_picker[env, agent - 2]
    rewards[env, agent] = agent


class Studio(wd.Environment):
    """Two tags: one sees images and moves a Box of two axes, one has a Dict; the canvas has many axes."""

    name = "studio"
    step = draw
    num_agents, episode_length = 5, 3

    def __init__(self) -> None:
        self.policy_tags = {"painter": [0, 1], "picker": [2, 3, 4]}
        self.observation_space = {
            "painter": spaces.Box(0, 255, (2, 3, 2), np.float32),
            "picker": spaces.Dict({"hue": spaces.Box(-9, 9, (1,), np.float32)}),
        }
        self.action_space = {"painter": spaces.Box(-1, 1, (3, 4), np.float32), "picker": spaces.Discrete(6)}

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"canvas": np.zeros((2, 2, 3, 2), np.float32), "shade": np.uint16(7)}


def studio() -> wd.Recording:
    env = EnvWrapper(Studio(), 3, "cpu", seed=1)
    return env.record([2, 0], observations=True, logits=True)


def test_images_boxes_dicts_and_tags_with_spaces_of_their_own() -> None:
    recording = studio()
    shapes = {
        "painter": ((3, 2, 2, 3, 4), (4, 2, 2, 2, 3, 2), (3, 2, 2, 24)),
        "picker": ((3, 2, 3), (4, 2, 3, 1), (3, 2, 3, 6)),
    }
    for tag, (actions, observations, logits) in shapes.items():
        assert recording.of("actions", tag).shape == actions
        seen = recording.of("observations", tag)
        assert (seen["hue"] if tag == "picker" else seen).shape == observations
        assert recording.logits[tag].shape == logits
    assert recording.states["canvas"].shape == (4, 2, 2, 2, 3, 2)
    assert recording.states["shade"].dtype == np.uint16
    state = recording.state(1, 2)
    assert (state["observations_painter"] == 2).all()
    np.testing.assert_array_equal(state["observations_picker_hue"][:, 0], state["actions_picker"])
    painted = recording.actions["painter"].sum(axis=(0, 3, 4))  # replicas, agents
    np.testing.assert_allclose(recording.states["canvas"][-1].sum(axis=(2, 3, 4)), painted, rtol=1e-4)
    assert recording.returns["picker"][-1].tolist() == [9, 9]
    assert recording.truncated.all()


@pytest.mark.parametrize("name", ["studio.npz", "new/studio.safetensors"])
def test_a_file_holds_all_of_a_recording(tmp_path: Path, name: str) -> None:
    recording = studio()
    loaded = wd.Recording.load(recording.save(tmp_path / name))
    assert loaded.observations["picker"].keys() == {"hue"}
    found, expected = loaded._of_file(), recording._of_file()
    assert found[1] == expected[1]
    assert found[0].keys() == expected[0].keys()
    for path, array in expected[0].items():
        assert found[0][path].dtype == array.dtype
        np.testing.assert_array_equal(found[0][path], array)
    np.testing.assert_array_equal(loaded.state(1, 3)["canvas"], recording.state(1, 3)["canvas"])


def test_a_recording_knows_the_parameters_of_an_environment_made_by_name(tmp_path: Path) -> None:
    config = {"payoff": np.array([[1.0, 0.0], [0.0, 2.0]]), "episode_length": 3}
    recording = EnvWrapper(env_name="matrix_game", env_config=config, env_backend="cpu").record()
    loaded = wd.Recording.load(recording.save(tmp_path / "game.npz"))
    assert loaded.env_config == {"payoff": [[1.0, 0.0], [0.0, 2.0]], "episode_length": 3}
    assert wd.make(loaded.env_name, **loaded.env_config).episode_length == 3


def test_parts_of_a_recording_that_do_not_fit_each_other_are_named(tmp_path: Path) -> None:
    """Files may come from others; errors are those of the file, not of what reads the arrays later."""
    rows, ends, state = np.zeros((3, 2, 1), np.float32), np.zeros(2, np.bool_), np.zeros((4, 2), np.float32)
    sound = Recording(
        "x", None, {"agent": [0]}, [], np.arange(2), 0, {"x": state}, rows, rows, rows, np.array([3, 2]), ends, ends
    )
    assert Recording.load(sound.save(tmp_path / "sound.npz")).num_steps == 3
    for name, value in {
        "rewards": np.zeros(3),
        "lengths": np.array([4, 2]),
        "terminated": np.zeros(3, np.bool_),
        "states": {"x": state[:2]},
        "actions": rows.astype("U1"),
        "policy_tags": {"agent": [1]},
        "env_config": ["x"],
    }.items():
        path = replace(sound, **{name: value}).save(tmp_path / "wrong.npz")  # type: ignore[arg-type]
        with pytest.raises(WarpDriveError, match=rf"wrong\.npz: not a recording .*\({name}"):
            Recording.load(path)


def test_files_that_are_no_recordings_are_named(tmp_path: Path) -> None:
    with pytest.raises(WarpDriveError, match=r"episode.npy: the name of a recording ends in .npz or .safetensors"):
        studio().save(tmp_path / "episode.npy")
    with pytest.raises(WarpDriveError, match=r"nowhere.npz: there is no such recording"):
        wd.Recording.load(tmp_path / "nowhere.npz")
    np.savez(tmp_path / "other.npz", rewards=np.zeros(3))
    (tmp_path / "other.safetensors").write_bytes(b"nothing of the kind")
    for name in ("other.npz", "other.safetensors"):
        with pytest.raises(WarpDriveError, match=rf"{name}: not a recording"):
            wd.Recording.load(tmp_path / name)
