"""Small environments without a fault, each with something that a check could take for one."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numba import cuda

import warpdrive as wd


class Sound(wd.Environment):
    """Base class: agents of one policy that move by three choices."""

    def __init__(self, num_agents: int = 2, episode_length: int = 6) -> None:
        self.num_agents, self.episode_length = num_agents, episode_length
        self.policy_tags = {"all": range(num_agents)}
        self.observation_space = spaces.Box(-8.0, 8.0, (1,), np.float32)
        self.action_space = spaces.Discrete(3)

    def initial_state(self, rng):
        return {"place": np.ones(self.num_agents, np.int32)}


@wd.kernel
def drift(place, rng, actions, rewards, terminated):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    place[env, agent] = (place[env, agent] + wd.random.integer(rng, env, agent, 3)) % 3
    rewards[env, agent] = np.float32(actions[env, agent] == place[env, agent])
    if wd.random.uniform(rng, env, agent) < np.float32(0.3):
        terminated[env] = True


@wd.kernel
def see_place(place, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = np.float32(place[env, agent])


class EndsAsItBegan(Sound):
    """Draws in each step, ends at random, and often where it began."""

    name = "ends_as_it_began"
    step, observe = drift, see_place

    def __init__(self) -> None:
        super().__init__(1)


@wd.kernel
def pull(arm, actions, rewards, terminated):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, agent] = np.float32(actions[env, agent] == arm[env, agent])
    terminated[env] = True


@wd.kernel
def hide(arm, rng):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    arm[env, agent] = wd.random.integer(rng, env, agent, 3)


class Bandit(Sound):
    """One agent in episodes of one step, which sees nothing of what is drawn at their start."""

    name = "bandit"
    step, reset = pull, hide

    def __init__(self) -> None:
        super().__init__(1, 1)

    def initial_state(self, rng):
        return {"arm": np.zeros(1, np.int32), "observations": np.zeros((1, 1), np.float32)}


@wd.kernel
def walk_out(place, active, actions, rewards):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if not active[env, agent]:
        return
    place[env, agent] += actions[env, agent, 0] - actions[env, agent, 1]
    if place[env, agent] > 1:
        active[env, agent] = False
        rewards[env, agent] = np.float32(1)


@wd.kernel
def see_others(place, active, observations_own, observations_others, num_agents):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations_own[env, agent, 0] = np.float32(place[env, agent])
    for other in range(num_agents):
        if other != agent:
            observations_others[env, agent, other] = 1 if active[env, other] else 0


class Leavers(Sound):
    """Agents with several choices at a time that leave, and see by the keys of a dict; of one key never themselves."""

    name = "leavers"
    step, observe = walk_out, see_others

    def __init__(self) -> None:
        super().__init__(3)
        own, others = spaces.Box(-8.0, 8.0, (1,), np.float32), spaces.MultiDiscrete([2, 2, 2])
        self.observation_space = spaces.Dict({"own": own, "others": others})
        self.action_space = spaces.MultiDiscrete([2, 2])

    def initial_state(self, rng):
        return {"place": rng.integers(-1, 2, 3, dtype=np.int32)}


@wd.kernel
def push(speed, actions, observations, rewards):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    speed[env, agent] += actions[env, agent, 0]
    observations[env, agent, 0] = speed[env, agent]
    rewards[env, agent] = -abs(speed[env, agent])


class Pushed(Sound):
    """Nothing random, and observations that the step writes; the first ones are those of the start state."""

    name = "pushed"
    step = push

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def initial_state(self, rng):
        speed = rng.uniform(-1, 1, 2).astype(np.float32)
        return {"speed": speed, "observations": speed[:, None]}


@wd.kernel
def chase(place, rng, actions_cat, actions_mouse, rewards, terminated):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    move = actions_cat[env, 0] if agent == 0 else actions_mouse[env, agent - 1]
    place[env, agent] = (place[env, agent] + move + wd.random.integer(rng, env, agent, 2)) % 5
    cuda.syncthreads()
    if agent > 0 and place[env, agent] == place[env, 0]:
        rewards[env, agent] = np.float32(-1)
        terminated[env] = True


@wd.kernel
def scatter(place, rng):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    place[env, agent] = wd.random.integer(rng, env, agent, 5)


@wd.kernel
def see_cat(place, observations_cat, observations_mouse, action_mask):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent == 0:
        observations_cat[env, 0] = place[env, 0]
        action_mask[env, 0, 1] = place[env, 0] != 2
        return
    observations_mouse[env, agent - 1, 0] = np.float32(place[env, agent])
    for choice in range(1, 3):
        action_mask[env, agent, choice] = place[env, agent] > choice


class CatAndMice(Sound):
    """Two kinds of agents with spaces of their own, masks, and starts that are drawn by a kernel."""

    name = "cat_and_mice"
    step, observe, reset = chase, see_cat, scatter

    def __init__(self) -> None:
        super().__init__(3)
        self.policy_tags = {"cat": [0], "mouse": [1, 2]}
        self.observation_space = {"cat": spaces.Discrete(5), "mouse": spaces.Box(0.0, 4.0, (2,), np.float32)}
        self.action_space = {"cat": spaces.Discrete(2), "mouse": spaces.Discrete(3)}

    def initial_state(self, rng):
        return {"place": np.arange(3, dtype=np.int32)}


SOUND = (EndsAsItBegan, Bandit, Leavers, Pushed, CatAndMice)
