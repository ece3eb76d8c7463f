"""Values other than numbers that live across barriers: views, tuples, records, arrays that change places."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, float32, int32

import warpdrive as wd

POINT = np.dtype([("x", np.float32), ("y", np.float32), ("id", np.int32)], align=True)


def views(rows, out):
    i = cuda.threadIdx.x
    row = rows[i]
    part = rows[i, 1:4]
    backwards = rows[i, ::-1]
    cuda.syncthreads()
    out[i, 0] = row[0] + part[1]
    cuda.syncthreads()
    out[i, 1] = backwards[0] + part.shape[0]


def views_that_change(rows, out):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    row = rows[i]
    for k in range(3):
        out[i, k] = row[k]
        cuda.syncthreads()
        if i % 2 == 0:
            row = rows[(i + k) % n]
        cuda.syncthreads()
    out[i, 3] = row[0]


def tuples(rows, out):
    i = cuda.threadIdx.x
    pair = (i, rows[i, 0])
    nested = ((i, i + 1), rows[i], np.float32(2.5))
    cuda.syncthreads()
    out[i, 0] = pair[0] + pair[1]
    low, high = nested[0]
    cuda.syncthreads()
    nested[1][1] = 50 + i
    cuda.syncthreads()
    out[i, 1] = low * 10 + high + nested[2]


def minimum_of_both(first, second):
    low = min(first, second)
    cuda.syncthreads()
    return low, first + second


def both_halves(row):
    cuda.syncthreads()
    return row[:2], row[2:]


def tuples_of_functions(rows, out):
    i = cuda.threadIdx.x
    both = minimum_of_both(rows[i, 0], rows[i, 1])
    halves = both_halves(rows[i])
    cuda.syncthreads()
    out[i, 0] = both[0] + both[1]
    out[i, 1] = halves[0][1] + halves[1][0]


def double_buffer(rows, out):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    old = cuda.shared.array(16, float32)
    new = cuda.shared.array(16, float32)
    old[i] = rows[i, 0]
    cuda.syncthreads()
    for _ in range(5):
        new[i] = old[i] + old[(i + 1) % n]
        cuda.syncthreads()
        old, new = new, old
    out[i, 0] = old[i]


def chosen_buffer(rows, out):
    i = cuda.threadIdx.x
    even = cuda.shared.array(16, float32)
    odd = cuda.shared.array(16, float32)
    even[i], odd[i] = rows[i, 0], rows[i, 1]
    mine = even if i % 2 == 0 else odd
    cuda.syncthreads()
    out[i, 0] = mine[(i + 3) % cuda.blockDim.x]


def local_arrays_change_places(rows, out):
    i = cuda.threadIdx.x
    old = cuda.local.array(3, int32)
    new = cuda.local.array(3, int32)
    for k in range(3):
        old[k] = 10 * i + k
        new[k] = -1
    cuda.syncthreads()
    for _ in range(3):
        for k in range(3):
            new[k] = old[(k + 1) % 3] + 1
        old, new = new, old
        cuda.syncthreads()
    for k in range(3):
        out[i, k] = old[k] * 100 + new[k]


def views_of_local_arrays(rows, out):
    i = cuda.threadIdx.x
    numbers = cuda.local.array((2, 3), int32)
    for k in range(3):
        numbers[0, k] = 10 * i + k
        numbers[1, k] = -numbers[0, k]
    second = numbers[1]
    tail = numbers[0, 1:]
    cuda.syncthreads()
    tail[0] += 1
    cuda.syncthreads()
    out[i, 0] = second[1] + tail[0] * 100 + tail[1]


def records(rows, out, points):
    i = cuda.threadIdx.x
    mine = points[i]
    mine.x += rows[i, 0]
    cuda.syncthreads()
    other = points[(i + 1) % cuda.blockDim.x]
    mine.y = other.x
    cuda.syncthreads()
    out[i, 0] = mine.y + other["y"] + mine.id


def records_of_their_own(rows, out, points):
    i = cuda.threadIdx.x
    staged = cuda.shared.array(16, POINT)
    own = cuda.local.array(2, POINT)
    staged[i] = points[i]
    own[0].x = i
    own[1] = points[i]
    cuda.syncthreads()
    own[0].y = staged[(i + 1) % cuda.blockDim.x].x
    cuda.syncthreads()
    out[i, 0] = own[0].x + own[0].y + own[1].id


def complex_numbers(rows, out):
    i = cuda.threadIdx.x
    z = complex(rows[i, 0], rows[i, 1])
    w = np.complex64(1j) * z
    cuda.syncthreads()
    z = z * z + w
    cuda.syncthreads()
    out[i, 0] = z.real
    out[i, 1] = z.imag
    out[i, 2] = abs(w)


KERNELS = [
    *(views, views_that_change, tuples, tuples_of_functions, double_buffer, chosen_buffer),
    *(local_arrays_change_places, views_of_local_arrays, complex_numbers),
]


def arguments(kernel):
    rows = np.random.default_rng(0).integers(0, 10, (9, 4)).astype(np.float32)
    given = [rows, np.zeros((9, 4), np.float32)]
    if kernel in (records, records_of_their_own):
        points = np.zeros(9, POINT)
        points["x"], points["y"], points["id"] = np.arange(9), rows[:, 0], np.arange(9) * 100
        given.append(points)
    return given


@pytest.mark.parametrize("kernel", [*KERNELS, records, records_of_their_own], ids=lambda kernel: kernel.__name__)
def test_values_live_across_barriers(check, kernel):
    given = arguments(kernel)
    out = check(kernel, 1, 9, *given)[1]
    assert out.any()
    debugged = [array.copy() for array in given]
    wd.debug(kernel)[1, 9](*debugged)
    np.testing.assert_array_equal(debugged[1], out)
    report = wd.check_launch(kernel, 1, 9, *given)
    assert not (report.races or report.bounds or report.uninitialised), report


def test_a_double_buffer_gives_binomial_sums(check):
    rows, out = check(double_buffer, 1, 9, *arguments(double_buffer))
    expected = sum(c * np.roll(rows[:, 0], -k) for k, c in enumerate([1, 5, 10, 10, 5, 1]))
    np.testing.assert_array_equal(out[:, 0], expected)


def test_records_are_references(check):
    rows, out, points = check(records, 1, 9, *arguments(records))
    x = np.arange(9) + rows[:, 0]
    np.testing.assert_array_equal(points["x"], x)
    np.testing.assert_array_equal(points["y"], np.roll(x, -1))
    np.testing.assert_array_equal(out[:, 0], np.roll(x, -1) + np.roll(x, -2) + np.arange(9) * 100)
