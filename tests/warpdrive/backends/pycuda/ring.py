"""Hunters chase a runner on a ring: an environment whose kernel functions are there in Python and in CUDA C."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numba import cuda, int32

import warpdrive as wd


@wd.kernel
def step(position, actions, rewards, terminated, catches, ring_length, num_hunters, catch_reward):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    nearest = cuda.shared.array(1, int32)
    here = (position[env, agent] + actions[env, agent] - 1 + ring_length) % ring_length
    position[env, agent] = here
    if agent == 0:
        nearest[0] = ring_length
    cuda.syncthreads()
    if agent < num_hunters:
        apart = abs(here - position[env, num_hunters])
        cuda.atomic.min(nearest, 0, min(apart, ring_length - apart))
    cuda.syncthreads()
    caught = nearest[0] == 0
    if agent == num_hunters:
        terminated[env] = caught
        rewards[env, agent] = -catch_reward if caught else np.float32(0)
        if caught:
            catches[env] += 1
    elif caught:
        rewards[env, agent] = catch_reward


@wd.kernel
def observe(position, observations, angles, num_agents):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for other in range(num_agents):
        observations[env, agent, other] = angles[position[env, (agent + other) % num_agents]]


@wd.kernel
def reset(position, rng, ring_length):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env, agent] = wd.random.integer(rng, env, agent, ring_length)


class Ring(wd.Environment):
    name = "ring"
    step, observe, reset = step, observe, reset
    cuda_twins = {name: wd.cuda_kernel("ring.cu", name) for name in ("step", "observe", "reset")}  # noqa: RUF012

    def __init__(self, num_hunters: int = 4, ring_length: int = 12, episode_length: int = 9) -> None:
        self.num_hunters, self.ring_length = num_hunters, ring_length
        self.num_agents, self.episode_length = num_hunters + 1, episode_length
        self.policy_tags = {"runner": [num_hunters]}
        if num_hunters:
            self.policy_tags["hunter"] = range(num_hunters)
        self.observation_space = spaces.Box(-4.0, 4.0, (self.num_agents,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.catch_reward = 1.5
        self.angles = np.sin(np.arange(ring_length)).astype(np.float32)

    def initial_state(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {
            "position": rng.integers(0, self.ring_length, self.num_agents, dtype=np.int32),
            "catches": np.zeros((), np.int32),
        }
