"""Exploration of off-policy algorithms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.training.config.schedule import value_at
from warpdrive.training.config.section import Section
from warpdrive.training.config.values import FractionSchedule, NonNegativeSchedule
from warpdrive.training.models.base import Actor, observations_of
from warpdrive.training.models.continuous import DeterministicActor, SquashedActor
from warpdrive.training.models.distributions import masked
from warpdrive.training.models.q_network import QNetwork
from warpdrive.training.models.recurrent import RecurrentActor

if TYPE_CHECKING:
    from warpdrive.env_wrapper import EnvWrapper


class OrnsteinUhlenbeckConfig(Section):
    """Ornstein-Uhlenbeck noise, correlated in time; in units of half the range of an action."""

    type: Literal["ornstein_uhlenbeck"]
    std: NonNegativeSchedule = 0.2
    """Standard deviation of the increment of each step."""
    decay: FractionSchedule = 0.15
    """Fraction by which the noise decays in each step."""


class GaussianNoiseConfig(Section):
    """Gaussian noise, independent in each step; in units of half the range of an action."""

    type: Literal["gaussian"] = "gaussian"
    std: NonNegativeSchedule = 0.1
    """Standard deviation."""


NoiseConfig = Annotated[GaussianNoiseConfig | OrnsteinUhlenbeckConfig, Field(discriminator="type")]
NOISE_SECTIONS: tuple[type[Section], ...] = (GaussianNoiseConfig, OrnsteinUhlenbeckConfig)


class EpsilonGreedy(Actor):
    """Epsilon-greedy actor: explores with probability ``epsilon``, else takes the best action.

    Exploration repeats the last action with probability ``repeat``, and otherwise samples uniformly. This is temporally
    extended epsilon-greedy exploration (Dabney et al. 2021, arXiv:2006.01782), with geometrically distributed
    durations.

    Args:
        model: Action-value function.
        repeats: True if ``repeat`` may be nonzero; else exploration is ordinary epsilon-greedy.

    Attributes:
        epsilon, repeat: Scalars on the device, changed in place.
    """

    epsilon: Tensor
    repeat: Tensor

    def __init__(self, model: QNetwork, repeats: bool = False) -> None:
        super().__init__()
        self.model, self.repeats, self.state_size = model, repeats, model.state_size
        self.register_buffer("epsilon", torch.ones(()))
        self.register_buffer("repeat", torch.zeros(()))

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``; for first steps of episodes without an action mask."""
        values = self.model(observations)
        return _mixed(self.epsilon, torch.full_like(values, 1.0 / values.shape[-1]), values)

    def logits_of_two(self, choices: int) -> Tensor:
        """Return the logits ``[2]`` of the best action and of any other, without an action mask and repeats."""
        values = torch.zeros(choices).index_fill(0, torch.zeros(1, dtype=torch.long), 1.0)
        logits = _mixed(self.epsilon, torch.full_like(values, 1.0 / choices), values)
        return torch.stack([logits[0], logits[-1]])

    def act(self, env: EnvWrapper, tag: str) -> None:
        """See ``Actor``."""
        env.logits(tag).copy_(self.step_in(env, tag, self.epsilon)[0])

    def in_replicas(self, num_envs: int, num_agents: int) -> Actor:
        """See ``Actor``."""
        return RecurrentActor(self, num_envs, num_agents) if self.state_size else self

    def step_in(self, env: EnvWrapper, tag: str, state: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Actor``."""
        values, state = self.model.advance(observations_of(env, tag), state)
        mask = env.action_mask(tag)
        if mask is None:
            anything = torch.full_like(values, 1.0 / values.shape[-1])
        else:
            values = masked(values, mask)
            anything = mask / mask.sum(-1, keepdim=True).clamp(min=1)  # all actions of inactive agents may be masked
        if self.repeats:
            last = env.actions(tag).long().unsqueeze(-1)
            again = torch.zeros_like(values).scatter_(-1, last, 1.0)
            repeat = self.repeat * (env.ctx["timestep"] > 0).view(-1, 1, 1)
            if mask is not None:
                repeat = repeat * mask.gather(-1, last)  # masked actions are not repeated
            anything = anything + repeat * (again - anything)
        return _mixed(self.epsilon, anything, values), state


def _mixed(epsilon: Tensor, anything: Tensor, values: Tensor) -> Tensor:
    """Return log-probabilities of actions: ``anything`` with probability epsilon, else the best action."""
    best = torch.zeros_like(values).scatter_(-1, values.argmax(-1, keepdim=True), 1.0)
    return (epsilon * anything + (1.0 - epsilon) * best).log()


class NoisyActor(Actor):
    """Actor that adds noise to a policy's actions.

    Args:
        model: The policy.
        noise: Exploration noise, see below.

    Attributes:
        at_random: Bool scalar on the device, changed in place: if True, agents act uniformly at random instead.
    """

    at_random: Tensor

    def __init__(self, model: DeterministicActor, noise: GaussianNoise | OrnsteinUhlenbeckNoise) -> None:
        super().__init__()
        self.model, self.noise = model, noise
        self.register_buffer("at_random", torch.zeros((), dtype=torch.bool))

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``; without noise."""
        return self.model.logits(observations)

    def act(self, env: EnvWrapper, tag: str) -> None:
        """See ``Actor``."""
        means = self.model.logits(observations_of(env, tag)).chunk(2, dim=-1)[0]
        means = self.noise.sample_means(means, env, tag)
        log_std = (self.noise.std * self.model.reach).log().expand_as(means)
        env.logits(tag).copy_(_unless_at_random(self.at_random, means, log_std))


class UniformAtFirst(Actor):
    """Actor that acts uniformly at random at first, then as a policy.

    Args:
        model: The policy.

    Attributes:
        at_random: Bool scalar on the device, changed in place: if True, agents act uniformly at random.
    """

    at_random: Tensor

    def __init__(self, model: SquashedActor) -> None:
        super().__init__()
        self.model, self.action_units = model, model.action_units
        self.register_buffer("at_random", torch.zeros((), dtype=torch.bool))

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``; as the policy."""
        return self.model.logits(observations)

    def act(self, env: EnvWrapper, tag: str) -> None:
        """See ``Actor``."""
        mean, log_std = self.model.logits(observations_of(env, tag)).chunk(2, dim=-1)
        env.logits(tag).copy_(_unless_at_random(self.at_random, mean, log_std))


def _unless_at_random(at_random: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Return logits or, if ``at_random``, those of uniformly random actions, see ``sampler.sample_gaussian``."""
    return torch.cat([mean.masked_fill(at_random, 0.0), log_std.masked_fill(at_random, torch.inf)], dim=-1)


class GaussianNoise(nn.Module):
    """Gaussian noise, independent in each step.

    Args:
        config: Section of the noise.

    Attributes:
        std: Scalar on the device.
    """

    std: Tensor

    def __init__(self, config: GaussianNoiseConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("std", torch.zeros(()))

    def begin(self, env_steps: int) -> None:
        """Set the scheduled coefficients to their values at ``env_steps``."""
        self.std.fill_(value_at(self.config.std, env_steps))

    def sample_means(self, means: Tensor, env: EnvWrapper, tag: str) -> Tensor:
        """Return the means of the next samples, given those of the policy.

        Args:
            means: Means of the policy.
            env: The acting replicas.
            tag: Policy tag.

        Returns:
            Means of the same shape.
        """
        return means


class OrnsteinUhlenbeckNoise(nn.Module):
    """Ornstein-Uhlenbeck noise, reset at each episode (Lillicrap et al. 2016, arXiv:1509.02971).

    The new noise is ``(1 - decay) * noise + std * N(0, 1)``. The previous noise is the difference between the last
    sample and the policy's action then.

    Args:
        config: Section of the noise.
        shape: ``[num_envs, agents of the tag, components]``.

    Attributes:
        std, decay: Scalars on the device.
        kept: See ``Actor.kept_between_steps``.
    """

    kept = ("before",)

    std: Tensor
    decay: Tensor
    before: Tensor

    def __init__(self, config: OrnsteinUhlenbeckConfig, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("std", torch.zeros(()))
        self.register_buffer("decay", torch.zeros(()))
        self.register_buffer("before", torch.zeros(shape), persistent=False)

    def begin(self, env_steps: int) -> None:
        """Set the scheduled coefficients to their values at ``env_steps``."""
        self.std.fill_(value_at(self.config.std, env_steps))
        self.decay.fill_(value_at(self.config.decay, env_steps))

    def sample_means(self, means: Tensor, env: EnvWrapper, tag: str) -> Tensor:
        """See ``GaussianNoise``."""
        noise = env.actions(tag, drawn=True).view_as(means) - self.before
        self.before.copy_(means)
        return means + (1.0 - self.decay) * noise * (env.ctx["timestep"] > 0).view(-1, 1, 1)
