"""Packing of dictionaries of tensors into one buffer, to be sent in one message."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

_ALIGNMENT = 16
"""Alignment of each tensor in bytes, so that its memory can be viewed with its dtype."""

Layout = Sequence[tuple[str, str, Sequence[int]]]
"""Name, dtype and shape of each tensor, in order."""


def layout_of(tensors: Mapping[str, Tensor]) -> Layout:
    """Return the layout of tensors that ``unpacked`` needs; it is JSON-serialisable."""
    return [
        (name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        for name, tensor in sorted(tensors.items())
    ]


def packed(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return the bytes of tensors, sorted by name, as uint8."""
    parts = []
    for _, tensor in sorted(tensors.items()):
        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        parts += [flat, flat.new_zeros(-len(flat) % _ALIGNMENT)]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.uint8)


def unpacked(memory: Tensor, layout: Layout) -> dict[str, Tensor]:
    """Return the tensors given to ``packed`` as views of ``memory``."""
    tensors, place = {}, 0
    for name, dtype, shape in layout:
        kind = getattr(torch, dtype)
        size = math.prod(shape) * kind.itemsize
        tensors[name] = memory[place : place + size].view(kind).view(tuple(shape))
        place += _padded(size)
    return tensors


def size_of(layout: Layout) -> int:
    """Return the number of bytes of ``packed`` tensors with this layout."""
    return sum(_padded(math.prod(shape) * getattr(torch, dtype).itemsize) for _, dtype, shape in layout)


def difference(one: Layout, other: Layout) -> str | None:
    """Describe why rows of the two layouts cannot be concatenated; None if they can."""
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
    """Return a 63-bit hash of a layout, equal in all processes."""
    return int.from_bytes(hashlib.sha256(repr(layout).encode()).digest()[:8], "big") >> 1


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _words(shape: Sequence[int]) -> str:
    return ", ".join(map(str, shape[1:]))
