"""Agents that aim, in the form of WarpDrive 2, with arrays per policy and continuous or masked actions."""

from __future__ import annotations

import numpy as np
from gym import spaces
from warp_drive.utils.data_feed import DataFeed
from warp_drive.utils.gpu_environment_context import CUDAEnvironmentContext


class Aim(CUDAEnvironmentContext):
    """The reward is the negative squared distance of the actions from a target; an episode has four steps."""

    name = "Aim"

    def __init__(self, continuous=True):
        super().__init__()
        self.num_agents, self.episode_length, self.continuous = 3, 4, continuous
        space = spaces.Box(-1.0, 1.0, (2,)) if continuous else spaces.MultiDiscrete([3, 2])
        self.action_space = dict.fromkeys(range(3), space)
        self.observation_space = None

    def reset(self):
        mask = np.array([1, 0, 1, 1, 1], np.float32)
        seen = np.ones(1, np.float32)
        return {agent: seen if self.continuous else {"seen": seen, "action_mask": mask} for agent in range(3)}

    def get_tensor_dictionary(self):
        feed = DataFeed()
        targets = np.array([[0.5, -0.5]] * 3, np.float32) if self.continuous else np.array([[2, 1]] * 3, np.float32)
        feed.add_data("targets", targets, save_copy_and_apply_at_reset=True)
        return feed

    def step(self, actions=None):
        names = ["targets", "_done_", "_timestep_"]
        names += [f"{array}_{tag}" for tag in ("first", "others") for array in ("sampled_actions", "rewards")]
        arguments = self.cuda_step_function_feed([*names, ("episode_length", "m")])
        self.cuda_step[self.cuda_function_manager.grid, self.cuda_function_manager.block](*arguments)
