"""Memory of a WebAssembly module as the host fills it: arrays, and the argument tables of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

ALIGNMENT = 64
"""Alignment of arrays in bytes."""


@dataclass(frozen=True)
class Block:
    """Arrays that overlap, as one piece of memory.

    Attributes:
        source: Address of the piece in this process.
        size: Its bytes.
        address: Its address in the memory of the module.
    """

    source: int
    size: int
    address: int


class Image:
    """Layout of arrays in the memory of a module; arrays that share memory here share it there.

    Args:
        arrays: The arrays.
        first_free: Address of the first free byte.
    """

    def __init__(self, arrays: Sequence[Array], first_free: int) -> None:
        self.blocks: list[Block] = []
        end = first_free
        for begin, size in _pieces(arrays):
            self.blocks.append(Block(begin, size, end))
            end += -(-size // ALIGNMENT) * ALIGNMENT
        self.end = end
        """Address of the first byte behind the arrays."""

    def address_of(self, array: Array) -> int:
        """Return the address of an array in the memory of the module."""
        begin = _begin(array)
        for block in self.blocks:
            if block.source <= begin < block.source + block.size:
                return block.address + begin - block.source
        return self.blocks[0].address if self.blocks else 0  # an array without elements

    def table(self, arrays: Sequence[Array]) -> npt.NDArray[np.int64]:
        """Return the words of an argument table: address, shape and strides in bytes of each array."""
        words = [word for array in arrays for word in (self.address_of(array), *array.shape, *array.strides)]
        return np.array(words, np.int64)


def _begin(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _pieces(arrays: Sequence[Array]) -> list[tuple[int, int]]:
    """Return begin and size of the pieces of memory that the arrays lie in."""
    pieces: list[tuple[int, int]] = []
    for begin, end in sorted(np.lib.array_utils.byte_bounds(array) for array in arrays if array.size):
        if pieces and begin < sum(pieces[-1]):
            first, size = pieces[-1]
            pieces[-1] = first, max(size, end - first)
        else:
            pieces.append((begin, end - begin))
    return pieces
