"""Arrays of the last steps."""

from __future__ import annotations

from typing import Any

import torch


class RingBuffer:
    """The last rows that were written to a tensor.

    Args:
        name: Name of the tensor.
        size: Number of rows; None: all rows of the tensor.
        data_manager: The data.
    """

    def __init__(self, name: str, size: int | None = None, data_manager: Any = None) -> None:
        self.buffer_name = f"RingBuffer_{name}"
        self.queue: torch.Tensor = data_manager.data_on_device_via_torch(name)
        self.size = len(self.queue) if size is None else size
        assert self.size <= len(self.queue), f"the size is {self.size}, but '{name}' has {len(self.queue)} rows"
        self.written = 0

    @property
    def current_size(self) -> int:
        """Number of rows that have been written."""
        return min(self.written, self.size)

    def enqueue(self, data: torch.Tensor) -> None:
        """Write a row, over the oldest one if all are written."""
        self.queue[self.written % self.size] = data
        self.written += 1

    def unroll(self) -> torch.Tensor:
        """Return the rows from the oldest to the newest."""
        if self.written <= self.size:
            return self.queue[: self.written]
        return torch.roll(self.queue[: self.size], -(self.written % self.size), dims=0)

    def isfull(self) -> bool:
        """Return True if all rows are written."""
        return self.written >= self.size


class RingBufferManager(dict[str, RingBuffer]):
    """Ring buffers by name."""

    def add(self, name: str, size: int | None = None, data_manager: Any = None) -> None:
        """Add a ring buffer, see :class:`RingBuffer`."""
        self[name] = RingBuffer(name, size, data_manager)

    def has(self, name: str) -> bool:
        """Return True if there is one of this name."""
        return name in self
