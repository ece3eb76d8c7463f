"""Counting into bins, in global and in shared memory, and other uses of atomic operations."""

from __future__ import annotations

import math

import numba
import numpy as np
from numba import cuda, float32, int32, uint32

from .cases import case, close, equal

BINS = 10


@cuda.jit
def histogram(x, xmin, xmax, histogram_out):
    nbins = histogram_out.shape[0]
    bin_width = (xmax - xmin) / nbins
    start = cuda.grid(1)
    stride = cuda.gridsize(1)
    for i in range(start, x.shape[0], stride):
        bin_number = int32(math.floor((x[i] - xmin) / bin_width))
        if bin_number >= 0 and bin_number < histogram_out.shape[0]:
            cuda.atomic.add(histogram_out, bin_number, 1)


@case
def of_numbers_in_a_range(launch, rng):
    x = rng.normal(size=200)
    out = np.zeros(BINS, np.int32)
    launch(histogram, 3, 16, x, 0.0, 2.5, out)
    equal(out, np.histogram(x, BINS, (0, 2.5))[0])


@cuda.jit
def private_copies(values, counts):
    """Each group of threads counts for itself, so that fewer meet."""
    copies = cuda.shared.array((4, 16), uint32)
    t = cuda.threadIdx.x
    group = t // 8
    for i in range(t, 64, 32):
        copies[i // 16, i % 16] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    while i < values.size:
        cuda.atomic.add(copies, (group, values[i] & 15), 1)
        i += cuda.gridsize(1)
    cuda.syncthreads()
    if t < 16:
        total = copies[0, t] + copies[1, t] + copies[2, t] + copies[3, t]
        if total > 0:
            cuda.atomic.add(counts, t, total)


@case
def with_copies_for_groups_of_threads(launch, rng):
    values = rng.integers(0, 1000, 150).astype(np.int32)
    counts = np.zeros(16, np.uint32)
    launch(private_copies, 2, 32, values, counts)
    equal(counts, np.bincount(values % 16, minlength=16))


@cuda.jit
def joint(image, other, table):
    y, x = cuda.grid(2)
    if y >= image.shape[0] or x >= image.shape[1]:
        return
    cuda.atomic.add(table, (image[y, x], other[y, x]), 1)


@case
def of_two_images(launch, rng):
    image, other = rng.integers(0, 4, (2, 9, 11)).astype(np.uint8)
    table = np.zeros((4, 4), np.int64)
    launch(joint, (3, 3), (4, 4), image, other, table)
    expected = np.zeros((4, 4), np.int64)
    np.add.at(expected, (image, other), 1)
    equal(table, expected)


@cuda.jit
def group_statistics(keys, values, low, high, total):
    """Least, greatest and sum of each group of rows."""
    i = cuda.grid(1)
    if i < keys.size:
        k = keys[i]
        cuda.atomic.min(low, k, values[i])
        cuda.atomic.max(high, k, values[i])
        cuda.atomic.add(total, k, values[i])


@case
def statistics_of_groups(launch, rng):
    keys, values = rng.integers(0, 5, 60), rng.integers(-50, 50, 60).astype(np.float32)
    low, high = np.full(5, math.inf, np.float32), np.full(5, -math.inf, np.float32)
    total = np.zeros(5, np.float32)
    launch(group_statistics, 2, 32, keys, values, low, high, total)
    for k in range(5):
        group = values[keys == k]
        equal([low[k], high[k], total[k]], [group.min(), group.max(), group.sum()])


@cuda.jit
def cdf_equalise(image, out):
    """The whole of an image's equalisation by one block: histogram, scan, look-up."""
    counts = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    n = image.shape[0] * image.shape[1]
    if t < 16:
        counts[t] = 0
    cuda.syncthreads()
    for p in range(t, n, cuda.blockDim.x):
        cuda.atomic.add(counts, image[p // image.shape[1], p % image.shape[1]], 1)
    cuda.syncthreads()
    running = 0
    if t < 16:
        for k in range(t + 1):
            running += counts[k]
    cuda.syncthreads()
    if t < 16:
        counts[t] = running
    cuda.syncthreads()
    for p in range(t, n, cuda.blockDim.x):
        y, x = p // image.shape[1], p % image.shape[1]
        out[y, x] = counts[image[y, x]] * 15 // n


@case
def equalisation(launch, rng):
    image = rng.binomial(15, 0.3, (8, 9)).astype(np.uint8)
    out = np.zeros_like(image)
    launch(cdf_equalise, 1, 32, image, out)
    cdf = np.bincount(image.ravel(), minlength=16).cumsum()
    equal(out, (cdf * 15 // 72)[image])


@cuda.jit
def ticketed_maximum(scores, best):
    """The largest by compare-and-swap on packed pairs, so that equal scores are distinguished."""
    i = cuda.grid(1)
    if i >= scores.size:
        return
    packed = scores[i] * 1000 + (999 - i)
    old = best[0]
    while packed > old:
        seen = cuda.atomic.cas(best, 0, old, packed)
        if seen == old:
            break
        old = seen


@case
def winner_by_compare_and_swap(launch, rng):
    scores = rng.integers(0, 12, 40)
    best = np.full(1, -1, np.int64)
    launch(ticketed_maximum, 2, 32, scores, best)
    equal(999 - best % 1000, [scores.argmax()])


@cuda.jit
def scatter_mean(points, values, sums, counts, means):
    """Averages of a rasterised cloud; a barrier between scattering and dividing."""
    t = cuda.threadIdx.x
    for i in range(t, points.shape[0], cuda.blockDim.x):
        cell_x, cell_y = int(math.floor(points[i, 0])), int(math.floor(points[i, 1]))
        cuda.atomic.add(sums, (cell_x, cell_y), values[i])
        cuda.atomic.add(counts, (cell_x, cell_y), 1)
    cuda.syncthreads()
    for cell in range(t, 9, cuda.blockDim.x):
        x, y = divmod(cell, 3)
        if counts[x, y]:
            means[x, y] = sums[x, y] / counts[x, y]
        else:
            means[x, y] = math.nan


@case
def means_of_cells(launch, rng):
    points, values = rng.uniform(0, 3, (14, 2)), rng.normal(size=14)
    means = np.zeros((3, 3))
    launch(scatter_mean, 1, 8, points, values, np.zeros((3, 3)), np.zeros((3, 3), np.int32), means)
    cells = np.floor(points).astype(int)
    for x in range(3):
        for y in range(3):
            inside = values[(cells == (x, y)).all(axis=1)]
            close(means[x, y], inside.mean() if inside.size else np.nan)


@cuda.jit
def degrees(edges, degree):
    """Undirected edges; the array is subtracted from where an edge is listed twice."""
    for e in range(cuda.grid(1), edges.shape[0], cuda.gridsize(1)):
        a, b = edges[e]
        cuda.atomic.add(degree, a, 1)
        cuda.atomic.add(degree, b, 1)
        if a == b:
            cuda.atomic.sub(degree, a, 1)


@case
def degrees_of_a_graph(launch, rng):
    edges = rng.integers(0, 8, (30, 2)).astype(np.int32)
    degree = np.zeros(8, np.int32)
    launch(degrees, 2, 8, edges, degree)
    equal(degree, [(edges == node).any(axis=1).sum() for node in range(8)])


@cuda.jit
def weighted(samples, weights, out):
    """A shared histogram of floats whose bins follow a logarithm."""
    bins = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    if t < 8:
        bins[t] = numba.float32(0)
    cuda.syncthreads()
    sample = samples[cuda.grid(1)]
    if sample > 0:
        place = min(max(int(math.floor(math.log2(sample))) + 4, 0), 7)
        cuda.atomic.add(bins, place, weights[cuda.grid(1)])
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(out, t, bins[t])


@case
def weighted_with_logarithmic_bins(launch, rng):
    samples = np.exp(rng.normal(0, 2, 48)).astype(np.float32)
    samples[3] = -1
    weights = rng.integers(1, 5, 48).astype(np.float32)
    out = np.zeros(8, np.float32)
    launch(weighted, 3, 16, samples, weights, out)
    edges = np.array([0, *2.0 ** np.arange(-3, 4), np.inf])
    equal(out, np.histogram(samples, edges, weights=weights)[0])
