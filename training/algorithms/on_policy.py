"""What the algorithms share that learn from each rollout once."""

from __future__ import annotations

from typing import Generic, TypeVar

import torch

from warpdrive.training.algorithms.base import Algorithm, Stateful
from warpdrive.training.algorithms.common import at, set_learning_rate
from warpdrive.training.batch import Batch
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.distributions import Distribution
from warpdrive.training.sections import LearningConfig

Config = TypeVar("Config", bound=LearningConfig)


class OnPolicy(Algorithm[Batch], Generic[Config]):
    """Trains one model with one optimizer.

    Args:
        config: the policy's section of the run configuration.
        model: what is trained.
        distribution: of the actions, given what the model makes of an observation.
        optimizer: holds the model's parameters.

    Attributes:
        config: the section with the present value in place of each schedule.
    """

    model: ActorCritic
    config: Config

    def __init__(
        self, config: Config, model: ActorCritic, distribution: Distribution, optimizer: torch.optim.Optimizer
    ) -> None:
        self.model, self.distribution, self.optimizer = model, distribution, optimizer
        self.actor = model
        self.schedules = config
        self.begin(env_steps=0)

    def begin(self, env_steps: int) -> None:
        """See ``Algorithm``. The update is never captured as a graph, so its coefficients can be the host's numbers."""
        self.config = at(self.schedules, env_steps)
        set_learning_rate(self.optimizer, self.config.lr)

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``."""
        return {"optimizer": self.optimizer}
