"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477): DDPG with two critics, of
which the lower counts, targets that are smoothed by noise, and a policy that moves less often than they do.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from warpdrive.training.algorithms.base import Algorithm, Every, Stateful
from warpdrive.training.algorithms.common import follow, frozen, means
from warpdrive.training.exploration import NoisyActor
from warpdrive.training.models.continuous import Critic, DeterministicActor
from warpdrive.training.replay_buffer import ReplayBuffer, Transitions
from warpdrive.training.sections import TD3Config


class TD3(Algorithm[ReplayBuffer]):
    """Trains a policy and its critics.

    Args:
        config: the policy's section of the run configuration.
        model: the policy.
        critics: two estimates of the value of an action.
        actor: the policy with noise.
        policy_optimizer, critic_optimizer: hold the parameters of the policy and of the critics.
    """

    model: DeterministicActor
    actor: NoisyActor

    def __init__(
        self,
        config: TD3Config,
        model: DeterministicActor,
        critics: Critic,
        actor: NoisyActor,
        policy_optimizer: torch.optim.Optimizer,
        critic_optimizer: torch.optim.Optimizer,
    ) -> None:
        self.config, self.model, self.critics, self.actor = config, model, critics, actor
        self.policy_optimizer, self.critic_optimizer = policy_optimizer, critic_optimizer
        self.target_model = copy.deepcopy(model).requires_grad_(False)
        self.target_critics = copy.deepcopy(critics).requires_grad_(False)
        self._policy_is_due = Every(config.policy_delay)

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``."""
        return {
            "critics": self.critics,
            "target_model": self.target_model,
            "target_critics": self.target_critics,
            "policy_optimizer": self.policy_optimizer,
            "critic_optimizer": self.critic_optimizer,
            "policy_is_due": self._policy_is_due,
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
        history, policy_history = [], []
        for _ in range(self.config.gradient_steps):
            batch = experience.sample(self.config.batch_size, generator)
            history.append(self._train_critics(batch, generator))
            if self._policy_is_due():
                policy_history.append({"policy_loss": self._train_policy(batch)})
        return {**means(history), **means(policy_history)}

    def _train_critics(self, batch: Transitions, generator: torch.Generator) -> dict[str, Tensor]:
        noise = torch.randn(
            len(batch), self.model.components, generator=generator, device=batch.rewards.device
        )  # drawn apart from the loss, which is a function of its arguments
        loss, metrics = self.critic_loss(batch, noise)
        metrics["grad_norm"] = self.descend(loss, self.critic_optimizer, self.critics, self.config.max_grad_norm)
        return metrics

    def _train_policy(self, batch: Transitions) -> Tensor:
        with frozen(self.critics):
            loss = self.policy_loss(batch)
            self.descend(loss, self.policy_optimizer, self.model, self.config.max_grad_norm)
        follow(self.target_critics, self.critics, self.config.tau)
        follow(self.target_model, self.model, self.config.tau)
        return loss.detach()

    def critic_loss(self, batch: Transitions, noise: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Sum over both critics of the mean squared temporal difference (algorithm 1 of the paper), and terms of it.

        Args:
            batch: transitions.
            noise: ``[rows, components]``, standard normal.
        """
        with torch.no_grad():
            limit = self.config.target_noise_clip
            smoothing = (self.config.target_noise * noise).clamp(-limit, limit)
            next_actions = (self.target_model(batch.next_observations) + smoothing).clamp(-1.0, 1.0)
            later = self.target_critics(batch.next_observations, next_actions).amin(0)
            target = batch.rewards + self.config.gamma * later * ~batch.terminal
        values = self.critics(batch.observations, self.model.done(batch.actions))
        loss = batch.mean((values - target).square().sum(0))
        return loss, {"value_loss": loss.detach(), "q_values": batch.mean(values.detach().mean(0))}

    def policy_loss(self, batch: Transitions) -> Tensor:
        """Minus the value, to the first critic, of what the policy would do."""
        return -batch.mean(self.critics(batch.observations, self.model(batch.observations))[0])
