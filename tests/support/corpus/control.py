"""Control flow with barriers in every position that the rules of CUDA allow."""

from __future__ import annotations

import numpy as np
from numba import cuda, int32, int64

from .cases import case, equal

N = 8


@cuda.jit
def early_return_then_barriers(values, out, n):
    """Threads beyond the end return; the others reach further barriers."""
    memory = cuda.shared.array(N, int32)
    i = cuda.threadIdx.x
    if i >= n:
        return
    memory[i] = values[i]
    cuda.syncthreads()
    if i == n - 1:
        out[i] = -memory[0]
        return
    out[i] = memory[i + 1]
    cuda.syncthreads()
    out[i] += memory[i]


@case
def some_leave_early(launch, rng):
    values, out = rng.integers(1, 9, N).astype(np.int32), np.zeros(N, np.int32)
    launch(early_return_then_barriers, 1, N, values, out, 5)
    equal(out, [*(values[:4] + values[1:5]), -values[0], 0, 0, 0])


@cuda.jit
def nested_loops(out, rounds):
    """Barriers at three depths; the bounds of the inner loops depend on the outer ones."""
    memory = cuda.shared.array(N, int64)
    i = cuda.threadIdx.x
    memory[i] = i
    cuda.syncthreads()
    for a in range(rounds):
        for b in range(a + 1):
            c = 2
            while c > b:
                value = memory[(i + a + b + c) % N]
                cuda.syncthreads()
                memory[i] = (memory[i] * 3 + value) % 1000003
                cuda.syncthreads()
                c -= 1
        value = memory[N - 1 - i]
        cuda.syncthreads()
        memory[i] += value
        cuda.syncthreads()
    out[i] = memory[i]


@case
def three_levels_of_loops(launch, rng):
    out = np.zeros(N, np.int64)
    launch(nested_loops, 1, N, out, 3)
    memory = np.arange(N)
    for a in range(3):
        for b in range(a + 1):
            for c in range(2, b, -1):
                memory = (memory * 3 + np.roll(memory, -(a + b + c))) % 1000003
        memory = memory + memory[::-1]
    equal(out, memory)


@cuda.jit
def break_and_continue(values, out, limit):
    """The block breaks and continues as one, on what it sees in shared memory."""
    total = cuda.shared.array(1, int32)
    i = cuda.threadIdx.x
    if i == 0:
        total[0] = 0
    cuda.syncthreads()
    done = 0
    for row in range(values.shape[0]):
        if values[row, 0] < 0:
            continue
        cuda.atomic.add(total, 0, values[row, i])
        cuda.syncthreads()
        now = total[0]
        cuda.syncthreads()
        if now > limit:
            break
        if now % 2:
            done += 1
            continue
        done += 10
        cuda.syncthreads()
    out[i] = done * 1000 + now


@case
def blocks_that_break_and_continue(launch, rng):
    values = rng.integers(0, 5, (12, N)).astype(np.int32)
    values[2, 0] = values[3, 0] = -1
    out = np.zeros(N, np.int32)
    launch(break_and_continue, 1, N, values, out, 100)
    total = done = 0
    for row in values:
        if row[0] >= 0:
            total += row.sum()
            if total > 100:
                break
            done += 1 if total % 2 else 10
    equal(out, done * 1000 + total)


@cuda.jit
def uniform_branches(mode, values, out):
    """Barriers in both branches of a condition on which the block agrees, and in one of a nested one."""
    memory = cuda.shared.array(N, int32)
    i, b = cuda.threadIdx.x, cuda.blockIdx.x
    memory[i] = values[b, i]
    if mode[b] == 0:
        cuda.syncthreads()
        out[b, i] = memory[N - 1 - i]
    elif mode[b] == 1:
        if cuda.gridDim.x > 1:
            cuda.syncthreads()
            value = memory[i ^ 1]
            cuda.syncthreads()
            memory[i] = value
        cuda.syncthreads()
        out[b, i] = memory[i ^ 2]
    else:
        out[b, i] = memory[i]


@case
def barriers_in_branches(launch, rng):
    values, out = rng.integers(0, 99, (3, N)).astype(np.int32), np.zeros((3, N), np.int32)
    launch(uniform_branches, 3, N, np.arange(3, dtype=np.int32), values, out)
    equal(out, [values[0, ::-1], values[1, np.arange(N) ^ 3], values[2]])


@cuda.jit
def loop_that_may_not_run(values, out):
    """The last barrier of one round is the first of the next."""
    memory = cuda.shared.array(N, int32)
    i = cuda.threadIdx.x
    memory[i] = 1
    k = values.size
    while k:
        k -= 1
        cuda.syncthreads()
        left = memory[i - 1] if i else memory[N - 1]
        cuda.syncthreads()
        memory[i] = left * values[k] + i
    cuda.syncthreads()
    out[i] = memory[N - 1 - i]


@case
def loops_of_no_rounds(launch, rng):
    for values in (np.zeros(0, np.int32), rng.integers(-3, 4, 4).astype(np.int32)):
        out = np.zeros(N, np.int32)
        launch(loop_that_may_not_run, 1, N, values, out)
        memory = np.ones(N, np.int32)
        for value in values[::-1]:
            memory = np.roll(memory, 1) * value + np.arange(N)
        equal(out, memory[::-1])


STRIDES = (4, 2, 1)


@cuda.jit
def loops_over_tuples_and_arrays(values, shifts, out):
    """Barriers in loops over a tuple of the module, one of literals, an argument and a shared array."""
    memory = cuda.shared.array(N, int32)
    order = cuda.shared.array(3, int32)
    i = cuda.threadIdx.x
    memory[i] = values[i]
    if i < 3:
        order[i] = shifts[i] + 1
    cuda.syncthreads()
    for stride in STRIDES:
        if i < stride:
            memory[i] += memory[i + stride]
        cuda.syncthreads()
    out[0, i] = memory[0]
    cuda.syncthreads()
    memory[i] = values[i]
    cuda.syncthreads()
    for sign in (1, -1, 2):
        for shift in shifts:
            if shift < 0:
                continue
            value = memory[(i + sign * shift) % N]
            cuda.syncthreads()
            memory[i] = value + sign
            cuda.syncthreads()
    for shift in order:
        value = memory[(i + shift) % N]
        cuda.syncthreads()
        memory[i] = value
        cuda.syncthreads()
    out[1, i] = memory[i]


@case
def barriers_in_loops_over_sequences(launch, rng):
    values, shifts = rng.integers(0, 99, N).astype(np.int32), np.array([3, -1, 0, 5], np.int32)
    out = np.zeros((2, N), np.int32)
    launch(loops_over_tuples_and_arrays, 1, N, values, shifts, out)
    equal(out[0], values.sum())
    for sign in (1, -1, 2):
        for shift in (3, 0, 5):
            values = np.roll(values, -sign * shift) + sign
    equal(out[1], np.roll(values, -(4 + 0 + 1)))


@cuda.jit
def downward_with_strides(values):
    i = cuda.threadIdx.x
    for start in range(values.size - N, -1, -N // 2):
        value = values[start + i] + start
        cuda.syncthreads()
        values[start + (i + 1) % N] = value
        cuda.syncthreads()


@case
def downward_loop(launch, rng):
    values = rng.integers(0, 9, 3 * N).astype(np.int32)
    expected = values.copy()
    for start in (16, 12, 8, 4, 0):
        expected[start : start + N] = np.roll(expected[start : start + N] + start, 1)
    launch(downward_with_strides, 1, N, values)
    equal(values, expected)


@cuda.jit
def threads_with_different_work(counts, out):
    """Loops without barriers of different lengths between barriers; break, continue and else in them."""
    memory = cuda.shared.array(N, int64)
    i = cuda.threadIdx.x
    total = 0
    for k in range(counts[i]):
        if k == 2:
            continue
        if k == 6:
            break
        total += k * k
    else:
        total = -total
    memory[i] = total
    cuda.syncthreads()
    best = memory[0]
    for other in range(1, N):
        if memory[other] > best:
            best = memory[other]
    out[i] = best - total


@case
def loops_of_different_lengths(launch, rng):
    counts, out = np.array([0, 1, 2, 3, 5, 6, 7, 9], np.int32), np.zeros(N, np.int64)
    launch(threads_with_different_work, 1, N, counts, out)
    squares = np.array([0, 1, 0, 9, 16, 25])
    totals = np.array([-squares[:c].sum() if c <= 6 else squares.sum() for c in counts])
    equal(out, totals.max() - totals)


@cuda.jit
def variables_across_barriers(values, out):
    """Variables of every kind live on, or are made in one branch only and used much later."""
    i = cuda.threadIdx.x
    a, b = values[i], 2 * values[i] + 1
    is_odd = a % 2 == 1
    small = np.int8(a)
    ratio = np.float32(a) / np.float32(4)
    cuda.syncthreads()
    if is_odd:
        late = b
    else:
        late = -b
    values[i] = 0
    cuda.syncthreads()
    (a, b), c = (b, a), i
    cuda.syncthreads()
    out[i] = late + (a - b) * (c + 1) + small * 7 + int(ratio * np.float32(4)) * (10 if is_odd else 20)


@case
def variables_of_all_kinds(launch, rng):
    values = rng.integers(0, 20, N)
    v, out = values.copy(), np.zeros(N, np.int64)
    launch(variables_across_barriers, 1, N, values, out)
    odd = v % 2 == 1
    late = np.where(odd, 2 * v + 1, -2 * v - 1)
    equal(out, late + (v + 1) * (np.arange(N) + 1) + 7 * v + v * np.where(odd, 10, 20))


@cuda.jit
def grid_strides(x, y, out):
    """Two dimensions of strides; an expression of conditions."""
    start_i, start_j = cuda.grid(2)
    step_i, step_j = cuda.gridsize(2)
    for i in range(start_i, out.shape[0], step_i):
        for j in range(start_j, out.shape[1], step_j):
            is_in = 0 < i < out.shape[0] - 1 and j not in (0, out.shape[1] - 1)
            out[i, j] = x[i] * y[j] if is_in else (-1 if i == 0 or i == out.shape[0] - 1 else -2)


@case
def strides_in_two_dimensions(launch, rng):
    x, y = rng.integers(0, 9, 11), rng.integers(0, 9, 7)
    out = np.zeros((11, 7), np.int64)
    launch(grid_strides, (2, 2), (2, 2), x, y, out)
    expected = np.outer(x, y)
    expected[:, [0, -1]] = -2
    expected[[0, -1]] = -1
    equal(out, expected)


@cuda.jit
def while_with_condition_from_memory(values, rounds):
    """The block continues while any thread has work; no thread writes the flag while others read it."""
    flag = cuda.shared.array(1, int32)
    i = cuda.threadIdx.x
    if i == 0:
        flag[0] = 1
    cuda.syncthreads()
    while flag[0] != 0:
        cuda.syncthreads()
        if i == 0:
            flag[0] = 0
            rounds[0] += 1
        cuda.syncthreads()
        if values[i] > 1:
            values[i] //= 2
            flag[0] = 1
        cuda.syncthreads()


@case
def until_all_are_done(launch, rng):
    values, rounds = np.array([1, 2, 9, 3, 16, 1, 1, 5], np.int32), np.zeros(1, np.int32)
    launch(while_with_condition_from_memory, 1, N, values, rounds)
    equal(values, 1)
    equal(rounds, 5)
