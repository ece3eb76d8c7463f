"""Strided loops that threads run in rounds, and blocks that run along a row of threads."""

from __future__ import annotations

import numpy as np
import pytest
from exhaustive import exhaustive
from numba import cuda

import warpdrive as wd


def summed(a, out, n):
    """Sums and counts live across iterations; the loop has a condition and an inner loop."""
    total, count = 0, 0.0
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        if a[i] % 3 != 0:
            total += a[i]
            for k in range(i % 4):
                count += 0.5 * k
    out[cuda.grid(1)] += total + count


def by_names(a, out, n):
    """The bounds are variables, and the stop is a shape."""
    first, stride = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x, cuda.blockDim.x * cuda.gridDim.x
    last = a.shape[0] - 1
    previous = np.int32(7)
    for i in range(first, last, stride):
        out[i] += a[i] * 2 + previous
        previous = a[i]


def by_while(a, out, n):
    """Loops as in CUDA C, the second with a start of its own in a variable that is used before."""
    i = cuda.grid(1)
    total = 0
    while i < n:
        if a[i] > 40:
            total += a[i]
        i += cuda.gridsize(1)
    out[cuda.grid(1)] += total
    stride = cuda.blockDim.x * cuda.gridDim.x
    j = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x + 1
    out[j] += 0.25
    while j < a.size - 2:
        cuda.atomic.add(out, j, a[j + 1])
        j = j + stride
    k = cuda.threadIdx.x
    while k < n:
        k += cuda.blockDim.x
    cuda.atomic.add(out, 1, k)


def in_block(a, out, n):
    """Each block has a section; threads meet before and after the loop, which reads what others wrote before."""
    part = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    for i in range(t, 64, cuda.blockDim.x):
        part[i] = a[i] + cuda.blockIdx.x
    cuda.syncthreads()
    offset = 5 + cuda.blockIdx.x
    for i in range(offset + t, 64, cuda.blockDim.x):
        cuda.atomic.add(out, i, part[63 - i])
    cuda.syncthreads()
    for i in range(t, 64, cuda.blockDim.x):
        part[i] = i


def stopped(a, out, n):
    """Not run in rounds: the loop ends early, its variable is read later, or its bounds change within."""
    found = -1
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        if a[i] == 5:
            found = i
            break
    out[cuda.grid(1)] += found
    j = 0
    for j in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        out[j % out.shape[0]] += 0
    limit = n
    for k in range(cuda.threadIdx.x, limit, cuda.blockDim.x):
        limit -= k
    cuda.atomic.add(out, 0, j + limit)


def from_own_start(a, out, n):
    """The start depends on the thread in another way as well: its first iteration is not that of its neighbours."""
    own = a[cuda.threadIdx.x] % 5
    for i in range(own + cuda.threadIdx.x, n, cuda.blockDim.x):
        cuda.atomic.add(out, i, 1 + own)


def plane(a, out, n):
    """A loop along the second axis around one along the first."""
    x, y = cuda.grid(2)
    width, height = cuda.gridsize(2)
    for j in range(y, n // 10, height):
        for i in range(x, 10, width):
            out[j * 10 + i] += a[j * 10 + i] + x


@pytest.mark.parametrize("kernel", [summed, by_names, by_while, in_block, stopped, from_own_start])
@pytest.mark.parametrize(("blocks", "threads", "n"), [(3, 8, 100), (2, 5, 3)])
def test_loops(check, kernel, blocks, threads, n):
    """Results are those of threads that run their iterations alone, for any number of rounds."""
    a = np.random.default_rng(n).integers(0, 100, 100, dtype=np.int32)
    check(kernel, blocks, threads, a, np.zeros(100), n)


@pytest.mark.parametrize(("blocks", "threads"), [((2, 3), (4, 2)), ((1, 1), (3, 7))])
def test_plane(check, blocks, threads):
    """Nested strided loops."""
    check(plane, blocks, threads, np.arange(100, dtype=np.int32), np.zeros(100), 100)


def pixels(image, out, scale):
    """A stencil with guards, without barriers, over blocks of two axes that do not divide the image."""
    x, y = cuda.grid(2)
    if 0 < x < image.shape[1] - 1 and 0 < y < image.shape[0] - 1:
        out[y, x] = scale * (image[y, x - 1] + image[y, x + 1]) + image[y - 1, x] - image[y + 1, x]
    if x < image.shape[1] and y < image.shape[0] and cuda.threadIdx.x == cuda.blockDim.x - 1:
        out[y, x] += 1000 * cuda.blockIdx.x + 10 * cuda.threadIdx.y + cuda.blockIdx.y


@pytest.mark.parametrize(
    ("blocks", "threads"),
    exhaustive(
        [
            ((9, 5), (8, 8)),
            ((70, 40), (1, 2)),
            ((7, 2), (10, 20)),
            ((1, 3), (67, 14)),
            (70, (2, 3)),
            ((9, 5, 2), (8, 8, 1)),
        ],
        ((9, 5), 70, (9, 5, 2)),
    ),
)
def test_rows(check, blocks, threads):
    """Blocks side by side, more than run at once, in grids of one to three axes."""
    image = np.random.default_rng(1).random((37, 67), dtype=np.float32)
    check(pixels, blocks, threads, image, np.zeros_like(image), np.float32(0.5))


def counted(values, sums, least, greatest):
    """Atomic operations on shared memory, which no other block sees."""
    own = cuda.shared.array(6, np.int32)
    real = cuda.shared.array(2, np.float32)
    t = cuda.threadIdx.x
    if t < 6:
        own[t] = (0, 100, -100, 0, 255, 0)[t]
    if t < 2:
        real[t] = 0.25
    cuda.syncthreads()
    value = values[cuda.grid(1)]
    before = cuda.atomic.add(own, 0, value)
    cuda.atomic.min(own, 1, value)
    cuda.atomic.max(own, 2, value)
    cuda.atomic.or_(own, 3, 1 << (value & 7))
    cuda.atomic.and_(own, 4, ~(1 << (value & 7)))
    cuda.atomic.sub(own, (5,), value)
    cuda.atomic.add(real, 0, 0.5)
    cuda.atomic.nanmax(real, 1, np.float32(value))
    if before == 0:
        cuda.atomic.add(sums, 6, 0.0)
    cuda.syncthreads()
    if t < 6:
        cuda.atomic.add(sums, t, own[t])
    if t < 2:
        cuda.atomic.max(greatest, t, real[t])
    cuda.atomic.min(least, 0, own[1])


def test_atomics_of_a_block(check):
    """Sums, bits, minima and maxima in shared memory."""
    values = np.random.default_rng(2).integers(-50, 50, 96, dtype=np.int32)
    found = check(counted, 3, 32, values, np.zeros(7), np.full(1, 99, np.int32), np.zeros(2, np.float32))
    assert found[1][0] == values.sum() and found[1][5] == -values.sum() and found[2] == values.min()
    np.testing.assert_array_equal(found[3], [16.25, values.max()])


def tallied(values, bins, plane, sums, read):
    """Arrays that are only added to, by an index from the end and by pairs; ``read`` is also read."""
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(bins, values[i] % bins.size - bins.shape[0], 1)
        cuda.atomic.add(plane, (i % 2, values[i] % 3), values[i])
        cuda.atomic.add(sums, 0, 0.5 * values[i])
        cuda.atomic.add(read, 0, read[1])


@pytest.mark.parametrize(("blocks", "threads"), [(40, 128), (2500, (1, 2)), (3, 7)])
@pytest.mark.parametrize("bins", [10, 5000])
def test_accumulators(blocks, threads, bins):
    """Sums of many and of few threads, into arrays that fit into a copy and into one that does not."""
    values = np.random.default_rng(3).integers(0, 10_000, 5000, dtype=np.int64)
    found = np.full(bins, 7, np.int32), np.zeros((2, 3), np.uint64), np.full(1, 0.25), np.array([0, 2])
    number = min(len(values), blocks * int(np.prod(threads)))
    if not isinstance(threads, int):  # the second row of threads has the indices of the first
        number = min(len(values), blocks)
    wd.kernel(tallied)[blocks, threads](values, *found)
    times = 1 if isinstance(threads, int) else threads[1]
    part = values[:number]
    np.testing.assert_array_equal(found[0], 7 + times * np.bincount(part % bins, minlength=bins))
    expected = [[part[row::2][part[row::2] % 3 == column].sum() for column in range(3)] for row in range(2)]
    np.testing.assert_array_equal(found[1], times * np.array(expected))
    assert found[2][0] == 0.25 + times * 0.5 * part.sum()
    np.testing.assert_array_equal(found[3], [2 * times * number, 2])


def counted_and_read(counts, before, out, first, step):
    """Each thread reads its own element, by another name, after it has added to it."""
    i = cuda.grid(1)
    if 0 < i < out.size:
        cuda.atomic.add(counts, i, 5)
        out[i] = before[first + step * i]


@pytest.mark.parametrize(("view", "first", "step"), [(np.s_[:], 0, 1), (np.s_[::-1], 63, -1), (np.s_[1:], -1, 1)])
def test_accumulators_that_are_read(view, first, step):
    """An array is added to and, as another argument, read: also backwards and from its second element on."""
    counts, out = np.arange(64), np.zeros(64, np.int64)
    wd.kernel(counted_and_read)[1, 256](counts, counts[view], out, first, step)
    np.testing.assert_array_equal(out[1:], np.arange(1, 64) + 5)
    np.testing.assert_array_equal(counts[1:], np.arange(1, 64) + 5)


def from_own_memory(a, out, n):
    """The start is read from an array of the thread, which the loop changes."""
    own = cuda.local.array(1, np.int32)
    own[0] = 2
    for i in range(cuda.threadIdx.x + own[0], n, cuda.blockDim.x):
        out[i] += 1 + a[i]
        own[0] += 1
    out[cuda.threadIdx.x] += own[0]


def from_former_value(a, out, n):
    """The start depends on a variable that has another value when the loop begins."""
    offset, total = n // 10, 0
    i = offset + cuda.threadIdx.x
    offset = offset * 3
    while i < n:
        out[i] += 1
        total += a[i]
        i += cuda.blockDim.x
    cuda.syncthreads()
    out[cuda.threadIdx.x] += total + offset


@pytest.mark.parametrize("kernel", [from_own_memory, from_former_value])
def test_starts(check, kernel):
    """The start of a loop is what it was before its first iteration."""
    check(kernel, 1, 8, np.arange(100, dtype=np.int32), np.zeros(100), 100)
