"""Weighted rows of experience and their masked means."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property

import torch
from torch import Tensor

from warpdrive.observations import Observations
from warpdrive.training.distributed.process_group import Sharding


class Rows:
    """Dataclass of tensors whose first axis is the row.

    Attributes:
        weight: ``[rows]`` float32, 1 where the agent was in the episode, else 0.
        sharding: Distribution of the rows over processes; these rows are one process's part.
    """

    weight: Tensor
    sharding: Sharding

    @cached_property
    def counting(self) -> Tensor:
        """Number of rows with weight 1 in all processes, at least 1: a scalar on the device."""
        return self.sharding.process_group.all_reduce(self.weight.sum()).clamp(min=1.0)

    def masked_mean(self, values: Tensor) -> Tensor:
        """Return this process's contribution to the masked mean of ``values [rows]``, a scalar on the device.

        In a single process this is the mean itself. With several processes the contributions and their gradients are
        summed, see ``OptimizerStep``.

        Args:
            values: ``[rows]``; those of inactive agents do not count.
        """
        return values @ self.weight.to(values.dtype) / self.counting

    def part_of_mean(self, values: Tensor) -> Tensor:
        """Return :meth:`masked_mean`, under its former name."""
        return self.masked_mean(values)

    @torch.no_grad()
    def mean(self, values: Tensor) -> Tensor:
        """Return the masked mean over all processes, equal in each, without gradient.

        Args:
            values: ``[..., rows]``; those of inactive agents do not count.

        Returns:
            Means ``[...]``.
        """
        return self.sharding.process_group.all_reduce(values @ self.weight.to(values.dtype)) / self.counting

    def columns(self) -> dict[str, Observations]:
        """Return the tensors that hold one entry per row, by name."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: column for name, column in columns.items() if isinstance(column, Tensor | dict)}

    def __len__(self) -> int:
        return len(self.weight)
