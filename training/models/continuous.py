"""Models for actions in a bounded Box: policies and separate critics. Actions are scaled to [-1, 1]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import Space, spaces
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.training.models.base import Actor, Units
from warpdrive.training.models.convolutions import Convolutions, features_of
from warpdrive.training.models.distributions import BoxUnits
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.perceptron import Initialization, perceptron
from warpdrive.training.models.two_headed import LEAST_LOG_STD, MOST_LOG_STD

_NO_NOISE = -20.0  # log of a negligible standard deviation


class DeterministicActor(Actor):
    """Deterministic policy: one action for each observation.

    Args:
        observation_space: observation space of one agent; observations are flattened.
        action_space: bounded action space of one agent.
        hidden: width of each hidden layer.
        activation: ``"tanh"`` or ``"relu"``.
        scale_observations: If True, elements that the observation space bounds are first scaled to [-1, 1].
        normalize_observations: If True, elements are then standardised by their running mean and variance.
        initialization: initialization of the weights, see ``perceptron.initialise``.
        convolutions: convolutions before the perceptron, for images.

    Attributes:
        components: number of components of an action.
        centre, reach: ``[components]``: an action in the Box is ``centre + reach * action``.
    """

    centre: Tensor
    reach: Tensor

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: spaces.Box,
        hidden: Sequence[int],
        activation: str,
        scale_observations: bool = False,
        normalize_observations: bool = False,
        initialization: Initialization = "orthogonal",
        convolutions: Convolutions | None = None,
    ) -> None:
        super().__init__()
        box = BoxUnits(action_space)
        self.register_buffer("centre", box.centre, persistent=False)
        self.register_buffer("reach", box.reach, persistent=False)
        self.components = len(box.reach)
        self.flatten = Flatten(observation_space, scale_observations, normalize_observations)
        self.features, size = features_of(
            observation_space, self.flatten.size, convolutions, activation, initialization
        )
        self.policy = perceptron([size, *hidden, self.components], activation, 0.01, initialization)

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

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: spaces.Box,
        hidden: Sequence[int],
        activation: str,
        scale_observations: bool = False,
        normalize_observations: bool = False,
        initialization: Initialization = "orthogonal",
        convolutions: Convolutions | None = None,
    ) -> None:
        super().__init__()
        self.components = math.prod(action_space.shape)
        self.flatten = Flatten(observation_space, scale_observations, normalize_observations)
        self.features, size = features_of(
            observation_space, self.flatten.size, convolutions, activation, initialization
        )
        self.policy = perceptron([size, *hidden, 2 * self.components], activation, 0.01, initialization)

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``."""
        mean, log_std = self.policy(self.features(self.flatten(observations))).chunk(2, dim=-1)
        return torch.cat([mean, log_std.clamp(LEAST_LOG_STD, MOST_LOG_STD)], dim=-1)

    def done(self, drawn: Tensor) -> Tensor:
        """Return actions ``[rows, components]`` from -1 to 1 as the environment received them: samples are squashed."""
        return drawn.flatten(1).tanh()


class Critic(nn.Module):
    """Action-value function: one perceptron, or several side by side.

    Args:
        flatten: that of the policy, so that both share the running statistics of observations.
        components: number of components of an action.
        hidden: width of each hidden layer.
        activation: ``"tanh"`` or ``"relu"``.
        count: number of estimates, each by a separate perceptron.
        space: observation space of one agent.
        convolutions: convolutions before the perceptrons, for images; shared by all estimates.
    """

    def __init__(
        self,
        flatten: Flatten,
        space: Space[Any],
        components: int,
        hidden: Sequence[int],
        activation: str,
        count: int = 1,
        initialization: Initialization = "orthogonal",
        convolutions: Convolutions | None = None,
    ) -> None:
        super().__init__()
        self.flatten = flatten
        self.features, size = features_of(space, flatten.size, convolutions, activation, initialization)
        sizes = [size + components, *hidden, 1]
        self.values = nn.ModuleList(perceptron(sizes, activation, 1.0, initialization) for _ in range(count))

    def forward(self, observations: Observations, actions: Tensor) -> Tensor:
        """Return the values ``[count, rows]`` float32 of actions.

        Args:
            observations: ``[rows, *observation_shape]``.
            actions: ``[rows, components]`` from -1 to 1.
        """
        inputs = torch.cat([self.features(self.flatten(observations)), actions], dim=-1)
        return torch.stack([value(inputs).squeeze(-1) for value in self.values])
