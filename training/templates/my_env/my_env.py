"""Environment MyEnv: hunters chase a runner on a ring. Edit it into your own environment in small steps.

warpdrive check my_env.py:MyEnv      check the kernels and the environment for errors
python -m pytest                     run test_my_env.py
warpdrive train my_env.yaml          train the hunters, evaluate and animate
"""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.scene.scene import Polygon, Scene

# Each block runs a replica, and each of its threads an agent. A thread sees the writes of the others after the next
# cuda.syncthreads(). Kernel parameters are bound by name:
#
#   position ...                         the arrays of initial_state, here [replica, agent]
#   ring_length ...                      numbers and arrays that are attributes of the environment
#   num_agents, num_envs                 numbers of agents and replicas
#   actions[env, agent]                  for MultiDiscrete and Box spaces [env, agent, component]
#   observations[env, agent, ...]        shape of the observation space; for a Dict space observations_<key>
#   rewards[env, agent]                  0 before each step
#   terminated[env], truncated[env]      False before each step; truncated is set automatically at episode_length
#   timestep[env]                        1 in the first step, 0 in the start state
#   active[env, agent]                   optional: False for agents that have left the episode, or not yet entered it
#   action_mask[env, agent, choice]      optional: False for choices that are masked in the next step
#   rng                                  for wd.random.uniform(rng, env, agent), normal and integer(rng, env, agent, n)
#
# Write np.float32(0.1) instead of 0.1, which is float64 and slow on GPUs.

ONE, SMALL = np.float32(1.0), np.float32(0.01)


@wd.kernel
def step(position, actions, rewards, terminated, ring_length, num_hunters):
    """Move the agents, and reward the hunters if one of them catches the runner."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env, agent] = (position[env, agent] + actions[env, agent] - 1) % ring_length
    cuda.syncthreads()  # wait until all agents have moved
    caught = False
    for hunter in range(num_hunters):
        if position[env, hunter] == position[env, num_hunters]:
            caught = True
    reward = ONE if caught else -SMALL
    rewards[env, agent] = reward if agent < num_hunters else -reward
    if agent == 0:  # one thread writes the state of the replica
        terminated[env] = caught


@wd.kernel
def observe(position, observations, ring_length, num_agents):
    """Write the distances to the other agents, from -1 (left) to 1 (right)."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    half = ring_length // 2
    for other in range(num_agents):
        distance = (position[env, other] - position[env, agent] + half) % ring_length - half
        observations[env, agent, other] = np.float32(distance) / np.float32(half)


@wd.kernel
def draw(shapes, position, ring_length, num_hunters):
    """Draw the agents on the ring, for replays."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    angle = 2.0 * math.pi * position[env, agent] / ring_length
    colour = wd.draw.RED if agent < num_hunters else wd.draw.BLUE
    wd.draw.circle(shapes, 0, math.cos(angle), math.sin(angle), 0.08, colour)
    wd.draw.trail(shapes, 0, 8)


class MyEnv(wd.Environment):
    """Hunters chase a runner on a ring.

    Args:
        num_hunters: Number of hunters. The runner is the last agent.
        ring_length: Number of cells of the ring.
        episode_length: Number of steps after which an episode is truncated.
    """

    name = "my_env"
    step, observe, draw = step, observe, draw
    view = (-1.2, 1.2, -1.2, 1.2)  # lowest x, highest x, lowest y, highest y of pictures
    termination_meaning = "the runner was caught"

    def __init__(self, num_hunters: int = 2, ring_length: int = 40, episode_length: int = 30) -> None:
        self.num_hunters, self.ring_length = num_hunters, ring_length
        self.num_agents, self.episode_length = num_hunters + 1, episode_length
        self.policy_tags = {"hunter": range(num_hunters), "runner": [num_hunters]}  # agents that share a policy
        self.observation_space = spaces.Box(-1.0, 1.0, (self.num_agents,), np.float32)
        self.action_space = spaces.Discrete(3)  # left, stay, right

    def initial_state(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return the initial state of an episode; the arrays are batched over replicas on the device."""
        return {"position": rng.integers(0, self.ring_length, self.num_agents, dtype=np.int32)}

    # Optional: a reference implementation in NumPy, which the kernels are compared with, and a scenery.

    def reference_step(self, state: dict[str, np.ndarray], actions: np.ndarray) -> dict[str, np.ndarray]:
        """Return the state of one replica after a step."""
        position = ((state["position"] + actions - 1) % self.ring_length).astype(np.int32)
        caught = bool((position[:-1] == position[-1]).any())
        reward = 1.0 if caught else -0.01
        after = {"position": position, "timestep": state["timestep"] + 1, "terminated": caught}
        after["rewards"] = np.array([reward] * self.num_hunters + [-reward], np.float32)
        after["observations"] = self.reference_observe(after)
        return after

    def reference_observe(self, state: dict[str, np.ndarray]) -> np.ndarray:
        """Return the observations of the agents of one replica."""
        position, half = state["position"], self.ring_length // 2
        distance = (position[None, :] - position[:, None] + half) % self.ring_length - half
        return (distance / half).astype(np.float32)

    def scenery(self, state: dict[str, np.ndarray]) -> Scene:
        """Return what no agent draws: the ring."""
        angles = np.linspace(0, 2 * np.pi, 100)
        ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return Scene(self.view, polygons=[Polygon(ring, colour=-1, edge=wd.draw.GREY, line=0.03)])
