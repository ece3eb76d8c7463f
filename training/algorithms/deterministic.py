"""Base class of DDPG and TD3: deterministic policies with target networks for the policy and the critic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, cast

import torch
from torch import Tensor

from warpdrive.training.algorithms.base import Stateful
from warpdrive.training.algorithms.common import frozen, soft_update, target_network
from warpdrive.training.algorithms.off_policy import ContinuousConfig, ContinuousControl
from warpdrive.training.algorithms.task import Task
from warpdrive.training.experience.transitions import Transitions
from warpdrive.training.models.continuous import Critic, DeterministicActor
from warpdrive.training.rollout.exploration import (
    GaussianNoise,
    GaussianNoiseConfig,
    NoiseConfig,
    NoisyActor,
    OrnsteinUhlenbeckConfig,
    OrnsteinUhlenbeckNoise,
)

if TYPE_CHECKING:
    from warpdrive.training.compiled.off_policy import CompiledActorCritic


class DeterministicConfig(ContinuousConfig):
    """Keys of the algorithms with a deterministic policy."""

    noise: NoiseConfig = GaussianNoiseConfig()
    """Exploration noise added to actions in training."""


Config = TypeVar("Config", bound=DeterministicConfig)


class DeterministicPolicyGradient(ContinuousControl[Config]):
    """Deterministic policy gradient for a policy and its critic.

    Args:
        config: Section of the policy in the run configuration.
        model: The policy.
        critic: Action-value function with one or two estimates.
        actor: The policy with exploration noise.
        policy_optimizer, critic_optimizer: Optimizers of the policy and of the critic.
    """

    model: DeterministicActor
    actor: NoisyActor

    def __init__(
        self,
        config: Config,
        model: DeterministicActor,
        critic: Critic,
        actor: NoisyActor,
        policy_optimizer: torch.optim.Optimizer,
        critic_optimizer: torch.optim.Optimizer,
    ) -> None:
        super().__init__(config)
        self.model, self.critic, self.actor = model, critic, actor
        self.policy_optimizer, self.critic_optimizer = policy_optimizer, critic_optimizer
        self.target_model = target_network(model)
        self.target_critic = target_network(critic)

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``."""
        return {
            "critic": self.critic,
            "target_model": self.target_model,
            "target_critic": self.target_critic,
            "policy_optimizer": self.policy_optimizer,
            "critic_optimizer": self.critic_optimizer,
        }

    def begin(self, env_steps: int) -> None:
        """See ``Algorithm``."""
        super().begin(env_steps)
        self.actor.noise.begin(env_steps)
        self.actor.at_random.fill_(env_steps < self.config.learning_starts)

    def compile_steps(self, task: Task, smoothed: bool = False) -> None:
        """Compile gradient steps to native code, if supported.

        Args:
            task: Policy to train.
            smoothed: If True, the actions of the target policy are smoothed by noise.
        """
        from warpdrive.training.compiled.off_policy import CompiledActorCritic  # loads LLVM

        trained, targets = (self.model, self.critic), (self.target_model, self.target_critic)
        optimizers = self.policy_optimizer, self.critic_optimizer
        build = lambda: CompiledActorCritic(*trained, *targets, *optimizers, smoothed=smoothed)  # noqa: E731
        self.compile_update(task, build)

    def native_steps(self, batch: Transitions, noise: Tensor, parts: Sequence[Tensor]) -> dict[str, Tensor]:
        """See ``ContinuousControl``."""
        config, update = self.config, cast("CompiledActorCritic", self.compiled)
        return update.steps(batch, noise, parts, config.gamma, config.tau, self.coefficients, self.policy_is_due)

    @property
    def coefficients(self) -> dict[str, float]:
        """Coefficients of the losses as native code."""
        return {"max_grad_norm": self.config.max_grad_norm}

    def policy_is_due(self) -> bool:
        """Return True if an update of the policy and the target networks follows the current critic step."""
        return True

    def improve_policy(self, batch: Transitions) -> Tensor:
        """Take an optimizer step of the policy, and update the target networks. Returns the detached policy loss."""
        with frozen(self.critic):
            loss = self.policy_loss(batch)
            terms = {"policy_loss": loss.detach()}
            metrics = self.optimizer_step(loss, terms, self.policy_optimizer, self.model, self.config.max_grad_norm)
        soft_update(self.target_critic, self.critic, self.config.tau)
        soft_update(self.target_model, self.model, self.config.tau)
        return metrics["policy_loss"]

    def policy_loss(self, batch: Transitions) -> Tensor:
        """Return the negative value, by the first estimate, of the policy's actions.

        Its gradient is equation 6 of Lillicrap et al. 2016, arXiv:1509.02971, negated.
        """
        return -batch.masked_mean(self.critic(batch.observations, self.model(batch.observations))[0])


def new_actor(config: DeterministicConfig, model: DeterministicActor, task: Task) -> NoisyActor:
    """Return the policy with the exploration noise of ``config``.

    Args:
        config: Section of the policy.
        model: The policy without noise.
        task: Policy to train.

    Returns:
        The actor of training rollouts, on the device of the task.
    """
    noise: GaussianNoise | OrnsteinUhlenbeckNoise
    if isinstance(config.noise, OrnsteinUhlenbeckConfig):
        shape = (task.num_envs, len(task.agent_ids), model.components)
        noise = OrnsteinUhlenbeckNoise(config.noise, shape)
    else:
        noise = GaussianNoise(config.noise)
    return NoisyActor(model, noise).to(task.device)
