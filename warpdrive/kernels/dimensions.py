"""The dimensions of a launch: how many blocks, and how many threads in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warpdrive.kernels.errors import KernelError

Dimensions = tuple[int, int, int]


def dimensions(value: Any, what: str) -> Dimensions:
    """Return a number, or a sequence of up to three, as three. Raises :class:`KernelError` for anything else."""
    given = tuple(value) if isinstance(value, Sequence) else (value,)
    if not 1 <= len(given) <= 3 or not all(isinstance(n, (int, np.integer)) and n > 0 for n in given):
        raise KernelError(
            f"a kernel is launched with a positive number of {what}, or up to three of them; found {value!r}"
        )
    x, y, z = (*map(int, given), 1, 1)[:3]
    return x, y, z
