"""Models for actions in a bounded Box: policies and separate critics. Actions are scaled to [-1, 1]."""

from __future__ import annotations

import math
from typing import Any

import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.training.models.base import Actor, Units
from warpdrive.training.models.convolutions import features_of
from warpdrive.training.models.distributions import BoxUnits
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.options import PerceptronConfig
from warpdrive.training.models.perceptron import perceptron
from warpdrive.training.models.two_headed import MAX_LOG_STD, MIN_LOG_STD

_NO_NOISE = -20.0  # log of a negligible standard deviation


class DeterministicActor(Actor):
    """Deterministic policy: one action for each observation.

    Args:
        observation_space: Observation space of one agent; observations are flattened.
        action_space: Bounded action space of one agent.
        options: Section of the model in the run configuration.

    Attributes:
        components: Number of components of an action.
        centre, reach: ``[components]``: an action in the Box is ``centre + reach * action``.
    """

    centre: Tensor
    reach: Tensor

    def __init__(self, observation_space: Space[Any], action_space: spaces.Box, options: PerceptronConfig) -> None:
        super().__init__()
        box = BoxUnits(action_space)
        self.register_buffer("centre", box.centre, persistent=False)
        self.register_buffer("reach", box.reach, persistent=False)
        self.components = len(box.reach)
        self.flatten = Flatten(observation_space, options.scale_observations, options.normalize_observations)
        self.features, size = features_of(observation_space, self.flatten.size, options)
        self.policy = perceptron([size, *options.hidden, self.components], options, last_gain=0.01)

    def forward(self, observations: Observations) -> Tensor:
        """Return actions ``[..., components]`` float32 from -1 to 1 for ``[..., *observation_shape]`` of any dtype."""
        outputs: Tensor = self.policy(self.features(self.flatten(observations)))
        return outputs.tanh()

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``."""
        means = self.centre + self.reach * self.forward(observations)
        return torch.cat([means, torch.full_like(means, _NO_NOISE)], dim=-1)

    def done(self, drawn: Tensor) -> Tensor:
        """Return actions ``[rows, components]`` from -1 to 1 as the environment received them: samples are clipped."""
        return ((drawn.flatten(1) - self.centre) / self.reach).clamp(-1.0, 1.0)


class SquashedActor(Actor):
    """Policy of normal components whose hyperbolic tangents are the action, see ``distributions.SquashedGaussian``.

    Args: see ``DeterministicActor``.
    """

    action_units: Units = "squashed"

    def __init__(self, observation_space: Space[Any], action_space: spaces.Box, options: PerceptronConfig) -> None:
        super().__init__()
        self.components = math.prod(action_space.shape)
        self.flatten = Flatten(observation_space, options.scale_observations, options.normalize_observations)
        self.features, size = features_of(observation_space, self.flatten.size, options)
        self.policy = perceptron([size, *options.hidden, 2 * self.components], options, last_gain=0.01)

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``."""
        mean, log_std = self.policy(self.features(self.flatten(observations))).chunk(2, dim=-1)
        return torch.cat([mean, log_std.clamp(MIN_LOG_STD, MAX_LOG_STD)], dim=-1)

    def done(self, drawn: Tensor) -> Tensor:
        """Return actions ``[rows, components]`` from -1 to 1 as the environment received them: samples are squashed."""
        return drawn.flatten(1).tanh()


class Critic(nn.Module):
    """Action-value function: one or several perceptrons.

    Args:
        flatten: That of the policy, so that both share the running statistics of observations.
        space: Observation space of one agent.
        components: Number of components of an action.
        options: Section of the model in the run configuration; convolutions are shared by all estimates.
        count: Number of estimates, each by a separate perceptron.
    """

    def __init__(
        self, flatten: Flatten, space: Space[Any], components: int, options: PerceptronConfig, count: int = 1
    ) -> None:
        super().__init__()
        self.flatten = flatten
        self.features, size = features_of(space, flatten.size, options)
        sizes = [size + components, *options.hidden, 1]
        self.values = nn.ModuleList(perceptron(sizes, options, last_gain=1.0) for _ in range(count))

    def forward(self, observations: Observations, actions: Tensor) -> Tensor:
        """Return the values ``[count, rows]`` float32 of actions.

        Args:
            observations: ``[rows, *observation_shape]``.
            actions: ``[rows, components]`` from -1 to 1.
        """
        inputs = torch.cat([self.features(self.flatten(observations)), actions], dim=-1)
        return torch.stack([value(inputs).squeeze(-1) for value in self.values])
