"""A value estimate that knows more than the policy."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from warpdrive.training.models.perceptron import perceptron
from warpdrive.training.models.running_moments import RunningMoments

_MOST = 10.0  # standard deviations that a normalised number is from the mean


class CentralCritic(nn.Module):
    """A perceptron over what ``JointObservations`` makes.

    Args:
        size: the numbers in a row.
        hidden: width of each hidden layer.
        activation: ``"tanh"`` or ``"relu"``.
        normalize: whether the numbers are standardised by their running mean and variance, and clipped.
    """

    def __init__(self, size: int, hidden: Sequence[int], activation: str, normalize: bool) -> None:
        super().__init__()
        self.moments = RunningMoments(size) if normalize else None
        self.value = perceptron([size, *hidden, 1], activation, last_gain=1.0)

    def values(self, states: Tensor) -> Tensor:
        """``[rows, size]`` float32 -> ``[rows]`` float32."""
        inputs = states if self.moments is None else self.moments(states).clamp(-_MOST, _MOST)
        outputs: Tensor = self.value(inputs)
        return outputs.squeeze(-1)

    def observe(self, states: Tensor, weight: Tensor) -> None:
        """Let running statistics take in ``[rows, size]`` that have been learned from; see ``Actor.observe``."""
        if self.moments is not None:
            self.moments.observe(states, weight)
