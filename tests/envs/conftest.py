"""Replicas on a backend, stepped one at a time, with the states before and after each step as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch

import warpdrive as wd


class Outcome(NamedTuple):
    """Result of one step of one replica; ``observations`` are the final ones if the episode ended."""

    env: int
    before: dict[str, Any]
    actions: npt.NDArray[np.int32]
    after: dict[str, Any]
    observations: npt.NDArray[np.float32]
    rewards: npt.NDArray[np.float32]
    terminated: bool
    truncated: bool

    @property
    def done(self) -> bool:
        return self.terminated or self.truncated


class Replicas:
    """Replicas of an environment on one backend; what they are given and give are NumPy arrays."""

    def __init__(self, env: wd.Environment, backend: str, num_envs: int = 1, **kwargs: Any) -> None:
        self.wrapper = wd.EnvWrapper(env, num_envs=num_envs, env_backend=backend, **kwargs)
        self.env, self.num_envs = env, num_envs
        self.first_observations = self.wrapper.reset().cpu().numpy().copy()

    def state(self, env: int = 0) -> dict[str, Any]:
        state = {name: np.array(value) for name, value in self.wrapper.state(env).items()}
        return {**state, "timestep": int(state["timestep"])}

    def random_actions(self, rng: np.random.Generator) -> npt.NDArray[np.int32]:
        space = self.env.action_space
        sizes = getattr(space, "nvec", None)
        shape = (self.num_envs, self.env.num_agents)
        if sizes is None:
            return rng.integers(space.n, size=shape, dtype=np.int32)
        return rng.integers(sizes, size=(*shape, len(sizes))).astype(np.int32)

    def step(self, actions: npt.ArrayLike) -> list[Outcome]:
        """Step all replicas; ``actions`` is an array for all of them."""
        actions = np.asarray(actions, np.int32)
        before = [self.state(env) for env in range(self.num_envs)]
        results = self.wrapper.step(torch.from_numpy(actions).to(self.wrapper.device))
        observations, rewards, terminated, truncated = (result.cpu().numpy().copy() for result in results[:4])
        final_observations = results[4]["final_observations"].cpu().numpy()
        return [
            Outcome(
                env=env,
                before=before[env],
                actions=actions[env],
                after=self.state(env),
                observations=final_observations[env] if terminated[env] or truncated[env] else observations[env],
                rewards=rewards[env],
                terminated=bool(terminated[env]),
                truncated=bool(truncated[env]),
            )
            for env in range(self.num_envs)
        ]

    def random_steps(self, num_steps: int, seed: int = 0) -> Iterator[Outcome]:
        """Step all replicas with random actions, drawn anew for every step, agent and replica."""
        rng = np.random.default_rng(seed)
        for _ in range(num_steps):
            yield from self.step(self.random_actions(rng))


@pytest.fixture
def replicas_of(python_backend: str) -> Callable[..., Replicas]:
    """Give ``replicas_of(env, num_envs=1, **arguments_of_the_wrapper)`` for each backend that runs Python kernels."""
    return lambda env, num_envs=1, **kwargs: Replicas(env, python_backend, num_envs, **kwargs)
