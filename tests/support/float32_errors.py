"""Errors of float32 functions in units in the last place, against float64, and the arguments to measure them on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

import warpdrive as wd

EXACT: dict[str, Any] = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "pow": np.power,
    "atan2": np.arctan2,
}
"""The functions of ``wd.math``, by name, in float64."""
BINARY = ("pow", "atan2")
LIMITS = [1e-45, 1.1754942e-38, 1.1754943e-38, 3.4028235e38, 2.0**24 - 1, 2.0**24]
NEARLY_MULTIPLES = [16367173 * 2.0**72, 3045577981952.0, 7.305863975158104e23]
"""Angles that nearly are multiples of pi/2."""
SPECIAL = np.array(
    [0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 2.5, -2.5, 1e9, -1e9, np.inf, -np.inf, np.nan]
    + [sign * size for sign in (1, -1) for size in (*LIMITS, *NEARLY_MULTIPLES)]
    + [88.72283, 88.72284, -87.33654, -87.33655, -103.97207, -103.97208, 9.010913],
    np.float32,
)
"""Zeros, infinities, NaN, limits of float32, and where functions of it overflow, vanish or nearly do."""


def unary_kernel(name: str) -> Any:
    """Return a kernel ``(x, out)`` that computes a function of ``wd.math`` for arrays."""
    function = getattr(wd.math, name)

    @wd.kernel
    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(x[i])

    return kernel


def binary_kernel(name: str) -> Any:
    """Return a kernel ``(x, y, out)`` that computes a function of ``wd.math`` for arrays."""
    function = getattr(wd.math, name)

    @wd.kernel
    def kernel(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(x[i], y[i])

    return kernel


def kernel_of(name: str) -> Any:
    """Return a kernel that computes a function of ``wd.math`` for arrays, the last of which it writes to."""
    return binary_kernel(name) if name in BINARY else unary_kernel(name)


def exact(name: str, *arguments: np.ndarray) -> np.ndarray:
    """Return a function of float32 in float64."""
    with np.errstate(all="ignore"):
        return EXACT[name](*(argument.astype(np.float64) for argument in arguments))  # type: ignore[no-any-return]


def errors(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return the errors of float32 values in units in the last place of the exact ones.

    An infinite value counts as 2**128, as for rounding. The error is infinite where only one of both is NaN, and where
    the signs differ.
    """
    with np.errstate(all="ignore"):
        size = np.abs(expected)
        exponent = np.frexp(np.where((size > 0) & (size < 2.0**128), size, 2.0**127))[1]
        unit = np.ldexp(1.0, np.maximum(exponent - 24, -149))
        limit = 2.0**128
        distance = np.abs(np.clip(found.astype(np.float64), -limit, limit) - np.clip(expected, -limit, limit)) / unit
    distance[found == expected] = 0.0
    distance[np.isnan(found) != np.isnan(expected)] = np.inf
    distance[np.isnan(found) & np.isnan(expected)] = 0.0
    is_number = ~np.isnan(expected)
    distance[is_number & (np.signbit(found) != np.signbit(expected))] = np.inf
    return distance


def sample(generator: np.random.Generator) -> np.ndarray:
    """Return about 20,000 float32: special ones, each exponent with either sign, angles, and usual sizes."""
    exponents = np.arange(1 << 9, dtype=np.uint32)[:, None] << 23
    digits = np.append(generator.integers(0, 1 << 23, (1 << 9, 14), np.uint32), np.array([[0, 1]] * (1 << 9)), axis=1)
    bits = (exponents | digits.astype(np.uint32)).ravel()
    angles = np.arange(-1000, 1000) * np.pi / 2
    usual = generator.normal(0, 3, 8000)
    return np.concatenate([SPECIAL, bits.view(np.float32), angles.astype(np.float32), usual.astype(np.float32)])


def pairs(name: str, generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return arguments of a function of two numbers: all pairs of special ones, then random ones of various sizes."""
    first, second = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    quarter = count // 4
    x, y = (generator.integers(0, 1 << 32, 2 * quarter, np.uint32).view(np.float32) for _ in range(2))
    near, other = (generator.normal(0, 1, quarter) * np.exp(generator.normal(0, 2, quarter)) for _ in range(2))
    base = np.exp(generator.normal(0, 5, quarter))
    exponent = generator.uniform(-104, 89, quarter) / np.where(base == 1, 1, np.log(base))
    if name == "atan2":
        base, exponent = near, near * np.exp(generator.normal(0, 0.1, quarter))
    xs = np.concatenate([first, x, near.astype(np.float32), base.astype(np.float32)])
    ys = np.concatenate([second, y, other.astype(np.float32), exponent.astype(np.float32)])
    return xs, ys
