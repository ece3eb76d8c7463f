"""Environments of the table of known answers: a chain, games of one step, a bandit, and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from numba import cuda
from torch import nn

import warpdrive as wd


@wd.kernel
def chain_step(place, rewards, terminated, terminates):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, agent] = 1 << place[env, agent]
    place[env, agent] = (place[env, agent] + 1) % 3
    if agent == 0 and terminates and place[env, 0] == 0:
        terminated[env] = True


@wd.kernel
def chain_observe(place, observations):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(3):
        observations[env, agent, k] = k == place[env, agent]


class Chain(wd.Environment):
    """Places 0, 1 and 2 follow each other and earn 1, 2 and 4, whatever agents do.

    Either the third step terminates the episode, or the places go round and a time limit cuts the episode after four
    steps, of which the observations tell nothing: what is earned after the limit counts.
    """

    name = "chain"
    step, observe = chain_step, chain_observe

    def __init__(self, terminates: bool = False, box: bool = False) -> None:
        self.num_agents, self.episode_length, self.terminates = 2, 4, terminates
        self.policy_tags = {"walkers": [0, 1]}
        self.observation_space = spaces.Box(0, 1, (3,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32) if box else spaces.Discrete(2)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {"place": np.zeros(2, np.int32)}

    def values(self, gamma: float) -> npt.NDArray[np.float64]:
        """The discounted sums of rewards from each place on, which solve v = r + gamma P v."""
        moves = np.roll(np.eye(3), 1, axis=1)
        if self.terminates:
            moves[2] = 0.0
        return np.linalg.solve(np.eye(3) - gamma * moves, [1.0, 2.0, 4.0])


@wd.kernel
def unseen_observe(place, feature, observations):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = 1
    if agent == 0:
        for k in range(3):
            feature[env, k] = k == place[env, 0]


class UnseenChain(Chain):
    """The chain, of which agents see nothing.

    Args:
        revealed: whether the place is a state for critics; else only the steps since the episode began tell it.
    """

    name = "unseen_chain"
    observe = unseen_observe

    def __init__(self, terminates: bool = False, revealed: bool = True) -> None:
        super().__init__(terminates)
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.global_state = ("feature",) if revealed else ()

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {**super().initial_state(rng), "feature": np.zeros(3, np.float32)}


@wd.kernel
def matrix_step(actions, payoffs, rewards, terminated):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, agent] = payoffs[agent, actions[env, 0], actions[env, 1]]
    if agent == 0:
        terminated[env] = True


@wd.kernel
def constant_observe(observations):  # type: ignore[no-untyped-def]
    observations[cuda.blockIdx.x, cuda.threadIdx.x, 0] = 1


class MatrixGame(wd.Environment):
    """A game of one step: ``payoffs[agent, row, column]`` is what an agent earns.

    Args:
        payoffs: of both agents, as nested lists.
    """

    name = "matrix_game"
    step, observe = matrix_step, constant_observe

    def __init__(self, payoffs: list[list[list[float]]]) -> None:
        self.num_agents, self.episode_length = 2, 2
        self.policy_tags = {"row": [0], "column": [1]}
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.payoffs = np.array(payoffs, np.float32)
        self.action_space = spaces.Discrete(self.payoffs.shape[1])

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {}


@wd.kernel
def meeting_step(actions, wanted, rewards, terminated):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    row = actions[env, 0, 0] - wanted[0]
    column = actions[env, 1, 0] - wanted[1]
    rewards[env, agent] = -row * row - column * column - row * column
    if agent == 0:
        terminated[env] = True


class Meeting(wd.Environment):
    """A cooperative game of one step: both agents earn most where each does what is ``wanted`` of it."""

    name = "meeting"
    step, observe = meeting_step, constant_observe

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 2, 2
        self.policy_tags = {"row": [0], "column": [1]}
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)
        self.wanted = np.array([0.3, -0.6], np.float32)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {}


@wd.kernel
def bandit_step(actions, best, reach, rewards, terminated):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(best.shape[0]):
        miss = (actions[env, agent, k] - best[k]) / reach[k]
        rewards[env, agent] -= miss * miss
    terminated[env] = True


class Bandit(wd.Environment):
    """One step with an action of five numbers, each from a range of its own, of which one each is best.

    How far from it the others are counts in units of half the range.
    """

    name = "bandit"
    step, observe = bandit_step, constant_observe

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 1, 2
        self.policy_tags = {"player": [0]}
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        low, high = np.array([(-1, 1), (10, 20), (-0.02, 0.02), (-100, 100), (0, 1)], np.float32).T
        self.action_space = spaces.Box(low, high)
        self.reach = 0.5 * (high - low)
        self.best = low + self.reach * (1 + np.array([0.6, -0.5, 0.3, -0.7, 0.5], np.float32))

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {}


@wd.kernel
def picture_observe(observations):  # type: ignore[no-untyped-def]
    observations[cuda.blockIdx.x, cuda.threadIdx.x, 0, 0, 0] = 1


class PictureBandit(Bandit):
    """The bandit, seen as an image."""

    name = "picture_bandit"
    observe = picture_observe

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 1, (1, 1, 1), np.float32)


@wd.kernel
def forbidding_step(actions, rewards, terminated):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, agent] = actions[env, agent]
    if agent == 0:
        terminated[env] = True


@wd.kernel
def forbidding_observe(observations, action_mask):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for choice in range(3):
        observations[env, agent, choice] = agent == 0
        action_mask[env, agent, choice] = choice < 2


class Forbidding(wd.Environment):
    """One step and three choices, which earn 0, 1 and 2; the last is forbidden. The agents see 1 and 0."""

    name = "forbidding"
    step, observe = forbidding_step, forbidding_observe

    def __init__(self) -> None:
        self.num_agents, self.episode_length = 2, 2
        self.policy_tags = {"players": [0, 1]}
        self.observation_space = spaces.Box(0, 1, (3,), np.float32)
        self.action_space = spaces.Discrete(3)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {}


class Insisting(wd.ActorCritic):
    """Logits that depend on nothing, but where 0 is seen it says that only the last choice can be taken."""

    def __init__(self, observation_space: spaces.Space[Any], num_logits: int) -> None:
        super().__init__()
        self.table, self.value = nn.Parameter(torch.zeros(num_logits)), nn.Parameter(torch.zeros(()))

    def logits(self, observations: Any) -> torch.Tensor:
        insists = (observations == 0) & (torch.arange(len(self.table)) < len(self.table) - 1)
        return torch.where(insists, -torch.inf, self.table)

    def values(self, observations: Any) -> torch.Tensor:
        return self.value.expand(observations.shape[:-1])


@wd.kernel
def gate_step(actions, active, is_open, rewards, terminated, timestep):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if active[env, agent] and actions[env, agent] == 1:
        active[env, agent] = False
        if agent == 0:
            is_open[env] = True
    cuda.syncthreads()
    if is_open[env]:
        rewards[env, agent] = 1
    elif active[env, agent]:
        rewards[env, agent] = np.float32(0.1)
    if agent == 0 and timestep[env] == 10:
        terminated[env] = True


@wd.kernel
def gate_observe(active, is_open, observations, timestep, broken):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = agent
    observations[env, agent, 1] = is_open[env]
    observations[env, agent, 2] = timestep[env] * np.float32(0.1)
    if broken and not active[env, agent]:
        observations[env, agent, 0] = np.nan
        observations[env, agent, 2] = np.inf


class Gate(wd.Environment):
    """An agent that stays earns 0.1 in each of ten steps. If agent 0 leaves, both earn 1 from then on.

    Staying earns 1 each, leaving at once 10 each: only returns that go on after an agent has left say so.

    Args:
        broken: whether observations of agents that have left are not finite.
    """

    name = "gate"
    step, observe = gate_step, gate_observe

    def __init__(self, broken: bool = False) -> None:
        self.num_agents, self.episode_length, self.broken = 2, 20, broken
        self.policy_tags = {"team": [0, 1]}
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(2)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        return {"active": np.ones(2, np.bool_), "is_open": np.zeros((), np.bool_)}
