"""Observations of Dict spaces: an array for each key, through steps, ends of episodes, rollouts and checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.backends.loading import usable_backends
from warpdrive.env_wrapper import EnvWrapper

SIDE = 3


@wd.kernel
def move(place, actions, rewards, side):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    place[env, agent] = (place[env, agent] + actions[env, agent]) % (side * side)
    rewards[env, agent] = place[env, agent]


@wd.kernel
def look_out(place, observations_map, observations_heading, observations_clock, timestep, side, num_agents):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for x in range(side):
        for y in range(side):
            observations_map[env, agent, 0, x, y] = 0
            observations_map[env, agent, 1, x, y] = 0
    for other in range(num_agents):
        channel = 0 if other == agent else 1
        there = place[env, other]
        observations_map[env, agent, channel, there // side, there % side] += 100
    observations_heading[env, agent] = place[env, agent] % 4
    observations_clock[env, agent, 0] = timestep[env]


class Lookouts(wd.Environment):
    """Three agents walk along the rows of a map; each sees where it is, where the others are, and the time."""

    name = "lookouts"
    step, observe = move, look_out
    cuda_twins = {name: wd.cuda_kernel("twins/lookouts.cu", name) for name in ("move", "look_out")}  # noqa: RUF012

    def __init__(self) -> None:
        self.num_agents, self.episode_length, self.side = 3, 5, SIDE
        self.policy_tags = {"outer": [0, 2], "inner": [1]}
        self.observation_space = spaces.Dict(
            map=spaces.Box(0, 255, (2, SIDE, SIDE), np.uint8),
            heading=spaces.Discrete(4),
            clock=spaces.Box(0, np.inf, (1,), np.float32),
        )
        self.action_space = spaces.Discrete(3)

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"place": rng.integers(0, SIDE**2, 3, dtype=np.int32)}

    def reference_observe(self, state: dict[str, Any]) -> dict[str, Any]:
        maps = np.zeros((3, 2, SIDE, SIDE), np.uint8)
        for agent in range(3):
            for other, there in enumerate(state["place"]):
                maps[agent, int(other != agent), there // SIDE, there % SIDE] += 100
        return {
            "observations_map": maps,
            "observations_heading": (state["place"] % 4).astype(np.int32),
            "observations_clock": np.full((3, 1), state["timestep"], np.float32),
        }

    def reference_step(self, state: dict[str, Any], actions: Any) -> dict[str, Any]:
        place = ((state["place"] + actions) % SIDE**2).astype(np.int32)
        after = {"place": place, "timestep": state["timestep"] + 1, "terminated": False}
        return after | {"rewards": place.astype(np.float32)} | self.reference_observe(after)


def expected(env: Lookouts, place: Any, time: int) -> dict[str, Any]:
    seen = env.reference_observe({"place": np.asarray(place), "timestep": time})
    return {key: seen[f"observations_{key}"] for key in ("map", "heading", "clock")}


def test_a_step_gives_observations_by_key(backend: str) -> None:
    env = EnvWrapper(Lookouts(), 6, backend, seed=1, reset_pool_size=5)
    seen = env.reset()
    assert set(seen) == {"clock", "heading", "map"}
    place = env.ctx["place"].cpu().numpy().copy()
    rng = np.random.default_rng(0)
    for time in range(5):
        for replica in range(6):
            for key, value in expected(env.env, place[replica], time).items():  # type: ignore[arg-type]
                assert seen[key].dtype == torch.from_numpy(value).dtype
                np.testing.assert_array_equal(seen[key][replica].cpu().numpy(), value)
        actions = rng.integers(0, 3, (6, 3), dtype=np.int32)
        place = (place + actions) % SIDE**2
        seen, _, _, truncated, info = env.step(actions)
    assert truncated.all()
    for replica in range(6):
        for key, value in expected(env.env, place[replica], 5).items():  # type: ignore[arg-type]
            np.testing.assert_array_equal(info["final_observations"][key][replica].cpu().numpy(), value)
    assert not seen["clock"].any()  # the next episode has begun


@pytest.mark.parametrize("backend", usable_backends())
def test_a_rollout_records_every_key(backend: str) -> None:
    env = EnvWrapper(Lookouts(), 6, backend, seed=2, reset_pool_size=5)
    rollout = env.allocate_rollout(7)
    places = [env.ctx["place"].cpu().numpy().copy()]
    for _ in range(7):
        for key, seen in env.observations("outer").items():
            assert torch.equal(seen, rollout.of("observations", "outer")[key][len(places) - 1])
        env.step_rollout(rollout)
        places.append(env.ctx["place"].cpu().numpy().copy())
    for t, place in enumerate(places):
        for replica in range(6):
            wanted = expected(env.env, place[replica], t % 5)  # type: ignore[arg-type]
            for key, value in wanted.items():
                np.testing.assert_array_equal(rollout.observations[key][t, replica].cpu().numpy(), value)
                np.testing.assert_array_equal(
                    rollout.of("observations", "outer")[key][t, replica].cpu().numpy(), value[[0, 2]]
                )
    assert rollout.num_final == 2 and (rollout.final_slot[4] == 0).all()
    np.testing.assert_array_equal(rollout.of("final_observations", "inner")["clock"][0].cpu().numpy(), [[[5.0]]] * 6)
    assert rollout.of("observations", "inner")["map"].data_ptr() == rollout.observations["map"][:, :, 1:].data_ptr()
    last = rollout.observations["map"][7].clone()
    rollout.begin()
    assert torch.equal(rollout.observations["map"][0], last)


def test_checks_look_at_every_key() -> None:
    wd.testing.check_environment(Lookouts(), steps=12, kernel_steps=6)  # longer than an episode
    wrong = Lookouts()
    wrong.observation_space = spaces.Dict(wrong.observation_space.spaces | {"heading": spaces.Discrete(3)})
    with pytest.raises(AssertionError, match=r"observes 3 in observations_heading\[.*outside of its space \[0, 2\]"):
        wd.testing.check_environment(wrong, kernel_steps=1, backends=["cpu"])


@wd.kernel
def two_ways(level, actions, rewards, observations_seer_far, observations_seer_near, observations_blind):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    level[env, agent] += actions[env, agent]
    cuda.syncthreads()
    if agent == 1:
        observations_seer_near[env, 0, 0] = level[env, 1]
        observations_seer_far[env, 0, 0] = level[env, 0]
        observations_seer_far[env, 0, 1] = level[env, 2]
    else:
        observations_blind[env, agent // 2, 0] = level[env, agent]


class TwoWays(wd.Environment):
    """One tag sees by key, the other does not."""

    name = "two_ways"
    step = two_ways

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 3, 100
        self.policy_tags = {"seer": [1], "blind": [0, 2]}
        box = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        far = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = {"seer": spaces.Dict(far=far, near=box), "blind": box}
        self.action_space = spaces.Discrete(4)

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"level": np.zeros(3, np.int32)}


def test_tags_may_have_dict_spaces_of_their_own(python_backend: str) -> None:
    env = EnvWrapper(TwoWays(), 1, python_backend)
    seen, *_ = env.step(np.array([[1, 2, 3]], np.int32))
    assert {tag: {key: t.tolist() for key, t in of.items()} for tag, of in seen.items() if tag == "seer"} == {
        "seer": {"far": [[[1.0, 3.0]]], "near": [[[2.0]]]}
    }
    assert seen["blind"].tolist() == [[[1.0], [3.0]]]
    assert env.observations("seer")["far"].tolist() == [[[1.0, 3.0]]]
    rollout = env.allocate_rollout(2)
    for _ in range(2):
        env.step_rollout(rollout)
    assert rollout.of("observations", "seer")["far"].shape == (3, 1, 1, 2)
    assert torch.equal(rollout.of("observations", "seer")["far"][2], env.observations("seer")["far"])
    assert torch.equal(rollout.of("observations", "blind")[2], env.observations("blind"))
    assert rollout.of("actions", "blind").shape == (2, 1, 2)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Dict(), "observation_space is an empty Dict"),
        (spaces.Dict({"two words": spaces.Discrete(2)}), "has the key 'two words', which cannot be part of"),
        (spaces.Dict(inner=spaces.Dict(a=spaces.Discrete(2))), "expected a Box, Discrete or MultiDiscrete .* a Dict"),
        (spaces.Dict(text=spaces.Text(3)), r"observation_space is Text.*, expected a Box"),
        (
            {"a": spaces.Dict(b_c=spaces.Discrete(2)), "a_b": spaces.Dict(c=spaces.Discrete(2))},
            "two observations would",
        ),
    ],
)
def test_spaces_that_cannot_be(space: Any, message: str) -> None:
    environment = Lookouts()
    if isinstance(space, dict):
        environment.policy_tags = {"a": [0, 1], "a_b": [2]}
    environment.observation_space = space
    with pytest.raises(wd.WarpDriveError, match=message):
        EnvWrapper(environment, 1, "cpu")


def test_a_dict_of_actions_is_refused() -> None:
    environment = Lookouts()
    environment.action_space = spaces.Dict(a=spaces.Discrete(2))
    with pytest.raises(wd.WarpDriveError, match=r"action_space is Dict.*, expected a Box, Discrete or MultiDiscrete"):
        EnvWrapper(environment, 1, "cpu")
