"""Sums, extrema and other reductions, from one block to many."""

from __future__ import annotations

import math

import numba
import numpy as np
from numba import cuda, float32, int32

from .cases import case, close, equal

THREADS = 32


@cuda.jit
def interleaved_sum(values, partial):
    """The textbook's first version, with a modulus."""
    cache = cuda.shared.array(THREADS, float32)
    tid = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + tid
    cache[tid] = values[i]
    cuda.syncthreads()
    s = 1
    while s < cuda.blockDim.x:
        if tid % (2 * s) == 0:
            cache[tid] += cache[tid + s]
        cuda.syncthreads()
        s *= 2
    if tid == 0:
        partial[cuda.blockIdx.x] = cache[0]


@case
def interleaved(launch, rng):
    values = rng.integers(-9, 9, 96).astype(np.float32)
    partial = np.zeros(3, np.float32)
    launch(interleaved_sum, 3, THREADS, values, partial)
    equal(partial, values.reshape(3, 32).sum(axis=1))


@cuda.jit
def strided_sum(values, partial):
    """Each thread first adds up a grid's stride of elements; the tree's steps are bits shifted out."""
    cache = cuda.shared.array(THREADS, dtype=numba.float64)
    tid = cuda.threadIdx.x
    total = 0.0
    i = cuda.grid(1)
    while i < values.size:
        total += values[i]
        i += cuda.gridsize(1)
    cache[tid] = total
    cuda.syncthreads()
    half = cuda.blockDim.x >> 1
    while half:
        if tid < half:
            cache[tid] = cache[tid] + cache[tid + half]
        cuda.syncthreads()
        half >>= 1
    if tid == 0:
        partial[cuda.blockIdx.x] = cache[0]


@case
def two_passes_of_one_kernel(launch, rng):
    values = rng.normal(size=301)
    partial, total = np.zeros(4), np.zeros(1)
    launch(strided_sum, 4, THREADS, values, partial)
    launch(strided_sum, 1, THREADS, partial, total)
    close(total, [math.fsum(values)], rtol=1e-12)


@cuda.jit
def arg_max(values, best, where):
    """Values and their places side by side; of equal values the first wins."""
    top = cuda.shared.array(THREADS, float32)
    place = cuda.shared.array(THREADS, int32)
    tid, row = cuda.threadIdx.x, cuda.blockIdx.x
    top[tid] = -math.inf
    place[tid] = -1
    for column in range(tid, values.shape[1], cuda.blockDim.x):
        if values[row, column] > top[tid]:
            top[tid], place[tid] = values[row, column], column
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if tid < step:
            other = tid + step
            is_better = top[other] > top[tid] or (top[other] == top[tid] and 0 <= place[other] < place[tid])
            if is_better:
                top[tid] = top[other]
                place[tid] = place[other]
        cuda.syncthreads()
        step = step // 2
    if tid != 0:
        return
    best[row] = top[0]
    where[row] = place[0]


@case
def largest_and_its_place(launch, rng):
    values = rng.integers(0, 40, (3, 70)).astype(np.float32)
    best, where = np.zeros(3, np.float32), np.zeros(3, np.int32)
    launch(arg_max, 3, THREADS, values, best, where)
    equal(best, values.max(axis=1))
    equal(where, values.argmax(axis=1))


def make_reduction(operation, neutral):
    """A factory of kernels for any operation of two numbers."""
    operate = cuda.jit(device=True)(operation)

    @cuda.jit
    def reduce(values, out):
        memory = cuda.shared.array(THREADS, int32)
        i = cuda.threadIdx.x
        result = neutral
        for place in range(i, len(values), THREADS):
            result = operate(result, values[place])
        memory[i] = result
        cuda.syncthreads()
        active = THREADS
        while active > 1:
            active //= 2
            if i < active:
                memory[i] = operate(memory[i], memory[i + active])
            cuda.syncthreads()
        if i == 0:
            out[0] = memory[0]

    return reduce


def smaller(a, b):
    return a if a < b else b


def together(a, b):
    return a ^ b


smallest, exclusive_or = make_reduction(smaller, 2**31 - 1), make_reduction(together, 0)


@case
def kernels_of_a_factory(launch, rng):
    values = rng.integers(-1000, 1000, 77).astype(np.int32)
    least, parity = np.zeros(1, np.int32), np.zeros(1, np.int32)
    launch(smallest, 1, THREADS, values, least)
    launch(exclusive_or, 1, THREADS, values, parity)
    equal(least, [values.min()])
    equal(parity, [np.bitwise_xor.reduce(values)])


@cuda.jit
def column_means(table, mean, variance):
    """Welford's running moments, a thread per column, no shared memory at all."""
    column = cuda.grid(1)
    if column >= table.shape[1]:
        return
    count = 0
    average = 0.0
    squares = 0.0
    for row in range(table.shape[0]):
        count += 1
        delta = table[row, column] - average
        average += delta / count
        squares += delta * (table[row, column] - average)
    mean[column] = average
    variance[column] = squares / count


@case
def mean_and_variance(launch, rng):
    table = rng.normal(3, 2, (20, 37))
    mean, variance = np.zeros(37), np.zeros(37)
    launch(column_means, 2, 20, table, mean, variance)
    close(mean, table.mean(axis=0), rtol=1e-12)
    close(variance, table.var(axis=0), rtol=1e-12)


@cuda.jit
def dot_last_block(a, b, partial, ticket, out):
    """The block that finishes last adds up what all have left."""
    cache = cuda.shared.array(16, numba.int64)
    is_last = cuda.shared.array(1, numba.boolean)
    tid = cuda.threadIdx.x
    total = 0
    for i in range(cuda.grid(1), a.shape[0], cuda.gridsize(1)):
        total += a[i] * b[i]
    cache[tid] = total
    cuda.syncthreads()
    s = 8
    while s != 0:
        if tid < s:
            cache[tid] += cache[tid + s]
        cuda.syncthreads()
        s //= 2
    if tid == 0:
        partial[cuda.blockIdx.x] = cache[0]
        cuda.threadfence()
        is_last[0] = cuda.atomic.add(ticket, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if is_last[0] and tid == 0:
        whole = 0
        for block in range(cuda.gridDim.x):
            whole += partial[block]
        out[0] = whole


@case
def product_by_the_last_block(launch, rng):
    a, b = rng.integers(-9, 9, (2, 100))
    out = np.zeros(1, np.int64)
    launch(dot_last_block, 3, 16, a, b, np.zeros(3, np.int64), np.zeros(1, np.int32), out)
    equal(out, [a @ b])


@cuda.jit
def warp_style(values, out):
    """Warp reduction with a barrier after each step."""
    lane = cuda.threadIdx.x % 8
    warp = cuda.threadIdx.x // 8
    data = cuda.shared.array((4, 16), float32)
    data[warp, lane] = values[cuda.grid(1)]
    data[warp, lane + 8] = 0
    cuda.syncthreads()
    mine = data[warp, lane] + data[warp, lane + 4]
    cuda.syncthreads()
    data[warp, lane] = mine
    cuda.syncthreads()
    mine += data[warp, lane + 2]
    cuda.syncthreads()
    data[warp, lane] = mine
    cuda.syncthreads()
    mine += data[warp, lane + 1]
    if lane == 0:
        cuda.atomic.add(out, cuda.blockIdx.x, mine)


@case
def in_the_style_of_warps(launch, rng):
    values = rng.integers(-50, 50, 64).astype(np.float32)
    out = np.zeros(2, np.float32)
    launch(warp_style, 2, 32, values, out)
    equal(out, values.reshape(2, 32).sum(axis=1))


@cuda.jit
def any_and_all(flags, some, every):
    """Votes of a block through shared memory: whoever disagrees says so."""
    votes = cuda.shared.array(2, int32)
    tid, bid = cuda.threadIdx.x, cuda.blockIdx.x
    if tid == 0:
        votes[0], votes[1] = 0, 1
    cuda.syncthreads()
    if flags[bid, tid]:
        votes[0] = 1
    else:
        votes[1] = 0
    cuda.syncthreads()
    if tid == 0:
        some[bid] = votes[0] == 1
        every[bid] = votes[1] == 1


@case
def votes(launch, rng):
    flags = np.array([[True] * 10, [False] * 10, rng.random(10) < 0.5])
    some, every = np.zeros(3, np.bool_), np.zeros(3, np.bool_)
    launch(any_and_all, 3, 10, flags, some, every)
    equal(some, flags.any(axis=1))
    equal(every, flags.all(axis=1))


@cuda.jit
def norm_in_two_dimensions(matrix, out):
    """A block of two dimensions, reduced along one and then along the other."""
    tile = cuda.shared.array((4, 8), float32)
    y, x = cuda.threadIdx.y, cuda.threadIdx.x
    value = matrix[y, x]
    tile[y, x] = value * value
    cuda.syncthreads()
    for shift in range(2, -1, -1):
        width = 1 << shift
        if x < width:
            tile[y, x] += tile[y, x + width]
        cuda.syncthreads()
    if x == 0 and y == 0:
        out[()] = math.sqrt(tile[0, 0] + tile[1, 0] + tile[2, 0] + tile[3, 0])


@case
def norm_of_a_matrix(launch, rng):
    matrix = rng.normal(size=(4, 8)).astype(np.float32)
    out = np.zeros((), np.float32)
    launch(norm_in_two_dimensions, 1, (8, 4), matrix, out)
    close(out, np.linalg.norm(matrix))
