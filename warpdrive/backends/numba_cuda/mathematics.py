"""Functions that numba.cuda lacks, or has in float64 only.

Sine, cosine and tangent of float32 are computed without float64, which libdevice uses for large arguments.

On most GPUs float64 is 32 to 64 times slower, and takes registers even if it is never needed. Sine and cosine are
accurate to three units in the last place for all arguments, and to two below 65536. Up to there arguments are reduced
with pi/2 in three parts (Cody and Waite, "Software Manual for the Elementary Functions", 1980), larger ones with
integers (Payne and Hanek, "Radian reduction for trigonometric functions", SIGNUM 1983). The polynomials are those of
the Cephes library (Moshier, sinf.c).
"""

from __future__ import annotations

import math
from math import ceil, exp, floor, sqrt

import numpy as np
from numba import cuda, types
from numba.cuda.extending import overload

__all__ = ["absolute", "ceil", "cos", "exp", "floor", "sign", "sin", "sqrt", "tan"]

absolute = abs

_HALF, _ONE = np.float32(0.5), np.float32(1.0)
_INFINITY = np.float32(np.inf)
_LARGE = np.float32(65536.0)
"""Upper limit of the Cody-Waite reduction, above which products with the parts of pi/2 are too inexact."""

_TWO_OVER_PI = np.float32(2.0 / math.pi)
_PART_1, _PART_2 = np.float32(1.5707963705062866), np.float32(-4.371138828673793e-08)
_PART_3 = np.float32(-1.7151245100058819e-15)

_SINE_3, _SINE_5, _SINE_7 = np.float32(-1.6666654611e-1), np.float32(8.3321608736e-3), np.float32(-1.9515295891e-4)
_COSINE_4, _COSINE_6 = np.float32(4.166664568298827e-2), np.float32(-1.388731625493765e-3)
_COSINE_8 = np.float32(2.443315711809948e-5)

_BITS = np.array(
    [0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB, 0xDEBBC561], np.uint64
)
"""Binary digits of 2/pi after the point, 32 per word, preceded by a word of zeros."""

_MANTISSA = np.float32(2.0**24)
_WORD, _LOW_WORD = np.uint64(32), np.uint64(0xFFFFFFFF)
_TURN_BITS, _HALF_STEP = np.uint64(62), np.uint64(1 << 61)
_UNIT = np.float32(math.pi / 2 * 2.0**-62)


@cuda.jit(device=True)
def reduce_large(x):  # type: ignore[no-untyped-def]
    """Return the nearest multiple of pi/2 to a positive number, modulo 4, and the signed distance from it."""
    fraction, exponent = math.frexp(x)
    mantissa = np.uint64(np.float32(fraction) * _MANTISSA)
    first = exponent - 24 + 30  # the digit of 2/pi with weight 2, for an integral mantissa
    word, shift = first >> 5, np.uint64(first & 31)
    rest = _WORD - shift
    high = ((_BITS[word] << shift) | (_BITS[word + 1] >> rest)) & _LOW_WORD
    middle = ((_BITS[word + 1] << shift) | (_BITS[word + 2] >> rest)) & _LOW_WORD
    low = ((_BITS[word + 2] << shift) | (_BITS[word + 3] >> rest)) & _LOW_WORD
    carry = mantissa * middle + ((mantissa * low) >> _WORD)
    quarters = ((mantissa * high + (carry >> _WORD)) << _WORD) | (carry & _LOW_WORD)  # modulo 4, in units of 2**-62
    nearest = (quarters + _HALF_STEP) >> _TURN_BITS
    return np.int32(nearest), np.float32(np.int64(quarters - (nearest << _TURN_BITS))) * _UNIT


@cuda.jit(device=True)
def reduce_moderate(x):  # type: ignore[no-untyped-def]
    """Return the nearest multiple of pi/2 to a number from 0 to ``_LARGE``, and the signed distance from it."""
    nearest = np.int32(cuda.fma(x, _TWO_OVER_PI, _HALF))
    count = np.float32(nearest)
    return nearest, cuda.fma(-count, _PART_3, cuda.fma(-count, _PART_2, cuda.fma(-count, _PART_1, x)))


@cuda.jit(device=True)
def quarter_turned(quarters, r):  # type: ignore[no-untyped-def]
    """Return the sine of ``quarters * pi / 2 + r``, with ``r`` between -pi/4 and pi/4."""
    z = r * r
    if quarters & 1:
        p = cuda.fma(cuda.fma(_COSINE_8, z, _COSINE_6), z, _COSINE_4)
        value = cuda.fma(p * z, z, cuda.fma(-_HALF, z, _ONE))
    else:
        p = cuda.fma(cuda.fma(_SINE_7, z, _SINE_5), z, _SINE_3)
        value = cuda.fma(p * z, r, r)
    return -value if quarters & 2 else value


@cuda.jit(device=True)
def sine(x, turned):  # type: ignore[no-untyped-def]
    """Return the sine of a float32 plus ``turned`` (0 or 1) quarter turns."""
    size = abs(x)
    if size < _LARGE:
        quarters, r = reduce_moderate(size)
    elif size < _INFINITY:
        quarters, r = reduce_large(size)
    else:
        return x - x  # NaN for infinity
    value = quarter_turned(quarters + turned, r)
    return value if turned else math.copysign(_ONE, x) * value


def sin(x):  # type: ignore[no-untyped-def]
    """Return the sine of ``x`` in radians."""


def cos(x):  # type: ignore[no-untyped-def]
    """Return the cosine of ``x`` in radians."""


def tan(x):  # type: ignore[no-untyped-def]
    """Return the tangent of ``x`` in radians."""


@overload(sin)
def _sin(x):  # type: ignore[no-untyped-def]
    return (lambda x: sine(x, 0)) if x == types.float32 else (lambda x: math.sin(x))


@overload(cos)
def _cos(x):  # type: ignore[no-untyped-def]
    return (lambda x: sine(x, 1)) if x == types.float32 else (lambda x: math.cos(x))


@overload(tan)
def _tan(x):  # type: ignore[no-untyped-def]
    return (lambda x: sine(x, 0) / sine(x, 1)) if x == types.float32 else (lambda x: math.tan(x))


def sign(x):  # type: ignore[no-untyped-def]
    """Return -1, 0 or 1 for a negative, zero or positive ``x``, in its dtype; NaN for NaN."""


@overload(sign)
def _sign(x):  # type: ignore[no-untyped-def]
    zero, one = x(0), x(1)
    return lambda x: one if x > zero else -one if x < zero else x
