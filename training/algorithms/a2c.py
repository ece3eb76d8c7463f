"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783, without the asynchrony): one step per rollout."""

from __future__ import annotations

import torch
from torch import Tensor

from warpdrive.training.algorithms.base import Algorithm, Stateful
from warpdrive.training.algorithms.common import at, explained_variance, normalised, set_learning_rate
from warpdrive.training.batch import Batch
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.distributions import Distribution
from warpdrive.training.sections import A2CConfig


class A2C(Algorithm[Batch]):
    """Trains one model.

    Args:
        config: the policy's section of the run configuration.
        model: what is trained.
        distribution: of the actions, given what the model makes of an observation.
        optimizer: holds the model's parameters.
    """

    def __init__(
        self, config: A2CConfig, model: ActorCritic, distribution: Distribution, optimizer: torch.optim.Optimizer
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

    def update(self, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Train on the whole batch at once. Returns scalars on the device; ``generator`` is not used."""
        advantages = normalised(batch.advantages, batch) if self.config.normalize_advantage else batch.advantages
        loss, metrics = self.loss(batch, advantages)
        metrics["grad_norm"] = self.descend(loss, self.optimizer, self.model, self.config.max_grad_norm)
        metrics["explained_variance"] = explained_variance(batch)
        return metrics

    def loss(self, batch: Batch, advantages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss to minimise, and its terms without gradient."""
        logits, values = self.model(batch.observations)
        log_prob, entropy = self.distribution.log_prob_and_entropy(logits, batch.actions, batch.action_mask)
        policy_loss = -batch.mean(log_prob * advantages)
        value_loss = 0.5 * batch.mean((values - batch.returns).square())
        mean_entropy = batch.mean(entropy)
        loss = policy_loss + self.config.value_coef * value_loss - self.config.entropy_coef * mean_entropy
        terms = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": mean_entropy}
        return loss, {name: term.detach() for name, term in terms.items()}
