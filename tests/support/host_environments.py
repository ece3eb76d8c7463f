"""Small environments of Gymnasium and PettingZoo, whose results follow from the start of an episode and the actions."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

ParallelEnv = pytest.importorskip("pettingzoo").ParallelEnv


class Chain(gymnasium.Env):
    """Observation ``[start, time, last action]``, reward ``start + 10 * time + action``, actions -1, 0 and 1.

    The episode ends at time ``3 + start // 0.25``: terminated, but truncated if the action was 1. At even times the
    action 0 is not allowed.
    """

    metadata: ClassVar = {"render_modes": ["rgb_array"]}

    def __init__(self, broken_at=None, render_mode=None):
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = spaces.Discrete(3, start=-1)
        self.broken_at, self.render_mode = broken_at, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.start, self.time, self.action = self.np_random.random(), 0, 0
        return self._seen()

    def step(self, action):
        assert self.action_space.contains(action)
        self.time, self.action = self.time + 1, action
        if self.time == self.broken_at:
            raise ValueError("the chain is broken")
        ended = self.time >= 3 + self.start // 0.25
        seen, info = self._seen()
        return seen, self.start + 10 * self.time + action, ended and action != 1, ended and action == 1, info

    def render(self):
        return np.full((4, 6, 3), self.time, np.uint8)

    def _seen(self):
        mask = np.array([1, self.time % 2, 1], np.int8)
        return np.array([self.start, self.time, self.action]), {"action_mask": mask}


def make_chains(num_envs, mode=AutoresetMode.NEXT_STEP):
    return SyncVectorEnv([Chain] * num_envs, autoreset_mode=mode)


class Relay(ParallelEnv):
    """Two runners and a judge. ``runner_1`` leaves at time 2; the episode ends at time 4, truncated for the judge.

    Every third episode is longer by a step, and ends with all agents terminated. Rewards are ``time + number`` of the
    agent. A runner observes ``[start, time]``, the judge a Dict with the same and a picture; runners have a mask.
    """

    metadata: ClassVar = {"name": "relay", "render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None):
        self.possible_agents = ["runner_0", "judge", "runner_1"]
        self.agents, self.episodes, self.render_mode = [], 0, render_mode

    def observation_space(self, agent):
        plain = spaces.Box(-1, 10, (2,), np.float32)
        picture = spaces.Box(0, 255, (2, 2, 1), np.uint8)
        masked = {"observation": plain, "action_mask": spaces.Box(0, 1, (2,), np.int8)}
        return spaces.Dict({"plain": plain, "picture": picture}) if agent == "judge" else spaces.Dict(masked)

    def action_space(self, agent):
        return spaces.MultiDiscrete([2, 3]) if agent == "judge" else spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.agents, self.time, self.episodes = list(self.possible_agents), 0, self.episodes + 1
        self.start = np.float32(self.random.random())
        return {agent: self._seen(agent) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        assert all(self.action_space(agent).contains(action) for agent, action in actions.items())
        self.time, acted = self.time + 1, self.agents
        last = 5 if self.episodes % 3 == 0 else 4
        ended, long = self.time >= last, last == 5
        terminated = {
            agent: (agent == "runner_1" and self.time >= 2) or (ended and (long or agent != "judge")) for agent in acted
        }
        truncated = {agent: ended and not terminated[agent] for agent in acted}
        self.agents = [agent for agent in acted if not (terminated[agent] or truncated[agent])]
        rewards = {agent: float(self.time + self.possible_agents.index(agent)) for agent in acted}
        seen = {agent: self._seen(agent) for agent in acted}
        return seen, rewards, terminated, truncated, {agent: {} for agent in acted}

    def state(self):
        return np.array([self.start, self.time, len(self.agents)])

    def render(self):
        return np.full((4, 6, 3), self.time, np.uint8)

    def _seen(self, agent):
        plain = np.array([self.start, self.time], np.float32)
        if agent == "judge":
            return {"plain": plain, "picture": np.full((2, 2, 1), self.time, np.uint8)}
        return {"observation": plain, "action_mask": np.array([1, self.time % 2], np.int8)}
