"""Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971): a critic that estimates the value of
actions, and a policy that climbs it.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from warpdrive.training.algorithms.base import Algorithm, Stateful
from warpdrive.training.algorithms.common import follow, frozen, means
from warpdrive.training.exploration import NoisyActor
from warpdrive.training.models.continuous import Critic, DeterministicActor
from warpdrive.training.replay_buffer import ReplayBuffer, Transitions
from warpdrive.training.sections import DDPGConfig


class DDPG(Algorithm[ReplayBuffer]):
    """Trains a policy and its critic.

    Args:
        config: the policy's section of the run configuration.
        model: the policy.
        critic: one estimate of the value of an action.
        actor: the policy with noise.
        policy_optimizer, critic_optimizer: hold the parameters of the policy and of the critic.
    """

    model: DeterministicActor
    actor: NoisyActor

    def __init__(
        self,
        config: DDPGConfig,
        model: DeterministicActor,
        critic: Critic,
        actor: NoisyActor,
        policy_optimizer: torch.optim.Optimizer,
        critic_optimizer: torch.optim.Optimizer,
    ) -> None:
        self.config, self.model, self.critic, self.actor = config, model, critic, actor
        self.policy_optimizer, self.critic_optimizer = policy_optimizer, critic_optimizer
        self.target_model = copy.deepcopy(model).requires_grad_(False)
        self.target_critic = copy.deepcopy(critic).requires_grad_(False)

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``."""
        return {
            "critic": self.critic,
            "target_model": self.target_model,
            "target_critic": self.target_critic,
            "policy_optimizer": self.policy_optimizer,
            "critic_optimizer": self.critic_optimizer,
            "noise": self.actor.noise,
        }

    def begin(self, env_steps: int) -> None:
        """See ``Algorithm``."""
        self.actor.at_random.fill_(env_steps < self.config.learning_starts)

    def update(self, experience: ReplayBuffer, generator: torch.Generator) -> dict[str, Tensor]:
        """Take gradient steps on transitions drawn with ``generator``, once there are enough.

        Returns scalars on the device: means over the gradient steps.
        """
        if experience.env_steps < self.config.learning_starts:
            return {}
        return means([self._step(experience, generator) for _ in range(self.config.gradient_steps)])

    def _step(self, experience: ReplayBuffer, generator: torch.Generator) -> dict[str, Tensor]:
        batch = experience.sample(self.config.batch_size, generator)
        critic_loss, metrics = self.critic_loss(batch)
        limit = self.config.max_grad_norm
        metrics["grad_norm"] = self.descend(critic_loss, self.critic_optimizer, self.critic, limit)
        with frozen(self.critic):
            policy_loss = self.policy_loss(batch)
            self.descend(policy_loss, self.policy_optimizer, self.model, limit)
        follow(self.target_critic, self.critic, self.config.tau)
        follow(self.target_model, self.model, self.config.tau)
        return {**metrics, "policy_loss": policy_loss.detach()}

    def critic_loss(self, batch: Transitions) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean squared temporal difference (equation 5 of the paper), and terms without gradient."""
        with torch.no_grad():
            next_actions = self.target_model(batch.next_observations)
            later = self.target_critic(batch.next_observations, next_actions)[0]
            target = batch.rewards + self.config.gamma * later * ~batch.terminal
        value = self.critic(batch.observations, self.model.done(batch.actions))[0]
        loss = batch.mean((value - target).square())
        return loss, {"value_loss": loss.detach(), "q_values": batch.mean(value.detach())}

    def policy_loss(self, batch: Transitions) -> Tensor:
        """Minus the value of what the policy would do (its gradient is equation 6 of the paper, negated)."""
        return -batch.mean(self.critic(batch.observations, self.model(batch.observations))[0])
