"""Kernels without data races that look as if they had some."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32
from race_corpus import N, clean, counts, floats, meet_and_read, zeros


@clean(2, 4, floats(N), floats(N), zeros(N))
def add(x, y, out):
    i = cuda.grid(1)
    out[i] = x[i] + y[i]


@clean(1, N, floats(N), zeros(1))
def sum_by_atomics(x, total):
    cuda.atomic.add(total, 0, x[cuda.threadIdx.x])


@clean(2, N, floats(2 * N), zeros(2))
def block_reduction(x, out):
    partial = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    partial[i] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = N // 2
    while half > 0:
        if i < half:
            partial[i] += partial[i + half]
        cuda.syncthreads()
        half //= 2
    if i == 0:
        out[cuda.blockIdx.x] = partial[0]


@clean(1, N, floats(N))
def shift_in_place_with_barrier(x):
    i = cuda.threadIdx.x
    following = x[(i + 1) % N]
    cuda.syncthreads()
    x[i] = following


@clean(1, N, floats(N))
def scan_with_two_barriers(x):
    i = cuda.threadIdx.x
    offset = 1
    while offset < N:
        before = x[i - offset] if i >= offset else np.float32(0)
        cuda.syncthreads()
        x[i] += before
        cuda.syncthreads()
        offset *= 2


@clean((2, 2), (4, 4), floats(8, 8), floats(8, 8), zeros(8, 8))
def tiled_matrix_product(a, b, c):
    tile_a = cuda.shared.array((4, 4), float32)
    tile_b = cuda.shared.array((4, 4), float32)
    row, column = cuda.grid(2)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    total = np.float32(0)
    for part in range(2):
        tile_a[i, j] = a[row, part * 4 + j]
        tile_b[i, j] = b[part * 4 + i, column]
        cuda.syncthreads()
        for k in range(4):
            total += tile_a[i, k] * tile_b[k, j]
        cuda.syncthreads()
    c[row, column] = total


@clean(2, 4, np.array([0, 1, 1, 0, 2, 1, 0, 0], np.int32), counts(3))
def histogram(x, bins):
    cuda.atomic.add(bins, x[cuda.grid(1)], 1)


@clean(2, 4, np.array([0, 1, 1, 0, 2, 1, 0, 0], np.int32), counts(3))
def histogram_in_shared_memory(x, bins):
    own = cuda.shared.array(3, int32)
    i = cuda.threadIdx.x
    if i < 3:
        own[i] = 0
    cuda.syncthreads()
    cuda.atomic.add(own, x[cuda.grid(1)], 1)
    cuda.syncthreads()
    if i < 3:
        cuda.atomic.add(bins, i, own[i])


@clean(1, N, counts(1))
def all_say_the_same(done):
    done[0] = 1


@clean(1, N, floats(N), np.zeros(1, np.bool_))
def any_of_them_found_it(x, found):
    if x[cuda.threadIdx.x] > np.float32(0):
        found[0] = True


@clean(1, 4, floats(4))
def odd_even_sort(x):
    i = cuda.threadIdx.x
    for phase in range(4):
        if i % 2 == phase % 2 and i + 1 < 4:
            low, high = min(x[i], x[i + 1]), max(x[i], x[i + 1])
            x[i] = low
            x[i + 1] = high
        cuda.syncthreads()


@clean(1, (4, 4), floats(4, 4))
def stencil_with_barrier(grid):
    x, y = cuda.grid(2)
    around = np.float32(0)
    if 0 < x < 3 and 0 < y < 3:
        around = grid[x - 1, y] + grid[x + 1, y]
    cuda.syncthreads()
    grid[x, y] = around


@clean((2, 2), (2, 4), floats(4, 8), zeros(8, 4))
def transpose(a, out):
    x, y = cuda.grid(2)
    out[y, x] = a[x, y]


@clean(1, N, zeros(N))
def barrier_in_a_device_function(x):
    i = cuda.threadIdx.x
    x[i] = i
    value = meet_and_read(x, N - 1 - i)
    cuda.syncthreads()
    x[i] = value


@clean(1, N, zeros(N), 5)
def early_return_before_a_barrier(x, n):
    i = cuda.threadIdx.x
    if i >= n:
        return
    x[i] = i
    cuda.syncthreads()
    if i == 0:
        x[n] = x[n - 1]


@clean(1, 4, floats(4), zeros(1))
def maximum_by_atomics(x, best):
    cuda.atomic.max(best, 0, x[cuda.threadIdx.x])


@clean(1, 2, counts(1), counts(1))
def producer_and_consumer(data, seen):
    if cuda.threadIdx.x == 0:
        data[0] = 42
    cuda.syncthreads()
    if cuda.threadIdx.x == 1:
        seen[0] = data[0]


@clean(4, 2, zeros(4), zeros(1), counts(1))
def last_block_adds_up(partial, out, arrived):
    is_last = cuda.shared.array(1, int32)
    block = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        partial[block] = block + 1
        cuda.threadfence()
        is_last[0] = cuda.atomic.add(arrived, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if is_last[0] and cuda.threadIdx.x == 1:
        for other in range(cuda.gridDim.x):
            out[0] += partial[other]


@clean(2, 4, counts(1), counts(1))
def sum_under_a_lock(lock, total):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    total[0] += cuda.threadIdx.x + 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@clean(1, 64, zeros(64))
def within_a_warp(x):
    i = cuda.threadIdx.x
    x[i] = i
    cuda.syncwarp()
    x[i ^ 31] += np.float32(1)


@clean(2, 4, zeros(2, 4), floats(2, 4, 2))
def rows_of_ones_own(out, points):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    point = points[env, agent]
    out[env, agent] = point[0] * point[1]
    point[0] = out[env, agent]


@clean(1, (2, 2, 2), counts(2, 2, 2))
def three_dimensions(x):
    i, j, k = cuda.grid(3)
    x[i, j, k] = i + 2 * j + 4 * k


@clean(2, 3, floats(20), zeros(20))
def grid_stride_loop(x, out):
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        out[i] = x[i]


@clean(1, N, counts(N), counts(1))
def all_hear_how_many(out, threshold):
    i = cuda.threadIdx.x
    out[i] = cuda.syncthreads_count(i > threshold[0])


@clean(1, 4, zeros(4))
def ping_pong(x):
    tiles = cuda.shared.array((2, 4), float32)
    i = cuda.threadIdx.x
    tiles[0, i] = i
    cuda.syncthreads()
    for step in range(4):
        tiles[(step + 1) % 2, i] = tiles[step % 2, (i + 1) % 4]
        cuda.syncthreads()
    x[i] = tiles[0, i]


@clean(1, 4, floats(4), zeros(4))
def sorted_in_local_memory(x, out):
    own = cuda.local.array(3, float32)
    i = cuda.threadIdx.x
    for k in range(3):
        own[k] = x[(i + k) % 4]
    out[i] = max(own[0], max(own[1], own[2]))


@clean(1, 4, np.zeros(4, np.dtype([("mass", np.float32), ("id", np.int32)])))
def record_of_ones_own(particles):
    i = cuda.threadIdx.x
    particles[i].mass += np.float32(1)
    particles[i]["id"] = i


@clean(1, 1, zeros(3))
def one_thread_alone(x):
    for i in range(1, 3):
        x[i] = x[i - 1] + np.float32(1)


MEMORY = zeros(8)


@clean(1, 4, MEMORY[:4], MEMORY[4:])
def two_halves_of_one_array(low, high):
    i = cuda.threadIdx.x
    low[i] = i
    high[i] = low[i]


@clean(1, 4, zeros(4, 4), zeros(4))
def rows_and_columns_apart_in_time(rows, out):
    i = cuda.threadIdx.x
    own = rows[i]
    own[0] = i
    cuda.syncthreads()
    out[i] = rows.T[0][3 - i]


@clean(1, 64, zeros(2))
def sums_of_warps(out):
    warp = cuda.shared.array(2, float32)
    i = cuda.threadIdx.x
    if i % 32 == 0:
        warp[i // 32] = i
    cuda.syncthreads()
    if i == 0:
        out[0] = warp[0] + warp[1]


@clean(1, 4, np.lib.stride_tricks.as_strided(np.ones(1, np.float32), (4,), (0,)), zeros(4))
def broadcast_array_read(x, out):
    i = cuda.threadIdx.x
    out[i] = x[i]


@clean(1, 4, counts(1), zeros(4))
def atomic_counter_cleared_after_a_barrier(counter, out):
    i = cuda.threadIdx.x
    cuda.atomic.add(counter, 0, 1)
    cuda.syncthreads()
    out[i] = counter[0]
    cuda.syncthreads()
    if i == 0:
        counter[0] = 0
