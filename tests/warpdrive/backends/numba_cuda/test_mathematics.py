"""Sine, cosine and tangent of ``math`` in GPU code, run on the host: those of ``wd.math``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from float32_errors import sample
from numba import cuda
from oracle import launch_gpu_code, ptx_of

import warpdrive as wd


def kernel_of(function: Any) -> Any:
    """Return a kernel that computes a function of an array."""

    @wd.kernel
    def kernel(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(x[i])

    return kernel


@pytest.mark.parametrize(
    "module", [pytest.param(math, id="math"), pytest.param(np, id="numpy", marks=pytest.mark.exhaustive)]
)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_functions_of_float32(module: Any, name: str) -> None:
    x = sample(np.random.default_rng(0))
    expected, found = np.zeros_like(x), np.zeros_like(x)
    kernel_of(getattr(wd.math, name)).forall(len(x))(x, expected)
    of_math = kernel_of(getattr(module, name))
    launch_gpu_code(of_math, -(-len(x) // 256), 256, [x, found])
    np.testing.assert_array_equal(found, expected)
    assert ".f64" not in ptx_of(of_math, [x, found])


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_functions_of_float64(name: str) -> None:
    x = np.random.default_rng(1).uniform(-10, 10, 1000)
    found = np.zeros_like(x)
    launch_gpu_code(kernel_of(getattr(math, name)), 4, 256, [x, found])
    np.testing.assert_allclose(found, getattr(np, name)(x), rtol=1e-13)
