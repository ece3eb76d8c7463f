"""Mixing of the action values of a team's agents to one value of their joint action."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from warpdrive.training.models.options import PerceptronConfig
from warpdrive.training.models.perceptron import perceptron
from warpdrive.training.models.running_moments import RunningMoments


class Mixer(nn.Module, ABC):
    """Module that maps the values of the agents' actions to the value of the joint action.

    It is monotonic in each of them, so that each agent's best action is part of the best joint action.
    """

    @abstractmethod
    def forward(self, values: Tensor, states: Tensor | None) -> Tensor:
        """Return the values ``[...]`` of joint actions.

        Args:
            values: ``[..., agents]`` float32, 0 for agents out of the episode.
            states: ``[..., size]`` float32, global states; None for a mixer that does not depend on them.
        """

    def observe(self, states: Tensor, weight: Tensor) -> None:
        """Update running statistics with states ``[rows, size]`` after training on them; see ``Actor.observe``."""


class SumMixer(Mixer):
    """Sum of the agents' values (Sunehag et al. 2018, arXiv:1706.05296, equation 2)."""

    def forward(self, values: Tensor, states: Tensor | None) -> Tensor:
        """See ``Mixer``."""
        return values.sum(-1)


class MonotonicMixer(Mixer):
    """Mixing network whose weights are absolute outputs of hypernetworks (Rashid et al. 2018, arXiv:1803.11485).

    ``Q_tot = elu(q |W1(s)| + b1(s)) |w2(s)| + v(s)``. ``b1`` is linear; ``v`` is a perceptron with one hidden layer of
    ``units``; ``W1`` and ``w2`` are perceptrons with the hidden layers ``hidden``.

    Args:
        agents: Number of agents.
        size: Number of elements of a global state.
        units: Number of units of the mixing network.
        hidden: Widths of the hidden layers of the hypernetworks of the weights.
        normalize: If True, states are standardised by their running mean and variance, and clipped.
    """

    def __init__(self, agents: int, size: int, units: int, hidden: Sequence[int], normalize: bool = False) -> None:
        super().__init__()
        self.agents, self.units = agents, units
        options = PerceptronConfig(activation="relu", initialization="uniform")
        self.moments = RunningMoments(size) if normalize else None
        self.first_weights = perceptron([size, *hidden, agents * units], options, last_gain=1.0)
        self.first_bias = perceptron([size, units], options, last_gain=1.0)
        self.last_weights = perceptron([size, *hidden, units], options, last_gain=1.0)
        self.last_bias = perceptron([size, units, 1], options, last_gain=1.0)

    def forward(self, values: Tensor, states: Tensor | None) -> Tensor:
        """See ``Mixer``."""
        assert states is not None
        if self.moments is not None:
            states = self.moments.clipped(states)
        first = self.first_weights(states).abs().unflatten(-1, (self.agents, self.units))
        hidden = functional.elu((values.unsqueeze(-1) * first).sum(-2) + self.first_bias(states))
        mixed: Tensor = (hidden * self.last_weights(states).abs()).sum(-1) + self.last_bias(states).squeeze(-1)
        return mixed

    def observe(self, states: Tensor, weight: Tensor) -> None:
        """See ``Mixer``."""
        if self.moments is not None:
            self.moments.observe(states, weight)
