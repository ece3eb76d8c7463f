"""Dictionaries of tensors as one piece of memory, to be sent in one message."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

_ALIGNMENT = 16
"""Bytes: where each tensor begins, so that it can be read as what it is."""

Layout = Sequence[tuple[str, str, Sequence[int]]]
"""Name, dtype and shape of each tensor, in their order."""


def layout_of(tensors: Mapping[str, Tensor]) -> Layout:
    """What ``unpacked`` needs to know of tensors; JSON can hold it."""
    return [
        (name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        for name, tensor in sorted(tensors.items())
    ]


def packed(tensors: Mapping[str, Tensor]) -> Tensor:
    """The bytes of tensors, sorted by name, uint8."""
    parts = []
    for _, tensor in sorted(tensors.items()):
        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        parts += [flat, flat.new_zeros(-len(flat) % _ALIGNMENT)]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.uint8)


def unpacked(memory: Tensor, layout: Layout) -> dict[str, Tensor]:
    """The tensors that ``packed`` was given; they alias ``memory``."""
    tensors, place = {}, 0
    for name, dtype, shape in layout:
        kind = getattr(torch, dtype)
        size = math.prod(shape) * kind.itemsize
        tensors[name] = memory[place : place + size].view(kind).view(tuple(shape))
        place += _padded(size)
    return tensors


def size_of(layout: Layout) -> int:
    """The bytes of ``packed`` tensors of this layout."""
    return sum(_padded(math.prod(shape) * getattr(torch, dtype).itemsize) for _, dtype, shape in layout)


def difference(one: Layout, other: Layout) -> str | None:
    """What keeps rows of one layout from standing below rows of another, in words; None: nothing."""
    ours, theirs = ({name: (dtype, list(shape)) for name, dtype, shape in layout} for layout in (one, other))
    for name in sorted(ours.keys() ^ theirs.keys()):
        return f"'{name}' is not on both"
    for name, (dtype, shape) in ours.items():
        if dtype != theirs[name][0] or shape[1:] != theirs[name][1][1:]:
            return (
                f"'{name}' is {dtype} [rows, {_words(shape)}] and {theirs[name][0]} [rows, {_words(theirs[name][1])}]"
            )
    return None


def hash_of(layout: Layout) -> int:
    """63 bits that are the same in all processes, and of other layouts others."""
    return int.from_bytes(hashlib.sha256(repr(layout).encode()).digest()[:8], "big") >> 1


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _words(shape: Sequence[int]) -> str:
    return ", ".join(map(str, shape[1:]))
