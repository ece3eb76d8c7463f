"""Bytes moved by a step, compared with counts by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from harness.traffic import copy_bandwidth, recorded_step_traffic, step_traffic

FLAGS = {"terminated": 1, "truncated": 1}


def test_cartpole_by_hand() -> None:
    state = {name: 4 for name in ("position", "velocity", "angle", "angular_velocity")}
    running = {"timestep": 4, "episode__running_return": 4}
    moved = step_traffic(wd.make("cartpole"))
    assert moved.read == {**state, **running, "actions": 4, "the caller's actions": 4}
    assert moved.written == {**state, **running, **FLAGS, "rewards": 4, "observations": 16, "actions": 4}
    assert moved.total == 82


def test_a_recorded_step_of_cartpole_by_hand() -> None:
    moved = recorded_step_traffic(wd.make("cartpole"))
    state, running = 4 * 4, 4 + 4
    logits, random_state, log_probability = 2 * 4, 4 * 4, 4
    assert sum(moved.read.values()) == state + running + logits + random_state
    slot = (
        4 + 4 + 4 + 1 + 1 + 16 + 4
    )  # action, log-probability, reward, flags, observations, slot of final observations
    assert sum(moved.written.values()) == state + running + random_state + log_probability + 4 + 4 + 2 + 16 + slot


def test_what_all_replicas_share_is_not_counted_and_agents_are() -> None:
    few, many = (step_traffic(wd.make("tag_gridworld", num_taggers=n, use_full_observation=False)) for n in (4, 9))
    assert {"loc_x", "loc_y", "actions"} <= few.read.keys() and not {"move_x", "move_y"} & few.read.keys()
    assert (few.read["loc_x"], many.read["loc_x"]) == (20, 40)
    assert few.written["timestep"] == many.written["timestep"] == 4


@wd.device_function
def bump(counts, place, env):
    counts[env] += place


@wd.kernel
def mixed(fresh, both, counted, added, untouched, actions, rewards):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    fresh[env] = both[env] + actions[env, agent]
    both[env] = fresh[env] * 2  # what was written is not read from memory
    bump(counted, env=env, place=1)
    cuda.atomic.add(added, env, 1)
    rewards[env, agent] = len(untouched.shape)


class Mixed(wd.Environment):
    """Accesses arrays in several ways."""

    name = "mixed"
    step = mixed

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 1, 10
        self.policy_tags = {"one": [0]}
        self.observation_space, self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32), spaces.Discrete(2)

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        names = ("fresh", "both", "counted", "added", "untouched")
        return {name: np.zeros((), np.int32) for name in names} | {"observations": np.zeros((1, 1), np.float32)}


def test_reads_after_writes_are_free_and_functions_that_are_called_count() -> None:
    moved = step_traffic(Mixed())
    assert {"both", "counted", "added"} <= moved.read.keys() and {"fresh", "untouched"}.isdisjoint(moved.read)
    assert {"fresh", "both", "counted", "added"} <= moved.written.keys()
    assert "untouched" not in moved.written and "observations" not in moved.written


@pytest.mark.parametrize("name", exhaustive(wd.registered_names(), ("cartpole", "lbf", "tag_continuous")))
def test_every_environment_can_be_counted(name: str) -> None:
    environment = wd.make(name)
    given, recorded = step_traffic(environment), recorded_step_traffic(environment)
    assert "rewards" in given.written and 0 < given.total < recorded.total
    assert all(size > 0 for size in (*given.read.values(), *given.written.values()))


def test_a_copy_has_a_bandwidth() -> None:
    assert 1e8 < copy_bandwidth(torch.device("cpu"), megabytes=4) < 1e13
