"""Intrinsics of ``numba.cuda`` for execution by Python itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
from numba import types
from numba.np.numpy_support import as_dtype

from warpdrive.backends.host import scalars
from warpdrive.checks.arithmetic import cast
from warpdrive.kernels.language import ATOMIC_DTYPES, PARAMETERS, SCALARS
from warpdrive.kernels.libraries import COMPONENTS, FUNCTIONS, VECTORS

Change = Callable[..., Any]
"""Function that returns the new value of an element from its old value and the operands of an atomic operation."""


def _inc(old: Any, limit: Any) -> Any:
    return 0 if old >= limit else old + 1


def _dec(old: Any, limit: Any) -> Any:
    return limit if old == 0 or old > limit else old - 1


def _greater(old: Any, value: Any) -> Any:
    return value if value > old else old


def _less(old: Any, value: Any) -> Any:
    return value if value < old else old


def _swap(old: Any, expected: Any, value: Any) -> Any:
    return value if old == expected else old


def _unless_missing(change: Change) -> Change:
    """Return an update that ignores NaN values."""
    return lambda old, value: old if value != value else value if old != old else change(old, value)


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
    "atomic.nanmax": _unless_missing(_greater),
    "atomic.nanmin": _unless_missing(_less),
    "atomic.cas": _swap,
    "atomic.compare_and_swap": _swap,
}


def atomic(path: str, index_of: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    """Return an operation ``(array, index, *operands) -> old value`` that updates an element of an array.

    With ``index_of``, which returns the index for an array, it is ``(array, *operands) -> old value``.
    """
    change = ATOMICS[path]

    def operate(array: Any, *arguments: Any) -> Any:
        if array.dtype.name not in ATOMIC_DTYPES[path]:
            raise TypeError(f"cuda.{path} works on {', '.join(ATOMIC_DTYPES[path])}, not on {array.dtype}")
        index, *given = (index_of(array), *arguments) if index_of else arguments
        operands = [cast(operand, array.dtype) for operand in given]

        def changed(old: Any) -> Any:
            return change(cast(old, array.dtype), *operands)

        if hasattr(array, "change"):
            return array.change(index, changed, given)
        old = array[index]
        array[index] = changed(old)
        return old

    return operate


class Index(int):
    """Index of a thread or block, or a dimension: a Python integer that is int32 in compiled kernels."""


def compiled(path: str) -> Callable[..., Any]:
    """Return the scalar function that compiled kernels call, compiled on first use."""

    @cache
    def function() -> Any:
        called = scalars.host_function(path)
        callers: tuple[Any, ...] = (lambda a: called(a), lambda a, b: called(a, b), lambda a, b, c: called(a, b, c))
        return numba.njit(callers[len(PARAMETERS[path]) - 1])

    def call(*numbers: Any) -> Any:
        numbers = tuple(np.int32(x) if isinstance(x, Index) else x for x in numbers)
        result = function()(*numbers)
        kinds = tuple(numba.typeof(number) for number in numbers)
        return _of_type(result, function().overloads[kinds].signature.return_type)

    return call


def _of_type(result: Any, kind: Any) -> Any:
    """Return a result as NumPy's scalars: numba returns Python's, also for float16, float32 and int32."""
    if isinstance(result, tuple):
        return tuple(map(_of_type, result, kind))
    is_number = isinstance(kind, (types.Float, types.Integer))
    return as_dtype(kind).type(result) if is_number else result


class Vector(SimpleNamespace):
    """Vector such as ``cuda.float32x3``, whose components are attributes."""


def _vector(name: str) -> Callable[..., Vector]:
    """Return the constructor of a vector type."""
    base, count = VECTORS[name]

    def construct(*parts: Any) -> Vector:
        numbers = [n for part in parts for n in (vars(part).values() if isinstance(part, Vector) else (part,))]
        if len(numbers) != count:
            raise TypeError(f"cuda.{name} takes {count} components, found {len(numbers)}")
        return Vector(**dict(zip(COMPONENTS, (cast(number, base) for number in numbers), strict=False)))

    return construct


PLAIN: dict[str, Callable[..., Any]] = {
    **{path: compiled(path) for path in (*SCALARS, *FUNCTIONS)},
    **{name: _vector(name) for name in VECTORS},
    "selp": lambda condition, first, second: first if condition else second,
    "const.array_like": lambda array: array,
    **{path: atomic(path) for path in ATOMICS},
    "atomic.compare_and_swap": atomic("atomic.compare_and_swap", lambda array: (0,) * array.ndim),
}
"""Intrinsics that do not depend on the running thread."""
