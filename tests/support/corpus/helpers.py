"""Device functions that kernels in other modules of the corpus use; with constants of their own."""

from __future__ import annotations

import math

import numba
from numba import cuda, float32

THREADS = 8  # others call other things by this name
SCALE = 3


@cuda.jit(device=True)
def scaled(value, by=SCALE):
    return value * by


def plain(x, y):
    return math.hypot(x, y)


@cuda.jit(device=True, fastmath=True)
def with_options(a, b):
    return a * 10 + b


@cuda.jit(device=True)
def rotate(memory, i, by=1):
    """Has barriers: the value of the thread ``by`` places further on."""
    n = cuda.blockDim.x
    cuda.syncthreads()
    value = memory[(i + by) % n]
    cuda.syncthreads()
    memory[i] = value
    cuda.syncthreads()
    return value


@cuda.jit(device=True)
def sum_of_block(value):
    """Has shared memory of its own, and returns early from a loop with a barrier for a block of one."""
    memory = cuda.shared.array(THREADS, numba.int64)
    i = cuda.threadIdx.x
    memory[i] = value
    cuda.syncthreads()
    width = cuda.blockDim.x
    while True:
        if width == 1:
            result = memory[0]
            cuda.syncthreads()
            return result
        half = (width + 1) // 2
        if i + half < width:
            memory[i] += memory[i + half]
        cuda.syncthreads()
        width = half


@cuda.jit(device=True)
def fill(array, value):
    """Writes into what it is given, local or shared; returns nothing."""
    for i in range(array.shape[0]):
        array[i] = value


@cuda.jit(device=True)
def mean_and_spread(values, n):
    total, squares = float32(0), float32(0)
    for i in range(n):
        total += values[i]
        squares += values[i] * values[i]
    mean = total / float32(n)
    return mean, math.sqrt(max(squares / float32(n) - mean * mean, float32(0)))
