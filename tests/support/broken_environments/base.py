"""A small environment without a fault, of which each of the broken ones changes a part.

Agents walk along a line of ``length`` places and are rewarded by how far they came; whoever is at the end has won.
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numba import cuda

import warpdrive as wd


@wd.kernel
def step(position, actions, rewards, terminated, length):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    place = position[env, agent] + actions[env, agent] - 1
    position[env, agent] = min(max(place, 0), length)
    rewards[env, agent] = np.float32(position[env, agent])
    cuda.syncthreads()
    if agent == 0:
        for other in range(cuda.blockDim.x):
            if position[env, other] == length:
                terminated[env] = True


@wd.kernel
def observe(position, observations, length):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = np.float32(position[env, agent]) / np.float32(length)


class Walk(wd.Environment):
    """Agents on a line."""

    name = "walk"
    step, observe = step, observe

    def __init__(self, num_agents: int = 3, length: int = 6) -> None:
        self.num_agents, self.length, self.episode_length = num_agents, length, 20
        self.policy_tags = {"walker": range(num_agents)}
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(3)

    def initial_state(self, rng):
        return {"position": rng.integers(0, 3, self.num_agents, dtype=np.int32)}

    def reference_step(self, state, actions):
        position = np.clip(state["position"] + actions - 1, 0, self.length).astype(np.int32)
        return {
            "position": position,
            "timestep": state["timestep"] + 1,
            "rewards": position.astype(np.float32),
            "terminated": bool((position == self.length).any()),
            "observations": self.reference_observe({"position": position}),
        }

    def reference_observe(self, state):
        return (state["position"] / self.length).astype(np.float32)[:, None]
