"""Every racy kernel of a corpus is reported, with its array and lines; of a clean corpus none is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numba import cuda, float32, int32

import warpdrive as wd

N = 8


@dataclass
class Launch:
    """A kernel and what it is launched with; of a racy one, the array. Its racy lines end with ``# race``."""

    kernel: Any
    blocks: Any
    threads: Any
    arguments: tuple[Any, ...]
    array: str = ""

    def check(self) -> Any:
        return wd.check_launch(self.kernel, self.blocks, self.threads, *self.arguments)

    @property
    def racy_lines(self) -> set[str]:
        lines, first = inspect.getsourcelines(self.kernel.function)
        return {f"{__file__}:{first + n}" for n, text in enumerate(lines) if text.rstrip().endswith("# race")}


RACY: list[Any] = []
CLEAN: list[Any] = []


def racy(array: str, blocks: Any, threads: Any, *arguments: Any) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        kernel = wd.kernel(function)
        RACY.append(pytest.param(Launch(kernel, blocks, threads, arguments, array), id=kernel.__name__))
        return kernel

    return register


def clean(blocks: Any, threads: Any, *arguments: Any) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        kernel = wd.kernel(function)
        CLEAN.append(pytest.param(Launch(kernel, blocks, threads, arguments), id=kernel.__name__))
        return kernel

    return register


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(1, 2, shape).astype(np.float32)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def counts(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int32)


@wd.device_function
def deposit(array, index, value):
    array[index] += value  # race


@wd.device_function
def meet_and_read(array, index):
    cuda.syncthreads()
    return array[index]


# --- racy ---


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


# --- clean ---


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


# --- the tests ---


def test_the_corpora_are_large_enough():
    assert len(RACY) >= 40
    assert len(CLEAN) >= 30


@pytest.mark.parametrize("launch", RACY)
def test_a_racy_kernel_is_reported(launch):
    races = launch.check().races
    assert {race.array for race in races} == {launch.array}
    if launch.racy_lines:
        assert {line for race in races for line in race.lines} == launch.racy_lines


@pytest.mark.parametrize("launch", CLEAN)
def test_a_clean_kernel_is_not_reported(launch):
    report = launch.check()
    assert report.clean, str(report)
    assert not report.notes


def test_a_race_names_element_threads_blocks_and_both_lines():
    launch = next(case.values[0] for case in RACY if case.id == "read_of_the_neighbour_without_barrier")
    race = launch.check().races[0]
    write, read = sorted(launch.racy_lines, key=lambda line: int(line.rpartition(":")[2]))
    assert (race.array, race.index, race.threads, race.blocks) == ("x", (1,), (0, 1), (0, 0))
    assert set(race.lines) == {write, read}
    assert "with no barrier between" in race.message


def test_a_race_between_blocks_names_both_blocks():
    launch = next(case.values[0] for case in RACY if case.id == "blocks_overwrite")
    race = launch.check().races[0]
    assert race.blocks == (0, 1)
    assert race.count > 1


def test_threads_of_a_flat_block_are_numbers_and_others_positions():
    launch = next(case.values[0] for case in RACY if case.id == "transpose_in_place")
    first, second = launch.check().races[0].threads
    assert len(first) == len(second) == 3


def test_a_race_in_a_device_function_has_its_line():
    launch = next(case.values[0] for case in RACY if case.id == "race_in_a_device_function")
    (race,) = launch.check().races
    assert race.lines == (f"{__file__}:{inspect.getsourcelines(deposit.function)[1] + 2}",) * 2


def test_arguments_that_share_memory_are_seen_as_one():
    @wd.kernel
    def through_two_names(x, rows):
        i = cuda.threadIdx.x
        x[i, 0] = i
        rows[(i + 1) % 4] = 9

    x = zeros(4, 1)
    races = {race.array: race for race in wd.check_launch(through_two_names, 1, 4, x, x.reshape(-1)).races}
    assert "'rows[1]' in block 0" in races["x"].message or "'x[0, 0]' is the same memory" in races["rows"].message
    assert "is the same memory" in races["rows"].message


def test_the_arguments_are_not_modified():
    x = floats(N)
    before = x.copy()
    wd.check_launch(shift_in_place, 1, N, x)
    np.testing.assert_array_equal(x, before)


RECORD = np.dtype([("mass", np.float32), ("place", np.float32, (2,)), ("id", np.int64)])


def test_fields_of_a_record_are_elements_of_their_own():
    @wd.kernel
    def two_fields(particles):
        if cuda.threadIdx.x == 0:
            particles[0].mass = 1
        elif cuda.threadIdx.x == 1:
            particles[0].id = 2
        else:
            particles[0].place[cuda.threadIdx.x - 2] = 3

    assert wd.check_launch(two_fields, 1, 4, np.zeros(1, RECORD)).clean

    @wd.kernel
    def a_field_and_the_whole(particles):
        if cuda.threadIdx.x == 0:
            particles[0].id = 2
        else:
            particles[1] = particles[0]

    (race,) = wd.check_launch(a_field_and_the_whole, 1, 2, np.zeros(2, RECORD)).races
    assert (race.array, race.index) == ("particles", (0,))
    assert "'particles[0].id'" in race.message


def test_arrays_in_a_tuple_are_followed_by_their_place_in_it():
    @wd.kernel
    def both(pair):
        i = cuda.threadIdx.x
        pair[0][0] += pair[1][i]

    pair = zeros(1), floats(4)
    report = wd.check_launch(both, 1, 4, pair)
    assert {race.array for race in report.races} == {"pair[0]"}
    assert not pair[0].any()


def test_arrays_of_other_dtypes_in_one_memory_are_seen_as_one():
    @wd.kernel
    def dynamic(out):
        narrow = cuda.shared.array(0, int32)
        wide = cuda.shared.array(0, np.float64)
        i = cuda.threadIdx.x
        if i == 0:
            wide[0] = 1.5  # bytes 0 to 7
        else:
            narrow[i] = 7  # of thread 1: bytes 4 to 7
        out[i] = 0

    races = wd.check_launch(dynamic, 1, 2, zeros(2), shared_bytes=16).races
    assert {race.array for race in races} == {"narrow"}
    assert "'wide[0]' is the same memory" in races[0].message

    @wd.kernel
    def apart(out):
        narrow = cuda.shared.array(0, int32)
        wide = cuda.shared.array(0, np.float64)
        i = cuda.threadIdx.x
        if i == 0:
            wide[1] = 1.5
        else:
            narrow[i] = 7
        out[i] = 0

    assert not wd.check_launch(apart, 1, 2, zeros(2), shared_bytes=16).races

    @wd.kernel
    def arguments(words, whole):
        if cuda.threadIdx.x == 0:
            whole[0] = 2**40
        else:
            words[1] = 7

    memory = np.zeros(2, np.int64)
    assert wd.check_launch(arguments, 1, 2, memory.view(np.int32), memory).races
