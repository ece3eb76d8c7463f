"""REINFORCE (Williams 1992, doi:10.1007/BF00992696): policy gradient with the returns of whole episodes."""

from __future__ import annotations

import torch
from torch import Tensor

from warpdrive.training.algorithms.common import normalised
from warpdrive.training.algorithms.on_policy import OnPolicy
from warpdrive.training.config.schema import ReinforceConfig
from warpdrive.training.experience.batch import Batch
from warpdrive.training.experience.sequences import logits_of


class Reinforce(OnPolicy[ReinforceConfig]):
    """REINFORCE for one model, whose value head is not used. See ``OnPolicy``."""

    def update(self, experience: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Take one optimizer step on the whole batch, without ``generator``. Returns scalars on the device."""
        returns = normalised(experience.returns, experience) if self.config.normalize_returns else experience.returns
        loss, terms = self.loss(experience, returns)
        return self.optimizer_step(loss, terms, self.optimizer, self.model, self.config.max_grad_norm)

    def loss(self, batch: Batch, returns: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss to minimise, and its terms without gradient."""
        logits = logits_of(self.model, batch.observations, batch.sequences)
        log_prob, entropy = self.distribution.log_prob_and_entropy(logits, batch.actions, batch.action_mask)
        policy_loss = -batch.masked_mean(log_prob * returns)
        mean_entropy = batch.masked_mean(entropy)
        loss = policy_loss - self.config.entropy_coef * mean_entropy
        terms = {"policy_loss": policy_loss, "entropy": mean_entropy}
        return loss, {name: term.detach() for name, term in terms.items()}
