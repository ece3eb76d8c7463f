"""Rows of which some count."""

from __future__ import annotations

from torch import Tensor

from warpdrive.observations import Observations
from warpdrive.training.distributed.team import Spread


class Rows:
    """Tensors whose first axis is the row.

    Attributes:
        weight: ``[rows]`` float32, 1 where the agent was in the episode and 0 where not.
        spread: over which processes the rows are spread, of which those here are a part.
    """

    weight: Tensor
    spread: Spread

    def mean(self, values: Tensor) -> Tensor:
        """Mean of ``values [rows]`` over the rows that count, a scalar on the device.

        The rows of all processes: the value is the same in each, and its gradient that of the rows here.
        """
        total, weight = self.spread.team.sum(values @ self.weight.to(values.dtype), self.weight.sum())
        return total / weight.clamp(min=1.0)

    def columns(self) -> dict[str, Observations]:
        """The tensors, by name, of which each has its rows."""
        return {name: column for name, column in vars(self).items() if isinstance(column, Tensor | dict)}

    def __len__(self) -> int:
        return len(self.weight)
