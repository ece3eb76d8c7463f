"""What the algorithms share that learn from old experience."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

import torch
from torch import Tensor

from warpdrive.training.algorithms.base import Algorithm
from warpdrive.training.algorithms.common import at, means, set_learning_rate
from warpdrive.training.replay_buffer import ReplayBuffer
from warpdrive.training.sections import OffPolicyConfig
from warpdrive.training.transitions import Transitions

Config = TypeVar("Config", bound=OffPolicyConfig)


class OffPolicy(Algorithm[ReplayBuffer], Generic[Config]):
    """Takes gradient steps on transitions drawn from a replay buffer.

    Args:
        config: the policy's section of the run configuration.

    Attributes:
        config: the section with the present value in place of each schedule.
    """

    config: Config

    def __init__(self, config: Config) -> None:
        self.schedules = config
        self.config = at(config, env_steps=0)

    def begin(self, env_steps: int) -> None:
        """See ``Algorithm``. The update is never captured as a graph, so its coefficients can be the host's numbers."""
        self.config = at(self.schedules, env_steps)
        for part in self.parts().values():
            if isinstance(part, torch.optim.Optimizer):
                set_learning_rate(part, self.config.lr)

    def update(self, experience: ReplayBuffer, generator: torch.Generator) -> dict[str, Tensor]:
        """Take gradient steps on transitions drawn with ``generator``, once there are enough.

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
        """Take one gradient step on ``batch`` with random numbers of ``generator``. Returns scalars on the device."""
