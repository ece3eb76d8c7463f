"""Action-value networks."""

from __future__ import annotations

from typing import Any

from gymnasium import Space
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.training.models.base import Actor
from warpdrive.training.models.convolutions import features_of
from warpdrive.training.models.flatten import Flatten
from warpdrive.training.models.options import PerceptronConfig, UnitsConfig
from warpdrive.training.models.perceptron import Perceptron, hidden_layers, perceptron
from warpdrive.training.models.recurrent import CELLS, Cell, RecurrentActor

_GREEDY_LOGIT = 1e6


class QNetwork(Actor):
    """Perceptron that estimates the value of every action. As an actor it is greedy.

    Args:
        observation_space: Observation space of one agent; observations are flattened.
        choices: Number of actions.
        options: Section of the model in the run configuration.
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
        """See ``Actor``: action values, scaled such that sampling selects the best allowed action."""
        outputs: Tensor = self(observations)
        return outputs * _GREEDY_LOGIT

    def advance(self, observations: Observations, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the action values of observations, and the next recurrent state.

        Args:
            observations: ``[..., *observation_shape]`` of any dtype.
            state: ``[..., state_size]`` float32, the recurrent state: zero where an episode begins.

        Returns:
            Values ``[..., choices]``, and the next state ``[..., state_size]``.
        """
        return self(observations), state

    def step(self, observations: Observations, state: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Actor``."""
        values, state = self.advance(observations, state)
        return values * _GREEDY_LOGIT, state

    def forward_sequence(self, observations: Observations, state: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
        """Return the action values of sequences, and the recurrent states after each step.

        Args:
            observations: ``[T, n, *observation_shape]``, in time order.
            state: ``[n, state_size]``, recurrent state before the first step.
            begins: ``[T, n]`` bool, True where the state is reset to zero because an episode begins with this step.

        Returns:
            Values ``[T, n, choices]`` and states ``[T, n, state_size]``.
        """
        return self(observations), state.expand(*begins.shape, -1)


class RecurrentQNetwork(QNetwork):
    """Perceptron, recurrent units and one linear layer that estimate the value of every action.

    Args:
        observation_space: Observation space of one agent; observations are flattened.
        choices: Number of actions.
        options: Section of the model in the run configuration.
    """

    def __init__(self, observation_space: Space[Any], choices: int, options: UnitsConfig) -> None:
        Actor.__init__(self)
        self.flatten = Flatten(observation_space, options.scale_observations, options.normalize_observations)
        sizes, cell = [self.flatten.size, *options.hidden], CELLS[options.type]
        self.units, self.state_size = options.units, cell.numbers * options.units
        self.encoders = nn.ModuleList([Perceptron(*hidden_layers(sizes, options))])
        self.cells = nn.ModuleList([cell(sizes[-1], options.units, options.initialization)])
        self.value = perceptron([options.units, choices], options, last_gain=1.0)

    def forward(self, observations: Observations) -> Tensor:
        """Return the action values ``[..., choices]`` of first observations of episodes."""
        features = self._encoded(observations)
        return self._advanced(features, features.new_zeros(*features.shape[:-1], self.state_size))[0]

    def advance(self, observations: Observations, state: Tensor) -> tuple[Tensor, Tensor]:
        """See ``QNetwork``."""
        return self._advanced(self._encoded(observations), state)

    def forward_sequence(self, observations: Observations, state: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
        """See ``QNetwork``."""
        after = self._cell.sequence(self._encoded(observations), state, begins)
        return self.value(after[..., : self.units]), after

    def in_replicas(self, num_envs: int, num_agents: int) -> Actor:
        """See ``Actor``."""
        return RecurrentActor(self, num_envs, num_agents)

    @property
    def _cell(self) -> Cell:
        cell = self.cells[0]
        assert isinstance(cell, Cell)
        return cell

    def _encoded(self, observations: Observations) -> Tensor:
        features: Tensor = self.encoders[0](self.flatten(observations))
        return features

    def _advanced(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        leading = features.shape[:-1]
        after: Tensor = self._cell(features.reshape(-1, features.shape[-1]), state.reshape(-1, self.state_size))
        after = after.view(*leading, self.state_size)
        return self.value(after[..., : self.units]), after
