"""Several environments in one process, also on threads, do not affect each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environment_parameters import CONFIGURATIONS
from exhaustive import exhaustive
from numba import cuda

import warpdrive as wd

STEPS = 20
CASES: list[tuple[str, dict[str, Any], int]] = [
    ("tag_gridworld", CONFIGURATIONS["tag_gridworld"][0], 30),
    ("tag_gridworld", {"episode_length": 7}, 11),
    ("cartpole", CONFIGURATIONS["cartpole"][0], 300),
]


def played(case: tuple[str, dict[str, Any], int], backend: str) -> Iterator[torch.Tensor]:
    """Play an environment, a step at each ``next``, and at last give its whole state."""
    name, config, replicas = case
    env = wd.EnvWrapper(wd.make(name, **config), replicas, backend, seed=replicas)
    rollout = env.allocate_rollout(STEPS)
    for _ in range(STEPS):
        env.step_rollout(rollout)
        yield rollout.rewards
    yield env.ctx.save_state()
    env.close()


def last(steps: Iterator[torch.Tensor]) -> torch.Tensor:
    *_, state = steps
    return state


def test_steps_of_one_between_those_of_others(backend: str) -> None:
    alone = [last(played(case, backend)) for case in CASES]
    together = list(zip(*(played(case, backend) for case in CASES), strict=True))[-1]
    for one, among_others in zip(alone, together, strict=True):
        assert torch.equal(one, among_others)


def test_each_on_a_thread_of_its_own(backend: str) -> None:
    found: dict[int, torch.Tensor] = {}

    def play(number: int) -> None:
        found[number] = last(played(CASES[number], backend))

    threads = [threading.Thread(target=play, args=(number,)) for number in range(len(CASES))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, case in enumerate(CASES):
        assert torch.equal(found[number], last(played(case, backend)))


SETTINGS = SimpleNamespace(reward=1.0)
TABLE = np.array([1.0], np.float32)
REWARD = 1.0


def from_global() -> float:
    return REWARD


@wd.kernel
def by_member(rewards):  # type: ignore[no-untyped-def]
    rewards[cuda.blockIdx.x, cuda.threadIdx.x] = SETTINGS.reward


@wd.kernel
def by_table(rewards):  # type: ignore[no-untyped-def]
    rewards[cuda.blockIdx.x, cuda.threadIdx.x] = TABLE[0]


@wd.kernel
def by_function(rewards):  # type: ignore[no-untyped-def]
    rewards[cuda.blockIdx.x, cuda.threadIdx.x] = from_global()


def reward_of(step: wd.Kernel) -> float:
    class Rewarding(wd.Environment):
        name = "rewarding"

        def __init__(self) -> None:
            self.num_agents, self.episode_length, self.policy_tags = 1, 5, {"agent": [0]}
            self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
            self.action_space = gymnasium.spaces.Discrete(2)

        def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
            return {}

    Rewarding.step = step
    env = wd.EnvWrapper(Rewarding(), 2, "cpu")
    env.step(None)
    return float(env.ctx["rewards"][1, 0])


@pytest.mark.parametrize(
    "step", exhaustive([by_member, by_table, by_function], (by_function,)), ids=lambda kernel: kernel.source.name
)
def test_constants_changed_between_two_environments(step: wd.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [reward_of(step), reward_of(step)] == [1.0, 1.0]
    monkeypatch.setattr(SETTINGS, "reward", 2.0)
    monkeypatch.setitem(globals(), "REWARD", 2.0)
    TABLE[0] = 2.0
    assert reward_of(step) == 2.0
    TABLE[0] = 1.0
