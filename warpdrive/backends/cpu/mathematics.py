"""Functions of ``math`` that numba compiles for GPUs and not for CPUs; importing this module makes it do so."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload


@overload(math.fmod)  # type: ignore[untyped-decorator]
def _fmod(x: Any, y: Any) -> Callable[..., Any] | None:
    if not (isinstance(x, types.Number) and isinstance(y, types.Number)):
        return None
    kind = types.float32 if x == y == types.float32 else types.float64

    def fmod(x: Any, y: Any) -> Any:
        return np.fmod(kind(x), kind(y))

    return fmod


@overload(math.remainder)  # type: ignore[untyped-decorator]
def _remainder(x: Any, y: Any) -> Callable[..., Any] | None:
    if not (isinstance(x, types.Number) and isinstance(y, types.Number)):
        return None
    kind = types.float32 if x == y == types.float32 else types.float64

    def remainder(x: Any, y: Any) -> Any:
        dividend, divisor = abs(kind(x)), abs(kind(y))
        if math.isinf(divisor) and math.isfinite(dividend):
            return kind(x)
        rest = np.fmod(dividend, divisor)
        to_next = divisor - rest
        if rest > to_next:
            rest = -to_next
        elif rest == to_next and np.fmod(kind(0.5) * (dividend - rest), divisor) != 0:  # from an odd multiple
            rest = -rest
        return rest * math.copysign(kind(1), kind(x))

    return remainder


@overload(math.modf)  # type: ignore[untyped-decorator]
def _modf(x: Any) -> Callable[..., Any] | None:
    if not isinstance(x, types.Number):
        return None
    kind = types.float32 if x == types.float32 else types.float64

    def modf(x: Any) -> Any:
        number = kind(x)
        whole = np.trunc(number)
        fraction = kind(0) if math.isinf(number) else number - whole
        return math.copysign(fraction, number), whole

    return modf
