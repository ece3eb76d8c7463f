"""A small environment that uses most of what the runtime offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.backends.loading import load_backend, usable_backends


def _on_host(name: str) -> bool:
    """Return True for CUDA C that is compiled for the host, since there is no GPU."""
    return name != "cpu" and load_backend(name).device.type == "cpu"


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.exhaustive if _on_host(name) else ()) for name in usable_backends()]
)
def backend(request: pytest.FixtureRequest) -> str:
    """Give the name of each backend that can run here, of which `make test` leaves out CUDA C on the host.

    Tests that use most of a backend are parametrized with ``usable_backends()``, and run on all of them.
    """
    return str(request.param)


@wd.kernel
def walk(position, visits, active, actions, rewards, terminated, timestep, ring_length, bonus, table):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env, agent] = (position[env, agent] + actions[env, agent] - 1) % ring_length
    visits[env, agent] += 1
    rewards[env, agent] = table[position[env, agent]] + bonus
    cuda.syncthreads()
    if agent == 0 and position[env, 0] == position[env, 1]:
        terminated[env] = True
    if position[env, agent] == 0:
        active[env, agent] = False


@wd.kernel
def look(position, observations, timestep, ring_length, num_agents):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for other in range(num_agents):
        observations[env, agent, other] = np.float32(position[env, other]) / np.float32(ring_length)
    observations[env, agent, num_agents] = timestep[env]


class Walkers(wd.Environment):
    """Three agents on a ring; terminates when the first two meet, and who stands on 0 leaves."""

    name = "walkers"
    step, observe = walk, look
    cuda_twins = {  # noqa: RUF012
        name: wd.cuda_kernel("twins/walkers.cu", name)
        for name in ("walk", "look", "random_start", "start_near_the_end")
    }

    def __init__(self, ring_length: int = 7, episode_length: int = 5, bonus: float = 0.5) -> None:
        self.ring_length, self.episode_length, self.bonus = ring_length, episode_length, bonus
        self.num_agents = 3
        self.table = np.arange(ring_length, dtype=np.float32)
        self.policy_tags = {"odd": [0, 2], "even": [1]}
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Discrete(3)

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        first = rng.permutation(np.arange(1, self.ring_length))[:3].astype(np.int32)
        return {"position": first, "visits": np.zeros(3, np.int32)}


@pytest.fixture
def walkers() -> Callable[..., Walkers]:
    """Give the class of the environment."""
    return Walkers


@pytest.fixture
def random_actions() -> Callable[..., np.ndarray]:
    """Give a function that draws actions for all replicas and agents."""

    def draw(rng: np.random.Generator, num_envs: int) -> np.ndarray:
        return rng.integers(0, 3, (num_envs, 3), dtype=np.int32)

    return draw
