"""What the algorithms share that learn from old experience."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

import torch
from torch import Tensor

from warpdrive.training.algorithms.base import Algorithm
from warpdrive.training.algorithms.common import means
from warpdrive.training.replay_buffer import ReplayBuffer, Transitions
from warpdrive.training.sections import OffPolicyConfig

Config = TypeVar("Config", bound=OffPolicyConfig)


class OffPolicy(Algorithm[ReplayBuffer], Generic[Config]):
    """Takes gradient steps on transitions drawn from a replay buffer.

    Attributes:
        config: the policy's section of the run configuration.
    """

    config: Config

    def update(self, experience: ReplayBuffer, generator: torch.Generator) -> dict[str, Tensor]:
        """Take gradient steps on transitions drawn with ``generator``, once there are enough.

        Returns scalars on the device: means over the gradient steps.
        """
        if experience.env_steps < self.config.learning_starts:
            return {}
        history = []
        for _ in range(self.config.gradient_steps):
            history.append(self.step(experience.sample(self.config.batch_size, generator), generator))
        return means(history)

    @abstractmethod
    def step(self, batch: Transitions, generator: torch.Generator) -> dict[str, Tensor]:
        """Take one gradient step on ``batch`` with random numbers of ``generator``. Returns scalars on the device."""
