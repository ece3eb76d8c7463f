"""Small environments whose right outcome is known. Loaded by their file's path, as users' own are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd


@wd.kernel
def echo_step(target, actions, rewards, is_odd):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if actions[env, agent] == (target[env, agent] + is_odd[agent]) % 3:
        rewards[env, agent] += 1
    target[env, agent] = (target[env, agent] + agent + 1) % 3


@wd.kernel
def echo_observe(target, observations):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(3):
        observations[env, agent, k] = k == target[env, agent]


class Echo(wd.Environment):
    """Agents see a number and earn 1 by saying it (tag ``even``) or its successor (tag ``odd``), for 8 steps.

    The tags are interleaved and one of them is in descending order: whoever mixes agents up earns about 1/3 a step.
    """

    name = "echo"
    step, observe = echo_step, echo_observe

    def __init__(self, episode_length: int = 8) -> None:
        self.num_agents, self.episode_length = 4, episode_length
        self.policy_tags = {"even": [0, 2], "odd": [3, 1]}
        self.observation_space = spaces.Box(0, 1, (3,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.is_odd = np.array([0, 1, 0, 1], np.int32)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {"target": rng.integers(0, 3, 4, dtype=np.int32)}


@wd.kernel
def faint_observe(target, observations):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(3):
        observations[env, agent, k] = np.float32(5) + np.float32(0.001) * (k == target[env, agent])


class Faint(Echo):
    """Echo, but what agents see are tiny differences between large numbers."""

    name = "faint"
    observe = faint_observe


class Revealed(Echo):
    """Echo, with a state for critics."""

    name = "revealed"
    global_state = ("timestep", "target")


@wd.kernel
def fuse_step(length, timestep, rewards, terminated):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, agent] += agent + 1
    if agent == 0 and timestep[env] == length[env]:
        terminated[env] = True


@wd.kernel
def fuse_observe(length, timestep, observations):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = length[env] - timestep[env]


class Fuse(wd.Environment):
    """Episodes of 1, 2 or 12 steps, the last cut at 9; agent i earns i + 1 in each step whatever it does."""

    name = "fuse"
    step, observe = fuse_step, fuse_observe

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 3, 9
        self.policy_tags = {"one": [0], "others": [1, 2]}
        self.observation_space = spaces.Box(-20, 20, (1,), np.float32)
        self.action_space = spaces.Discrete(2)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {"length": np.array(rng.choice([1, 2, 12]), np.int32)}


@wd.kernel
def leave_step(actions, active, rewards, terminated, timestep):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, agent] += 1 if active[env, agent] else 1000
    if timestep[env] == agent + 2:
        active[env, agent] = False
    if agent == 0 and timestep[env] == 5 and actions[env, 0, 1] == 0:
        terminated[env] = True


@wd.kernel
def leave_observe(active, action_mask, observations, timestep):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(6):
        observations[env, agent, k] = k == timestep[env]
        action_mask[env, agent, k] = k != timestep[env] and k != agent


class Leave(wd.Environment):
    """Agent i leaves in step i + 2 of at most 6; each choice is forbidden at a time of its own and to one agent.

    Out of the episode an agent's reward is 1000 a step, which would be noticed if it counted.
    """

    name = "leave"
    step, observe = leave_step, leave_observe

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 3, 6
        self.policy_tags = {"outer": [2, 0], "inner": [1]}
        self.observation_space = spaces.Box(0, 1, (6,), np.float32)
        self.action_space = spaces.MultiDiscrete([4, 2])

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {"active": np.ones(3, np.bool_)}


@wd.kernel
def vanish_step(actions, active, rewards, timestep):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, agent] = 1.0 if active[env, agent] else math.nan
    if timestep[env] == agent + 2:
        active[env, agent] = False


class Vanish(Leave):
    """Leave, where agents out of the episode have rewards of NaN: agent i returns i + 2."""

    name, step = "vanish", vanish_step


@wd.kernel
def aim_step(target, actions_aimer, actions_chooser, rewards):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    wanted = target[env, agent]
    if agent % 2 == 0:
        row = agent // 2  # of the tag's agents, 0 and 2
        rewards[env, agent] = -abs(actions_aimer[env, row, 0] - wanted) - abs(actions_aimer[env, row, 1] + wanted)
    else:
        row = (3 - agent) // 2  # of the tag's agents, 3 and 1
        rewards[env, agent] = np.float32(actions_chooser[env, row] == (wanted > 0))
    target[env, agent] = -wanted


@wd.kernel
def aim_observe(target, observations):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = target[env, agent]


class Aim(wd.Environment):
    """Agents see a number t; ``aimer`` loses its distance from (t, -t), ``chooser`` says whether t is positive."""

    name = "aim"
    step, observe = aim_step, aim_observe

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 4, 8
        self.policy_tags = {"aimer": [0, 2], "chooser": [3, 1]}
        self.observation_space = spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = {"aimer": spaces.Box(-1, 1, (2,), np.float32), "chooser": spaces.Discrete(2)}

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {"target": rng.uniform(-0.5, 0.5, 4).astype(np.float32)}


@wd.kernel
def spell_step(symbols, actions, rewards):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if actions[env, agent] == (symbols[env, agent, 0] + symbols[env, agent, 1]) % 3:
        rewards[env, agent] += 1
    symbols[env, agent, 0] = (symbols[env, agent, 0] + 1) % 3
    symbols[env, agent, 1] = (symbols[env, agent, 1] + symbols[env, agent, 0]) % 3


@wd.kernel
def spell_observe(symbols, observations_picture, observations_number):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for x in range(2):
        for y in range(2):
            observations_picture[env, agent, x, y] = 255 * (2 * x + y == symbols[env, agent, 0])
    observations_number[env, agent] = symbols[env, agent, 1]


class Spell(wd.Environment):
    """Agents see a picture of one number and, by another key, a second; they earn 1 by saying the sum modulo 3.

    Either number alone says nothing about the sum.
    """

    name = "spell"
    step, observe = spell_step, spell_observe

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 3, 8
        self.policy_tags = {"outer": [2, 0], "inner": [1]}
        self.observation_space = spaces.Dict(picture=spaces.Box(0, 255, (2, 2), np.uint8), number=spaces.Discrete(3))
        self.action_space = spaces.Discrete(3)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {"symbols": rng.integers(0, 3, (3, 2), dtype=np.int32)}


@wd.kernel
def arrive_step(actions, active, rewards, timestep):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, agent] += 1 if active[env, agent] else 1000
    if agent == 1:
        active[env, agent] = timestep[env] % 3 != 0
    elif timestep[env] == 2 * agent:
        active[env, agent] = True


@wd.kernel
def arrive_observe(active, observations, timestep):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(7):
        observations[env, agent, k] = k == timestep[env]


class Arrive(wd.Environment):
    """Agent 0 is there from the beginning, agent 2 from step 4 on, and agent 1 leaves and comes back, for 7 steps.

    Out of the episode an agent's reward is 1000 a step, which would be noticed if it counted.
    """

    name = "arrive"
    step, observe = arrive_step, arrive_observe

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 3, 7
        self.policy_tags = {"outer": [2, 0], "inner": [1]}
        self.observation_space = spaces.Box(0, 1, (7,), np.float32)
        self.action_space = spaces.Discrete(3)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {"active": np.array([True, False, False])}


@wd.kernel
def recall_step(cue, actions, rewards, timestep):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if timestep[env] > 1 and actions[env, agent] == cue[env, agent]:
        rewards[env, agent] += 1


@wd.kernel
def recall_observe(cue, observations, timestep):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(2):
        observations[env, agent, k] = timestep[env] == 0 and cue[env, agent] == k


class Recall(wd.Environment):
    """Agents see one of two things when an episode begins, and nothing after; in 4 more steps they earn 1 by saying it.

    Without a memory no one earns more than 2 on average, with one it is 4.
    """

    name = "recall"
    step, observe = recall_step, recall_observe

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 2, 5
        self.policy_tags = {"players": [1, 0]}
        self.observation_space = spaces.Box(0, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {"cue": rng.integers(0, 2, 2, dtype=np.int32)}


@wd.kernel
def screen_observe(target, observations):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(3):
        observations[env, agent, k, 0, 0] = k == target[env, agent]


class Screen(Echo):
    """Echo, seen as images of three channels."""

    name = "screen"
    step, observe = echo_step, screen_observe

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 1, (3, 1, 1), np.float32)


TAGS = {
    "Echo": ("even", "odd"),
    "Revealed": ("even", "odd"),
    "Leave": ("outer", "inner"),
    "Vanish": ("outer", "inner"),
    "Fuse": ("one", "others"),
    "Aim": ("aimer", "chooser"),
    "Spell": ("outer", "inner"),
    "Arrive": ("outer", "inner"),
    "Screen": ("even", "odd"),
    "Recall": ("players",),
}
"""The policy tags of each game. Those with two have their agents interleaved."""
