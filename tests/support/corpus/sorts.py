"""Sorting, merging, searching and selecting."""

from __future__ import annotations

import numba
import numpy as np
from numba import cuda, int32

from .cases import case, equal

N = 32


@cuda.jit
def odd_even_transposition(values):
    """Neighbours compare in turns; no thread is without a partner twice in a row."""
    i = cuda.threadIdx.x
    for turn in range(values.size):
        left = 2 * i + (turn & 1)
        if left + 1 < values.size and values[left] > values[left + 1]:
            values[left], values[left + 1] = values[left + 1], values[left]
        cuda.syncthreads()


@case
def transpositions(launch, rng):
    values = rng.integers(0, 50, 25)
    expected = np.sort(values)
    launch(odd_even_transposition, 1, 13, values)
    equal(values, expected)


@cuda.jit
def rank_sort(keys, out):
    """Counts who is smaller; equal keys keep their order."""
    me = cuda.grid(1)
    if me < keys.shape[0]:
        rank = 0
        for other in range(keys.shape[0]):
            if keys[other] < keys[me] or (keys[other] == keys[me] and other < me):
                rank += 1
        out[rank] = me


@case
def ranks(launch, rng):
    keys = rng.integers(0, 6, 40).astype(np.int16)
    out = np.zeros(40, np.int32)
    launch(rank_sort, 3, 16, keys, out)
    equal(out, np.argsort(keys, kind="stable"))


@cuda.jit
def bitonic_step(keys, payload, j, k):
    """One step of the network; the host runs through all of them."""
    i = cuda.grid(1)
    ixj = i ^ j
    if ixj > i:
        ascending = (i & k) == 0
        if (ascending and keys[i] > keys[ixj]) or (not ascending and keys[i] < keys[ixj]):
            keys[i], keys[ixj] = keys[ixj], keys[i]
            payload[i], payload[ixj] = payload[ixj], payload[i]


@case
def a_launch_for_each_step_of_a_network(launch, rng):
    keys = rng.permutation(32).astype(np.float32)
    payload = np.arange(32, dtype=np.int32)
    original = keys.copy()
    k = 2
    while k <= 32:
        j = k // 2
        while j > 0:
            launch(bitonic_step, 2, 16, keys, payload, j, k)
            j //= 2
        k *= 2
    equal(keys, np.arange(32))
    equal(original[payload], keys)


@cuda.jit
def radix_sort(keys, bits):
    """A pass per bit: zeros to the front, ones behind, both in order."""
    data = cuda.shared.array(N, numba.uint32)
    before = cuda.shared.array(N, numba.int32)
    i = cuda.threadIdx.x
    data[i] = keys[i]
    cuda.syncthreads()
    for bit in range(bits):
        key = data[i]
        one = (key >> np.uint32(bit)) & np.uint32(1)
        before[i] = one
        cuda.syncthreads()
        offset = 1
        while offset < N:
            add = 0
            if i >= offset:
                add = before[i - offset]
            cuda.syncthreads()
            before[i] += add
            cuda.syncthreads()
            offset *= 2
        ones_so_far = before[i]
        zeros = N - before[N - 1]
        if one == 1:
            target = zeros + ones_so_far - 1
        else:
            target = i - ones_so_far
        data[target] = key
        cuda.syncthreads()
    keys[i] = data[i]


@case
def radix(launch, rng):
    keys = rng.integers(0, 64, N).astype(np.uint32)
    expected = np.sort(keys)
    launch(radix_sort, 1, N, keys, 6)
    equal(keys, expected)


@cuda.jit(device=True, inline=True)
def lower_bound(values, start, end, key):
    while start < end:
        middle = (start + end) // 2
        if values[middle] < key:
            start = middle + 1
        else:
            end = middle
    return start


@cuda.jit(device=True)
def upper_bound(values, start, end, key):
    while start < end:
        middle = start + (end - start) // 2
        if values[middle] <= key:
            start = middle + 1
        else:
            end = middle
    return start


@cuda.jit
def merge_sort(values, scratch):
    """Every element finds its place in the other half by bisection; halves double from pass to pass."""
    i = cuda.threadIdx.x
    n = values.shape[0]
    width = 1
    while width < n:
        start = i // (2 * width) * (2 * width)
        middle = min(start + width, n)
        end = min(start + 2 * width, n)
        if i < n:
            if i < middle:
                place = i + lower_bound(values, middle, end, values[i]) - middle
            else:
                place = i - middle + upper_bound(values, start, middle, values[i])
            scratch[place] = values[i]
        cuda.syncthreads()
        if i < n:
            values[i] = scratch[i]
        cuda.syncthreads()
        width *= 2


@case
def merges(launch, rng):
    values = rng.integers(0, 30, 27).astype(np.int32)
    expected = np.sort(values)
    launch(merge_sort, 1, N, values, np.zeros(27, np.int32))
    equal(values, expected)


@cuda.jit
def search_sorted(table, keys, out):
    stride = cuda.gridsize(1)
    for i in range(cuda.grid(1), keys.size, stride):
        out[i] = lower_bound(table, 0, table.size, keys[i])


@case
def bisection(launch, rng):
    table, keys = np.sort(rng.normal(size=20)), rng.normal(size=33)
    out = np.zeros(33, np.int64)
    launch(search_sorted, 2, 8, table, keys, out)
    equal(out, np.searchsorted(table, keys))


@cuda.jit
def k_smallest(rows, out):
    """A list of the best kept sorted in local memory, by insertion."""
    best = cuda.local.array(3, int32)
    row = cuda.grid(1)
    if row >= rows.shape[0]:
        return
    for k in range(3):
        best[k] = 2**31 - 1
    for column in range(rows.shape[1]):
        value = rows[row, column]
        if value >= best[2]:
            continue
        k = 2
        while k > 0 and best[k - 1] > value:
            best[k] = best[k - 1]
            k -= 1
        best[k] = value
    for k in range(3):
        out[row, k] = best[k]


@case
def the_three_smallest(launch, rng):
    rows = rng.integers(0, 99, (10, 15)).astype(np.int32)
    out = np.zeros((10, 3), np.int32)
    launch(k_smallest, 2, 8, rows, out)
    equal(out, np.sort(rows, axis=1)[:, :3])


@cuda.jit
def counting_sort(values, out):
    """Count, scan by one thread, and place those of one value by their order."""
    counts = cuda.shared.array(8, int32)
    starts = cuda.shared.array(9, int32)
    i = cuda.threadIdx.x
    if i < 8:
        counts[i] = 0
    cuda.syncthreads()
    cuda.atomic.add(counts, values[i], 1)
    cuda.syncthreads()
    if i == 0:
        starts[0] = 0
        for v in range(8):
            starts[v + 1] = starts[v] + counts[v]
    cuda.syncthreads()
    if i < 8:
        for place in range(starts[i], starts[i + 1]):
            out[place] = i


@case
def counting(launch, rng):
    values = rng.integers(0, 8, 40).astype(np.uint8)
    out = np.zeros(40, np.uint8)
    launch(counting_sort, 1, 40, values, out)
    equal(out, np.sort(values))


@cuda.jit
def median_by_bisection(values, out):
    """Bisects the range of values; the block counts in each round, and leaves once it has found."""
    below = cuda.shared.array(1, int32)
    i = cuda.threadIdx.x
    low, high = 0, 255
    while low < high:
        middle = (low + high) // 2
        if i == 0:
            below[0] = 0
        cuda.syncthreads()
        if values[i] <= middle:
            cuda.atomic.add(below, 0, 1)
        cuda.syncthreads()
        count = below[0]
        cuda.syncthreads()
        if 2 * count >= values.size + 1:
            high = middle
        else:
            low = middle + 1
    if i == 0:
        out[0] = low


@case
def median(launch, rng):
    values = rng.integers(0, 256, 31).astype(np.uint8)
    out = np.zeros(1, np.uint8)
    launch(median_by_bisection, 1, 31, values, out)
    equal(out, [np.median(values)])
