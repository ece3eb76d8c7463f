"""Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971).

A critic estimates action values, and the policy ascends them.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from warpdrive.training.algorithms.deterministic import DeterministicConfig, DeterministicPolicyGradient, new_actor
from warpdrive.training.algorithms.off_policy import replay_buffer
from warpdrive.training.algorithms.task import Task, adam
from warpdrive.training.experience.replay_buffer import ReplayBuffer
from warpdrive.training.experience.transitions import Transitions


class DDPGConfig(DeterministicConfig):
    """Deep deterministic policy gradient."""

    algorithm: Literal["ddpg"] = "ddpg"


class DDPG(DeterministicPolicyGradient[DDPGConfig]):
    """DDPG for a policy and its critic. See ``DeterministicPolicyGradient``."""

    def step(self, batch: Transitions, generator: torch.Generator) -> dict[str, Tensor]:
        """See ``OffPolicy``."""
        return self.take_gradient_step(batch)

    def gradient_step(self, batch: Transitions) -> dict[str, Tensor]:
        """See ``Algorithm``."""
        loss, terms = self.critic_loss(batch)
        metrics = self.optimizer_step(loss, terms, self.critic_optimizer, self.critic, self.config.max_grad_norm)
        metrics["policy_loss"] = self.improve_policy(batch)
        return metrics

    def critic_loss(self, batch: Transitions) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean squared temporal difference (equation 4 of the paper), and terms without gradient."""
        with torch.no_grad():
            next_actions = self.target_model(batch.next_observations)
            later = self.target_critic(batch.next_observations, next_actions)[0]
            target = batch.target(self.config.gamma, later)
        value = self.critic(batch.observations, self.model.done(batch.actions))[0]
        loss = batch.masked_mean((value - target).square())
        return loss, {"value_loss": loss.detach(), "q_values": batch.masked_mean(value.detach())}


def build(config: DDPGConfig, task: Task) -> tuple[DDPG, ReplayBuffer]:
    """Build the algorithm and its source of experience."""
    model = task.new_model(config)
    critic = config.new_critic(model, task, count=1)
    actor = new_actor(config, model, task)
    algorithm = DDPG(config, model, critic, actor, adam(model), adam(critic))
    algorithm.compile_steps(task)
    return algorithm, replay_buffer(algorithm, task)
