"""Action-value networks."""

from __future__ import annotations

from typing import Any

from gymnasium import Space
from torch import Tensor

from warpdrive.observations import Observations
from warpdrive.training.models.base import Actor
from warpdrive.training.models.convolutions import features_of
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.options import PerceptronConfig
from warpdrive.training.models.perceptron import perceptron

_GREEDY_LOGIT = 1e6


class QNetwork(Actor):
    """Perceptron that estimates the value of every action. As an actor it is greedy.

    Args:
        observation_space: observation space of one agent; observations are flattened.
        choices: number of actions.
        options: section of the model in the run configuration.
    """

    def __init__(self, observation_space: Space[Any], choices: int, options: PerceptronConfig) -> None:
        super().__init__()
        self.flatten = Flatten(observation_space, options.scale_observations, options.normalize_observations)
        self.features, size = features_of(observation_space, self.flatten.size, options)
        self.value = perceptron([size, *options.hidden, choices], options, last_gain=1.0)

    def forward(self, observations: Observations) -> Tensor:
        """Return the action values ``[..., choices]`` float32 of ``[..., *observation_shape]`` of any dtype."""
        outputs: Tensor = self.value(self.features(self.flatten(observations)))
        return outputs

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``: action values scaled so far that sampling takes the best allowed action."""
        return self.forward(observations) * _GREEDY_LOGIT
