"""Runners on a track in the form of WarpDrive 2: a class with a step in Python, and with a Numba kernel."""

from __future__ import annotations

import numpy as np
from gym import spaces
from warp_drive.utils.constants import Constants
from warp_drive.utils.data_feed import DataFeed
from warp_drive.utils.gpu_environment_context import CUDAEnvironmentContext

POSITION, SPEED = "position", "speed"


class Sprint(CUDAEnvironmentContext):
    """Each action changes the speed by -1, 0 or 1; the reward is the way, and who crosses the line ends the episode."""

    name = "Sprint"

    def __init__(self, num_agents=3, track=40.0, episode_length=12, start_pool=0, env_backend="cpu"):
        super().__init__()
        self.num_agents, self.track, self.episode_length = num_agents, track, episode_length
        self.start_pool, self.env_backend = start_pool, env_backend
        self.starts = np.linspace(0.0, 1.0, num_agents, dtype=np.float32)
        self.action_space = {agent: spaces.Discrete(3) for agent in range(num_agents)}
        self.observation_space = None
        self.timestep = 0

    def reset(self):
        self.timestep = 0
        self.position, self.speed = self.starts.copy(), np.zeros(self.num_agents, np.int32)
        return self._observations()

    def _observations(self):
        return {
            agent: np.array([self.position[agent] / self.track, self.speed[agent], self.timestep], np.float32)
            for agent in range(self.num_agents)
        }

    def get_data_dictionary(self):
        feed = DataFeed()
        feed.add_data(POSITION, self.starts, save_copy_and_apply_at_reset=not self.start_pool)
        feed.add_data_list([(SPEED, np.zeros(self.num_agents, np.int64), True), ("track", self.track)])
        return feed

    def get_reset_pool_dictionary(self):
        feed = DataFeed()
        if self.start_pool:
            pool = np.arange(self.start_pool, dtype=np.float64)[:, None] + self.starts
            feed.add_pool_for_reset("starts", pool, reset_target=POSITION)
        return feed

    def step(self, actions=None):
        self.timestep += 1
        if self.env_backend == "cpu":
            return self._python_step(actions)
        names = [POSITION, SPEED, Constants.ACTIONS, Constants.REWARDS, Constants.OBSERVATIONS, "_done_", "_timestep_"]
        arguments = self.cuda_step_function_feed([*names, "track", ("episode_length", "meta")])
        self.cuda_step[self.cuda_function_manager.grid, self.cuda_function_manager.block](*arguments)
        return None

    def _python_step(self, actions):
        before = self.position.copy()
        for agent, action in actions.items():
            self.speed[agent] = max(self.speed[agent] + action - 1, 0)
            self.position[agent] += self.speed[agent]
        rewards = dict(enumerate(self.position - before))
        ended = self.timestep == self.episode_length or (self.position >= self.track).any()
        return self._observations(), rewards, {"__all__": bool(ended)}, {}
