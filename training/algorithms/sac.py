"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905).

It maximises entropy along with the return, using the minimum of two critics. The temperature, which weighs the entropy,
is learned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.training.algorithms.base import Stateful
from warpdrive.training.algorithms.common import frozen, soft_update, target_network
from warpdrive.training.algorithms.off_policy import ContinuousConfig, ContinuousControl, replay_buffer
from warpdrive.training.algorithms.task import Task, adam
from warpdrive.training.config.values import OptionalSchedule, Positive
from warpdrive.training.experience.replay_buffer import ReplayBuffer
from warpdrive.training.experience.transitions import Transitions
from warpdrive.training.models.continuous import Critic, SquashedActor
from warpdrive.training.models.distributions import Distribution, distribution_of, log_prob_of_tanh
from warpdrive.training.rollout.exploration import UniformAtFirst

if TYPE_CHECKING:
    from warpdrive.training.compiled.off_policy import CompiledActorCritic


class SACConfig(ContinuousConfig):
    """Soft actor-critic with a learned temperature."""

    algorithm: Literal["sac"] = "sac"
    initial_temperature: Positive = 1.0
    """Initial temperature, the weight of the entropy relative to rewards."""
    target_entropy: OptionalSchedule = None
    """Target entropy in nats of actions in [-1, 1]; None: minus the number of action components."""

    def acting_distribution(self, action_space: Space[Any]) -> Distribution:
        """See ``LearningConfig``."""
        return distribution_of(action_space, squash=True)

    def build_model(self, observation_space: Space[Any], action_space: Space[Any]) -> Any:
        """See ``LearningConfig``."""
        assert isinstance(action_space, spaces.Box), "the configuration is checked for this"
        return SquashedActor(observation_space, action_space, self.model)


class Temperature(nn.Module):
    """Temperature of the entropy bonus per nat, stored as its logarithm.

    Args:
        initial: Initial temperature.
    """

    def __init__(self, initial: float) -> None:
        super().__init__()
        self.logarithm = nn.Parameter(torch.tensor(math.log(initial)))

    @property
    def value(self) -> Tensor:
        """Temperature, a positive scalar."""
        return self.logarithm.exp()


class SAC(ContinuousControl[SACConfig]):
    """SAC for a policy, its critics and the temperature.

    Args:
        config: Section of the policy in the run configuration.
        model: The policy.
        critics: Action-value function with two estimates.
        temperature: Temperature of the policy.
        policy_optimizer, critic_optimizer, temperature_optimizer: Optimizers of these.
    """

    model: SquashedActor
    actor: UniformAtFirst
    num_samples = 2

    def __init__(
        self,
        config: SACConfig,
        model: SquashedActor,
        critics: Critic,
        temperature: Temperature,
        policy_optimizer: torch.optim.Optimizer,
        critic_optimizer: torch.optim.Optimizer,
        temperature_optimizer: torch.optim.Optimizer,
    ) -> None:
        super().__init__(config)
        self.model, self.critics, self.temperature = model, critics, temperature
        self.policy_optimizer, self.critic_optimizer = policy_optimizer, critic_optimizer
        self.temperature_optimizer = temperature_optimizer
        self.actor = UniformAtFirst(model).to(next(model.parameters()).device)
        self.target_critics = target_network(critics)

    def parts(self) -> dict[str, Stateful]:
        """See ``Algorithm``."""
        return {
            "critics": self.critics,
            "target_critics": self.target_critics,
            "temperature": self.temperature,
            "policy_optimizer": self.policy_optimizer,
            "critic_optimizer": self.critic_optimizer,
            "temperature_optimizer": self.temperature_optimizer,
        }

    def begin(self, env_steps: int) -> None:
        """See ``Algorithm``."""
        super().begin(env_steps)
        self.actor.at_random.fill_(env_steps < self.config.learning_starts)

    def step(self, batch: Transitions, generator: torch.Generator) -> dict[str, Tensor]:
        """See ``OffPolicy``."""
        return self.take_gradient_step(batch, batch.noise(2, self.model.components, generator))

    def gradient_step(self, batch: Transitions, noises: Tensor) -> dict[str, Tensor]:
        """See ``Algorithm``; ``noises [2, rows, components]`` are standard normal."""
        next_noise, noise = noises
        limit = self.config.max_grad_norm
        loss, terms = self.critic_loss(batch, next_noise)
        of_critics = self.optimizer_step(loss, terms, self.critic_optimizer, self.critics, limit)
        with frozen(self.critics):
            loss, terms = self.policy_loss(batch, noise)
            of_policy = self.optimizer_step(loss, terms, self.policy_optimizer, self.model, limit)
        loss = self.temperature_loss(of_policy["entropy"]).expand(len(batch))  # one scalar for all rows
        self.optimizer_step(batch.masked_mean(loss), {}, self.temperature_optimizer, self.temperature)
        soft_update(self.target_critics, self.critics, self.config.tau)
        temperature = self.temperature.value.detach()
        return {**of_critics, **of_policy, "grad_norm": of_critics["grad_norm"], "temperature": temperature}

    def critic_loss(self, batch: Transitions, noise: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return half the mean squared soft temporal difference (equations 5 and 6) of both critics, and its terms.

        Args:
            batch: Transitions.
            noise: ``[rows, components]``, standard normal: noise of the next actions.
        """
        with torch.no_grad():
            next_actions, log_prob = self._drawn(batch.next_observations, noise)
            later = (
                self.target_critics(batch.next_observations, next_actions).amin(0) - self.temperature.value * log_prob
            )
            target = batch.target(self.config.gamma, later)
        values = self.critics(batch.observations, self.model.done(batch.actions))
        loss = 0.5 * batch.masked_mean((values - target).square().sum(0))
        return loss, {"value_loss": loss.detach(), "q_values": batch.masked_mean(values.detach().mean(0))}

    def policy_loss(self, batch: Transitions, noise: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean of temperature * log-probability - value over sampled actions (equation 9), and its terms.

        Args:
            batch: Transitions.
            noise: ``[rows, components]``, standard normal: noise of the actions.
        """
        actions, log_prob = self._drawn(batch.observations, noise)
        value = self.critics(batch.observations, actions).amin(0)
        loss = batch.masked_mean(self.temperature.value.detach() * log_prob - value)
        return loss, {"policy_loss": loss.detach(), "entropy": -batch.masked_mean(log_prob.detach())}

    def temperature_loss(self, entropy: Tensor) -> Tensor:
        """Return the loss of the temperature: it falls if the entropy is above its target (equation 18)."""
        return self.temperature.value * (entropy - self.target_entropy)

    @property
    def target_entropy(self) -> float:
        """Target entropy in nats."""
        wanted = self.config.target_entropy
        return -self.model.components if wanted is None else wanted

    def compile_steps(self, task: Task) -> None:
        """Compile gradient steps to native code, if supported."""
        from warpdrive.training.compiled.off_policy import CompiledActorCritic  # loads LLVM

        networks = self.model, self.critics, None, self.target_critics
        optimizers = self.policy_optimizer, self.critic_optimizer, self.temperature_optimizer
        self.compile_update(task, lambda: CompiledActorCritic(*networks, *optimizers))

    def native_steps(self, batch: Transitions, noise: Tensor, parts: Sequence[Tensor]) -> dict[str, Tensor]:
        """See ``ContinuousControl``."""
        config, update = self.config, cast("CompiledActorCritic", self.compiled)
        coefficients = {"max_grad_norm": config.max_grad_norm, "target_entropy": self.target_entropy}
        return update.steps(batch, noise, parts, config.gamma, config.tau, coefficients)

    def _drawn(self, observations: Observations, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Sample actions from -1 to 1, ``[rows, components]``, and log-probabilities ``[rows]``, with gradient."""
        mean, log_std = self.model.logits(observations).chunk(2, dim=-1)
        drawn = mean + log_std.exp() * noise
        return drawn.tanh(), log_prob_of_tanh(drawn, mean, log_std)


def build(config: SACConfig, task: Task) -> tuple[SAC, ReplayBuffer]:
    """Build the algorithm and its source of experience."""
    model = task.new_model(config)
    critics = config.new_critic(model, task, count=2)
    temperature = Temperature(config.initial_temperature).to(task.device)
    algorithm = SAC(config, model, critics, temperature, adam(model), adam(critics), adam(temperature))
    algorithm.compile_steps(task)
    return algorithm, replay_buffer(algorithm, task)
