"""Episodes that begin where the last one ended: a step sets ``continued``."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numba import cuda

import warpdrive as wd


@wd.kernel
def step(total, actions, terminated, continued, limit):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent == 0:
        total[env] += actions[env, 0]
        if total[env] % limit == 0:
            terminated[env] = True
            continued[env] = total[env] < 2 * limit


@wd.kernel
def observe(total, timestep, observations):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = total[env]
    observations[env, agent, 1] = timestep[env]


class Lives(wd.Environment):
    """Adds up actions; an episode ends at each multiple of the limit, and the sum begins anew at every second one."""

    name = "lives"
    step, observe = step, observe
    num_agents, episode_length, limit = 2, 100, 5
    policy_tags = {"agent": [0, 1]}  # noqa: RUF012
    observation_space = spaces.Box(0, 100, (2,), np.int32)
    action_space = spaces.Discrete(2)

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"total": np.array(1, np.int32)}


def test_the_state_outlives_the_episode() -> None:
    env = wd.EnvWrapper(Lives(), num_envs=3, env_backend="cpu")
    actions = np.array([[1, 0], [1, 0], [0, 0]])
    seen = []
    for _ in range(10):
        observations, _, terminated, _, info = env.step(actions)
        final = info["final_observations"] if terminated[0] else observations
        seen.append((int(final[0, 0, 0]), *observations[0, 1].tolist(), bool(terminated[0])))
    steps = [(total, total, total - 1, False) for total in (2, 3, 4)]
    second = [(total, total, total - 5, False) for total in (6, 7, 8, 9)]
    assert seen == [*steps, (5, 5, 0, True), *second, (10, 1, 0, True), (2, 2, 1, False)]
    assert env.ctx["total"].tolist() == [2, 2, 1]
    assert env.episode_statistics()["length"].tolist() == 9 + 9


def test_a_reset_begins_anew() -> None:
    env = wd.EnvWrapper(Lives(), num_envs=2, env_backend="cpu")
    for where in (None, env.ctx["terminated"]):
        for _ in range(4):
            env.step(np.ones((2, 2), np.int64))
        assert env.ctx["total"].tolist() == [5, 5] and env.ctx["continued"].all()
        env.reset(where=where)
        assert env.ctx["total"].tolist() == [1, 1] and not env.ctx["continued"].any()


def test_it_is_a_consistent_environment() -> None:
    wd.testing.check_environment(Lives(), backends=["cpu"])
