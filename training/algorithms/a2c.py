"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783, without the asynchrony): one step per rollout.

With ``steps_per_update`` the experience is that of one of several groups of replicas, see ``StaggeredGroups``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from warpdrive.environment import Environment
from warpdrive.training.algorithms.base import UpdateSize
from warpdrive.training.algorithms.common import explained_variance, normalised, value_error
from warpdrive.training.algorithms.on_policy import ActorCriticAlgorithm, OnPolicyConfig, rollout_batcher
from warpdrive.training.algorithms.task import ExperienceSource, Task, adam
from warpdrive.training.algorithms.vtrace import StaggeredGroups
from warpdrive.training.config.messages import Problem
from warpdrive.training.config.values import Count, PositiveSchedule
from warpdrive.training.experience.batch import Batch
from warpdrive.training.models.registry import is_recurrent


class A2CConfig(OnPolicyConfig):
    """Advantage actor-critic: one gradient step per rollout."""

    algorithm: Literal["a2c"] = "a2c"
    steps_per_update: Count | None = None
    """Steps of each replica per update, a multiple of the rollout length; None: the rollout length.

    If it is larger, replicas form groups, each update uses the next group, and V-trace corrects for the older behaviour
    policies.
    """
    rho_clip: PositiveSchedule = 1.0
    """Clipping threshold of the importance ratio in the temporal differences of V-trace (rho-bar)."""
    c_clip: PositiveSchedule = 1.0
    """Clipping threshold of the importance ratio in the trace coefficients of V-trace (c-bar)."""

    @property
    def off_policy(self) -> bool:
        """See ``LearningConfig``."""
        return self.steps_per_update is not None

    def problems(self, size: UpdateSize, env: Environment) -> list[Problem]:
        """See ``LearningConfig``: replicas form groups of equal size with ``steps_per_update``."""
        steps, length = self.steps_per_update, size.num_steps
        if steps is None:
            return []
        if is_recurrent(self.model):
            return [
                (
                    "model.type",
                    f"found '{self.model.type}', expected a model without recurrent state with steps_per_update",
                )
            ]
        if steps % length:
            return [("steps_per_update", f"found {steps}, expected a multiple of {length}, the steps of a rollout")]
        if size.num_envs % (steps // length):
            groups = f"{steps // length} groups of replicas ({steps} / {length} steps of a rollout)"
            text = f"found {steps}, which makes {groups}; expected a number that divides num_envs"
            return [("steps_per_update", text)]
        return []


class A2C(ActorCriticAlgorithm[A2CConfig]):
    """Advantage actor-critic of one model. A derived class may replace its loss, as with ``wd.PPO``.

    Args:
        config: Section of the policy in the run configuration.
        model: Model to train.
        distribution: Action distribution for the model's logits.
        optimizer: Optimizer of the model.

    Attributes:
        config: The section with the current value in place of each schedule.
        model: The policy and value function.
    """

    def update(self, batch: Batch, generator: torch.Generator) -> dict[str, Tensor]:
        """Take one optimizer step on the whole batch.

        Args:
            batch: Experience of the rollout, with advantages and returns.
            generator: Not used.

        Returns:
            Metrics by name, as scalars on the device.
        """
        self.observe_returns(batch)
        advantages = normalised(batch.advantages, batch) if self.config.normalize_advantage else batch.advantages
        if self.is_compiled:
            batch = replace(batch, advantages=advantages)
            every = torch.arange(len(batch if batch.sequences is None else batch.sequences))
            return {**self.compiled_steps(batch, [[every]]), "explained_variance": explained_variance(batch)}
        metrics = self.take_gradient_step(batch, advantages)
        return {**metrics, "explained_variance": explained_variance(batch)}

    def loss(self, batch: Batch, advantages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss to minimise, and its terms without gradient.

        Args:
            batch: Rows of the rollout.
            advantages: ``[rows]``, standardised with ``normalize_advantage``.

        Returns:
            A scalar, and scalars to log by name.
        """
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


def build(config: A2CConfig, task: Task) -> tuple[A2C, ExperienceSource]:
    """Build the algorithm and its source of experience."""
    model, distribution = task.new_model(config), config.acting_distribution(task.action_space).to(task.device)
    algorithm = config.derived_from(A2C)(config, model, distribution, adam(model, eps=1e-5))
    if config.steps_per_update is None:
        algorithm.compile_actor_critic(task, A2C)
        return algorithm, rollout_batcher(algorithm, task)
    process_group = task.sharding.process_group
    return algorithm, StaggeredGroups(task.tag, algorithm, config.steps_per_update, task.device, process_group)
