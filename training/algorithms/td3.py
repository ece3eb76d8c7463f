"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477).

DDPG with the minimum of two critics, smoothed target actions, and delayed policy updates.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from warpdrive.training.algorithms.base import EveryN, Stateful
from warpdrive.training.algorithms.deterministic import DeterministicConfig, DeterministicPolicyGradient, new_actor
from warpdrive.training.algorithms.off_policy import replay_buffer
from warpdrive.training.algorithms.task import Task, adam
from warpdrive.training.config.values import Count, NonNegativeSchedule
from warpdrive.training.experience.replay_buffer import ReplayBuffer
from warpdrive.training.experience.transitions import Transitions
from warpdrive.training.models.continuous import Critic, DeterministicActor
from warpdrive.training.rollout.exploration import NoisyActor


class TD3Config(DeterministicConfig):
    """Twin delayed deep deterministic policy gradient."""

    algorithm: Literal["td3"] = "td3"
    policy_delay: Count = 2
    """Critic gradient steps per update of the policy and the target networks."""
    target_noise: NonNegativeSchedule = 0.2
    """Standard deviation of the noise added to the target policy's actions, in units of half their range."""
    target_noise_clip: NonNegativeSchedule = 0.5
    """Clipping range of the noise of the target policy, in the same units."""


class TD3(DeterministicPolicyGradient[TD3Config]):
    """TD3 for a policy and its critics. See ``DeterministicPolicyGradient``."""

    num_samples = 1

    def __init__(
        self,
        config: TD3Config,
        model: DeterministicActor,
        critic: Critic,
        actor: NoisyActor,
        policy_optimizer: torch.optim.Optimizer,
        critic_optimizer: torch.optim.Optimizer,
    ) -> None:
        super().__init__(config, model, critic, actor, policy_optimizer, critic_optimizer)
        self._policy_is_due = EveryN(config.policy_delay)

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``."""
        return {**super().parts(), "policy_is_due": self._policy_is_due}

    @property
    def coefficients(self) -> dict[str, float]:
        """See ``DeterministicPolicyGradient``."""
        noise = {"target_noise": self.config.target_noise, "target_noise_clip": self.config.target_noise_clip}
        return {**super().coefficients, **noise}

    def policy_is_due(self) -> bool:
        """See ``DeterministicPolicyGradient``."""
        return self._policy_is_due()

    def step(self, batch: Transitions, generator: torch.Generator) -> dict[str, Tensor]:
        """See ``OffPolicy``."""
        noise = batch.noise(1, self.model.components, generator)[0]  # the loss is a function of its arguments
        return self.take_gradient_step(batch, noise, self.policy_is_due())

    def gradient_step(self, batch: Transitions, noise: Tensor, policy_is_due: bool) -> dict[str, Tensor]:
        """See ``Algorithm``: a step of the critics and, if it is due, of the policy.

        Args:
            batch: Transitions.
            noise: ``[rows, components]``, standard normal.
            policy_is_due: True if the policy takes a step as well.

        Returns:
            Metrics.
        """
        loss, terms = self.critic_loss(batch, noise)
        metrics = self.optimizer_step(loss, terms, self.critic_optimizer, self.critic, self.config.max_grad_norm)
        if policy_is_due:
            metrics["policy_loss"] = self.improve_policy(batch)
        return metrics

    def critic_loss(self, batch: Transitions, noise: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean squared temporal differences of both critics, summed (algorithm 1 of the paper), and terms.

        Args:
            batch: Transitions.
            noise: ``[rows, components]``, standard normal.
        """
        with torch.no_grad():
            limit = self.config.target_noise_clip
            smoothing = (self.config.target_noise * noise).clamp(-limit, limit)
            next_actions = (self.target_model(batch.next_observations) + smoothing).clamp(-1.0, 1.0)
            later = self.target_critic(batch.next_observations, next_actions).amin(0)
            target = batch.target(self.config.gamma, later)
        values = self.critic(batch.observations, self.model.done(batch.actions))
        loss = batch.masked_mean((values - target).square().sum(0))
        return loss, {"value_loss": loss.detach(), "q_values": batch.masked_mean(values.detach().mean(0))}


def build(config: TD3Config, task: Task) -> tuple[TD3, ReplayBuffer]:
    """Build the algorithm and its source of experience."""
    model = task.new_model(config)
    critic = config.new_critic(model, task, count=2)
    actor = new_actor(config, model, task)
    algorithm = TD3(config, model, critic, actor, adam(model), adam(critic))
    algorithm.compile_steps(task, smoothed=True)
    return algorithm, replay_buffer(algorithm, task)
