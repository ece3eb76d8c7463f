"""Arguments and references of kernels besides arrays and numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numba import cuda

import warpdrive as wd

TABLE = ((1, 2.5), (3, (4, 5)))
ARRAYS = (np.arange(3, dtype=np.float32), np.arange(2000) * 2)


def tuples(out, pair, arrays, nested):
    i = cuda.grid(1)
    a, b = arrays
    if i < out.shape[0]:
        out[i, 0] = pair[0] * 10 + pair[1]
        out[i, 1] = a[i] + b[0, i]
        out[i, 2] = nested[0] + nested[1][1][i]
        b[1, i] = i


def tuples_with_a_barrier(out, pair, arrays, nested):
    i = cuda.threadIdx.x
    memory = cuda.shared.array(8, np.float64)
    memory[i] = arrays[0][i] + pair[0]
    cuda.syncthreads()
    out[i, 0] = memory[(i + 1) % 8] + pair[1]
    mine = nested[1]
    cuda.syncthreads()
    out[i, 1] = mine[1][i] + mine[0]


def optional(out, weights):
    i = cuda.grid(1)
    if weights is None:
        out[i] = 1
    else:
        out[i] = weights[i]


def times(out, dates):
    i = cuda.grid(1)
    if dates[i] > dates[0]:
        out[i] = 1
    elif dates[i] == dates[0]:
        out[i] = 2


def constants(out):
    i = cuda.threadIdx.x
    out[i] = TABLE[0][1] + TABLE[1][1][0] + ARRAYS[1][1500 + i] + ARRAYS[0][2]


def deleting_and_naming(out):
    staged = cuda.shared.array(8, "float64")
    n = cuda.threadIdx.x
    staged[n] = m = n * 2
    cuda.syncthreads()
    out[n] = m + staged[(n + 1) % 8]
    del m


def given():
    pair, rows = (2, 0.5), np.arange(16.0).reshape(2, 8)
    arrays = (np.arange(8, dtype=np.float32), rows)
    return [np.zeros((8, 3)), pair, arrays, (7, (1, np.arange(8)))]


@pytest.mark.parametrize("made", [wd.kernel, wd.debug], ids=["kernel", "debug"])
def test_tuples_are_arguments(made):
    arguments = given()
    made(tuples)[1, 8](*arguments)
    out, _, arrays, _ = arguments
    i = np.arange(8)
    np.testing.assert_array_equal(out, np.stack([np.full(8, 20.5), 2 * i, 7 + i], 1))
    np.testing.assert_array_equal(arrays[1][1], i)


@pytest.mark.parametrize("made", [wd.kernel, wd.debug], ids=["kernel", "debug"])
def test_tuples_are_arguments_of_kernels_with_barriers(made):
    arguments = given()
    for _ in range(2):  # a launcher is used again, with other tuples
        made(tuples_with_a_barrier)[1, 8](*arguments)
        i = np.arange(8)
        expected = np.stack([(i + 1) % 8 + 2.5, i + 1, np.zeros(8)], 1)
        np.testing.assert_array_equal(arguments[0], expected)
        arguments = given()


def test_checks_look_into_tuples():
    report = wd.check_launch(tuples, 1, 8, *given())
    assert not report.races
    assert not report.bounds
    assert wd.check_launch(tuples, 2, 8, np.zeros((9, 3)), *given()[1:]).bounds


@pytest.mark.parametrize("made", [wd.kernel, wd.debug], ids=["kernel", "debug"])
def test_none_is_an_argument(made):
    out = np.zeros(4)
    launch = made(optional)[1, 4]
    launch(out, None)
    assert out.tolist() == [1, 1, 1, 1]
    launch(out, np.arange(4))
    assert out.tolist() == [0, 1, 2, 3]
    launch(out, None)
    assert out.tolist() == [1, 1, 1, 1]


def test_times_are_compared():
    dates = np.array(["2020-02-01", "2021-01-01", "2019-01-01", "2020-02-01"], "M8[D]")
    out = np.zeros(4, np.int32)
    wd.kernel(times)[1, 4](out, dates)
    assert out.tolist() == [2, 1, 0, 2]
    wd.kernel(times)[1, 4](out, dates - dates[2])
    assert out.tolist() == [2, 1, 0, 2]


def test_constants_are_nested_tuples_and_tuples_of_arrays(monkeypatch):
    out = np.zeros(4)
    wd.kernel(constants)[1, 4](out)
    np.testing.assert_array_equal(out, 2.5 + 4 + 2 * (1500 + np.arange(4)) + 2)
    changed = ARRAYS[1].copy()
    changed[1501] = 0  # in the middle, where the text of a long array has dots
    monkeypatch.setitem(globals(), "ARRAYS", (ARRAYS[0], changed))
    wd.kernel(constants)[1, 4](out)
    assert out.tolist() == [3008.5, 8.5, 3012.5, 3014.5]


def test_variables_are_deleted_and_dtypes_named():
    out = np.zeros(8)
    wd.kernel(deleting_and_naming)[1, 8](out)
    np.testing.assert_array_equal(out, 2 * np.arange(8) + 2 * np.roll(np.arange(8), -1))


class OnAnotherDevice:
    __cuda_array_interface__ = {"shape": (4,), "typestr": "<f8", "data": (0, False), "version": 3}  # noqa: RUF012


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([1, 2], "a list; .*: make it an array with np.array"),
        (OnAnotherDevice(), "argument 'weights' of kernel 'optional' is on a GPU, but 'out' on the CPU"),
        ((1, [2]), r"argument 'weights\[1\]' of kernel 'optional' is a list"),
        (np.zeros(4, ">f8"), "has dtype >f8, which the CPU backend does not support"),
        (np.zeros(4, np.longdouble), "has dtype (float|longdouble)"),
        ("text", "is a str; a kernel takes NumPy arrays, CPU tensors, numbers, None, and tuples of these"),
    ],
)
def test_what_no_kernel_takes(value, said):
    with pytest.raises(wd.KernelError, match=said):
        wd.kernel(optional)[1, 4](np.zeros(4), value)


def reversed_in(values):
    """For each dtype, it has shared memory of its own."""
    i = cuda.threadIdx.x
    staged = cuda.shared.array(4, values.dtype)
    staged[i] = values[i]
    cuda.syncthreads()
    return staged[3 - i]


def of_their_dtypes(rows, out, other):
    i = cuda.threadIdx.x
    own = cuda.local.array(2, dtype=out.dtype)
    own[0] = 3.9
    out[i] = reversed_in(rows[0]) + own[0] + reversed_in(other)


def replaced(values, out, other):
    i = cuda.threadIdx.x
    if other is None:
        other = values
    found = None
    if i > 1:
        found = values[i]
    cuda.syncthreads()
    out[i] = other[i]
    if found is not None:
        out[i] += found


@pytest.mark.parametrize("made", [wd.kernel, wd.debug], ids=["kernel", "debug"])
def test_arrays_of_a_kernel_have_the_dtypes_of_its_arguments(made):
    for kind in (np.float64, np.float32):
        rows, out = np.array([[0.5, 1.5, 2.5, 300]], kind), np.zeros(4, np.int64)
        made(of_their_dtypes)[1, 4](rows, out, np.array([1, 2, 3, 4]))
        assert out.tolist() == [300 + 3 + 4, 2 + 3 + 3, 1 + 3 + 2, 0 + 3 + 1]


def test_a_dtype_that_is_not_known_is_refused():
    def unknown(out):
        mine = cuda.local.array(2, out.dtype)
        other = cuda.local.array(2, mine.dtype)
        out[0] = other.shape[0]

    with pytest.raises(wd.KernelError, match=r"test_arguments.py:\d+: 'mine.dtype' is not a dtype"):
        wd.kernel(unknown)[1, 4](np.zeros(4))


@pytest.mark.parametrize("made", [wd.kernel, wd.debug], ids=["kernel", "debug"])
def test_none_is_replaced_and_lives_across_barriers(made):
    values = np.arange(4.0) + 1
    for other, expected in ((None, values), (values * 10, values * 10)):
        out = np.zeros(4)
        made(replaced)[1, 4](values, out, other)
        np.testing.assert_array_equal(out, expected + np.array([0, 0, 3, 4]))


class Pair(NamedTuple):
    factor: float
    values: tuple


def scaled(out, pair):
    i = cuda.threadIdx.x
    out[i] = pair[0] * pair[1][0][i] + pair[1][1]


def test_one_launcher_takes_tuples_of_every_kind():
    launch = wd.kernel(scaled)[1, 4]
    small, large = np.arange(4, dtype=np.float32), np.arange(4.0) * 100
    kinds = [(2, (small, 1)), (0.5, (small, 1)), Pair(3.0, (large, 0.25)), (3, (large[::-1], 7)), (2, (large, True))]
    for pair in (*kinds, *reversed(kinds), *kinds):
        for more in range(3):
            given = (pair[0] + more, (pair[1][0] + more, pair[1][1]))
            given = Pair(*given) if isinstance(pair, Pair) else given
            out = np.zeros(4)
            launch(out, given)
            np.testing.assert_array_equal(out, given[0] * given[1][0] + given[1][1])
    with pytest.raises(wd.KernelError, match=r"argument 'pair\[1\]\[1\]' of kernel 'scaled' is a list"):
        launch(np.zeros(4), (2, (small, [1])))
