"""A model of how much each of a few choices is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium import Space
from torch import Tensor

from warpdrive.observations import Observations
from warpdrive.training.models.base import Actor
from warpdrive.training.models.convolutions import Convolutions, features_of
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.perceptron import Initialization, perceptron

_GREED = 1e6


class ActionValues(Actor):
    """A perceptron that estimates the value of every choice. As an actor it takes the best one.

    Args:
        observation_space: of one agent; observations are flattened.
        choices: how many there are.
        hidden: width of each hidden layer.
        activation: ``"tanh"`` or ``"relu"``.
        scale_observations: whether numbers that the observation space bounds are first scaled from there to [-1, 1].
        normalize_observations: whether numbers are then standardised by their running mean and variance.
        initialization: of the weights, see ``perceptron.initialise``.
        convolutions: come before the perceptron, for images.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        choices: int,
        hidden: Sequence[int],
        activation: str,
        scale_observations: bool = False,
        normalize_observations: bool = False,
        initialization: Initialization = "orthogonal",
        convolutions: Convolutions | None = None,
    ) -> None:
        super().__init__()
        self.flatten = Flatten(observation_space, scale_observations, normalize_observations)
        self.features, size = features_of(
            observation_space, self.flatten.size, convolutions, activation, initialization
        )
        self.value = perceptron([size, *hidden, choices], activation, 1.0, initialization)

    def forward(self, observations: Observations) -> Tensor:
        """``[..., *observation_shape]`` of any dtype -> ``[..., choices]`` float32, the value of each choice."""
        outputs: Tensor = self.value(self.features(self.flatten(observations)))
        return outputs

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``: values so much larger than life that sampling takes the best choice of those allowed."""
        return self.forward(observations) * _GREED
