"""``vectorize`` and ``guvectorize`` with ``target="cuda"``, and ``cuda.reduce``, compared with NumPy."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from numba import guvectorize, vectorize

GENERATOR = np.random.default_rng(1)


@pytest.fixture(scope="module")
def hypotenuse(cuda):
    @vectorize(["float32(float32, float32)", "float64(float64, float64)"], target="cuda")
    def hypotenuse(x, y):
        return math.sqrt(x * x + y * y)

    return hypotenuse


def test_arrays_are_broadcast_and_converted(cuda, hypotenuse):
    x, y = GENERATOR.random((3, 1, 4), np.float32), GENERATOR.random((5, 1), np.float32)
    for left, right in ((x, y), (x.astype(np.float64), y + np.float64()), (x, 2), (3.5, y), (x[..., ::2], y)):
        found = hypotenuse(left, right)
        np.testing.assert_allclose(found, np.hypot(left, right), rtol=1e-6)
        assert found.dtype == np.hypot(left, right).dtype
    assert isinstance(hypotenuse(3.0, 4.0), float) and hypotenuse(3.0, 4.0) == 5


def test_results_are_where_the_arguments_are(cuda, hypotenuse):
    x = GENERATOR.random((4, 3), np.float32)
    device = cuda.to_device(x)
    assert cuda.is_cuda_array(hypotenuse(device, x))
    for out in (np.empty_like(x), cuda.device_array_like(x), np.empty((4, 6), np.float32)[:, ::2]):
        assert hypotenuse(device, device, out=out, stream=cuda.stream()) is out
        np.testing.assert_allclose(np.asarray(out), np.hypot(x, x), rtol=1e-6)
    with pytest.raises(ValueError):
        hypotenuse(x, x, out=np.empty(3, np.float32))
    with pytest.raises(TypeError, match="No matching version"):
        hypotenuse(x, x.astype(np.float64))
    with pytest.raises(TypeError, match="Several versions"):
        hypotenuse(1, 2)


def test_functions_of_two_numbers_reduce(cuda):
    @vectorize(["int64(int64, int64)"], target="cuda")
    def add(x, y):
        return x + y

    for count in (1, 2, 7, 100):
        assert add.reduce(np.arange(count)) == add.reduce(cuda.to_device(np.arange(count))) == sum(range(count))
    with pytest.raises(TypeError):
        add.reduce(np.zeros(0, np.int64))
    assert pickle.loads(pickle.dumps(add))(2, 3) == 5


def test_device_functions_and_undeclared_results(cuda):
    @cuda.jit(device=True)
    def half(x):
        return x / 2

    @cuda.vectorize(["float32(float32)"])
    def halves(x):
        return half(x)

    @vectorize(["(int32, int32)"], target="cuda")
    def quotient(x, y):
        return x / y

    assert halves(np.float32([1, 2])).tolist() == [0.5, 1]
    assert quotient(np.int32(1), np.int32(4)) == 0.25


def test_products_of_stacks_of_matrices(cuda):
    @guvectorize(["void(float32[:,:], float32[:,:], float32[:,:])"], "(m,n),(n,p)->(m,p)", target="cuda")
    def product(a, b, c):
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                total = np.float32(0)
                for k in range(a.shape[1]):
                    total += a[i, k] * b[k, j]
                c[i, j] = total

    a, b = GENERATOR.random((5, 1, 2, 3), np.float32), GENERATOR.random((4, 3, 6), np.float32)
    for left, right in ((a, b), (a[0, 0], b[0]), (a, b[:, :, ::2]), (a[:0], b)):
        np.testing.assert_allclose(product(left, right), left @ right, rtol=1e-5)
    device = product(cuda.to_device(a), b)
    assert cuda.is_cuda_array(device)
    out = np.empty((5, 4, 2, 6), np.float32)
    assert product(a, b, out) is out and product(a, b, out=out) is out
    np.testing.assert_allclose(out, device, rtol=1e-6)
    with pytest.raises(ValueError, match="axis 'n'"):
        product(a, a)
    with pytest.raises(TypeError):
        product(a)


def test_numbers_as_inputs_and_several_outputs(cuda):
    @guvectorize(["void(int64[:], int64, int64[:], int64[:])"], "(n),()->(n),()", target="cuda")
    def shifted(values, offset, moved, total):
        total[0] = 0
        for i in range(values.shape[0]):
            moved[i] = values[i] + offset
            total[0] += moved[i]

    values, offsets = GENERATOR.integers(0, 9, (3, 4)), np.array([1, 2, 3])
    moved, total = shifted(values, offsets)
    np.testing.assert_array_equal(moved, values + offsets[:, None])
    np.testing.assert_array_equal(total, moved.sum(1))


@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 65, 1000])
def test_reductions(cuda, count):
    @cuda.reduce
    def largest(x, y):
        return max(x, y)

    values = GENERATOR.integers(-1000, 1000, count)
    assert largest(values, init=-5) == largest(cuda.to_device(values), init=-5) == max([-5, *values])
    if count > 2:
        res = cuda.device_array(1, values.dtype)
        assert cuda.Reduce(lambda x, y: x + y)(values, size=2, res=res, init=10) is None
        assert res[0] == 10 + values[:2].sum()
