"""Rows of which some count."""

from __future__ import annotations

from torch import Tensor


class Rows:
    """Tensors whose first axis is the row.

    Attributes:
        weight: ``[rows]`` float32, 1 where the agent was in the episode and 0 where not.
    """

    weight: Tensor

    def mean(self, values: Tensor) -> Tensor:
        """Mean of ``values [rows]`` over the rows that count, a scalar on the device."""
        return (values * self.weight).sum() / self.weight.sum().clamp(min=1.0)

    def __len__(self) -> int:
        return len(self.weight)
