"""Barriers at which a block counts and agrees, and barriers of warps."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32

from .cases import case, close, equal

N = 16


@cuda.jit
def count_all_any(values, threshold, out):
    i, b = cuda.threadIdx.x, cuda.blockIdx.x
    above = cuda.syncthreads_count(values[b, i] > threshold)
    every = cuda.syncthreads_and(values[b, i] > 0)
    some = cuda.syncthreads_or(values[b, i] == threshold)
    if i == 0:
        out[b, 0] = above
        out[b, 1] = 1 if every else 0
        out[b, 2] = 1 if some else 0


@case
def three_votes(launch, rng):
    values = rng.integers(0, 30, (4, N)).astype(np.int32)
    values[1] += 1
    values[2, 5] = 20
    out = np.zeros((4, 3), np.int32)
    launch(count_all_any, 4, N, values, 20, out)
    equal(out, np.stack([(values > 20).sum(1), (values > 0).all(1), (values == 20).any(1)], axis=1))


@cuda.jit
def bubbles(values, rounds):
    """Bubble sort, until no thread has exchanged values."""
    i = cuda.threadIdx.x
    n = 0
    while True:
        exchanged = False
        for parity in range(2):
            left = 2 * i + parity
            if left + 1 < values.size and values[left] > values[left + 1]:
                values[left], values[left + 1] = values[left + 1], values[left]
                exchanged = True
            cuda.syncthreads()
        n += 1
        if not cuda.syncthreads_or(exchanged):
            break
    if i == 0:
        rounds[0] = n


@case
def until_nobody_exchanges(launch, rng):
    values, rounds = rng.permutation(2 * N).astype(np.int32), np.zeros(1, np.int32)
    launch(bubbles, 1, N, values, rounds)
    equal(values, np.arange(2 * N))
    assert 1 < rounds[0] <= N + 1


@cuda.jit(device=True)
def has_converged(old, new, tolerance):
    return cuda.syncthreads_and(abs(new - old) < tolerance)


@cuda.jit
def relax(values, tolerance, limit, rounds):
    """A vote in a device function ends a loop; the limit ends it otherwise."""
    u = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    u[i] = values[i]
    cuda.syncthreads()
    done = 0
    for step in range(limit):
        old = u[i]
        new = old
        if 0 < i < N - 1:
            new = np.float32(0.5) * (u[i - 1] + u[i + 1])
        stop = has_converged(old, new, tolerance)
        u[i] = new
        done = step + 1
        cuda.syncthreads()
        if stop:
            break
    values[i] = u[i]
    if i == 0:
        rounds[0] = done


@case
def until_all_agree(launch, rng):
    for tolerance, limit in ((0.01, 400), (0.0, 5)):
        values, rounds = np.zeros(N, np.float32), np.zeros(1, np.int32)
        values[-1] = 15
        expected, count = values.astype(np.float64), 0
        while count < limit:
            new = expected.copy()
            new[1:-1] = (expected[:-2] + expected[2:]) / 2
            change, expected, count = abs(new - expected).max(), new, count + 1
            if change < tolerance:
                break
        launch(relax, 1, N, values, np.float32(tolerance), limit, rounds)
        close(values, expected, rtol=1e-3, atol=1e-3)
        assert abs(rounds[0] - count) <= 1


@cuda.jit
def compact_by_counting(values, out, total):
    """Compaction: each value finds its place by counting the votes before it."""
    i = cuda.threadIdx.x
    start = 0
    for kind in range(3):
        mine = values[i] == kind
        place = 0
        for other in range(i):
            place += values[other] == kind
        if mine:
            out[start + place] = i
        start += cuda.syncthreads_count(mine)
    if i == 0:
        total[0] = start


@case
def partition_by_kind(launch, rng):
    values = rng.integers(0, 4, N).astype(np.int32)
    out, total = np.full(N, -1, np.int32), np.zeros(1, np.int32)
    launch(compact_by_counting, 1, N, values, out, total)
    order = np.argsort(values, kind="stable")
    equal(total, (values < 3).sum())
    equal(out[: total[0]], order[: total[0]])


@cuda.jit
def survivors(energy, costs, alive_after):
    """Agents that have left take no part in the votes of those that are still there."""
    i, env = cuda.threadIdx.x, cuda.blockIdx.x
    if i >= energy.shape[1]:
        return
    left = energy[env, i]
    for t in range(costs.size):
        left -= costs[t]
        alive = cuda.syncthreads_count(left > 0)
        if i == 0:
            alive_after[env, t] = alive
        if alive == 0:
            break


@case
def votes_after_some_have_left(launch, rng):
    energy, costs = rng.integers(1, 12, (3, 10)).astype(np.int32), np.array([2, 3, 1, 4, 5], np.int32)
    alive_after = np.zeros((3, 5), np.int32)
    launch(survivors, 3, N, energy, costs, alive_after)
    equal(alive_after, (energy[:, None, :] > costs.cumsum()[None, :, None]).sum(axis=2))


@cuda.jit
def warp_sums(values, out):
    """Within a warp its own barrier is enough; the sums of warps need the block's."""
    memory = cuda.shared.array(64, int32)
    sums = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    lane, warp = t % 32, t // 32
    memory[t] = values[t]
    cuda.syncwarp()
    width = 16
    while width > 0:
        if lane < width:
            memory[t] += memory[t + width]
        cuda.syncwarp()
        width //= 2
    if lane == 0:
        sums[warp] = memory[t]
    cuda.syncthreads()
    if t == 0:
        out[0] = sums[0] + sums[1]


@case
def barriers_of_warps(launch, rng):
    values, out = rng.integers(-99, 99, 64).astype(np.int32), np.zeros(1, np.int32)
    launch(warp_sums, 1, 64, values, out)
    equal(out, [values.sum()])
