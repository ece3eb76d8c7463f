"""Arithmetic that rounds down, up or towards zero, for generated CPU code, whose processor rounds to the nearest.

An operation is rounded to the nearest first. The sign of its error then decides if the result is the neighbour. The
sign is exact: for float32 the error is computed in float64; for float64 it is a fused product and sum of the mantissas
of the operands, so that nothing overflows or underflows, or a sum without rounding (Shewchuk, "Adaptive precision
floating-point arithmetic and fast robust geometric predicates", 1997).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from warpdrive.backends.host.scalars import fma
from warpdrive.backends.host.subroutines import jitable

DOWN, UP, TO_ZERO = -1, 1, 0
_FAR = 300
"""Binary orders of magnitude by which a summand is smaller than another if only its sign counts."""


def _directed(infinity: np.floating[Any]) -> Any:
    """Return the function that rounds a nearest number of the type of ``infinity``."""

    @jitable
    def directed(nearest, side, toward):  # type: ignore[no-untyped-def]
        """Return the neighbour of the nearest number, if that is on the wrong side of the exact value.

        Args:
            nearest: The nearest number.
            side: Positive if the exact value is larger, negative if it is smaller; 0 or NaN if it needs no rounding.
            toward: Direction to round to: ``DOWN``, ``UP`` or ``TO_ZERO``.

        Returns:
            The rounded value.
        """
        if side < 0 and (toward < 0 or (toward == 0 and nearest > 0)):
            return np.nextafter(nearest, -infinity)
        if side > 0 and (toward > 0 or (toward == 0 and nearest < 0)):
            return np.nextafter(nearest, infinity)
        return nearest

    return directed


directed_32, directed_64 = _directed(np.float32(np.inf)), _directed(np.float64(np.inf))


@jitable
def two_sum(x, y):  # type: ignore[no-untyped-def]
    """Return the sum of two numbers and its error."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


@jitable
def _signed(total, side, are_positive, toward):  # type: ignore[no-untyped-def]
    """Return a sum, whose sign is that of the operands if it is 0, or negative if these differ and it is rounded down.

    Args:
        total: The rounded sum.
        side: Side of the exact value.
        are_positive: True if both operands are positive, or 0 with that sign.
        toward: Direction that it was rounded to.

    Returns:
        The sum.
    """
    return -abs(total) if total == 0 and side == 0 and toward < 0 and not are_positive else total


@jitable
def _is_positive(x):  # type: ignore[no-untyped-def]
    return math.copysign(1.0, x) > 0


@jitable
def add_32(x, y, toward):  # type: ignore[no-untyped-def]
    """Return the rounded sum of two float32."""
    nearest = np.float32(x + y)
    total, error = two_sum(np.float64(x), np.float64(y))
    side = 0.0 if math.isinf(x) or math.isinf(y) else (total - nearest) + error
    return _signed(directed_32(nearest, side, toward), side, _is_positive(x) and _is_positive(y), toward)


@jitable
def subtract_32(x, y, toward):  # type: ignore[no-untyped-def]
    """Return the rounded difference of two float32."""
    return add_32(x, -y, toward)


@jitable
def multiply_32(x, y, toward):  # type: ignore[no-untyped-def]
    """Return the rounded product of two float32."""
    nearest = np.float32(x * y)
    side = 0.0 if math.isinf(x) or math.isinf(y) else np.float64(x) * np.float64(y) - nearest
    return directed_32(nearest, side, toward)


@jitable
def divide_32(x, y, toward):  # type: ignore[no-untyped-def]
    """Return the rounded quotient of two float32."""
    nearest = np.float32(x / y)
    is_exact = math.isinf(x) or math.isinf(y) or y == 0
    side = 0.0 if is_exact else (np.float64(x) - np.float64(nearest) * np.float64(y)) * math.copysign(1.0, y)
    return directed_32(nearest, side, toward)


@jitable
def sqrt_32(x, toward):  # type: ignore[no-untyped-def]
    """Return the rounded square root of a float32."""
    nearest = np.float32(math.sqrt(x))
    side = 0.0 if math.isinf(x) else np.float64(x) - np.float64(nearest) * np.float64(nearest)
    return directed_32(nearest, side, toward)


@jitable
def fma_32(x, y, z, toward):  # type: ignore[no-untyped-def]
    """Return the rounded ``x * y + z`` of float32."""
    nearest = np.float32(fma(x, y, z))
    product = np.float64(x) * np.float64(y)
    total, error = two_sum(product, np.float64(z))
    side = 0.0 if math.isinf(product) or math.isinf(z) else (total - nearest) + error
    return _signed(directed_32(nearest, side, toward), side, _is_positive(product) and _is_positive(z), toward)


@jitable
def rsqrt_32(x):  # type: ignore[no-untyped-def]
    """Return the float32 nearest to the reciprocal of the square root of a float32."""
    nearest = np.float32(1.0 / math.sqrt(np.float64(x)))
    if x <= 0 or math.isinf(x):
        return nearest
    for infinity in (-np.inf, np.inf):
        other = np.nextafter(nearest, np.float32(infinity))
        halfway = 0.5 * (np.float64(nearest) + np.float64(other))
        square = halfway * halfway  # of 25 bits: exact
        product = square * x
        side = (product - 1.0) + fma(square, np.float64(x), -product)
        if (side > 0) == (infinity < 0):
            return other
    return nearest


@jitable
def add_64(x, y, toward):  # type: ignore[no-untyped-def]
    """Return the rounded sum of two float64."""
    nearest, side = two_sum(x, y)
    if math.isinf(nearest):
        side = 0.0 if math.isinf(x) or math.isinf(y) else -nearest
    return _signed(directed_64(nearest, side, toward), side, _is_positive(x) and _is_positive(y), toward)


@jitable
def multiply_64(x, y, toward):  # type: ignore[no-untyped-def]
    """Return the rounded product of two float64."""
    nearest = x * y
    if math.isinf(x) or math.isinf(y) or x == 0 or y == 0:
        return nearest
    (mantissa_x, power_x), (mantissa_y, power_y) = math.frexp(x), math.frexp(y)
    return directed_64(nearest, fma(mantissa_x, mantissa_y, -math.ldexp(nearest, -power_x - power_y)), toward)


@jitable
def divide_64(x, y, toward):  # type: ignore[no-untyped-def]
    """Return the rounded quotient of two float64."""
    nearest = x / y
    if math.isinf(x) or math.isinf(y) or y == 0:
        return nearest
    (mantissa_x, power_x), (mantissa_y, power_y) = math.frexp(x), math.frexp(y)
    rest = fma(-math.ldexp(nearest, power_y - power_x), mantissa_y, mantissa_x)
    return directed_64(nearest, rest * math.copysign(1.0, y), toward)


@jitable
def sqrt_64(x, toward):  # type: ignore[no-untyped-def]
    """Return the rounded square root of a float64."""
    nearest = math.sqrt(x)
    if math.isinf(x) or x == 0:
        return nearest
    _, power = math.frexp(x)
    half = power // 2
    root = math.ldexp(nearest, -half)
    return directed_64(nearest, -fma(root, root, -math.ldexp(x, -2 * half)), toward)


@jitable
def fma_64(x, y, z, toward):  # type: ignore[no-untyped-def]
    """Return the rounded ``x * y + z`` of float64."""
    nearest = fma(x, y, z)
    if math.isinf(x) or math.isinf(y) or math.isinf(z):
        return nearest
    if math.isinf(nearest):
        return directed_64(nearest, -nearest, toward)
    (mantissa_x, power_x), (mantissa_y, power_y), (mantissa_z, power_z) = math.frexp(x), math.frexp(y), math.frexp(z)
    power = power_x + power_y
    if x == 0 or y == 0:
        power = power_z
    elif z == 0:
        power_z = power
    scale = max(power, power_z)
    product = mantissa_x * mantissa_y
    low = fma(mantissa_x, mantissa_y, -product)
    if power - scale < -_FAR:
        low = 0.0
    product = math.ldexp(product, max(power - scale, -_FAR))
    low = math.ldexp(low, max(power - scale, -_FAR))
    summand = math.ldexp(mantissa_z, max(power_z - scale, -_FAR))
    side = _sign_of_sum(low, product, summand, -math.ldexp(nearest, -scale))
    are_positive = _is_positive(product) and _is_positive(z)
    return _signed(directed_64(nearest, side, toward), side, are_positive, toward)


@jitable
def _sign_of_sum(low, high, x, y):  # type: ignore[no-untyped-def]
    """Return a number with the sign of a sum, of which ``low`` and ``high`` are a number without rounding."""
    middle, first = two_sum(low, x)
    last, second = two_sum(high, middle)
    middle, first = two_sum(first, y)
    middle, second = two_sum(second, middle)
    last, third = two_sum(last, middle)
    return last if last != 0 else third if third != 0 else second if second != 0 else first


@jitable
def float32_of(value, toward):  # type: ignore[no-untyped-def]
    """Return a float64 rounded to float32."""
    nearest = np.float32(value)
    return directed_32(nearest, 0.0 if math.isinf(value) else value - nearest, toward)


@jitable
def integer_32(nearest, high, low, toward):  # type: ignore[no-untyped-def]
    """Return the rounded float32 of an integer.

    Args:
        nearest: The float32 nearest to the integer.
        high: The integer without its lowest 32 bits, as a float64.
        low: Its lowest 32 bits, as a float64.
        toward: Direction to round to.

    Returns:
        The rounded value.
    """
    return directed_32(nearest, (high - nearest) + low, toward)


@jitable
def integer_64(nearest, high, low, toward):  # type: ignore[no-untyped-def]
    """Return the rounded float64 of an integer; see :func:`integer_32`."""
    return directed_64(nearest, (high - nearest) + low, toward)
