"""Proximal policy optimisation with a clipped objective (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from warpdrive.training.algorithms.base import BeforeStep
from warpdrive.training.algorithms.common import explained_variance, means, normalised, value_error
from warpdrive.training.algorithms.kl_stop import KlStop
from warpdrive.training.algorithms.on_policy import ActorCriticAlgorithm
from warpdrive.training.config.schema import PPOConfig
from warpdrive.training.experience.batch import Batch


class PPO(ActorCriticAlgorithm[PPOConfig]):
    """PPO for one model. See ``OnPolicy`` and ``ActorCriticAlgorithm``."""

    def update(self, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Train for several epochs of random minibatches drawn with ``generator``.

        Each row, or each sequence of a recurrent model, is used once per epoch. Returns scalars on the device: means
        over all minibatches.
        """
        explained = explained_variance(batch)
        # computed before the return statistics are updated
        batch = replace(batch, values=self.normalized(batch.values))
        self.observe_returns(batch)
        if self.config.normalize_advantage:
            batch = replace(batch, advantages=normalised(batch.advantages, batch))
        stop = KlStop(self.optimizer, self.config.target_kl)
        history: list[dict[str, Tensor]] = []
        for _ in range(self.config.epochs):
            for part in batch.minibatches(self.config.minibatches, generator):
                history.append(self.step(part, stop.after))
        return {**means(history), "explained_variance": explained}

    def step(self, batch: Batch, before: BeforeStep) -> dict[str, Tensor]:
        """Take one gradient step on ``batch``; ``before`` is called first, see ``OptimizerStep``."""
        loss, terms = self.loss(batch, batch.advantages)
        return self.optimizer_step(loss, terms, self.optimizer, self.trained, self.config.max_grad_norm, before)

    def loss(self, batch: Batch, advantages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss to minimise (equation 9 of the paper, negated), and its terms without gradient."""
        log_prob, entropy, values = self.evaluate_actions(batch)
        log_ratio = log_prob - batch.log_probabilities  # relative to the behaviour policy
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1.0 - self.config.clip, 1.0 + self.config.clip)
        policy_loss = -batch.masked_mean(torch.minimum(ratio * advantages, clipped * advantages))
        value_loss = self.value_loss(values, batch)
        mean_entropy = batch.masked_mean(entropy)
        loss = policy_loss + self.config.value_coef * value_loss - self.config.entropy_coef * mean_entropy
        with torch.no_grad():
            approx_kl = batch.masked_mean(ratio - 1.0 - log_ratio)  # k3, Schulman 2020, "Approximating KL divergence"
            clipfrac = batch.masked_mean(((ratio - 1.0).abs() > self.config.clip).float())
        terms = {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": mean_entropy,
            "approx_kl": approx_kl,
            "clipfrac": clipfrac,
        }
        return loss, {name: term.detach() for name, term in terms.items()}

    def value_loss(self, values: Tensor, batch: Batch) -> Tensor:
        """Return the mean ``value_error`` of the estimates, or with ``value_clip`` the maximum with clipped ones.

        Clipped estimates are the old ones, moved by at most ``value_clip`` (in the authors' code, not in the paper).

        Args:
            values: ``[rows]``, the model's current outputs.
            batch: ``values`` are the model's outputs from before the update, ``returns`` are in units of rewards.
        """
        returns = self.normalized(batch.returns)
        errors = value_error(values - returns, self.config)
        if self.config.value_clip is not None:
            clipped = batch.values + (values - batch.values).clamp(-self.config.value_clip, self.config.value_clip)
            errors = torch.maximum(errors, value_error(clipped - returns, self.config))
        return batch.masked_mean(errors)
