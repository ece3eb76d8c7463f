"""Programs of ``numba.cuda``: eight kernels as the field writes them.

The module does not import WarpDrive, so that numba's simulator runs it as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda, float32, float64, int32

THREADS = 256
TILE = 16
BINS = 256
RATE, VOLATILITY = 0.02, 0.30
SOFTENING = np.float32(0.01)


@dataclass(frozen=True)
class Program:
    """A kernel with its data.

    Attributes:
        launch: Launches the kernel, or the kernels, and waits for them.
        arguments: The arrays and numbers of the computation by hand, on the host.
        result: Returns the result of ``launch``, on the host.
    """

    launch: Callable[[], None]
    arguments: tuple[Any, ...]
    result: Callable[[], Any]


@cuda.jit
def saxpy_kernel(a, x, y):
    """Add ``a * x`` to ``y``."""
    i = cuda.grid(1)
    if i < y.size:
        y[i] += a * x[i]


def saxpy(n: int) -> Program:
    """Return the product of a vector and a number, added to a vector."""
    x, y = np.linspace(0, 1, n, dtype=np.float32), np.zeros(n, np.float32)
    a, device = np.float32(0.5), cuda.to_device(y)
    source = cuda.to_device(x)
    kernel = saxpy_kernel[_blocks(n), THREADS]
    return Program(lambda: _run(kernel, a, source, device), (a, x, y), device.copy_to_host)


@cuda.jit
def sum_kernel(x, total):
    """Add the sum of a block's elements, by a tree in shared memory, to ``total[0]``."""
    partial = cuda.shared.array(THREADS, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    partial[t] = x[i] if i < x.size else 0.0
    cuda.syncthreads()
    s = cuda.blockDim.x // 2
    while s > 0:
        if t < s:
            partial[t] += partial[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        cuda.atomic.add(total, 0, partial[0])


@cuda.jit
def clear(total):
    """Set ``total`` to 0."""
    i = cuda.grid(1)
    if i < total.size:
        total[i] = 0


def reduction(n: int) -> Program:
    """Return the sum of a vector."""
    x = np.random.default_rng(0).random(n, dtype=np.float32)
    source, total = cuda.to_device(x), cuda.to_device(np.zeros(1, np.float32))
    kernel, zero = sum_kernel[_blocks(n), THREADS], clear[1, 1]

    def launch() -> None:
        zero(total)
        _run(kernel, source, total)

    return Program(launch, (x,), lambda: total.copy_to_host()[0])


@cuda.jit
def product_kernel(a, b, c):
    """Multiply matrices by tiles in shared memory."""
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for tile in range((a.shape[1] + TILE - 1) // TILE):
        x, y = tile * TILE + tx, tile * TILE + ty
        left[ty, tx] = a[row, x] if row < a.shape[0] and x < a.shape[1] else 0.0
        right[ty, tx] = b[y, column] if y < b.shape[0] and column < b.shape[1] else 0.0
        cuda.syncthreads()
        for k in range(TILE):
            total += left[ty, k] * right[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


def product(n: int) -> Program:
    """Return the product of two square matrices."""
    rng = np.random.default_rng(0)
    a, b = (rng.random((n, n), dtype=np.float32) for _ in range(2))
    c = np.zeros((n, n), np.float32)
    arrays = [cuda.to_device(each) for each in (a, b, c)]
    tiles = (n + TILE - 1) // TILE
    kernel = product_kernel[(tiles, tiles), (TILE, TILE)]
    return Program(lambda: _run(kernel, *arrays), (a, b, c), arrays[2].copy_to_host)


@cuda.jit
def laplace_kernel(old, new):
    """Run one Jacobi iteration for Laplace's equation."""
    i, j = cuda.grid(2)
    if 0 < i < old.shape[1] - 1 and 0 < j < old.shape[0] - 1:
        new[j, i] = 0.25 * (old[j, i - 1] + old[j, i + 1] + old[j - 1, i] + old[j + 1, i])


def laplace(n: int) -> Program:
    """Return an iteration of a square grid."""
    old = np.random.default_rng(0).random((n, n), dtype=np.float32)
    new = np.zeros_like(old)
    source, target = cuda.to_device(old), cuda.to_device(new)
    blocks = (n + TILE - 1) // TILE
    kernel = laplace_kernel[(blocks, blocks), (TILE, TILE)]
    return Program(lambda: _run(kernel, source, target), (old, new), target.copy_to_host)


@cuda.jit(device=True)
def cumulative_normal(d):
    """Approximate the cumulative normal distribution (Abramowitz and Stegun, 26.2.17)."""
    k = 1.0 / (1.0 + 0.2316419 * math.fabs(d))
    tail = 0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429)))
    value = 0.39894228040143267794 * math.exp(-0.5 * d * d) * (k * tail)
    if d > 0:
        value = 1.0 - value
    return value


@cuda.jit
def black_scholes_kernel(call, put, price, strike, years, rate, volatility):
    """Price European options (Black and Scholes, 1973)."""
    i = cuda.grid(1)
    if i >= price.shape[0]:
        return
    root = math.sqrt(years[i])
    d1 = (math.log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / (volatility * root)
    d2 = d1 - volatility * root
    discount = math.exp(-rate * years[i])
    call[i] = price[i] * cumulative_normal(d1) - strike[i] * discount * cumulative_normal(d2)
    put[i] = strike[i] * discount * cumulative_normal(-d2) - price[i] * cumulative_normal(-d1)


def black_scholes(n: int) -> Program:
    """Return the prices of options, in float64."""
    rng = np.random.default_rng(0)
    known = rng.uniform(5, 30, n), rng.uniform(1, 100, n), rng.uniform(0.25, 10, n)
    results = np.zeros(n), np.zeros(n)
    arrays = [cuda.to_device(each) for each in (*results, *known)]
    kernel = black_scholes_kernel[_blocks(n), THREADS]
    return Program(
        lambda: _run(kernel, *arrays, RATE, VOLATILITY),
        (*results, *known, RATE, VOLATILITY),
        lambda: np.stack([each.copy_to_host() for each in arrays[:2]]),
    )


@cuda.jit
def histogram_kernel(values, low, high, counts):
    """Count values by bins: in shared memory for each block, then for all."""
    own = cuda.shared.array(BINS, int32)
    t = cuda.threadIdx.x
    for bin_ in range(t, BINS, cuda.blockDim.x):
        own[bin_] = 0
    cuda.syncthreads()
    width = (high - low) / BINS
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        bin_ = int((values[i] - low) / width)
        if 0 <= bin_ < BINS:
            cuda.atomic.add(own, bin_, 1)
    cuda.syncthreads()
    for bin_ in range(t, BINS, cuda.blockDim.x):
        cuda.atomic.add(counts, bin_, own[bin_])


def histogram(n: int) -> Program:
    """Return the numbers of values in 256 bins."""
    values = np.random.default_rng(0).normal(size=n).astype(np.float32)
    low, high = np.float32(-4), np.float32(4)
    source, counts = cuda.to_device(values), cuda.to_device(np.zeros(BINS, np.int32))
    kernel, zero = histogram_kernel[min(_blocks(n), 64), THREADS], clear[1, BINS]

    def launch() -> None:
        zero(counts)
        _run(kernel, source, low, high, counts)

    return Program(launch, (values, low, high, np.zeros(BINS, np.int32)), counts.copy_to_host)


@cuda.jit
def scan_blocks(x, out, sums):
    """Compute the inclusive prefix sums of each block (Hillis and Steele, 1986) and the block's sum."""
    partial = cuda.shared.array((2, THREADS), float64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    current = 0
    partial[0, t] = x[i] if i < x.size else 0.0
    cuda.syncthreads()
    distance = 1
    while distance < THREADS:
        other = 1 - current
        if t >= distance:
            partial[other, t] = partial[current, t] + partial[current, t - distance]
        else:
            partial[other, t] = partial[current, t]
        current = other
        distance *= 2
        cuda.syncthreads()
    if i < x.size:
        out[i] = partial[current, t]
    if t == THREADS - 1:
        sums[cuda.blockIdx.x] = partial[current, t]


@cuda.jit
def add_offsets(out, offsets):
    """Add the prefix sum of the preceding blocks to each block."""
    i = cuda.grid(1)
    if i < out.size and cuda.blockIdx.x > 0:
        out[i] += offsets[cuda.blockIdx.x - 1]


def scan(n: int) -> Program:
    """Return the prefix sums of a vector, by three levels of blocks."""
    x = np.random.default_rng(0).random(n)
    sizes = [n]
    while sizes[-1] > 1:
        sizes.append(_blocks(sizes[-1]))
    source = cuda.to_device(x)
    levels = [cuda.to_device(np.zeros(size)) for size in sizes]

    def launch() -> None:
        scan_blocks[sizes[1], THREADS](source, levels[0], levels[1])
        for level in range(1, len(sizes) - 1):
            scan_blocks[sizes[level + 1], THREADS](levels[level], levels[level], levels[level + 1])
        for level in reversed(range(len(sizes) - 2)):
            add_offsets[sizes[level + 1], THREADS](levels[level], levels[level + 1])
        cuda.synchronize()

    return Program(launch, (x, np.zeros(n)), levels[0].copy_to_host)


@cuda.jit
def n_body_kernel(position, mass, acceleration):
    """Compute the gravity of all bodies on each, by tiles of bodies in shared memory."""
    tile = cuda.shared.array((THREADS, 4), float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    n = mass.size
    px, py, pz = float32(0.0), float32(0.0), float32(0.0)
    if i < n:
        px, py, pz = position[i, 0], position[i, 1], position[i, 2]
    ax, ay, az = float32(0.0), float32(0.0), float32(0.0)
    for start in range(0, n, THREADS):
        j = start + t
        if j < n:
            tile[t, 0], tile[t, 1], tile[t, 2] = position[j, 0], position[j, 1], position[j, 2]
            tile[t, 3] = mass[j]
        else:
            tile[t, 3] = float32(0.0)
        cuda.syncthreads()
        for k in range(min(THREADS, n - start)):
            dx, dy, dz = tile[k, 0] - px, tile[k, 1] - py, tile[k, 2] - pz
            square = dx * dx + dy * dy + dz * dz + SOFTENING
            inverse = float32(1.0) / math.sqrt(square)
            pull = tile[k, 3] * inverse * inverse * inverse
            ax += dx * pull
            ay += dy * pull
            az += dz * pull
        cuda.syncthreads()
    if i < n:
        acceleration[i, 0], acceleration[i, 1], acceleration[i, 2] = ax, ay, az


def n_body(n: int) -> Program:
    """Return the accelerations of bodies by gravity."""
    rng = np.random.default_rng(0)
    position, mass = rng.random((n, 3), dtype=np.float32), rng.random(n, dtype=np.float32)
    acceleration = np.zeros_like(position)
    arrays = [cuda.to_device(each) for each in (position, mass, acceleration)]
    kernel = n_body_kernel[_blocks(n), THREADS]
    return Program(lambda: _run(kernel, *arrays), (position, mass, acceleration), arrays[2].copy_to_host)


def _blocks(n: int) -> int:
    return (n + THREADS - 1) // THREADS


def _run(kernel: Any, *arguments: Any) -> None:
    kernel(*arguments)
    cuda.synchronize()
