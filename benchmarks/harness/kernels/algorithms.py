"""Kernels, and the same algorithms split at their barriers by hand and compiled with ``njit(parallel=True)``."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, njit, prange

import warpdrive as wd

TILE = 16
GRAVITY, POLE, MASS, LENGTH = np.float32(9.8), np.float32(0.05), np.float32(1.1), np.float32(0.5)
FORCE, TAU, FOUR_THIRDS, POLE_MASS = np.float32(10.0), np.float32(0.02), np.float32(4 / 3), np.float32(0.1)
ONE, ZERO, QUARTER = np.float32(1.0), np.float32(0.0), np.float32(0.25)
X_LIMIT, ANGLE_LIMIT = np.float32(2.4), np.float32(12 * 2 * math.pi / 360)


@wd.kernel
def matmul(a, b, c):
    """Multiply matrices by tiles in shared memory; each block computes one tile of the product."""
    tile_a = cuda.shared.array((TILE, TILE), np.float32)
    tile_b = cuda.shared.array((TILE, TILE), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + ty
    column = cuda.blockIdx.x * TILE + tx
    total = ZERO
    for step in range(a.shape[1] // TILE):
        tile_a[ty, tx] = a[row, step * TILE + tx]
        tile_b[ty, tx] = b[step * TILE + ty, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    c[row, column] = total


@njit(parallel=True, error_model="numpy")
def matmul_by_hand(a, b, c):
    """Multiply matrices with an explicit loop over threads for each region between barriers."""
    rows, columns = c.shape[0] // TILE, c.shape[1] // TILE
    for block in prange(rows * columns):
        first_row, first_column = block // columns * TILE, block % columns * TILE
        tile_a = np.empty((TILE, TILE), np.float32)
        tile_b = np.empty((TILE, TILE), np.float32)
        total = np.zeros((TILE, TILE), np.float32)
        for step in range(a.shape[1] // TILE):
            for ty in range(TILE):
                for tx in range(TILE):
                    tile_a[ty, tx] = a[first_row + ty, step * TILE + tx]
                    tile_b[ty, tx] = b[step * TILE + ty, first_column + tx]
            for ty in range(TILE):
                for tx in range(TILE):
                    value = total[ty, tx]
                    for k in range(TILE):
                        value += tile_a[ty, k] * tile_b[k, tx]
                    total[ty, tx] = value
        for ty in range(TILE):
            for tx in range(TILE):
                c[first_row + ty, first_column + tx] = total[ty, tx]


@wd.kernel
def block_sum(values, sums):
    """Sum 256 values per block with a tree reduction in shared memory."""
    partial = cuda.shared.array(256, np.float32)
    thread = cuda.threadIdx.x
    partial[thread] = values[cuda.grid(1)]
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if thread < half:
            partial[thread] += partial[thread + half]
        cuda.syncthreads()
        half //= 2
    if thread == 0:
        sums[cuda.blockIdx.x] = partial[0]


@njit(parallel=True, error_model="numpy")
def block_sum_by_hand(values, sums):
    """Sum 256 values per block with an explicit loop over threads for each region between barriers."""
    for block in prange(sums.shape[0]):
        partial = np.empty(256, np.float32)
        for thread in range(256):
            partial[thread] = values[block * 256 + thread]
        half = 128
        while half > 0:
            for thread in range(256):
                if thread < half:
                    partial[thread] += partial[thread + half]
            half //= 2
        sums[block] = partial[0]


@wd.kernel
def laplace(old, new):
    """Run one Jacobi iteration for Laplace's equation; each block loads a tile and its border into shared memory."""
    tile = cuda.shared.array((TILE + 2, TILE + 2), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, column = cuda.blockIdx.y * TILE + ty + 1, cuda.blockIdx.x * TILE + tx + 1
    tile[ty + 1, tx + 1] = old[row, column]
    if ty == 0:
        tile[0, tx + 1] = old[row - 1, column]
    if ty == TILE - 1:
        tile[TILE + 1, tx + 1] = old[row + 1, column]
    if tx == 0:
        tile[ty + 1, 0] = old[row, column - 1]
    if tx == TILE - 1:
        tile[ty + 1, TILE + 1] = old[row, column + 1]
    cuda.syncthreads()
    new[row, column] = QUARTER * (tile[ty, tx + 1] + tile[ty + 2, tx + 1] + tile[ty + 1, tx] + tile[ty + 1, tx + 2])


@wd.kernel
def laplace_without_tiles(old, new):
    """Run one Jacobi iteration from global memory only."""
    row, column = cuda.blockIdx.y * TILE + cuda.threadIdx.y + 1, cuda.blockIdx.x * TILE + cuda.threadIdx.x + 1
    around = old[row - 1, column] + old[row + 1, column] + old[row, column - 1] + old[row, column + 1]
    new[row, column] = QUARTER * around


@njit(parallel=True, error_model="numpy")
def laplace_by_rows(old, new):
    """Run one Jacobi iteration as a plain loop over rows, without blocks."""
    for row in prange(1, old.shape[0] - 1):
        for column in range(1, old.shape[1] - 1):
            around = old[row - 1, column] + old[row + 1, column] + old[row, column - 1] + old[row, column + 1]
            new[row, column] = QUARTER * around


@wd.kernel
def cartpole(x, velocity, angle, spin, actions, rewards, terminated):
    """Run one step of the cart and pole of Barto, Sutton and Anderson (1983), one thread per replica."""
    env = cuda.blockIdx.x
    force = FORCE if actions[env] == 1 else -FORCE
    cosine, sine = math.cos(angle[env]), math.sin(angle[env])
    push = (force + POLE * spin[env] * spin[env] * sine) / MASS
    turn = (GRAVITY * sine - cosine * push) / (LENGTH * (FOUR_THIRDS - POLE_MASS * cosine * cosine / MASS))
    x[env] += TAU * velocity[env]
    velocity[env] += TAU * (push - POLE * turn * cosine / MASS)
    angle[env] += TAU * spin[env]
    spin[env] += TAU * turn
    rewards[env] = ONE
    terminated[env] = abs(x[env]) > X_LIMIT or abs(angle[env]) > ANGLE_LIMIT


@njit(parallel=True, error_model="numpy")
def cartpole_by_hand(x, velocity, angle, spin, actions, rewards, terminated):
    """Run one step of the cart and pole as a parallel loop over replicas."""
    for env in prange(x.shape[0]):
        force = FORCE if actions[env] == 1 else -FORCE
        cosine, sine = math.cos(angle[env]), math.sin(angle[env])
        push = (force + POLE * spin[env] * spin[env] * sine) / MASS
        turn = (GRAVITY * sine - cosine * push) / (LENGTH * (FOUR_THIRDS - POLE_MASS * cosine * cosine / MASS))
        x[env] += TAU * velocity[env]
        velocity[env] += TAU * (push - POLE * turn * cosine / MASS)
        angle[env] += TAU * spin[env]
        spin[env] += TAU * turn
        rewards[env] = ONE
        terminated[env] = abs(x[env]) > X_LIMIT or abs(angle[env]) > ANGLE_LIMIT


@wd.kernel
def touch(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15):
    """A nearly empty kernel with sixteen array arguments."""
    i = cuda.grid(1)
    a0[i] = a1[i]
