"""Indices outside of arrays are reported with their array, index, thread and line."""

from __future__ import annotations

import numpy as np
import pytest
from marked_lines import marked_lines
from numba import cuda, int32

import warpdrive as wd


@wd.kernel
def beyond_the_end(x):
    x[cuda.grid(1) + 1] = 1  # here


@wd.kernel
def read_beyond_the_end(x):
    i = cuda.grid(1)
    y = x[i + 1]  # here
    cuda.syncthreads()
    x[i] = y


@wd.kernel
def before_the_start(x):
    x[cuda.grid(1) - 5] = 1  # here


@wd.kernel
def wraps_around(x):
    i = cuda.threadIdx.x
    y = x[i - 1]  # here
    cuda.syncthreads()
    x[i] = y


@wd.kernel
def second_axis(x):
    x[0, cuda.threadIdx.x + 1] = 1  # here


@wd.kernel
def axes_exchanged(x):
    x[cuda.threadIdx.x, 0] = 1  # here


@wd.kernel
def atomic_outside(x):
    cuda.atomic.add(x, cuda.threadIdx.x + 1, 1)  # here


@wd.kernel
def row_outside(x):
    row = x[cuda.threadIdx.x]  # here
    row[0] = 1


@wd.kernel
def element_of_a_row_outside(x):
    row = x[0]
    row[cuda.threadIdx.x + 1] = 1  # here


@wd.kernel
def shared_outside(x):
    tile = cuda.shared.array(4, int32)
    i = cuda.threadIdx.x
    tile[i + 1] = i  # here
    cuda.syncthreads()
    x[i] = 0


@wd.kernel
def local_outside(x):
    own = cuda.local.array(2, int32)
    for k in range(3):
        own[k] = k  # here
    x[cuda.threadIdx.x] = own[0]


@wd.kernel
def more_threads_than_elements(x):
    if cuda.grid(1) <= x.shape[0]:
        x[cuda.grid(1)] = 1  # here


TABLE = np.arange(4, dtype=np.int32)


@wd.kernel
def constant_outside(x):
    x[cuda.threadIdx.x] = TABLE[cuda.threadIdx.x + 1]  # here


BOUNDS = [
    (constant_outside, 4, (4,), "TABLE", (4,), 3),
    (beyond_the_end, 4, (4,), "x", (4,), 3),
    (read_beyond_the_end, 4, (4,), "x", (4,), 3),
    (before_the_start, 1, (4,), "x", (-5,), 0),
    (wraps_around, 4, (4,), "x", (-1,), 0),
    (second_axis, 4, (2, 4), "x", (0, 4), 3),
    (axes_exchanged, 4, (3, 4), "x", (3, 0), 3),
    (atomic_outside, 4, (4,), "x", (4,), 3),
    (row_outside, 3, (2, 4), "x", (2,), 2),
    (element_of_a_row_outside, 4, (2, 4), "x", (4,), 3),
    (shared_outside, 4, (4,), "tile", (4,), 3),
    (local_outside, 1, (4,), "own", (2,), 0),
    (more_threads_than_elements, 8, (4,), "x", (4,), 4),
]


@pytest.mark.parametrize(("kernel", "threads", "shape", "array", "index", "thread"), BOUNDS)
def test_an_index_outside_of_an_array_is_reported(kernel, threads, shape, array, index, thread):
    (finding,) = wd.check_launch(kernel, 1, threads, np.zeros(shape, np.int32)).bounds
    assert (finding.array, finding.index, finding.threads) == (array, index, (thread,))
    assert set(finding.lines) == marked_lines(kernel)
    assert "shape" in finding.message


def test_an_index_outside_of_a_view_is_reported_with_the_shape_of_the_view():
    @wd.kernel
    def beyond_a_slice(x):
        last = x[-2:]
        last[cuda.threadIdx.x] = 1

    (finding,) = wd.check_launch(beyond_a_slice, 1, 3, np.zeros(4, np.int32)).bounds
    assert "index 2 lies outside of a view of 'x', which has the shape (2,)" in finding.message


def test_an_index_outside_of_an_array_writes_nothing():
    x = np.zeros(5, np.int32)
    wd.check_launch(beyond_the_end, 1, 4, x[:4])
    assert not x.any()
