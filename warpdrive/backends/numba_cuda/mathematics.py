"""Functions that numba.cuda lacks, or has in float64 only.

Sine, cosine and tangent of float32 are those of ``warpdrive.math``: libdevice's use float64 for large arguments, which
on most GPUs is 32 to 64 times slower, and takes registers even if it is never needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from math import ceil, exp, floor, sqrt
from types import FunctionType
from typing import Any

from numba import cuda, types
from numba.cuda.extending import overload

import warpdrive.math
from warpdrive.kernels.kernel import DeviceFunction

__all__ = ["absolute", "ceil", "cos", "exp", "floor", "sign", "sin", "sqrt", "tan"]

absolute = abs


@cache
def gpu_function(function: DeviceFunction) -> Any:
    """Return a device function, and those that it calls, as a device function of ``numba.cuda``."""
    plain = function.function
    called = plain.__globals__ | {
        name: gpu_function(value)
        for name in plain.__code__.co_names
        if isinstance(value := plain.__globals__.get(name), DeviceFunction)
    }
    return cuda.jit(FunctionType(plain.__code__, called, plain.__name__), device=True)


def sin(x):  # type: ignore[no-untyped-def]
    """Return the sine of ``x`` in radians."""


def cos(x):  # type: ignore[no-untyped-def]
    """Return the cosine of ``x`` in radians."""


def tan(x):  # type: ignore[no-untyped-def]
    """Return the tangent of ``x`` in radians."""


def _single_or_double(single: DeviceFunction, double: Callable[[float], float]) -> Callable[[Any], Any]:
    of_float32 = gpu_function(single)
    return lambda x: (lambda x: of_float32(x)) if x == types.float32 else (lambda x: double(x))


overload(sin)(_single_or_double(warpdrive.math.sin, math.sin))
overload(cos)(_single_or_double(warpdrive.math.cos, math.cos))
overload(tan)(_single_or_double(warpdrive.math.tan, math.tan))


def sign(x):  # type: ignore[no-untyped-def]
    """Return -1, 0 or 1 for a negative, zero or positive ``x``, in its dtype; NaN for NaN."""


@overload(sign)
def _sign(x):  # type: ignore[no-untyped-def]
    zero, one = x(0), x(1)
    return lambda x: one if x > zero else -one if x < zero else x
