"""REINFORCE (Williams 1992, doi:10.1007/BF00992696): policy gradient with the returns of whole episodes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from warpdrive.training.algorithms.base import ReturnsConfig
from warpdrive.training.algorithms.common import normalised
from warpdrive.training.algorithms.on_policy import OnPolicy
from warpdrive.training.algorithms.task import Task, adam
from warpdrive.training.config.values import NonNegativeSchedule, PositiveSchedule
from warpdrive.training.experience.batch import Batch, EpisodeBatcher
from warpdrive.training.experience.sequences import logits_of
from warpdrive.training.models.options import FullyConnectedConfig, ModelConfig


class ReinforceConfig(ReturnsConfig):
    """Policy gradient with the returns of whole episodes, one gradient step per rollout."""

    algorithm: Literal["reinforce"] = "reinforce"
    entropy_coef: NonNegativeSchedule = 0.0
    """Coefficient of the entropy bonus in the loss."""
    max_grad_norm: PositiveSchedule = 0.5
    """Maximum norm of a gradient; larger gradients are scaled down to it."""
    normalize_returns: bool = True
    """If True, the returns of each rollout are standardised."""
    model: ModelConfig = FullyConnectedConfig()
    """Model of the policy. Its value function is not trained."""


class Reinforce(OnPolicy[ReinforceConfig]):
    """REINFORCE for one model, whose value head is not used. See ``OnPolicy``."""

    def update(self, experience: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Take one optimizer step on the whole batch, without ``generator``. Returns scalars on the device."""
        returns = normalised(experience.returns, experience) if self.config.normalize_returns else experience.returns
        return self.take_gradient_step(experience, returns)

    def loss(self, batch: Batch, returns: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss to minimise, and its terms without gradient."""
        logits = logits_of(self.model, batch.observations, batch.sequences)
        log_prob, entropy = self.distribution.log_prob_and_entropy(logits, batch.actions, batch.action_mask)
        policy_loss = -batch.masked_mean(log_prob * returns)
        mean_entropy = batch.masked_mean(entropy)
        loss = policy_loss - self.config.entropy_coef * mean_entropy
        terms = {"policy_loss": policy_loss, "entropy": mean_entropy}
        return loss, {name: term.detach() for name, term in terms.items()}


def build(config: ReinforceConfig, task: Task) -> tuple[Reinforce, EpisodeBatcher]:
    """Build the algorithm and its source of experience."""
    model, distribution = task.new_model(config), config.acting_distribution(task.action_space).to(task.device)
    algorithm = Reinforce(config, model, distribution, adam(model, eps=1e-5))
    return algorithm, EpisodeBatcher(task.tag, task.backend, task.agent_ids, lambda: algorithm.config, task.sharding)
