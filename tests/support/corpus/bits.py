"""Intrinsics on bits and numbers, constant arrays, and what is computed with them."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32, uint32, uint64

from .cases import case, close, equal

POWERS = np.array([1, 7, 49, 343, 2401, 16807], np.int64)
WEIGHTS = np.linspace(0, 1, 5).astype(np.float32)


@cuda.jit
def of_words(words, counts, reversed_words):
    i = cuda.grid(1)
    if i < words.size:
        word = words[i]
        counts[i, 0] = cuda.popc(word)
        counts[i, 1] = cuda.clz(word)
        counts[i, 2] = cuda.ffs(word)
        reversed_words[i] = cuda.brev(word)


@case
def bits_of_words(launch, rng):
    for kind, width in ((np.uint32, 32), (np.uint64, 64)):
        words = rng.integers(0, 2**width, 12, dtype=kind) >> rng.integers(0, width, 12).astype(kind)
        words[3] = 0
        counts, turned = np.zeros((12, 3), np.int32), np.zeros(12, kind)
        launch(of_words, 2, 8, words, counts, turned)
        texts = [f"{int(word):0{width}b}" for word in words]
        equal(counts[:, 0], [text.count("1") for text in texts])
        equal(counts[:, 1], [len(text) - len(text.lstrip("0")) for text in texts])
        equal(counts[:, 2], [text[::-1].find("1") + 1 for text in texts])
        equal(turned, np.array([int(text[::-1], 2) for text in texts], kind))


@cuda.jit
def queens(columns, solutions, n):
    """Counts placements of queens with bits: a first column per thread, an explicit stack in local memory."""
    first = cuda.grid(1)
    if first >= n:
        return
    full = uint32((1 << n) - 1)
    taken = cuda.local.array(10, uint32)
    left = cuda.local.array(10, uint32)
    right = cuda.local.array(10, uint32)
    free = cuda.local.array(10, uint32)
    bit = uint32(1) << uint32(first)
    row = 1
    taken[1], left[1], right[1] = bit, bit << uint32(1), bit >> uint32(1)
    free[1] = full & ~(taken[1] | left[1] | right[1])
    found = 0
    while row > 0:
        if taken[row] == full:
            found += 1
            row -= 1
            continue
        if free[row] == 0:
            row -= 1
            continue
        place = cuda.ffs(free[row]) - 1
        bit = uint32(1) << uint32(place)
        free[row] &= ~bit
        row += 1
        taken[row] = taken[row - 1] | bit
        left[row] = (left[row - 1] | bit) << uint32(1)
        right[row] = (right[row - 1] | bit) >> uint32(1)
        free[row] = full & ~(taken[row] | left[row] | right[row])
    columns[first] = found
    cuda.atomic.add(solutions, 0, found)


@case
def placements_of_queens(launch, rng):
    columns, solutions = np.zeros(6, np.int32), np.zeros(1, np.int32)
    launch(queens, 2, 4, columns, solutions, 6)
    equal(solutions, [4])
    equal(columns, columns[::-1])


@cuda.jit
def numbers(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i, 0] = cuda.fma(x[i], y[i], x[i])
        out[i, 1] = cuda.selp(x[i] > y[i], x[i], y[i])
        out[i, 2] = cuda.cbrt(x[i])
        out[i, 3] = cuda.cbrt(x[i]) ** 2


@case
def arithmetic_of_the_device(launch, rng):
    for kind, rtol in ((np.float32, 1e-5), (np.float64, 1e-12)):
        x, y = rng.normal(size=10).astype(kind), rng.uniform(0.1, 9, 10).astype(kind)
        out = np.zeros((10, 4), kind)
        launch(numbers, 2, 8, x, y, out)
        close(out, np.stack([x * y + x, np.maximum(x, y), np.cbrt(x), np.cbrt(x) ** 2], axis=1), rtol=rtol)


@cuda.jit
def polynomial_hashes(texts, out):
    """A constant array of the module."""
    powers = cuda.const.array_like(POWERS)
    i = cuda.grid(1)
    if i < texts.shape[0]:
        total = 0
        for k in range(powers.shape[0]):
            total += powers[k] * texts[i, k]
        out[i] = total


@cuda.jit
def smooth_with_constants(values, out):
    """A constant array beside a barrier."""
    weights = cuda.const.array_like(WEIGHTS)
    memory = cuda.shared.array(16, float32)
    i = cuda.threadIdx.x
    memory[i] = values[i]
    cuda.syncthreads()
    total = float32(0)
    for k in range(len(weights)):
        total += weights[k] * memory[(i + k) % 16]
    cuda.syncthreads()
    out[i] = total + weights[i % 5]


@case
def constant_arrays(launch, rng):
    texts, hashes = rng.integers(0, 26, (9, 6)), np.zeros(9, np.int64)
    launch(polynomial_hashes, 2, 8, texts, hashes)
    equal(hashes, [sum(int(c) * 7**k for k, c in enumerate(text)) for text in texts])
    values, out = rng.integers(0, 9, 16).astype(np.float32), np.zeros(16, np.float32)
    launch(smooth_with_constants, 1, 16, values, out)
    close(out, sum(WEIGHTS[k] * np.roll(values, -k) for k in range(5)) + WEIGHTS[np.arange(16) % 5])


@cuda.jit
def mix(keys, seed, out):
    """Murmur's way to mix 64 bits, with xor, shifts and products that wrap."""
    i = cuda.grid(1)
    if i < keys.size:
        h = uint64(keys[i]) ^ uint64(seed)
        h ^= h >> uint64(33)
        h *= uint64(0xFF51AFD7ED558CCD)
        h ^= h >> uint64(33)
        h *= uint64(0xC4CEB9FE1A85EC53)
        h ^= h >> uint64(33)
        out[i] = h


@case
def mixing_of_64_bits(launch, rng):
    keys, out = rng.integers(0, 2**63, 10).astype(np.uint64), np.zeros(10, np.uint64)
    launch(mix, 2, 8, keys, 12345, out)
    for key, found in zip(keys, out, strict=True):
        h = int(key) ^ 12345
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 1):
            h = (h ^ h >> 33) * factor % 2**64
        equal(int(found), h)


@cuda.jit
def gray_walk(steps, out):
    """Gray code: ffs returns the next bit to change; all threads of a block flip bits of one word in turn."""
    word = cuda.shared.array(1, int32)
    i = cuda.threadIdx.x
    if i == 0:
        word[0] = 0
    cuda.syncthreads()
    for n in range(1, steps + 1):
        bit = cuda.ffs(n) - 1
        if i == bit:
            word[0] ^= 1 << bit
        cuda.syncthreads()
        if i == n % cuda.blockDim.x:
            out[n - 1] = word[0] * 10 + cuda.popc(word[0])
        cuda.syncthreads()


@case
def gray_code(launch, rng):
    out = np.zeros(12, np.int64)
    launch(gray_walk, 1, 4, 12, out)
    n = np.arange(1, 13)
    gray = n ^ n >> 1
    equal(out, gray * 10 + [bin(g).count("1") for g in gray])
