"""How policies that learn from old experience act while they learn."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.observations import Observations
from warpdrive.training.models.action_values import ActionValues
from warpdrive.training.models.base import Actor, observations_of
from warpdrive.training.models.continuous import DeterministicActor, SquashedActor
from warpdrive.training.models.distributions import masked
from warpdrive.training.schedule import value_at
from warpdrive.training.sections import GaussianNoiseConfig, OrnsteinUhlenbeckConfig


class EpsilonGreedy(Actor):
    """Explores with probability ``epsilon``, else takes the best choice.

    To explore is to repeat the last choice with probability ``repeat``, and to choose uniformly at random otherwise: a
    way of going on in one direction for a while, as in temporally extended epsilon-greedy exploration (Dabney et al.
    2021, arXiv:2006.01782), where the durations are geometrically distributed.

    Args:
        model: estimates the value of each choice.
        repeats: whether ``repeat`` is anything but 0, which is ordinary epsilon-greedy exploration.

    Attributes:
        epsilon, repeat: scalars on the device, to be changed in place.
    """

    epsilon: Tensor
    repeat: Tensor

    def __init__(self, model: ActionValues, repeats: bool = False) -> None:
        super().__init__()
        self.model, self.repeats = model, repeats
        self.register_buffer("epsilon", torch.ones(()))
        self.register_buffer("repeat", torch.zeros(()))

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``; as if episodes began here and everything were allowed."""
        values = self.model(observations)
        return _mixed(self.epsilon, torch.full_like(values, 1.0 / values.shape[-1]), values)

    def act(self, env: EnvWrapper, tag: str) -> None:
        """See ``Actor``."""
        values, mask = self.model(observations_of(env, tag)), env.action_mask(tag)
        if mask is None:
            anything = torch.full_like(values, 1.0 / values.shape[-1])
        else:
            values = masked(values, mask)
            anything = mask / mask.sum(-1, keepdim=True).clamp(min=1)  # agents out of the episode may do nothing
        if self.repeats:
            last = env.actions(tag).long().unsqueeze(-1)
            again = torch.zeros_like(values).scatter_(-1, last, 1.0)
            repeat = self.repeat * (env.ctx["timestep"] > 0).view(-1, 1, 1)
            if mask is not None:
                repeat = repeat * mask.gather(-1, last)  # what is forbidden now is not repeated
            anything = anything + repeat * (again - anything)
        env.logits(tag).copy_(_mixed(self.epsilon, anything, values))


def _mixed(epsilon: Tensor, anything: Tensor, values: Tensor) -> Tensor:
    """Logarithms of the probabilities of choices: ``anything`` with probability epsilon, else the best one."""
    best = torch.zeros_like(values).scatter_(-1, values.argmax(-1, keepdim=True), 1.0)
    return (epsilon * anything + (1.0 - epsilon) * best).log()


class NoisyActor(Actor):
    """Does what a policy would do, and noise.

    Args:
        model: the policy.
        noise: see below.

    Attributes:
        at_random: a scalar on the device: whether agents act uniformly at random instead; to be changed in place.
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
        means = self.noise.around(means, env, tag)
        log_std = (self.noise.std * self.model.reach).log().expand_as(means)
        env.logits(tag).copy_(_unless_at_random(self.at_random, means, log_std))


class UniformAtFirst(Actor):
    """Acts as a policy, and uniformly at random before.

    Args:
        model: the policy.

    Attributes:
        at_random: a scalar on the device: whether agents act uniformly at random; to be changed in place.
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
    """Logits or, where ``at_random``, what stands for uniformly random actions, see ``sampler.sample_gaussian``."""
    return torch.cat([mean.masked_fill(at_random, 0.0), log_std.masked_fill(at_random, torch.inf)], dim=-1)


class GaussianNoise(nn.Module):
    """Independent in each step.

    Args:
        config: of the noise.

    Attributes:
        std: a scalar on the device.
    """

    std: Tensor

    def __init__(self, config: GaussianNoiseConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("std", torch.zeros(()))

    def begin(self, env_steps: int) -> None:
        """Let what follows a schedule become what it is at ``env_steps``."""
        self.std.fill_(value_at(self.config.std, env_steps))

    def around(self, means: Tensor, env: EnvWrapper, tag: str) -> Tensor:
        """The means of what is drawn next, given those of the policy."""
        return means


class OrnsteinUhlenbeckNoise(nn.Module):
    """Decays from step to step, and begins anew with each episode (Lillicrap et al. 2016, arXiv:1509.02971).

    The new noise is ``(1 - decay) * noise + std * N(0, 1)``. The noise that there was is the difference between what
    was drawn last and the policy's action then.

    Args:
        config: of the noise.
        shape: ``[num_envs, agents of the tag, components]``.

    Attributes:
        std, decay: scalars on the device.
        kept: see ``Actor.kept_between_steps``.
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
        """Let what follows a schedule become what it is at ``env_steps``."""
        self.std.fill_(value_at(self.config.std, env_steps))
        self.decay.fill_(value_at(self.config.decay, env_steps))

    def around(self, means: Tensor, env: EnvWrapper, tag: str) -> Tensor:
        """The means of what is drawn next, given those of the policy."""
        noise = env.actions(tag, drawn=True).view_as(means) - self.before
        self.before.copy_(means)
        return means + (1.0 - self.decay) * noise * (env.ctx["timestep"] > 0).view(-1, 1, 1)
