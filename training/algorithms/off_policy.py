"""Base class of off-policy algorithms."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

import torch
from torch import Tensor

from warpdrive.training.algorithms.base import Algorithm
from warpdrive.training.algorithms.common import at, means, set_learning_rate
from warpdrive.training.config.schema import OffPolicyConfig
from warpdrive.training.experience.replay_buffer import ReplayBuffer
from warpdrive.training.experience.transitions import Transitions

Config = TypeVar("Config", bound=OffPolicyConfig)


class OffPolicy(Algorithm[ReplayBuffer], Generic[Config]):
    """Algorithm that takes gradient steps on minibatches of a replay buffer.

    Args:
        config: section of the policy in the run configuration.

    Attributes:
        config: the section with the current value in place of each schedule.
    """

    config: Config

    def __init__(self, config: Config) -> None:
        self.schedules = config
        self.config = at(config, env_steps=0)

    def begin(self, env_steps: int) -> None:
        """See ``Algorithm``. The update is never captured as a CUDA graph: coefficients can be Python numbers."""
        self.config = at(self.schedules, env_steps)
        for part in self.parts().values():
            if isinstance(part, torch.optim.Optimizer):
                set_learning_rate(part, self.config.lr)

    def update(self, experience: ReplayBuffer, generator: torch.Generator) -> dict[str, Tensor]:
        """Take gradient steps on transitions sampled with ``generator``, after ``learning_starts``.

        Returns scalars on the device: means over the gradient steps.
        """
        if experience.env_steps < self.config.learning_starts or experience.is_empty:
            return {}
        history = []
        for _ in range(self.config.gradient_steps):
            history.append(self.step(experience.sample(self.config.batch_size, generator), generator))
        return means(history)

    @abstractmethod
    def step(self, batch: Transitions, generator: torch.Generator) -> dict[str, Tensor]:
        """Take one gradient step on ``batch``, with noise of ``generator``. Returns scalars on the device."""
