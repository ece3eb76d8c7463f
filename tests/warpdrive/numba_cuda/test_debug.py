"""``cuda.jit(debug=True)``: indices, divisors and the thread of an exception."""

from __future__ import annotations

import re

import numpy as np
import pytest

from warpdrive.numba_cuda import cuda


class CustomError(Exception):
    pass


class PairError(Exception):
    def __init__(self, first, second):
        super().__init__(first, second)


@cuda.jit(device=True)
def part(a, i):
    return a[i] / a[i + 1]


@cuda.jit(debug=True, opt=False)
def every_kind(x, rows, pair, out, kind):
    i, b = cuda.threadIdx.x, cuda.blockIdx.x
    shared = cuda.shared.array(4, np.int32)
    own = cuda.local.array((2, 2), np.float32)
    shared[i] = i
    own[i % 2, 0] = i
    cuda.syncthreads()
    out[b, i] = x[i] + rows[b, i] + pair[i % 2] + shared[-1] * own[i % 2, 0] + len(x[1:100])
    if b == 1 and i >= 2:
        if kind == 1:
            out[b, i] = x[i + 4]
        elif kind == 2:
            rows[b, i - 7] = 1
        elif kind == 3:
            out[b, i] = shared[i * 2]
        elif kind == 4:
            out[b, i] = own[i // 2, i]
        elif kind == 5:
            out[b, i] = pair[i]
        elif kind == 6:
            cuda.atomic.add(out, (b, i + 2), 1)
        elif kind == 7:
            out[b, i] = i // x[0]
        elif kind == 8:
            out[b, i] %= x[0]
        elif kind == 9:
            out[b, i] = part(x, i + 1)
        elif kind == 10:
            out[b, i] = part(x, -1)
        elif kind == 11:
            raise CustomError("too bad")
        elif kind == 12:
            assert x[i] < 2
        elif kind == 13:
            raise PairError
        elif kind == 14:
            out[b, i] = rows[5][i]
        elif kind == 15:
            out[x.shape[i], 0] = 1


@pytest.mark.parametrize(
    ("kind", "error", "said", "line"),
    [
        (1, IndexError, "index 6 is out of bounds for axis 0 with size 5", "x[i + 4]"),
        (2, IndexError, "index -5 is out of bounds for axis 1 with size 4", "rows[b, i - 7]"),
        (3, IndexError, "index 4 is out of bounds for axis 0 with size 4", "shared[i * 2]"),
        (4, IndexError, "index 2 is out of bounds for axis 1 with size 2", "own[i // 2, i]"),
        (5, IndexError, "index 2 is out of bounds for axis 0 with size 2", "pair[i]"),
        (6, IndexError, "index 4 is out of bounds for axis 1 with size 4", "(b, i + 2)"),
        (7, ZeroDivisionError, "division by zero", "i // x[0]"),
        (8, FloatingPointError, "division by zero", "%= x[0]"),
        (9, IndexError, "index 5 is out of bounds for axis 0 with size 5", "return a[i] / a[i + 1]"),
        (10, ZeroDivisionError, "division by zero", "return a[i] / a[i + 1]"),
        (11, CustomError, "too bad", "raise CustomError"),
        (12, AssertionError, "x[i] < 2", "assert x[i]"),
        (13, RuntimeError, "PairError", "raise PairError"),
        (14, IndexError, "index 5 is out of bounds for axis 0 with size 2", "rows[5]"),
        (15, IndexError, "tuple index out of range", "x.shape[i]"),
    ],
)
def test_errors_name_the_thread(kind, error, said, line):
    x, rows, out = np.arange(5.0), np.ones((2, 4)), np.zeros((2, 4))
    with open(__file__) as file:
        number = next(n for n, text in enumerate(file, 1) if line in text)
    with pytest.raises(error, match=re.escape(said)) as found:
        every_kind[2, 4](x, rows, (1, 2), out, kind)
    thread = 3 if kind == 9 else 2
    assert f"line {number}, tid=[{thread}, 0, 0] ctaid=[1, 0, 0]" in str(found.value)


def test_same_results_without_errors():
    plain = cuda.jit(every_kind.py_func)
    x, rows = np.arange(5.0), np.ones((2, 4))
    out = np.zeros((2, 2, 4))
    for kernel, own in zip((plain, every_kind), out, strict=True):
        kernel[2, 4](x, rows, (1, 2), own, 0)
    np.testing.assert_array_equal(out[0], out[1])
    assert out[0].any()


def test_a_launch_ends_at_the_error_of_its_thread():
    @cuda.jit(debug=True, opt=False)
    def divide(r, x):
        i = cuda.grid(1)
        r[i, 0] = 1 / x[i]
        r[i, 1] = 1

    r, x = np.zeros((3, 2)), np.array([1.0, 0.0, 2.0])
    with pytest.raises(ZeroDivisionError, match=r"tid=\[0, 0, 0\] ctaid=\[1, 0, 0\]"):
        divide[3, 1](r, x)
    np.testing.assert_array_equal(r[1], 0)

    ignored = cuda.jit(divide.py_func)
    ignored[3, 1](r, x)
    np.testing.assert_array_equal(r, [[1, 1], [np.inf, 1], [0.5, 1]])


def test_positions_of_three_dimensions_in_waiting_and_grid_kernels():
    @cuda.jit(debug=True)
    def fail(x, flag):
        if cuda.threadIdx.z == 1 and cuda.threadIdx.y == 1 and cuda.blockIdx.y == 1:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
            x[9] = 1
        cuda.atomic.exch(flag, 0, 1)

    with pytest.raises(IndexError, match=r"tid=\[0, 1, 1\] ctaid=\[0, 1, 0\]: index 9"):
        fail[(1, 2), (2, 2, 2)](np.zeros(3), np.zeros(1, np.int32))

    @cuda.jit(debug=True)
    def meet(x):
        i = cuda.grid(1)
        cuda.cg.this_grid().sync()
        x[i + 1] = 1

    with pytest.raises(IndexError, match=r"tid=\[1, 0, 0\] ctaid=\[2, 0, 0\]: index 6"):
        meet[3, 2](np.zeros(6))
