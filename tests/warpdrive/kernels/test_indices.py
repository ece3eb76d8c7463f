"""Grids and blocks of one, two and three dimensions."""

from __future__ import annotations

import numpy as np
import pytest
from exhaustive import exhaustive
from numba import cuda


def flat(out):
    place = cuda.grid(1)
    if place < out.shape[0]:
        out[place] += place * 1000 + cuda.gridsize(1)


def plane(out):
    x, y = cuda.grid(2)
    width, height = cuda.gridsize(2)
    out[x, y] += 1 + x * 100 + y * 10_000 + width + 5 * height


def space(out):
    x, y, z = cuda.grid(3)
    sizes = cuda.gridsize(3)
    out[x, y, z] += 1 + x * 100 + y * 10_000 + z * 1_000_000 + sizes[0] + 2 * sizes[1] + 5 * sizes[2]


def place_in_block():
    return cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)


def with_barriers(out, scratch):
    """Every index, in functions, around barriers and across them."""
    block = cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)
    place, size = place_in_block(), cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z
    scratch[block, place] = place + cuda.threadIdx.x * 10 + cuda.threadIdx.y * 100 + cuda.threadIdx.z * 1000
    cuda.syncthreads()
    neighbour = scratch[block, (place + 1) % size]
    if cuda.threadIdx.y == 0:
        neighbour = -neighbour
    cuda.syncthreads()
    out[block, place_in_block()] = neighbour * 10 + cuda.blockIdx.z + 2 * cuda.blockIdx.y + 3 * cuda.gridDim.z


DIMENSIONS = [
    (1, 1),
    (3, 4),
    ((2, 1, 3), (3, 2, 2)),
    *exhaustive([((2,), (3,)), ((2, 3), (4, 2)), ((1, 2), (1, 3)), ((1, 1, 2), (1, 1, 5))], ()),
    (np.int64(2), (np.int32(2), 3)),
]


def total(dimensions):
    return int(np.prod(dimensions))


def extent(blocks, threads, axis):
    return int((*np.atleast_1d(blocks), 1, 1)[axis] * (*np.atleast_1d(threads), 1, 1)[axis])


@pytest.mark.parametrize(("blocks", "threads"), DIMENSIONS, ids=str)
def test_every_thread_of_every_block_runs_once_and_knows_its_place(check, blocks, threads):
    x, y, z = (extent(blocks, threads, axis) for axis in range(3))
    check(flat, blocks, threads, np.zeros(x + 2, np.int64)) if y * z == 1 else None
    check(plane, blocks, threads, np.zeros((x, y), np.int64)) if z == 1 else None
    (out,) = check(space, blocks, threads, np.zeros((x, y, z), np.int64))
    across, up, deep = np.indices((x, y, z))
    expected = 1 + across * 100 + up * 10_000 + deep * 1_000_000 + x + 2 * y + 5 * z
    np.testing.assert_array_equal(out, expected)
    shape = total(blocks), total(threads)
    check(with_barriers, blocks, threads, np.zeros(shape, np.int64), np.zeros(shape, np.int64))
