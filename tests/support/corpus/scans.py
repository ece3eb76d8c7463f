"""Prefix sums and what is built from them: compaction, segments, run lengths."""

from __future__ import annotations

import numba
import numpy as np
from numba import cuda, float32, int32

from .cases import case, close, equal

N = 32


@cuda.jit
def blelloch(data, n):
    """Up the tree and down again, in place, two elements per thread; ``n`` is a power of two."""
    temp = cuda.shared.array(2 * N, int32)
    t = cuda.threadIdx.x
    temp[2 * t] = data[2 * t]
    temp[2 * t + 1] = data[2 * t + 1]
    offset = 1
    d = n >> 1
    while d > 0:
        cuda.syncthreads()
        if t < d:
            ai = offset * (2 * t + 1) - 1
            bi = offset * (2 * t + 2) - 1
            temp[bi] += temp[ai]
        offset *= 2
        d >>= 1
    if t == 0:
        temp[n - 1] = 0
    d = 1
    while d < n:
        offset >>= 1
        cuda.syncthreads()
        if t < d:
            ai = offset * (2 * t + 1) - 1
            bi = offset * (2 * t + 2) - 1
            temp[ai], temp[bi] = temp[bi], temp[ai] + temp[bi]
        d *= 2
    cuda.syncthreads()
    data[2 * t] = temp[2 * t]
    data[2 * t + 1] = temp[2 * t + 1]


@case
def exclusive_in_place(launch, rng):
    data = rng.integers(-5, 9, 64).astype(np.int32)
    expected = np.concatenate([[0], data.cumsum()[:-1]])
    launch(blelloch, 1, 32, data, 64)
    equal(data, expected)


@cuda.jit
def scan_of_blocks(values, out, totals):
    """Hillis and Steele with two barriers a step instead of two buffers."""
    buffer = cuda.shared.array(N, int32)
    tid = cuda.threadIdx.x
    i = cuda.grid(1)
    buffer[tid] = values[i] if i < values.size else 0
    cuda.syncthreads()
    distance = 1
    while distance < N:
        addend = 0
        if tid >= distance:
            addend = buffer[tid - distance]
        cuda.syncthreads()
        buffer[tid] += addend
        cuda.syncthreads()
        distance <<= 1
    if i < values.size:
        out[i] = buffer[tid]
    if tid == N - 1:
        totals[cuda.blockIdx.x] = buffer[tid]


@cuda.jit
def add_offsets(out, scanned_totals):
    if cuda.blockIdx.x == 0:
        return
    i = cuda.grid(1)
    if i < out.size:
        out[i] += scanned_totals[cuda.blockIdx.x - 1]


@case
def three_kernels_for_a_long_array(launch, rng):
    values = rng.integers(-9, 9, 110).astype(np.int32)
    out, totals = np.zeros(110, np.int32), np.zeros(4, np.int32)
    launch(scan_of_blocks, 4, N, values, out, totals)
    launch(scan_of_blocks, 1, N, totals, totals_scanned := np.zeros(4, np.int32), np.zeros(1, np.int32))
    launch(add_offsets, 4, N, out, totals_scanned)
    equal(out, values.cumsum())


@cuda.jit(device=True)
def block_scan(value, scratch):
    """Return the sum over this thread and those before it. All threads of the block must call this."""
    me = cuda.threadIdx.x
    scratch[me] = value
    cuda.syncthreads()
    step = 1
    while step < cuda.blockDim.x:
        left = scratch[me - step] if me >= step else 0
        cuda.syncthreads()
        scratch[me] += left
        cuda.syncthreads()
        step *= 2
    result = scratch[me]
    cuda.syncthreads()
    return result


@cuda.jit
def compact(values, threshold, out, count):
    """Keeps what is above a threshold, in order, a tile after the other."""
    scratch = cuda.shared.array(16, int32)
    base = 0
    for start in range(0, values.shape[0], cuda.blockDim.x):
        i = start + cuda.threadIdx.x
        keep = i < values.shape[0] and values[i] > threshold
        place = block_scan(1 if keep else 0, scratch)
        if keep:
            out[base + place - 1] = values[i]
        scratch[cuda.threadIdx.x] = place
        cuda.syncthreads()
        base += scratch[cuda.blockDim.x - 1]
        cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        count[0] = base


@case
def stream_compaction(launch, rng):
    values = rng.integers(0, 100, 53).astype(np.int32)
    out, count = np.full(53, -1, np.int32), np.zeros(1, np.int32)
    launch(compact, 1, 16, values, 60, out, count)
    kept = values[values > 60]
    equal(count, [len(kept)])
    equal(out[: len(kept)], kept)
    equal(out[len(kept) :], -1)


@cuda.jit
def segmented(values, heads, out):
    """A scan that begins anew at every head: pairs of a flag and a sum."""
    sums = cuda.shared.array((2, N), float32)
    flags = cuda.shared.array((2, N), int32)
    t = cuda.threadIdx.x
    sums[0, t], flags[0, t] = values[t], heads[t]
    cuda.syncthreads()
    source, target = 0, 1
    shift = 1
    while shift < N:
        if t >= shift and not flags[source, t]:
            sums[target, t] = sums[source, t] + sums[source, t - shift]
            flags[target, t] = flags[source, t - shift]
        else:
            sums[target, t] = sums[source, t]
            flags[target, t] = flags[source, t]
        source, target = target, source
        shift += shift
        cuda.syncthreads()
    out[t] = sums[source, t]


@case
def segments(launch, rng):
    values, heads = rng.integers(0, 9, N).astype(np.float32), (rng.random(N) < 0.2).astype(np.int32)
    heads[0] = 1
    out = np.zeros(N, np.float32)
    launch(segmented, 1, N, values, heads, out)
    starts = np.flatnonzero(heads)
    equal(out, np.concatenate([part.cumsum() for part in np.split(values, starts[1:])]))


@cuda.jit
def run_lengths(values, starts, symbols, lengths, runs):
    """Run-length encoding in one block: mark, scan, scatter, subtract."""
    scratch = cuda.shared.array(N, numba.int32)
    i = cuda.threadIdx.x
    is_first = i == 0 or values[i] != values[i - 1]
    run = block_scan(int32(is_first), scratch) - 1
    if is_first:
        starts[run] = i
        symbols[run] = values[i]
    if i == N - 1:
        runs[0] = run + 1
    cuda.syncthreads()
    n = runs[0]
    if i >= n:
        return
    end = starts[i + 1] if i + 1 < n else N
    lengths[i] = end - starts[i]


@case
def run_length_encoding(launch, rng):
    values = np.repeat(rng.permutation(12), rng.integers(1, 6, 12))[:N].astype(np.int32)
    values = np.concatenate([values, np.full(N - len(values), 77)]).astype(np.int32)
    symbols, lengths, runs = np.zeros(N, np.int32), np.zeros(N, np.int32), np.zeros(1, np.int32)
    launch(run_lengths, 1, N, values, np.zeros(N, np.int32), symbols, lengths, runs)
    n = runs[0]
    equal(np.repeat(symbols[:n], lengths[:n]), values)
    assert (np.diff(symbols[:n]) != 0).all()


@cuda.jit
def running_maximum(rows, out):
    """A row per block, with the carry of one tile in the next; the loop does not know when it ends."""
    tile = cuda.shared.array(8, float32)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    carry = rows[row, 0]
    base = 0
    while True:
        column = base + t
        tile[t] = rows[row, min(column, rows.shape[1] - 1)]
        cuda.syncthreads()
        best = carry
        for k in range(t + 1):
            best = max(best, tile[k])
        if column < rows.shape[1]:
            out[row, column] = best
        for k in range(8):
            carry = max(carry, tile[k])
        base += 8
        if base >= rows.shape[1]:
            break
        cuda.syncthreads()


@case
def maxima_so_far(launch, rng):
    rows = rng.normal(size=(3, 21)).astype(np.float32)
    out = np.zeros_like(rows)
    launch(running_maximum, 3, 8, rows, out)
    equal(out, np.maximum.accumulate(rows, axis=1))


@cuda.jit
def linear_recurrence(a, b, h):
    """h[t] = a[t] h[t-1] + b[t] as a scan of pairs, as state space models do it."""
    decay = cuda.shared.array(N, numba.float64)
    state = cuda.shared.array(N, numba.float64)
    t, channel = cuda.threadIdx.x, cuda.blockIdx.x
    decay[t] = a[channel, t]
    state[t] = b[channel, t]
    cuda.syncthreads()
    step = 1
    while step < N:
        if t >= step:
            d, s = decay[t - step], state[t - step]
        else:
            d, s = 1.0, 0.0
        mine = decay[t]
        cuda.syncthreads()
        state[t] += mine * s
        decay[t] = mine * d
        cuda.syncthreads()
        step *= 2
    h[channel, t] = state[t]


@case
def recurrence(launch, rng):
    a, b = rng.uniform(0.5, 1, (2, N)), rng.normal(size=(2, N))
    h = np.zeros((2, N))
    launch(linear_recurrence, 2, N, a, b, h)
    expected, state = [], np.zeros(2)
    for t in range(N):
        state = a[:, t] * state + b[:, t]
        expected.append(state)
    close(h, np.array(expected).T, rtol=1e-10)
