"""Sine, cosine and tangent of GPU code, run on the CPU, against NumPy's in float64."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import warpdrive as wd
from warpdrive.backends.numba_cuda.mathematics import sine


@wd.kernel
def sines(x, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        out[i, 0] = sine(x[i], 0)
        out[i, 1] = sine(x[i], 1)


def computed(x):
    out = np.zeros((len(x), 2), np.float32)
    sines.forall(len(x))(x, out)
    return out


@pytest.mark.parametrize(
    ("numbers", "units"),
    [
        (np.random.default_rng(0).uniform(-10, 10, 500_000), 2),
        (np.random.default_rng(1).uniform(-65536, 65536, 500_000), 2),
        (np.random.default_rng(2).integers(0, 2**32, 1_000_000, dtype=np.uint32).view(np.float32), 3),
        (np.arange(-2000, 2000) * np.pi / 2, 2),
    ],
    ids=["small", "moderate", "all exponents", "multiples of pi/2"],
)
def test_sine_and_cosine_of_all_sizes(numbers, units):
    x = numbers.astype(np.float32)
    x = x[np.isfinite(x)]
    expected = np.stack([np.sin(x.astype(np.float64)), np.cos(x.astype(np.float64))], axis=1)
    unit = np.spacing(np.abs(expected.astype(np.float32))).astype(np.float64)
    assert (np.abs(computed(x) - expected) <= units * unit).all()


def test_what_is_special():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    out = computed(x)
    np.testing.assert_array_equal(out[:2], [[0, 1], [0, 1]])
    np.testing.assert_array_equal(np.signbit(out[:2, 0]), [False, True])
    assert np.isnan(out[2:]).all()
