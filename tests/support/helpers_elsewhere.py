"""Device functions that kernels of the tests take from another module."""

from __future__ import annotations

from numba import cuda

OFFSET = 40


def shifted(value):
    """Uses a constant of its own module, whatever the module of the kernel calls by that name."""
    return value + OFFSET


def exchanged(row, i, value):
    """Put a value where the neighbour takes it from, with barriers around."""
    row[i] = shifted(value)
    cuda.syncthreads()
    taken = row[i ^ 1]
    cuda.syncthreads()
    return taken
