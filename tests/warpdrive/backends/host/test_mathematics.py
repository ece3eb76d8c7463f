"""Functions of math that numba has only for GPUs equal those of Python."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numba import cuda

import warpdrive as wd

NUMBERS = [0.0, -0.0, 0.5, -0.75, 1.0, 1.5, 2.5, -2.5, 3.0, -7.0, 1e300, 5e-324, math.inf, -math.inf, math.nan]


@wd.kernel
def remainders_and_parts(x, y, out):
    i = cuda.grid(1)
    out[i, 0] = math.fmod(x[i], y[i])
    out[i, 1] = math.remainder(x[i], y[i])
    out[i, 2], out[i, 3] = math.modf(x[i])


def or_nan(function, *numbers):
    try:
        return function(*numbers)
    except ValueError:
        return math.nan


def test_special_numbers():
    x, y = np.array(list(itertools.product(NUMBERS, NUMBERS))).T.copy()
    out = np.zeros((len(x), 4))
    remainders_and_parts[1, len(x)](x, y, out)
    pairs = zip(x, y, strict=True)
    expected = [(or_nan(math.fmod, a, b), or_nan(math.remainder, a, b), *math.modf(a)) for a, b in pairs]
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(np.copysign(1, out)[out == 0], np.copysign(1, expected)[out == 0])


def test_float32():
    x, y = np.random.default_rng(0).normal(0, 5, (2, 100)).astype(np.float32)
    out = np.zeros((100, 4), np.float32)
    remainders_and_parts[1, 100](x, y, out)
    exact = [(math.fmod(a, b), math.remainder(a, b), *math.modf(a)) for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(out, exact)
    assert wd.check_launch(remainders_and_parts, 1, 3, x[:3], y[:3], out[:3]).clean


@wd.kernel
def extremes(x, y, out):
    i = cuda.grid(1)
    out[i, 0], out[i, 1] = min(x[i], y[i]), max(x[i], y[i])
    single = np.float32(y[i])
    out[i, 2], out[i, 3] = min(x[i], single), max(np.float32(x[i]), single)
    out[i, 4], out[i, 5] = min(i, 3, 7), max(x[i], 2)


def test_the_lesser_of_two_floats_is_a_number_if_one_is():
    x, y = np.array(list(itertools.product(NUMBERS, NUMBERS))).T.copy()
    out = np.zeros((len(x), 6))
    extremes[1, len(x)](x, y, out)
    with np.errstate(over="ignore"):
        u, v = x.astype(np.float32), y.astype(np.float32)
    numbers = np.minimum(np.arange(len(x)), 3)
    expected = [np.fmin(x, y), np.fmax(x, y), np.fmin(x, v), np.fmax(u, v), numbers, np.where(x > 2, x, 2)]
    np.testing.assert_array_equal(out[:, :5].T, expected[:5])
    np.testing.assert_array_equal(out[~np.isnan(x), 5], expected[5][~np.isnan(x)])
    assert wd.check_launch(extremes, 1, 3, x[:3], y[:3], out[:3]).clean
