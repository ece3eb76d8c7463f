"""Rows of which some count."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property

import torch
from torch import Tensor

from warpdrive.observations import Observations
from warpdrive.training.distributed.team import Spread


class Rows:
    """A dataclass of tensors whose first axis is the row.

    Attributes:
        weight: ``[rows]`` float32, 1 where the agent was in the episode and 0 where not.
        spread: over which processes the rows are spread, of which those here are a part.
    """

    weight: Tensor
    spread: Spread

    @cached_property
    def counting(self) -> Tensor:
        """How many rows count in all processes, or 1 if none does: a scalar on the device."""
        return self.spread.team.sum(self.weight.sum()).clamp(min=1.0)

    def part_of_mean(self, values: Tensor) -> Tensor:
        """What the rows here add to the mean of ``values [rows]`` over the rows that count, a scalar on the device.

        In a process alone it is the mean. With several, these parts are summed together with their gradients, see
        ``Descent``.
        """
        return values @ self.weight.to(values.dtype) / self.counting

    @torch.no_grad()
    def mean(self, values: Tensor) -> Tensor:
        """Mean of ``values [..., rows]`` over the rows that count in all processes, the same in each: ``[...]``."""
        return self.spread.team.sum(values @ self.weight.to(values.dtype)) / self.counting

    def columns(self) -> dict[str, Observations]:
        """The tensors, by name, of which each has its rows."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: column for name, column in columns.items() if isinstance(column, Tensor | dict)}

    def __len__(self) -> int:
        return len(self.weight)
