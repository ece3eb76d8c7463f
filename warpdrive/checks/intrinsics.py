"""What ``numba.cuda`` offers to kernels, for Python itself to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Change = Callable[..., Any]
"""Gives the new value of an element from its old value and the operands of an atomic operation."""


def _inc(old: Any, limit: Any) -> Any:
    return 0 if old >= limit else old + 1


def _dec(old: Any, limit: Any) -> Any:
    return limit if old == 0 or old > limit else old - 1


def _greater(old: Any, value: Any) -> Any:
    return value if value > old else old


def _less(old: Any, value: Any) -> Any:
    return value if value < old else old


ATOMICS: dict[str, Change] = {
    "atomic.add": lambda old, value: old + value,
    "atomic.sub": lambda old, value: old - value,
    "atomic.and_": lambda old, value: old & value,
    "atomic.or_": lambda old, value: old | value,
    "atomic.xor": lambda old, value: old ^ value,
    "atomic.inc": _inc,
    "atomic.dec": _dec,
    "atomic.exch": lambda old, value: value,
    "atomic.max": _greater,
    "atomic.min": _less,
    "atomic.nanmax": lambda old, value: np.fmax(old, value),
    "atomic.nanmin": lambda old, value: np.fmin(old, value),
    "atomic.cas": lambda old, expected, value: value if old == expected else old,
}


def atomic(change: Change) -> Callable[..., Any]:
    """Return an operation ``(array, index, *operands) -> old value`` that changes an element of an array."""

    def operate(array: Any, index: Any, *operands: Any) -> Any:
        if hasattr(array, "change"):
            return array.change(index, lambda old: change(old, *operands))
        old = array[index]
        array[index] = change(old, *operands)
        return old

    return operate


def compare_and_swap(array: Any, expected: Any, value: Any) -> Any:
    """Put ``value`` into an array's first element if that is ``expected``; return what it was."""
    return atomic(ATOMICS["atomic.cas"])(array, (0,) * array.ndim, expected, value)


def popc(value: Any) -> int:
    """Count the ones of an integer."""
    return _bits(value)[0].count("1")


def brev(value: Any) -> Any:
    """Turn an integer's bits around."""
    text, width = _bits(value)
    turned = int(text[::-1], 2)
    return (np.uint64 if width == 64 else np.uint32)(turned)


def clz(value: Any) -> int:
    """Count the zeros before an integer's first one."""
    text, width = _bits(value)
    return width - len(text.lstrip("0"))


def ffs(value: Any) -> int:
    """Return the place of an integer's last one, counted from 1; 0 if there is none."""
    text, _ = _bits(value)
    return len(text) - text.rindex("1") if "1" in text else 0


PLAIN: dict[str, Callable[..., Any]] = {
    "atomic.compare_and_swap": compare_and_swap,
    "popc": popc,
    "brev": brev,
    "clz": clz,
    "ffs": ffs,
    "selp": lambda condition, first, second: first if condition else second,
    "fma": lambda x, y, z: x * y + z,
    "cbrt": np.cbrt,
    "const.array_like": lambda array: array,
    **{path: atomic(change) for path, change in ATOMICS.items()},
}
"""Everything that does not depend on which thread runs."""


def _bits(value: Any) -> tuple[str, int]:
    width = 32 if isinstance(value, np.integer) and value.itemsize <= 4 else 64
    return format(int(value) & ((1 << width) - 1), f"0{width}b"), width
