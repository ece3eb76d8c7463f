"""Compute the coefficients of the polynomials in warpdrive/math.py.

python tools/minimax.py

Each polynomial minimises the maximum of the weighted error on its interval (Lawson's algorithm, "Contributions to the
theory of linear least maximum approximations", 1961). Coefficients are rounded to float32 one after the other, the most
significant first, and the remaining ones are recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

POINTS = 4001
ROUNDS = 400


@dataclass(frozen=True)
class Problem:
    """A polynomial to be computed.

    Attributes:
        target: Function that the polynomial approximates.
        weight: Weight of the error; by it, errors are in units of the result's relative error.
        low: Lower end of the interval.
        high: Upper end of the interval.
        terms: The number of coefficients.
    """

    target: Callable[[Array], Array]
    weight: Callable[[Array], Array]
    low: float
    high: float
    terms: int


def series(x: Array, first: int, coefficient: Callable[[int], float], terms: int = 40) -> Array:
    """Return the sum of ``coefficient(k) * x**(k - first)`` for k from ``first``: exact where differences cancel."""
    return sum((coefficient(k) * x ** (k - first) for k in range(first, first + terms)), np.zeros_like(x))


def inverse_factorial(k: int) -> float:
    """Return 1 / k!."""
    return 1.0 / float(np.prod(np.arange(1, k + 1, dtype=np.float64)))


QUARTER = (np.pi / 4 * 1.001) ** 2
HALF_LOG_2 = np.log(2) / 2 * 1.001
SMALL, LARGE = np.sqrt(0.5) - 1, np.sqrt(2) - 1
ATANH = (LARGE / (2 + LARGE)) ** 2 * 1.001

PROBLEMS = {
    "sine: (sin(r) - r) / r**3, by powers of z = r**2": Problem(
        lambda z: series(z, 1, lambda k: (-1.0) ** k * inverse_factorial(2 * k + 1), 20),
        lambda z: z / np.sinc(np.sqrt(z) / np.pi),
        0.0,
        QUARTER,
        3,
    ),
    "cosine: (cos(r) - 1 + r**2 / 2) / r**4, by powers of z = r**2": Problem(
        lambda z: series(z, 2, lambda k: (-1.0) ** k * inverse_factorial(2 * k), 20),
        lambda z: z**2 / np.cos(np.sqrt(z)),
        0.0,
        QUARTER,
        3,
    ),
    "exponential: (exp(r) - 1 - r) / r**2, by powers of r": Problem(
        lambda r: series(r, 2, inverse_factorial, 25), lambda r: r**2 / np.exp(r), -HALF_LOG_2, HALF_LOG_2, 5
    ),
    "logarithm: (log(1 + f) - f) / f**2, by powers of f": Problem(
        lambda f: (
            np.where(np.abs(f) < 0.05, series(f, 2, lambda k: -((-1.0) ** k) / k, 20), 0.0)
            + np.where(np.abs(f) < 0.05, 0.0, (np.log1p(f) - f) / np.where(f == 0, 1, f) ** 2)
        ),
        lambda f: np.abs(f) / np.where(f == 0, 1.0, np.log1p(f) / np.where(f == 0, 1, f)),
        SMALL,
        LARGE,
        9,
    ),
    "arctangent: (atan(q) - q) / q**3, by powers of z = q**2": Problem(
        lambda z: np.where(
            z < 0.05,
            series(np.minimum(z, 0.05), 1, lambda k: (-1.0) ** k / (2 * k + 1), 20),
            (np.arctan(np.sqrt(z)) / np.sqrt(np.where(z == 0, 1, z)) - 1) / np.where(z == 0, 1, z),
        ),
        lambda z: z / np.where(z == 0, 1.0, np.arctan(np.sqrt(z)) / np.sqrt(np.where(z == 0, 1, z))),
        0.0,
        0.25,
        5,
    ),
    "power: (2 atanh(s) - 2 s - 2/3 s**3) / s**5, by powers of z = s**2": Problem(
        lambda z: series(z, 2, lambda k: 2 / (2 * k + 1), 25), lambda z: z**2, 0.0, ATANH, 3
    ),
}


def lawson(columns: Array, values: Array, weights: Array) -> Array:
    """Return the coefficients that minimise the maximum of the weighted error.

    Args:
        columns: ``[points, terms]``, the powers.
        values: ``[points]``, the values to approximate.
        weights: ``[points]``, the weights.

    Returns:
        ``[terms]``.
    """
    share = np.full(len(values), 1 / len(values))
    best, least = np.zeros(columns.shape[1]), np.inf
    for _ in range(ROUNDS):
        root = np.sqrt(share) * weights
        found = np.linalg.lstsq(columns * root[:, None], values * root, rcond=None)[0]
        errors = np.abs((columns @ found - values) * weights)
        if errors.max() < least:
            best, least = found, errors.max()
        share *= errors + 1e-30
        share /= share.sum()
    return best


def rounded(problem: Problem) -> tuple[list[np.float32], float]:
    """Return the coefficients in float32, ascending powers, and the maximum of the weighted error."""
    middle, half = (problem.low + problem.high) / 2, (problem.high - problem.low) / 2
    x = middle - half * np.cos(np.pi * np.arange(POINTS) / (POINTS - 1))
    values, weights = problem.target(x), problem.weight(x)
    scale = max(abs(problem.low), abs(problem.high))
    known: list[np.float32] = []
    powers = (x[:, None] / scale) ** np.arange(problem.terms)
    rest = values.copy()
    for k in range(problem.terms):
        found = lawson(powers[:, k:], rest, weights)
        known.append(np.float32(found[0] / scale**k))
        rest -= np.float64(known[-1]) * x**k
    return known, float(np.max(np.abs(rest * weights)))


def shown(coefficients: Sequence[np.float32]) -> str:
    """Return coefficients as decimal numbers that identify the float32."""
    return ", ".join(repr(float(coefficient)) for coefficient in coefficients)


def main() -> None:
    """Print all coefficients."""
    for name, problem in PROBLEMS.items():
        coefficients, error = rounded(problem)
        print(f"{name}\n    {shown(coefficients)}\n    error 2**{np.log2(error):.1f}")


if __name__ == "__main__":
    main()
