"""MyEnv: hunters on a ring close in on a runner. Change it into your own environment, a piece at a time.

warpdrive check my_env.py:MyEnv      finds races and other mistakes in the kernels, and plays some steps
python -m pytest                     runs test_my_env.py
warpdrive train my_env.yaml          trains the hunters, and writes an animation
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from matplotlib.figure import Figure
from numba import cuda

import warpdrive as wd

# Kernel functions are run by every agent of every replica: the block is the replica, the thread is the agent. What one
# agent writes, another may read after the next cuda.syncthreads(). Their parameters are found by name:
#
#   position ...                         the arrays of initial_state, here [replica, agent]
#   ring_length ...                      numbers and arrays that __init__ stores in self
#   num_agents, num_envs                 how many agents and replicas there are
#   actions[env, agent]                  of MultiDiscrete and Box spaces [env, agent, component]
#   observations[env, agent, ...]        shaped as the observation space; of a Dict space observations_<key>
#   rewards[env, agent]                  0 before each step
#   terminated[env], truncated[env]      False before each step; at episode_length truncated is set by itself
#   timestep[env]                        1 in the first step, 0 in the start state
#   active[env, agent]                   if you name it: False for agents that have left the episode, or are yet to come
#   action_mask[env, agent, choice]      if you name it: False for what may not be chosen next
#   rng                                  for wd.random.uniform(rng, env, agent), normal and integer(rng, env, agent, n)
#
# Write np.float32(0.1), not 0.1, or they compute in float64, which GPUs do slowly.

ONE, SMALL = np.float32(1.0), np.float32(0.01)


@wd.kernel
def step(position, actions, rewards, terminated, ring_length, num_hunters):
    """Move, and reward the hunters if one of them stands where the runner is."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env, agent] = (position[env, agent] + actions[env, agent] - 1) % ring_length
    cuda.syncthreads()  # from here on, all agents have moved
    caught = False
    for hunter in range(num_hunters):
        if position[env, hunter] == position[env, num_hunters]:
            caught = True
    reward = ONE if caught else -SMALL
    rewards[env, agent] = reward if agent < num_hunters else -reward
    if agent == 0:  # one thread writes what belongs to the replica
        terminated[env] = caught


@wd.kernel
def observe(position, observations, ring_length, num_agents):
    """Write how far the others are, to the right (up to 1) or to the left (down to -1)."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    half = ring_length // 2
    for other in range(num_agents):
        distance = (position[env, other] - position[env, agent] + half) % ring_length - half
        observations[env, agent, other] = np.float32(distance) / np.float32(half)


class MyEnv(wd.Environment):
    """Hunters on a ring close in on a runner.

    Args:
        num_hunters: how many hunters there are; the runner comes after them.
        ring_length: how many places the ring has.
        episode_length: the step after which an episode is truncated.
    """

    name = "my_env"
    step, observe = step, observe
    termination_meaning = "the runner was caught"

    def __init__(self, num_hunters: int = 2, ring_length: int = 40, episode_length: int = 30) -> None:
        self.num_hunters, self.ring_length = num_hunters, ring_length
        self.num_agents, self.episode_length = num_hunters + 1, episode_length
        self.policy_tags = {"hunter": range(num_hunters), "runner": [num_hunters]}  # who shares a policy
        self.observation_space = spaces.Box(-1.0, 1.0, (self.num_agents,), np.float32)
        self.action_space = spaces.Discrete(3)  # left, stay, right

    def initial_state(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return the start of an episode; each array becomes one of all replicas on the device."""
        return {"position": rng.integers(0, self.ring_length, self.num_agents, dtype=np.int32)}

    # What follows is optional: the same rules in plain NumPy, which the kernels are then compared with, and a picture.

    def reference_step(self, state: dict[str, np.ndarray], actions: np.ndarray) -> dict[str, np.ndarray]:
        """Return what a step makes of one replica."""
        position = ((state["position"] + actions - 1) % self.ring_length).astype(np.int32)
        caught = bool((position[:-1] == position[-1]).any())
        reward = 1.0 if caught else -0.01
        after = {"position": position, "timestep": state["timestep"] + 1, "terminated": caught}
        after["rewards"] = np.array([reward] * self.num_hunters + [-reward], np.float32)
        after["observations"] = self.reference_observe(after)
        return after

    def reference_observe(self, state: dict[str, np.ndarray]) -> np.ndarray:
        """Return what the agents of one replica see."""
        position, half = state["position"], self.ring_length // 2
        distance = (position[None, :] - position[:, None] + half) % self.ring_length - half
        return (distance / half).astype(np.float32)

    def render(self, state: dict[str, np.ndarray], trail: object = ()) -> Figure:
        """Return a picture of one replica."""
        figure = Figure(figsize=(4, 4))
        axes = figure.add_subplot(projection="polar")
        angles = 2 * np.pi * state["position"] / self.ring_length
        axes.plot(np.linspace(0, 2 * np.pi, 200), np.ones(200), color="lightgray", zorder=0)
        axes.scatter(angles[:-1], np.ones(self.num_hunters), s=120, color="tab:red", label="hunters")
        axes.scatter(angles[-1:], [1.0], s=120, color="tab:blue", label="runner")
        axes.set(ylim=(0, 1.2), xticks=[], yticks=[])
        axes.spines["polar"].set_visible(False)
        figure.legend(loc="center", frameon=False)
        return figure
