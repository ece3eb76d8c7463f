"""Blocks and threads of a launch: numbers, positions and names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from warpdrive.checks.findings import Position
from warpdrive.kernels.configuration import Dimensions, dimensions


@dataclass(frozen=True)
class Grid:
    """Number of blocks, and of threads per block, along x, y and z; x varies fastest."""

    blocks: Dimensions
    threads: Dimensions

    @classmethod
    def of(cls, blocks: Any, threads: Any) -> Grid:
        """Create a grid from numbers, or sequences of up to three. Raises :class:`KernelError` for anything else."""
        return cls(dimensions(blocks, "blocks"), dimensions(threads, "threads"))

    @property
    def num_blocks(self) -> int:
        """Number of blocks."""
        return int(np.prod(self.blocks))

    @property
    def num_threads(self) -> int:
        """Number of threads per block."""
        return int(np.prod(self.threads))

    def thread_position(self, number: int) -> Dimensions:
        """Return the ``threadIdx`` of a thread in its block."""
        return _position(number, self.threads)

    def block_position(self, number: int) -> Dimensions:
        """Return the ``blockIdx`` of a block."""
        return _position(number, self.blocks)

    def thread_name(self, number: int) -> Position:
        """Return a thread's name in messages: its number in a block of one dimension, else its position."""
        return number if self.threads[1:] == (1, 1) else self.thread_position(number)

    def block_name(self, number: int) -> Position:
        """Return a block's name in messages: its number in a grid of one dimension, else its position."""
        return number if self.blocks[1:] == (1, 1) else self.block_position(number)


def _position(number: int, dimensions: Dimensions) -> Dimensions:
    width, height, _ = dimensions
    return number % width, number // width % height, number // (width * height)
