"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783, without the asynchrony): one step per rollout.

With ``steps_per_update`` the experience is that of one of several groups of replicas, see ``StaggeredGroups``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from warpdrive.training.algorithms.common import explained_variance, normalised, value_error
from warpdrive.training.algorithms.on_policy import ActorCriticAlgorithm
from warpdrive.training.config.schema import A2CConfig
from warpdrive.training.experience.batch import Batch


class A2C(ActorCriticAlgorithm[A2CConfig]):
    """Advantage actor-critic for one model. See ``OnPolicy`` and ``ActorCriticAlgorithm``."""

    def update(self, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Take one optimizer step on the whole batch, without ``generator``. Returns scalars on the device."""
        self.observe_returns(batch)
        advantages = normalised(batch.advantages, batch) if self.config.normalize_advantage else batch.advantages
        loss, terms = self.loss(batch, advantages)
        metrics = self.optimizer_step(loss, terms, self.optimizer, self.model, self.config.max_grad_norm)
        return {**metrics, "explained_variance": explained_variance(batch)}

    def loss(self, batch: Batch, advantages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss to minimise, and its terms without gradient."""
        log_prob, entropy, values = self.evaluate_actions(batch)
        policy_loss = -batch.masked_mean(log_prob * advantages)
        value_loss = batch.masked_mean(value_error(values - self.normalized(batch.returns), self.config))
        mean_entropy = batch.masked_mean(entropy)
        loss = policy_loss + self.config.value_coef * value_loss - self.config.entropy_coef * mean_entropy
        terms = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": mean_entropy}
        if self.config.steps_per_update is not None:
            log_ratio = log_prob.detach() - batch.log_probabilities
            terms["approx_kl"] = batch.masked_mean(log_ratio.exp() - 1.0 - log_ratio)  # to the behaviour policies
        return loss, {name: term.detach() for name, term in terms.items()}
