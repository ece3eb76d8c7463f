"""Atomic operations of every kind, with results that do not depend on the order."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32, uint32, uint64

from .cases import case, close, equal

WORDS = 4


@cuda.jit
def bitmap(members, banned, flips, words):
    """Sets, clears and toggles bits; a barrier between the kinds, since they do not commute."""
    i = cuda.threadIdx.x
    if i < members.size:
        cuda.atomic.or_(words, members[i] // 32, uint32(1) << uint32(members[i] % 32))
    cuda.syncthreads()
    if i < banned.size:
        cuda.atomic.and_(words, banned[i] // 32, ~(uint32(1) << uint32(banned[i] % 32)))
    cuda.syncthreads()
    for k in range(i, flips.size, cuda.blockDim.x):
        cuda.atomic.xor(words, flips[k] // 32, uint32(1) << uint32(flips[k] % 32))


@case
def sets_as_bits(launch, rng):
    members, banned, flips = rng.integers(0, 128, 30), rng.integers(0, 128, 9), rng.integers(0, 128, 40)
    words = np.zeros(WORDS, np.uint32)
    launch(bitmap, 1, 32, members, banned, flips, words)
    bits = np.zeros(128, np.int64)
    bits[members] = 1
    bits[banned] = 0
    np.add.at(bits, flips, 1)
    equal(np.unpackbits(words.view(np.uint8), bitorder="little"), bits % 2)


@cuda.jit
def counters_that_wrap(up, down, wide, limit):
    """Inc and dec count round a circle."""
    cuda.atomic.inc(up, cuda.threadIdx.x % 3, limit)
    cuda.atomic.dec(down, cuda.threadIdx.x % 3, limit)
    cuda.atomic.inc(wide, 0, uint64(limit + 4))


@case
def circles(launch, rng):
    up, down, wide = np.zeros(3, np.uint32), np.zeros(3, np.uint32), np.zeros(1, np.uint64)
    launch(counters_that_wrap, 2, 12, up, down, wide, np.uint32(4))
    equal(up, 8 % 5)
    equal(down, -8 % 5)
    equal(wide, 24 % 9)


@cuda.jit
def extremes(values, low, high, low_of_all, high_of_all):
    """With and without regard to NaN, in a corner of a matrix."""
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.nanmin(low_of_all, 0, values[i])
        cuda.atomic.nanmax(high_of_all, 0, values[i])
        if values[i] == values[i]:
            cuda.atomic.min(low, (1, i % 2), values[i])
            cuda.atomic.max(high, (i % 2, 1), values[i])


@case
def extremes_without_nan(launch, rng):
    values = rng.normal(size=30)
    values[[3, 8, 21]] = np.nan
    low, high, least, greatest = np.full((2, 2), 9.0), np.full((2, 2), -9.0), np.full(1, 9.0), np.full(1, -9.0)
    launch(extremes, 2, 16, values, low, high, least, greatest)
    equal([least[0], greatest[0]], [np.nanmin(values), np.nanmax(values)])
    equal(low, [[9, 9], [np.nanmin(values[::2]), np.nanmin(values[1::2])]])
    equal(high, [[-9, np.nanmax(values[::2])], [-9, np.nanmax(values[1::2])]])


@cuda.jit
def product_by_swaps(factors, product, tries):
    """An operation that the hardware does not have, as a loop around compare-and-swap."""
    i = cuda.grid(1)
    if i >= factors.shape[0]:
        return
    old = product[0]
    while True:
        seen = cuda.atomic.compare_and_swap(product, old, old * factors[i] % 10007)
        if seen == old:
            break
        old = seen
    cuda.atomic.add(tries, 0, 1)


@case
def product_modulo_a_prime(launch, rng):
    factors = rng.integers(2, 10000, 20)
    product, tries = np.ones(1, np.int64), np.zeros(1, np.int32)
    launch(product_by_swaps, 2, 12, factors, product, tries)
    expected = 1
    for factor in factors:
        expected = expected * int(factor) % 10007
    equal(product, [expected])
    equal(tries, [20])


@cuda.jit
def one_winner(flags, winners, seats, seated):
    """The first thread wins; which one it was is not recorded."""
    room = cuda.shared.array(1, int32)
    i = cuda.threadIdx.x
    if i == 0:
        room[0] = seats
    cuda.syncthreads()
    if cuda.atomic.exch(flags, cuda.blockIdx.x, 1) == 0:
        cuda.atomic.add(winners, 0, 1)
    if cuda.atomic.sub(room, 0, 1) > 0:
        cuda.atomic.add(seated, cuda.blockIdx.x, 1)


@case
def first_come_first_served(launch, rng):
    flags, winners, seated = np.array([0, 1, 0], np.int32), np.zeros(1, np.int32), np.zeros(3, np.int32)
    launch(one_winner, 3, 10, flags, winners, 4, seated)
    equal(flags, 1)
    equal(winners, [2])
    equal(seated, 4)


@cuda.jit
def of_every_type(i32, u32, i64, u64, f32, f64):
    """Additions to global and shared elements of each type that has them; what was there before is used."""
    s32 = cuda.shared.array(2, float32)
    u = cuda.shared.array((1, 2), uint32)
    t = cuda.threadIdx.x
    if t < 2:
        s32[t] = 0
        u[0, t] = 0
    cuda.syncthreads()
    cuda.atomic.add(s32, t & 1, np.float32(0.5))
    cuda.atomic.add(u, (0, t & 1), 3)
    before = cuda.atomic.add(i32, 0, t)
    if before < 0:
        cuda.atomic.add(i32, 1, 1)
    cuda.atomic.add(u32, t % 2, 5)
    cuda.atomic.sub(i64, 0, t * t)
    cuda.atomic.add(u64, 1, 1)
    cuda.atomic.add(f64, 0, 0.25 * t)
    cuda.syncthreads()
    if t < 2:
        cuda.atomic.add(f32, t, s32[t])
        cuda.atomic.max(u32, 1 - t, u[0, t])


@case(float64=True)
def additions_of_every_type(launch, rng):
    kinds = (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64)
    i32, u32, i64, u64, f32, f64 = arrays = [np.zeros(2, kind) for kind in kinds]
    i32[0] = -2000
    launch(of_every_type, 2, 20, *arrays)
    equal(i32, [-2000 + 2 * 190, 40])
    equal(u32, [100, 100])
    equal(i64, [-2 * (np.arange(20) ** 2).sum(), 0])
    equal(u64, [0, 40])
    equal(f32, [10, 10])
    close(f64, [95, 0])


@cuda.jit
def hash_table(keys, counts, lost):
    """Open addressing with compare-and-swap: where a key lands depends on the order, how often it comes does not."""
    table = cuda.shared.array(16, int32)
    i = cuda.threadIdx.x
    table[i] = -1
    cuda.syncthreads()
    for k in range(i, keys.size, 16):
        slot = keys[k] * 7 % 16
        for _ in range(16):
            seen = cuda.atomic.cas(table, slot, -1, keys[k])
            if seen == -1 or seen == keys[k]:
                cuda.atomic.add(counts, keys[k], 1)
                break
            slot = (slot + 1) % 16
        else:
            cuda.atomic.add(lost, 0, 1)


@case
def open_addressing(launch, rng):
    keys = rng.choice(rng.permutation(48)[:12], 40).astype(np.int32)
    counts, lost = np.zeros(48, np.int32), np.zeros(1, np.int32)
    launch(hash_table, 1, 16, keys, counts, lost)
    equal(counts, np.bincount(keys, minlength=48))
    equal(lost, 0)
