"""Action-value networks."""

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


class QNetwork(Actor):
    """Perceptron that estimates the value of every action. As an actor it is greedy.

    Args:
        observation_space: observation space of one agent; observations are flattened.
        choices: number of actions.
        hidden: width of each hidden layer.
        activation: ``"tanh"`` or ``"relu"``.
        scale_observations: If True, elements that the observation space bounds are first scaled to [-1, 1].
        normalize_observations: If True, elements are then standardised by their running mean and variance.
        initialization: initialization of the weights, see ``perceptron.initialise``.
        convolutions: convolutions before the perceptron, for images.
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
        """Return the action values ``[..., choices]`` float32 of ``[..., *observation_shape]`` of any dtype."""
        outputs: Tensor = self.value(self.features(self.flatten(observations)))
        return outputs

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``: action values scaled so far that sampling takes the best allowed action."""
        return self.forward(observations) * _GREED
