"""Special functions of libdevice that neither numba nor the C library has, in float64, for generated CPU code.

Their errors are those that CUDA documents, in units in the last place, or smaller.
"""

from __future__ import annotations

import math

import numpy as np

from warpdrive.backends.host.mathematics import fmod, remainder
from warpdrive.backends.host.scalars import fma
from warpdrive.backends.host.subroutines import jitable

_PI_LOW = 1.2246467991473532e-16
"""The difference between pi and ``math.pi``."""
_SQRT_HALF, _SQRT_HALF_LOW = 0.7071067811865476, -4.833646656726457e-17
_HALF_SQRT_PI = 0.8862269254527580
_LARGE = 10.0
"""Argument from which the asymptotic series of erfcx is exact."""
_WINITZKI = 0.147


@jitable
def rsqrt(x):  # type: ignore[no-untyped-def]
    """Return the reciprocal of the square root."""
    y = 1.0 / math.sqrt(x)
    product = x * y
    error = fma(-product, y, 1.0) - fma(x, y, -product) * y
    better = y + 0.5 * y * error
    return better if math.isfinite(better) else y


@jitable
def cbrt(x):  # type: ignore[no-untyped-def]
    """Return the cube root."""
    y = np.cbrt(x)
    square = y * y
    error = fma(square, y, -x) + fma(y, y, -square) * y
    better = y - error / (3.0 * square)
    return better if math.isfinite(better) else y


@jitable
def rcbrt(x):  # type: ignore[no-untyped-def]
    """Return the reciprocal of the cube root."""
    y = 1.0 / np.cbrt(x)
    square = y * y
    cube = square * y
    low = fma(square, y, -cube) + fma(y, y, -square) * y
    product = x * cube
    error = (1.0 - product) - (fma(x, cube, -product) + x * low)
    better = y + y * error / 3.0
    return better if math.isfinite(better) else y


@jitable
def sincospi(x):  # type: ignore[no-untyped-def]
    """Return the sine and the cosine of ``pi * x``."""
    rest = fmod(x, 2.0)
    quarter = np.rint(2.0 * rest)
    rest -= 0.5 * quarter
    angle = math.pi * rest
    low = fma(math.pi, rest, -angle) + _PI_LOW * rest
    s, c = math.sin(angle), math.cos(angle)
    sine, cosine = s + c * low, c - s * low
    zero = math.copysign(0.0, x)
    turned = (quarter + 4.0) % 4.0
    if turned == 0.0:
        return (sine if rest != 0.0 else zero), cosine
    if turned == 1.0:
        return cosine, 0.0 - sine
    if turned == 2.0:
        return (-sine if rest != 0.0 else zero), -cosine
    return -cosine, sine


@jitable
def erfcx(x):  # type: ignore[no-untyped-def]
    """Return ``exp(x**2) * erfc(x)``."""
    if x >= _LARGE:
        t = 0.5 / x / x
        total = 0.0
        for n in range(15, 0, -1):
            total = -(2 * n - 1) * t * (1.0 + total)
        return 0.5 / _HALF_SQRT_PI / x * (1.0 + total)
    square = x * x
    return math.exp(square) * (1.0 + fma(x, x, -square)) * math.erfc(x)


@jitable
def _winitzki(log):  # type: ignore[no-untyped-def]
    """Return an estimate of the inverse error function, given ``log(1 - y**2)`` (Winitzki, 2008)."""
    term = 2.0 / (math.pi * _WINITZKI) + 0.5 * log
    return math.sqrt(math.sqrt(term * term - log / _WINITZKI) - term)


@jitable
def _inverse_of_erf(y):  # type: ignore[no-untyped-def]
    """Return the inverse error function of ``y`` between -0.5 and 0.5."""
    x = math.copysign(_winitzki(math.log1p(-y * y)), y)
    for _ in range(3):
        step = (math.erf(x) - y) * _HALF_SQRT_PI * math.exp(x * x)
        x -= step / (1.0 + x * step)
    return x


@jitable
def _inverse_of_erfc(z):  # type: ignore[no-untyped-def]
    """Return the inverse complementary error function of ``z`` between 0 and 0.5."""
    if z == 0.0:
        return np.inf
    log = math.log(z)
    x = _winitzki(log + math.log(2.0 - z))
    for _ in range(3):
        step = _HALF_SQRT_PI * (math.exp(x * x + log) - erfcx(x))
        x -= step / (1.0 + x * step)
    return x


@jitable
def erfinv(y):  # type: ignore[no-untyped-def]
    """Return the inverse error function."""
    if not abs(y) <= 1.0:
        return np.nan
    return _inverse_of_erf(y) if abs(y) <= 0.5 else math.copysign(_inverse_of_erfc(1.0 - abs(y)), y)


@jitable
def erfcinv(z):  # type: ignore[no-untyped-def]
    """Return the inverse complementary error function."""
    if not 0.0 <= z <= 2.0:
        return np.nan
    if 0.5 <= z <= 1.5:
        return _inverse_of_erf(1.0 - z)
    return _inverse_of_erfc(z) if z < 1.0 else -_inverse_of_erfc(2.0 - z)


@jitable
def normcdf(x):  # type: ignore[no-untyped-def]
    """Return the cumulative distribution function of the standard normal distribution."""
    t = -x * _SQRT_HALF
    low = fma(-x, _SQRT_HALF, -t) - x * _SQRT_HALF_LOW
    if not abs(t) < 30.0:
        return 0.5 * math.erfc(t)
    if t < 1.0:
        return 0.5 * math.erfc(t) - low * math.exp(-t * t) * 0.5 / _HALF_SQRT_PI
    square = t * t
    exponential = math.exp(-square) * (1.0 - fma(t, t, -square) - 2.0 * t * low)
    return 0.5 * exponential * erfcx(t)


@jitable
def normcdfinv(p):  # type: ignore[no-untyped-def]
    """Return the inverse of the cumulative distribution function of the standard normal distribution."""
    return -math.sqrt(2.0) * erfcinv(2.0 * p)


@jitable
def logb(x):  # type: ignore[no-untyped-def]
    """Return the exponent of a number as a float."""
    if x == 0.0:
        return -np.inf
    if not math.isfinite(x):
        return abs(x)
    return float(math.frexp(x)[1] - 1)


@jitable
def ilogb(x):  # type: ignore[no-untyped-def]
    """Return the exponent of a number as an integer."""
    if x == 0.0 or math.isnan(x):
        return np.int32(-(2**31))
    if math.isinf(x):
        return np.int32(2**31 - 1)
    return np.int32(math.frexp(x)[1] - 1)


@jitable
def remquo(x, y):  # type: ignore[no-untyped-def]
    """Return the IEEE 754 remainder, and the sign and the lowest three bits of the quotient."""
    rest = remainder(x, y)
    if not math.isfinite(rest) or math.isinf(y):
        return rest, np.int32(0)
    size, of_size = abs(x), abs(y)
    if not math.isinf(8.0 * of_size):
        size = fmod(size, 8.0 * of_size)
    quotient = np.int32(np.rint((size - math.copysign(1.0, x) * rest) / of_size)) & np.int32(7)
    return rest, (quotient if (x < 0.0) == (y < 0.0) else -quotient)
