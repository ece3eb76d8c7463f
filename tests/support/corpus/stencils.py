"""Stencils in one, two and three dimensions, in global and in shared memory."""

from __future__ import annotations

import numba
import numpy as np
from numba import cuda, float32

from .cases import case, close, equal

RADIUS = 3
TILE = 8
C0 = np.float32(0.5)
C1 = np.float32(0.25)


@cuda.jit
def moving_sum(values, out):
    """A tile with a halo on both sides that the first threads load."""
    temp = cuda.shared.array(TILE + 2 * RADIUS, numba.int32)
    gindex = cuda.grid(1)
    lindex = cuda.threadIdx.x + RADIUS
    n = values.shape[0]
    temp[lindex] = values[gindex] if gindex < n else 0
    if cuda.threadIdx.x < RADIUS:
        before, after = gindex - RADIUS, gindex + TILE
        temp[lindex - RADIUS] = values[before] if before >= 0 else 0
        temp[lindex + TILE] = values[after] if after < n else 0
    cuda.syncthreads()
    if gindex >= n:
        return
    result = 0
    for offset in range(-RADIUS, RADIUS + 1):
        result += temp[lindex + offset]
    out[gindex] = result


@case
def one_dimension_with_halo(launch, rng):
    values = rng.integers(-9, 9, 30).astype(np.int32)
    out = np.zeros(30, np.int32)
    launch(moving_sum, 4, TILE, values, out)
    equal(out, np.convolve(values, np.ones(7, np.int32), "same"))


@cuda.jit
def diffuse(u, u_new):
    i, j = cuda.grid(2)
    n, m = u.shape
    if i >= n or j >= m:
        return
    if i == 0 or j == 0 or i == n - 1 or j == m - 1:
        u_new[i, j] = u[i, j]
    else:
        u_new[i, j] = u[i, j] + C1 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - np.float32(4) * u[i, j])


@case
def two_arrays_in_turns(launch, rng):
    u = rng.normal(size=(11, 7)).astype(np.float32)
    expected = u.copy()
    u_new = np.zeros_like(u)
    for _ in range(3):
        launch(diffuse, (3, 2), (4, 4), u, u_new)
        u, u_new = u_new, u
        inner = expected[1:-1, 1:-1]
        sides = expected[:-2, 1:-1] + expected[2:, 1:-1] + expected[1:-1, :-2] + expected[1:-1, 2:]
        expected[1:-1, 1:-1] = inner + 0.25 * (sides - 4 * inner)
    close(u, expected)


@cuda.jit
def laplace_tile(u, out):
    """A halo around a tile of two dimensions, its corners left out."""
    sh = cuda.shared.array((6, 6), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    w, h = u.shape[1], u.shape[0]
    inside = x < w and y < h
    if inside:
        sh[ty + 1, tx + 1] = u[y, x]
        if tx == 0:
            sh[ty + 1, 0] = u[y, x - 1] if x > 0 else np.float32(0)
        if tx == 3 or x == w - 1:
            sh[ty + 1, tx + 2] = u[y, x + 1] if x + 1 < w else np.float32(0)
        if ty == 0:
            sh[0, tx + 1] = u[y - 1, x] if y > 0 else np.float32(0)
        if ty == 3 or y == h - 1:
            sh[ty + 2, tx + 1] = u[y + 1, x] if y + 1 < h else np.float32(0)
    cuda.syncthreads()
    if not inside:
        return
    centre = sh[ty + 1, tx + 1]
    out[y, x] = sh[ty, tx + 1] + sh[ty + 2, tx + 1] + sh[ty + 1, tx] + sh[ty + 1, tx + 2] - np.float32(4) * centre


@case
def two_dimensions_with_halo(launch, rng):
    u = rng.integers(-9, 9, (7, 10)).astype(np.float32)
    out = np.zeros_like(u)
    launch(laplace_tile, (3, 2), (4, 4), u, out)
    p = np.pad(u, 1)
    equal(out, p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u)


@cuda.jit
def seven_points(a, b):
    """Three dimensions of blocks and threads, periodic."""
    x, y, z = cuda.grid(3)
    nx, ny, nz = a.shape
    if x < nx and y < ny and z < nz:
        b[x, y, z] = (
            a[(x + 1) % nx, y, z]
            + a[(x - 1) % nx, y, z]
            + a[x, (y + 1) % ny, z]
            + a[x, (y - 1) % ny, z]
            + a[x, y, (z + 1) % nz]
            + a[x, y, (z - 1) % nz]
            - 6 * a[x, y, z]
        )


@case
def three_dimensions(launch, rng):
    a = rng.integers(-9, 9, (5, 4, 3))
    b = np.zeros_like(a)
    launch(seven_points, (2, 2, 2), (3, 2, 2), a, b)
    equal(b, sum(np.roll(a, step, axis) for axis in range(3) for step in (1, -1)) - 6 * a)


@cuda.jit
def marching_planes(volume, out):
    """The third dimension in a loop: three values in registers, a plane in shared memory."""
    plane = cuda.shared.array((6, 6), float32)
    i, j = cuda.threadIdx.y + 1, cuda.threadIdx.x + 1
    depth = volume.shape[0]
    behind = volume[0, i, j]
    current = volume[1, i, j]
    for k in range(1, depth - 1):
        infront = volume[k + 1, i, j]
        plane[i, j] = current
        if i == 1:
            plane[0, j] = volume[k, 0, j]
            plane[5, j] = volume[k, 5, j]
        if j == 1:
            plane[i, 0] = volume[k, i, 0]
            plane[i, 5] = volume[k, i, 5]
        cuda.syncthreads()
        out[k, i, j] = C0 * current + plane[i - 1, j] + plane[i + 1, j] + plane[i, j - 1] + plane[i, j + 1]
        out[k, i, j] += behind + infront
        cuda.syncthreads()
        behind = current
        current = infront


@case
def planes_one_after_the_other(launch, rng):
    volume = (2 * rng.integers(-9, 9, (5, 6, 6))).astype(np.float32)
    out = np.zeros_like(volume)
    launch(marching_planes, 1, (4, 4), volume, out)
    expected = np.zeros_like(volume)
    inner = (slice(1, -1),) * 3
    expected[inner] = 0.5 * volume[inner]
    for axis in range(3):
        for step in (1, -1):
            expected[inner] += np.roll(volume, step, axis)[inner]
    equal(out, expected)


@cuda.jit
def red_black(u, f, h2, sweeps):
    """Gauss and Seidel in place: first the red points, then the black ones."""
    i, j = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    for _ in range(sweeps):
        for colour in range(2):
            if (i + j) % 2 == colour:
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - h2 * f[i, j])
            cuda.syncthreads()


@case
def two_colours(launch, rng):
    u, f = rng.normal(size=(2, 6, 7))
    expected = u.copy()
    launch(red_black, 1, (4, 5), u, f, 0.01, 3)
    for _ in range(3):
        for colour in range(2):
            for i in range(1, 5):
                for j in range(1, 6):
                    if (i + j) % 2 == colour:
                        neighbours = expected[i - 1, j] + expected[i + 1, j] + expected[i, j - 1] + expected[i, j + 1]
                        expected[i, j] = (neighbours - 0.01 * f[i, j]) / 4
    close(u, expected, rtol=1e-12)


@cuda.jit
def wave(previous, current, following, speed):
    """The second order in time, on a ring, with slices of arguments for the rows."""
    row = cuda.blockIdx.x
    old, now, new = previous[row], current[row], following[row]
    n = now.shape[0]
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        left, right = now[i - 1 if i > 0 else n - 1], now[(i + 1) % n]
        new[i] = 2 * now[i] - old[i] + speed * (left - 2 * now[i] + right)


@case
def three_arrays_in_turns(launch, rng):
    previous = rng.normal(size=(2, 13))
    current, following = previous.copy(), np.zeros((2, 13))
    old, now = previous.copy(), previous.copy()
    for _ in range(4):
        launch(wave, 2, 5, previous, current, following, 0.3)
        previous, current, following = current, following, previous
        old, now = now, 2 * now - old + 0.3 * (np.roll(now, 1, 1) - 2 * now + np.roll(now, -1, 1))
    close(current, now, rtol=1e-9)
