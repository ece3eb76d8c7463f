"""Algorithms of the kinds that the field writes as kernels, checked against NumPy as well."""

from __future__ import annotations

import math

import numba
import numpy as np
from numba import cuda

TILE = 4
BLOCK = 32


def block_sum(values, sums):
    """Sum with a tree in shared memory, then one atomic addition per block."""
    memory = cuda.shared.array(BLOCK, numba.float32)
    i = cuda.threadIdx.x
    place = cuda.grid(1)
    memory[i] = values[place] if place < values.shape[0] else 0.0
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if i < step:
            memory[i] += memory[i + step]
        cuda.syncthreads()
        step //= 2
    if i == 0:
        cuda.atomic.add(sums, 0, memory[0])


def inclusive_scan(values, out):
    """Hillis and Steele's scan, between two halves of shared memory."""
    memory = cuda.shared.array((2, BLOCK), numba.int64)
    i = cuda.threadIdx.x
    into, distance = 0, 1
    memory[into, i] = values[i]
    cuda.syncthreads()
    while distance < BLOCK:
        into = 1 - into
        if i >= distance:
            memory[into, i] = memory[1 - into, i] + memory[1 - into, i - distance]
        else:
            memory[into, i] = memory[1 - into, i]
        cuda.syncthreads()
        distance *= 2
    out[i] = memory[into, i]


def heat(grid, steps):
    """A stencil that goes forward in time, all in one block."""
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    inner = 0 < x < cuda.blockDim.x - 1 and 0 < y < cuda.blockDim.y - 1
    for _ in range(steps):
        new = grid[x, y]
        if inner:
            new += 0.1 * (grid[x - 1, y] + grid[x + 1, y] + grid[x, y - 1] + grid[x, y + 1] - 4.0 * grid[x, y])
        cuda.syncthreads()
        grid[x, y] = new
        cuda.syncthreads()


def tiled_product(a, b, c):
    tile_a = cuda.shared.array((TILE, TILE), numba.float32)
    tile_b = cuda.shared.array((TILE, TILE), numba.float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = numba.float32(0.0)
    for tile in range((a.shape[1] + TILE - 1) // TILE):
        column, row = tile * TILE + ty, tile * TILE + tx
        tile_a[tx, ty] = a[x, column] if x < a.shape[0] and column < a.shape[1] else 0
        tile_b[tx, ty] = b[row, y] if row < b.shape[0] and y < b.shape[1] else 0
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[tx, k] * tile_b[k, ty]
        cuda.syncthreads()
    if x < c.shape[0] and y < c.shape[1]:
        c[x, y] = total


def histogram(values, counts):
    """Each block counts in shared memory, then adds to the whole."""
    local = cuda.shared.array(8, numba.int32)
    i = cuda.threadIdx.x
    if i < 8:
        local[i] = 0
    cuda.syncthreads()
    for place in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(local, values[place], 1)
    cuda.syncthreads()
    if i < 8:
        cuda.atomic.add(counts, i, local[i])


def neighbours(board, x, y):
    count = 0
    for dx in range(-1, 2):
        for dy in range(-1, 2):
            if dx != 0 or dy != 0:
                count += board[(x + dx) % board.shape[0], (y + dy) % board.shape[1]]
    return count


@cuda.jit(device=True)
def generation(board, x, y):
    alive = neighbours(board, x, y)
    cuda.syncthreads()
    if alive == 3 or (board[x, y] and alive == 2):
        board[x, y] = True
    else:
        board[x, y] = False
    cuda.syncthreads()


@cuda.jit
def game_of_life(board, generations):
    for _ in range(generations):
        generation(board, cuda.threadIdx.x, cuda.threadIdx.y)


def bitonic_sort(values):
    i = cuda.threadIdx.x
    size = 2
    while size <= cuda.blockDim.x:
        distance = size // 2
        while distance > 0:
            partner = i ^ distance
            if partner > i and (values[i] > values[partner]) == ((i & size) == 0):
                values[i], values[partner] = values[partner], values[i]
            cuda.syncthreads()
            distance //= 2
        size *= 2


def n_body(position, velocity, dt, steps):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    for _ in range(steps):
        ax, ay = 0.0, 0.0
        for j in range(n):
            dx, dy = position[j, 0] - position[i, 0], position[j, 1] - position[i, 1]
            inverse = 1.0 / math.sqrt(dx * dx + dy * dy + 0.01)
            ax += dx * inverse**3
            ay += dy * inverse**3
        cuda.syncthreads()
        velocity[i, 0] += dt * ax
        velocity[i, 1] += dt * ay
        position[i, 0] += dt * velocity[i, 0]
        position[i, 1] += dt * velocity[i, 1]
        cuda.syncthreads()


def producer_and_consumer(values, out):
    """The first half of the threads makes what the second half takes, one buffer ahead."""
    buffers = cuda.shared.array((2, BLOCK // 2), numba.int64)
    i, half = cuda.threadIdx.x, cuda.blockDim.x // 2
    for turn in range(values.shape[0] + 1):
        if i < half:
            if turn < values.shape[0]:
                buffers[turn % 2, i] = values[turn, i] * values[turn, i]
        elif turn > 0:
            out[i - half] += buffers[(turn - 1) % 2, i - half]
        cuda.syncthreads()


def random_numbers(count, low=-10, high=10):
    return np.random.default_rng(count).integers(low, high, count)


def test_sum(check):
    values = random_numbers(100).astype(np.float32)
    _, sums = check(block_sum, 4, BLOCK, values, np.zeros(1, np.float32))
    assert sums[0] == values.sum()


def test_scan(check):
    values = random_numbers(BLOCK)
    _, out = check(inclusive_scan, 1, BLOCK, values, np.zeros(BLOCK, np.int64))
    np.testing.assert_array_equal(out, values.cumsum())


def test_stencil(check):
    grid = np.zeros((8, 8), np.float64)
    grid[3, 4] = 100
    (out, _) = check(heat, 1, (8, 8), grid, 2)
    np.testing.assert_allclose(out.sum(), 100)
    assert out[3, 4] < 100 and out[3, 5] > 0


def test_product_of_matrices_that_no_tile_divides(check):
    a = random_numbers(7 * 6).reshape(7, 6).astype(np.float32)
    b = random_numbers(6 * 5).reshape(6, 5).astype(np.float32)
    _, _, c = check(tiled_product, (2, 2), (TILE, TILE), a, b, np.zeros((7, 5), np.float32))
    np.testing.assert_array_equal(c, a @ b)


def test_histogram(check):
    values = random_numbers(300, 0, 8)
    _, counts = check(histogram, 3, 16, values, np.zeros(8, np.int32))
    np.testing.assert_array_equal(counts, np.bincount(values, minlength=8))


def test_game_of_life(check):
    glider = np.zeros((6, 6), np.bool_)
    glider[[0, 1, 2, 2, 2], [1, 2, 0, 1, 2]] = True
    board, _ = check(game_of_life, 1, (6, 6), glider, 4)
    np.testing.assert_array_equal(board, np.roll(glider, (1, 1), (0, 1)))


def test_sort(check):
    values = random_numbers(16)
    (out,) = check(bitonic_sort, 1, 16, values)
    np.testing.assert_array_equal(out, np.sort(values))


def test_bodies_that_attract_each_other(check):
    position = np.random.default_rng(0).normal(size=(6, 2))
    start = position.mean(axis=0)
    moved, velocity, *_ = check(n_body, 1, 6, position, np.zeros((6, 2)), 0.01, 4)
    np.testing.assert_allclose(moved.mean(axis=0), start, atol=1e-9)
    np.testing.assert_allclose(velocity.sum(axis=0), 0, atol=1e-9)


def test_producer_and_consumer(check):
    values = random_numbers(5 * 8).reshape(5, 8)
    _, out = check(producer_and_consumer, 1, 16, values, np.zeros(8, np.int64))
    np.testing.assert_array_equal(out, (values**2).sum(axis=0))
