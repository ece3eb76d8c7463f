"""Kernels with data races, as authors write them; the racy lines end with ``# race``."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32
from race_corpus import N, counts, floats, meet_and_read, racy, zeros

import warpdrive as wd


@wd.device_function
def deposit(array, index, value):
    array[index] += value  # race


@racy("total", 1, N, floats(N), zeros(1))
def sum_without_atomics(x, total):
    total[0] += x[cuda.threadIdx.x]  # race


@racy("rewards", 2, 4, zeros(2, 4), np.array([[1, 1, 2, 0]] * 2, np.int32))
def reward_of_the_nearest(rewards, nearest):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, nearest[env, agent]] += np.float32(1)  # race


@racy("out", 1, N, counts(1))
def last_writer_wins(out):
    out[0] = cuda.threadIdx.x  # race


@racy("x", 1, N, floats(N))
def shift_in_place(x):
    i = cuda.threadIdx.x
    if i < N - 1:
        x[i] = x[i + 1]  # race


@racy("x", 1, N, floats(N), zeros(N))
def read_of_the_neighbour_without_barrier(x, out):
    i = cuda.threadIdx.x
    x[i] = x[i] * x[i]  # race
    out[i] = x[(i + 1) % N]  # race


@racy("tile", 1, N, floats(N), zeros(N))
def shared_without_barrier(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]  # race
    out[i] = tile[N - 1 - i]  # race


@racy("tile", 1, N, floats(2 * N), zeros(2 * N))
def shared_tile_reused_without_second_barrier(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    for part in range(2):
        tile[i] = x[part * N + i]  # race
        cuda.syncthreads()
        out[part * N + i] = tile[N - 1 - i]  # race


@racy("partial", 1, N, floats(N), zeros(1))
def reduction_without_barrier_between_rounds(x, out):
    partial = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    partial[i] = x[i]
    cuda.syncthreads()
    half = N // 2
    while half > 0:
        if i < half:
            partial[i] += partial[i + half]  # race
        half //= 2
    cuda.syncthreads()
    if i == 0:
        out[0] = partial[0]


@racy("x", 1, N, floats(N))
def scan_in_place_with_one_barrier(x):
    i = cuda.threadIdx.x
    offset = 1
    while offset < N:
        if i >= offset:
            x[i] += x[i - offset]  # race
        cuda.syncthreads()
        offset *= 2


@racy("bins", 1, N, np.array([0, 1, 1, 0, 2, 1, 0, 0], np.int32), counts(3))
def histogram_without_atomics(x, bins):
    bins[x[cuda.threadIdx.x]] += 1  # race


@racy("bins", 4, 1, np.array([0, 1, 1, 0], np.int32), counts(3))
def histogram_between_blocks(x, bins):
    bins[x[cuda.blockIdx.x]] += 1  # race


@racy("total", 3, 1, zeros(1))
def blocks_overwrite(total):
    total[0] = cuda.blockIdx.x  # race


@racy("x", 2, 4, floats(N), zeros(N))
def blocks_read_what_others_write(x, out):
    i = cuda.grid(1)
    x[i] = np.float32(0)  # race
    cuda.syncthreads()
    out[i] = x[N - 1 - i]  # race


@racy("count", 1, N, counts(1))
def plain_beside_atomic(count):
    if cuda.threadIdx.x == 0:
        count[0] = 7  # race
    else:
        cuda.atomic.add(count, 0, 1)  # race


@racy("alive", 1, 4, np.ones(4, np.bool_))
def flag_read_while_cleared(alive):
    i = cuda.threadIdx.x
    if alive[(i + 1) % 4]:  # race
        alive[i] = False  # race


@racy("grid", 1, (4, 4), floats(4, 4))
def stencil_in_place(grid):
    x, y = cuda.grid(2)
    if 0 < x < 3 and 0 < y < 3:
        around = grid[x - 1, y] + grid[x + 1, y] + grid[x, y - 1] + grid[x, y + 1]  # race
        grid[x, y] = around  # race


@racy("a", 1, (4, 4), floats(4, 4))
def transpose_in_place(a):
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    a[x, y] = a[y, x]  # race


@racy("x", 1, 4, floats(4))
def odd_even_sort_without_barrier(x):
    i = cuda.threadIdx.x
    for phase in range(4):
        if i % 2 == phase % 2 and i + 1 < 4:
            low, high = min(x[i], x[i + 1]), max(x[i], x[i + 1])  # race
            x[i] = low  # race
            x[i + 1] = high  # race


@racy("x", 1, 4, zeros(2))
def race_in_a_device_function(x):
    deposit(x, 0, cuda.threadIdx.x)


@racy("x", 1, 4, zeros(4))
def barrier_only_after_the_read(x):
    i = cuda.threadIdx.x
    x[i] = i  # race
    y = x[3 - i]  # race
    cuda.syncthreads()
    x[i] = y


@racy("board", 1, 4, zeros(1, 4))
def write_into_a_neighbours_row(board):
    i = cuda.threadIdx.x
    row = board[0]
    row[i] = i  # race
    row[(i + 1) % 4] = 9  # race


@racy("x", 2, 2, zeros(5))
def overlapping_shares(x):
    first = cuda.grid(1)
    for i in range(first, first + 2):
        x[i] = first  # race


@racy("best", 1, 4, floats(4), zeros(1))
def maximum_by_test_and_set(x, best):
    i = cuda.threadIdx.x
    if x[i] > best[0]:  # race
        best[0] = x[i]  # race


@racy("queue", 1, 4, counts(4), counts(1))
def queue_with_a_plain_counter(queue, length):
    slot = length[0] * 0
    queue[slot] = cuda.threadIdx.x  # race
    cuda.atomic.add(length, 0, 1)


@racy("flag", 1, 2, counts(1), counts(1), counts(1))
def producer_and_consumer_without_barrier(data, flag, seen):
    if cuda.threadIdx.x == 0:
        data[0] = 42
        flag[0] = 1  # race
    elif flag[0] == 1:  # race
        seen[0] = 1


@racy("partial", 2, 1, zeros(2), zeros(1), counts(1))
def last_block_without_a_fence(partial, out, arrived):
    block = cuda.blockIdx.x
    partial[block] = block + 1  # race
    if cuda.atomic.add(arrived, 0, 1) == 1:
        out[0] = partial[0] + partial[1]  # race


@racy("total", 1, 4, counts(1), counts(1))
def lock_without_a_fence(lock, total):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    total[0] += cuda.threadIdx.x + 1  # race
    cuda.atomic.exch(lock, 0, 0)


@racy("particles", 1, 4, np.zeros(2, np.dtype([("mass", np.float32), ("id", np.int32)])))
def field_of_a_record(particles):
    particles[0].mass += np.float32(1)  # race


@racy("x", 1, 4, zeros(4))
def slice_over_others(x):
    if cuda.threadIdx.x == 0:
        x[:] = np.float32(1)  # race
    x[cuda.threadIdx.x] = cuda.threadIdx.x + 2  # race


@racy("x", 1, 64, zeros(64))
def across_warps_with_a_barrier_of_the_warp(x):
    i = cuda.threadIdx.x
    x[i] = i  # race
    cuda.syncwarp()
    x[63 - i] = -1  # race


@racy("tiles", 1, 4, zeros(4))
def double_buffer_read_where_it_is_written(x):
    tiles = cuda.shared.array((2, 4), float32)
    i = cuda.threadIdx.x
    tiles[0, i] = i
    cuda.syncthreads()
    for step in range(2):
        tiles[(step + 1) % 2, i] = tiles[(step + 1) % 2, (i + 1) % 4] + i if step else tiles[0, i]  # race
        cuda.syncthreads()
    x[i] = tiles[0, i]


@racy("tiles", 1, 4, zeros(4))
def double_buffer_without_barrier(x):
    tiles = cuda.shared.array((2, 4), float32)
    i = cuda.threadIdx.x
    tiles[0, i] = i
    cuda.syncthreads()
    for step in range(2):
        tiles[(step + 1) % 2, i] = tiles[step % 2, (i + 1) % 4]  # race
    cuda.syncthreads()
    x[i] = tiles[0, i]


@racy("x", 1, 4, np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (4,), (0,)))
def broadcast_array_written(x):
    i = cuda.threadIdx.x
    x[i] = i  # race


MEMORY = zeros(8)


@racy("low", 1, 4, MEMORY[:5], MEMORY[4:])
def two_arguments_that_overlap(low, high):
    i = cuda.threadIdx.x
    low[i + 1] = i  # race
    high[i] = i + 9  # race


@racy("rows", 1, 4, zeros(4, 4))
def row_and_column(rows):
    i = cuda.threadIdx.x
    own = rows[i]
    other = rows.T[i]
    own[(i + 2) % 4] = i  # race
    other[(i + 2) % 4] = i + 4  # race


@racy("counter", 1, 4, counts(1), zeros(4))
def atomic_counter_read_plainly_and_then_cleared(counter, out):
    i = cuda.threadIdx.x
    cuda.atomic.add(counter, 0, 1)
    cuda.syncthreads()
    out[i] = counter[0]  # race
    if i == 0:
        counter[0] = 0  # race


@racy("total", 1, 4, floats(4), zeros(1))
def reduction_cleared_after_the_barrier(x, total):
    i = cuda.threadIdx.x
    cuda.syncthreads()
    if i == 3:
        total[0] = 0  # race
    cuda.atomic.add(total, 0, x[i])  # race


@racy("warp", 1, 64, zeros(2))
def sums_of_warps_added_up_without_barrier(out):
    warp = cuda.shared.array(2, float32)
    i = cuda.threadIdx.x
    if i % 32 == 0:
        warp[i // 32] = i  # race
    cuda.syncwarp()
    if i == 0:
        out[0] = warp[0] + warp[1]  # race


@racy("x", (2, 2), (2, 2), zeros(4, 4))
def halo_written_by_two_blocks(x):
    i, j = cuda.grid(2)
    x[i, j] = i  # race
    if cuda.threadIdx.x == 1 and i + 1 < 4:
        x[i + 1, j] = -1  # race


@racy("x", 1, 4, zeros(4))
def barrier_in_a_device_function_that_comes_too_early(x):
    i = cuda.threadIdx.x
    x[i] = meet_and_read(x, (i + 3) % 4) + 1


@racy("state", 1, 4, counts(2))
def set_if_unset(state):
    if state[0] == 0:  # race
        state[0] = 1  # race
        cuda.atomic.add(state, 1, 1)


@racy("x", 1, 4, zeros(8))
def stride_taken_for_the_number_of_threads(x):
    for i in range(cuda.threadIdx.x, 8, 2):
        x[i] = cuda.threadIdx.x  # race


@racy("prefix", 1, 8, counts(8))
def blelloch_scan_without_barrier_on_the_way_down(x):
    prefix = cuda.shared.array(8, int32)
    i = cuda.threadIdx.x
    prefix[i] = 1
    cuda.syncthreads()
    step = 4
    while step > 0:
        if i % (2 * step) == 0:
            left = prefix[i]  # race
            prefix[i] += prefix[i + step]  # race
            prefix[i + step] = left  # race
        step //= 2
    cuda.syncthreads()
    x[i] = prefix[i]
