"""Proximal policy optimisation with a clipped objective (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from warpdrive.environment import Environment
from warpdrive.training.algorithms import kl_stop
from warpdrive.training.algorithms.base import BeforeStep, UpdateSize
from warpdrive.training.algorithms.common import explained_variance, means, minibatch_problems, normalised, value_error
from warpdrive.training.algorithms.on_policy import ActorCriticAlgorithm, OnPolicyConfig, rollout_batcher
from warpdrive.training.algorithms.task import ExperienceSource, Task, adam
from warpdrive.training.config.messages import Problem, described
from warpdrive.training.config.values import Count, OptionalPositiveSchedule, PositiveSchedule
from warpdrive.training.experience.batch import Batch
from warpdrive.training.models.registry import is_recurrent


class PPOConfig(OnPolicyConfig):
    """Proximal policy optimisation: several epochs of minibatches per rollout."""

    algorithm: Literal["ppo"] = "ppo"
    clip: PositiveSchedule = 0.2
    """Clipping range of the probability ratio of new to old policy: from 1 - ``clip`` to 1 + ``clip``."""
    value_clip: OptionalPositiveSchedule = None
    """Clipping range of the change of a value estimate per update; None: no clipping."""
    target_kl: OptionalPositiveSchedule = None
    """Target KL divergence in nats: the update ends once it exceeds 1.5 times this; None: no early stopping."""
    centralized_critic: bool = False
    """If True, the value function has a separate network with the inputs ``critic_input`` (MAPPO)."""
    critic_input: Literal["auto", "global_state", "observations", "agent_specific"] = "auto"
    """Input of the centralised critic: the environment's ``global_state``, or the observations of all agents.

    ``auto``: the global state if the environment has one. ``agent_specific``: the agent's own observation, followed by
    that of ``auto``.
    """
    recurrent_critic: bool = False
    """If True, the centralised critic has recurrent units: those of the policy's model, or else 64 GRU units."""
    critic_lr: OptionalPositiveSchedule = None
    """Learning rate of the centralised critic; None: ``lr``."""
    critic_max_grad_norm: OptionalPositiveSchedule = None
    """Maximum gradient norm of the centralised critic; None: clipped with the policy's gradient or, with ``critic_lr``,
    to the same norm.
    """
    epochs: Count = 4
    """Passes over the rollout per update."""
    minibatches: Count = 4
    """Minibatches per epoch, each for one gradient step."""

    def problems(self, size: UpdateSize, env: Environment) -> list[Problem]:
        """See ``LearningConfig``: a minibatch has at least one row, or one sequence of a recurrent model."""
        most, what = size.samples, "the samples of one update"
        if is_recurrent(self.model) or (self.recurrent_critic and self.centralized_critic):
            most, what = size.sequences, "the sequences of one update: replicas x agents"
        return minibatch_problems(self.minibatches, most, what) + self._critic_problems(env)

    def _critic_problems(self, env: Environment) -> list[Problem]:
        if not self.centralized_critic:
            options = ("critic_lr", "critic_max_grad_norm", "critic_input", "recurrent_critic")
            defaults = {name: field.default for name, field in PPOConfig.model_fields.items()}
            return [
                (key, f"found {described(found)}, expected centralized_critic: true as well")
                for key in options
                if (found := getattr(self, key)) != defaults[key]
            ]
        if self.critic_input == "global_state" and not env.global_state:
            text = (
                f"found 'global_state', but {type(env).__name__} has none: name its arrays (docs/guides/authoring.md)"
            )
            return [("critic_input", f"{text}, or use observations")]
        return []

    @property
    def has_critic_optimizer(self) -> bool:
        """True if the centralised critic has a separate optimizer."""
        return self.critic_lr is not None or self.critic_max_grad_norm is not None


class PPO(ActorCriticAlgorithm[PPOConfig]):
    """Proximal policy optimisation of one model.

    A derived class may replace its loss. ``policy: {agent: {algorithm: ppo, function: "my_ppo.py:SmallLogits"}}``
    trains with this one:

    ```python
    class SmallLogits(wd.PPO):
        def loss(self, batch, advantages):
            loss, terms = super().loss(batch, advantages)
            size = batch.masked_mean(self.model.logits(batch.observations).square().sum(-1))
            return loss + 1e-3 * size, {**terms, "size": size.detach()}
    ```

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
        """Train for several epochs of random minibatches drawn with ``generator``.

        Each row, or each sequence of a recurrent model, is used once per epoch.

        Args:
            batch: Experience of the rollout, with advantages and returns.
            generator: Random number generator of the minibatches, on the device.

        Returns:
            Metrics by name, as scalars on the device: means over all minibatches.
        """
        explained = explained_variance(batch)
        # computed before the return statistics are updated
        batch = replace(batch, values=self.normalized(batch.values))
        self.observe_returns(batch)
        if self.config.normalize_advantage:
            batch = replace(batch, advantages=normalised(batch.advantages, batch))
        epochs = [batch.partition(self.config.minibatches, generator) for _ in range(self.config.epochs)]
        if self.is_compiled:
            return {**self.compiled_steps(batch, epochs), "explained_variance": explained}
        kl_stop.begin(self.optimizer, self.config.target_kl)
        history = [self.take_gradient_step(part) for parts in epochs for part in batch.split(parts)]
        return {**means(history), "explained_variance": explained}

    def gradient_step(self, batch: Batch) -> dict[str, Tensor]:
        """See ``Algorithm``."""
        return self.step(batch, partial(kl_stop.check, self.optimizer, self.config.target_kl))

    def step(self, batch: Batch, before: BeforeStep) -> dict[str, Tensor]:
        """Take one gradient step on a minibatch.

        Args:
            batch: Rows of the minibatch, with advantages in the units of the loss.
            before: Called with the terms of the loss before the optimizer step; returns additional terms.

        Returns:
            The terms of the loss, and ``"grad_norm"``, the norm of the gradient before clipping.
        """
        loss, terms = self.loss(batch, batch.advantages)
        return self.optimizer_step(loss, terms, self.optimizer, self.trained, self.config.max_grad_norm, before)

    def loss(self, batch: Batch, advantages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss to minimise (equation 9 of the paper, negated), and its terms without gradient.

        Args:
            batch: Rows of a minibatch.
            advantages: ``[rows]``, standardised with ``normalize_advantage``.

        Returns:
            A scalar, and scalars to log by name.
        """
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


def build(config: PPOConfig, task: Task) -> tuple[PPO, ExperienceSource]:
    """Build the algorithm and its source of experience, without a centralised critic."""
    model, distribution = task.new_model(config), config.acting_distribution(task.action_space).to(task.device)
    algorithm = config.derived_from(PPO)(config, model, distribution, adam(model, eps=1e-5))
    algorithm.compile_actor_critic(task, PPO)
    return algorithm, rollout_batcher(algorithm, task)
