"""``numba.cuda.kernels.transpose``."""

from __future__ import annotations

from typing import Any


def transpose(a: Any, b: Any = None) -> Any:
    """Return a device array of two axes transposed, in new memory or in ``b``."""
    moved = a.transpose()
    if b is None:
        return moved
    b[...] = moved
    return b
