"""Models for actions in a bounded Box: a policy apart from what judges it. Actions are numbers from -1 to 1 to them."""

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

_NO_NOISE = -20.0  # a logarithm of a standard deviation that moves nothing


class DeterministicActor(Actor):
    """One action for each observation.

    Args:
        observation_space: of one agent; observations are flattened.
        action_space: bounded.
        hidden: width of each hidden layer.
        activation: ``"tanh"`` or ``"relu"``.
        scale_observations: whether numbers that the observation space bounds are first scaled from there to [-1, 1].
        normalize_observations: whether numbers are then standardised by their running mean and variance.
        initialization: of the weights, see ``perceptron.initialise``.
        convolutions: come before the perceptron, for images.

    Attributes:
        components: the numbers in an action.
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
        """``[..., *observation_shape]`` of any dtype -> ``[..., components]`` float32, from -1 to 1."""
        outputs: Tensor = self.policy(self.features(self.flatten(observations)))
        return outputs.tanh()

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``."""
        means = self.centre + self.reach * self.forward(observations)
        return torch.cat([means, torch.full_like(means, _NO_NOISE)], dim=-1)

    def done(self, drawn: Tensor) -> Tensor:
        """Actions from -1 to 1, ``[rows, components]``, as they reached the environment: drawn ones were clipped."""
        return ((drawn.flatten(1) - self.centre) / self.reach).clamp(-1.0, 1.0)


class SquashedActor(Actor):
    """Normal components whose hyperbolic tangents are the action, see ``distributions.SquashedGaussian``.

    Args: as of ``DeterministicActor``.
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
        """Actions from -1 to 1, ``[rows, components]``, as they reached the environment: drawn ones were squashed."""
        return drawn.flatten(1).tanh()


class Critic(nn.Module):
    """A perceptron that estimates the value of an action, or several of them side by side.

    Args:
        flatten: of the policy, so that both have the same running statistics of observations.
        components: the numbers in an action.
        hidden: width of each hidden layer.
        activation: ``"tanh"`` or ``"relu"``.
        count: how many estimates there are, each of a perceptron of its own.
        space: of one agent's observations.
        convolutions: come before the perceptrons, for images; all estimates share them.
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
        """``[rows, *observation_shape]``, actions from -1 to 1 ``[rows, components]`` -> ``[count, rows]`` float32."""
        inputs = torch.cat([self.features(self.flatten(observations)), actions], dim=-1)
        return torch.stack([value(inputs).squeeze(-1) for value in self.values])
