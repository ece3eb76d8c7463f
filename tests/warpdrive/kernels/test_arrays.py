"""Local and shared arrays, their shapes, and views of arrays."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba import cuda

import warpdrive as wd

LENGTH = 6
SHAPE = (2, 3)


def numbers(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-20, 20, count).astype(np.int32)


def local_arrays(a, out):
    """Some live across barriers and some do not."""
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    kept = cuda.local.array(LENGTH, numba.int32)
    matrix = cuda.local.array(shape=SHAPE, dtype=np.float32)
    flags = cuda.local.array((2,), numba.boolean)
    for k in range(LENGTH):
        kept[k] = a[(i + k) % n]
    flags[0], flags[1] = a[i] > 0, False
    cuda.syncthreads()
    for row in range(2):
        for column in range(3):
            matrix[row, column] = kept[3 * row + column] * 0.5
    passing = cuda.local.array(LENGTH // 2, numba.int64)
    for k in range(passing.shape[0]):
        passing[k] = kept[k] + k
    kept[0] = passing[2]
    cuda.syncthreads()
    out[i] = kept[0] + 10 * kept[5] + matrix[1, 2] + flags[0] + len(matrix) + matrix.size


def shared_arrays(a, out):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    tile = cuda.shared.array(16, numba.int32)
    table = cuda.shared.array((4, 4), np.float64)
    tile[i] = a[cuda.grid(1)]
    table[i // 4, i % 4] = tile[i] * 0.5
    cuda.syncthreads()
    x = tile[n - 1 - i]
    out[cuda.grid(1)] = x + table[i % 4, i // 4]


def history(a, out, steps):
    """The length of an array from a parameter."""
    i = cuda.threadIdx.x
    past = cuda.local.array(steps, np.int32)
    for k in range(steps):
        past[k] = a[i] + k
        cuda.syncthreads()
    out[i] = past[steps - 1] * 100 + past.shape[0]


def filled(i, width, height, value):
    cells = cuda.local.array((height, 2 * width), np.int32)
    total = 0
    for row in range(height):
        for column in range(2 * width):
            cells[row, column] = value + row
    for row in range(cells.shape[0]):
        for column in range(cells.shape[1]):
            total += cells[row, column] + column
    return total + i


def filled_square(i, width, value=1):
    return filled(i, value=value, width=width, height=width + 1)


def filled_around_a_barrier(row, i, width):
    cells = cuda.local.array(width, np.int32)
    for k in range(width):
        cells[k] = row[i] + k
    cuda.syncthreads()
    row[i] = cells[width - 1] + cells[0]
    return filled_square(i, width - 1)


def shapes_passed_down(a, out, width):
    i = cuda.threadIdx.x
    x = filled_square(i, 2) + 1000 * filled_square(i, width)
    out[i] = x + filled(i, width, 1, a[i])
    cuda.syncthreads()
    out[i] += filled_around_a_barrier(a, i, width + 1) + filled_around_a_barrier(a, i, 3)


def put_or_take(i, value, put):
    """All calls, of all threads, see one array."""
    board = cuda.shared.array(8, numba.int32)
    if put:
        board[i] = value
    return board[i]


def take_from_shared(i):
    board = cuda.shared.array(8, numba.int32)
    board[i] = 7 * i
    cuda.syncthreads()
    return board[i ^ 1]


def shared_in_functions(a, out):
    i = cuda.threadIdx.x
    put_or_take(i, a[i], True)
    cuda.syncthreads()
    out[i] = put_or_take(i ^ 1, 0, False)
    cuda.syncthreads()
    out[i] += take_from_shared(i) * 100
    cuda.syncthreads()
    out[i] += take_from_shared(i) + put_or_take(i ^ 3, 0, False) * 10_000


def views(a, out):
    """Views between barriers: rows, slices, slices of slices, transposed."""
    block, i = cuda.blockIdx.x, cuda.threadIdx.x
    row = out[block]
    row[i] = a[block, i]
    part = a[block, 1:4]
    row[i] += part[i % 3] + part.shape[0]
    cuda.syncthreads()
    corner = a[:2, ::2]
    x = corner[block, i % 2] + a.T[i, block] + a[-1, -2]
    every = a[block][::-1]
    x += every[0]
    cuda.syncthreads()
    out[block, i] += x


def whole_rows(a, out):
    block, i = cuda.blockIdx.x, cuda.threadIdx.x
    if i == 0:
        out[block, :] = a[block, 2]
        out[block, 1:3] = 5
    cuda.syncthreads()
    out[block, i] += len(a[block]) + a.ndim


@pytest.mark.parametrize("kernel", [local_arrays, shared_in_functions], ids=lambda kernel: kernel.__name__)
def test_kernel_does_what_its_python_does(check, kernel):
    check(kernel, 1, 8, numbers(8), np.zeros(8, np.float64))


def test_each_block_has_its_own_shared_arrays(check):
    check(shared_arrays, 5, 16, numbers(80), np.zeros(80, np.float64))


def test_lengths_from_parameters(check):
    for steps in (1, 4):
        check(history, 1, 4, numbers(4), np.zeros(4, np.int32), steps)


def test_shapes_passed_down_through_functions(check):
    for width in (1, 3):
        check(shapes_passed_down, 1, 4, numbers(4), np.zeros(4, np.int32), width)


@pytest.mark.parametrize("kernel", [views, whole_rows], ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("order", ["C", "F", "A"])
def test_views_of_arrays_of_every_layout(check, kernel, order):
    a = numbers(2 * 2 * 4).reshape(2, 8)[:, ::2]
    a = a if order == "A" else a.copy(order=order)
    check(kernel, 2, 4, a, np.zeros((2, 4), np.int32))


def test_a_shared_array_larger_than_any_device_has_is_refused():
    @wd.kernel
    def kernel(out):
        tile = cuda.shared.array((1000, 1000), numba.float64)
        tile[0, 0] = 1
        out[0] = tile[0, 0]

    with pytest.raises(wd.errors.WarpDriveError, match=r"test_arrays.py:\d+.*8000000 bytes"):
        kernel[1, 1](np.zeros(1))


def age_and_move(people, out):
    i = cuda.grid(1)
    people[i]["age"] += 1
    cuda.syncthreads()
    person = people[cuda.blockDim.x - 1 - i]
    out[i] = person["age"] + person.place.x


@pytest.mark.parametrize("as_record", [False, True])
def test_arrays_of_records(as_record):
    dtype = np.dtype([("age", np.int8), ("place", [("x", np.float64), ("y", np.float32)])], align=True)
    people = np.zeros(4, dtype)
    people["age"], people["place"]["x"] = [1, 2, 3, 4], [0.5, 0.25, 0, -1]
    people, out = people.view(np.recarray) if as_record else people, np.zeros(4)
    wd.kernel(age_and_move)[1, 4](people, out)
    assert people["age"].tolist() == [2, 3, 4, 5] and out.tolist() == [4, 4, 3.25, 2.5]
