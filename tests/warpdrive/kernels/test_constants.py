"""Constants of modules, closures and defaults in kernels."""

from __future__ import annotations

import enum
import math

import numba
import numpy as np
import pytest
from numba import cuda

import warpdrive as wd

SPEED = 3
RATIO = 0.25
ENABLED = True
TURN = 2 - 1j
FAR = math.inf
UNKNOWN = float("nan")
SMALL = np.float32(0.1)
BYTE = np.uint8(200)
FLAG = np.bool_(True)
LIMIT = np.float64(-np.inf)
MOVES = np.array([[0, 0], [1, 0], [-1, 0]], np.int32)
MASK = np.array([True, False, True])
EVERY_OTHER = np.arange(8)[::2]
WEIGHTS = (0.5, 2, np.float32(4))
HALF = np.float32(0.5)
REAL = numba.float32


class Direction(enum.IntEnum):
    STAY = 0
    UP = 7


class Settings:
    depth = 4


def of_modules(out):
    i = cuda.threadIdx.x
    if ENABLED and FLAG:
        out[i, 0] = SPEED + RATIO + TURN.imag + BYTE
    out[i, 1] = SMALL * REAL(3) + math.pi + np.e
    if FAR > 1e300 and LIMIT < 0 and UNKNOWN != UNKNOWN and not math.isnan(FAR):
        out[i, 2] = np.inf
    out[i, 3] = MOVES[i, 0] + 10 * MOVES.shape[0] + MASK[i] + EVERY_OTHER[i] + len(EVERY_OTHER)
    cuda.syncthreads()
    out[i, 4] = (
        WEIGHTS[0] + WEIGHTS[1] * WEIGHTS[2] + Direction.UP + Settings.depth + np.float32(1) + int(2.5) + bool(i)
    )


def of_closures():
    speed, moves, shape = 5, np.array([4, 5, 6]), (2, 3)

    def inner(x, speed=HALF, far=FAR, none=None, weights=WEIGHTS, count=2):
        memory = cuda.local.array(count, np.int32)
        memory[count - 1] = 3
        if x > far:
            return 0.0
        if none is None:
            return x * speed + weights[1] + memory[count - 1]
        return -1.0

    def kernel(out):
        i = cuda.threadIdx.x
        memory: np.ndarray = cuda.local.array(shape, np.int32)
        unused: int  # noqa: F842
        memory[1, 2] = moves[i]
        cuda.syncthreads()
        out[i] = speed + memory[1, 2] + inner(i) + inner(i, none=1, count=3)

    return kernel


def test_constants_of_modules(check):
    check(of_modules, 1, 3, np.zeros((3, 5)))


def test_constants_of_closures_and_defaults(check):
    (out,) = check(of_closures(), 1, 3, np.zeros(3))
    np.testing.assert_allclose(out, 5 + np.array([4, 5, 6]) + (0.5 * np.arange(3) + 2 + 3) - 1)


def test_kernels_of_one_definition_have_their_own_closures(check):
    def kernel_of(factor):
        @wd.kernel
        def kernel(out):
            out[0] = factor

        return kernel

    for factor in (2, 3.5, np.float32(0.1)):
        out = np.zeros(1)
        kernel_of(factor)[1, 1](out)
        assert out[0] == factor


def test_a_kernel_sees_the_constants_of_its_first_launch_and_a_new_one_those_of_now(monkeypatch):
    """As in numba, constants are those of the time of compilation."""

    def kernel(out):
        out[0] = SPEED

    first, second = wd.kernel(kernel), wd.kernel(kernel)
    out = np.zeros(1)
    first[1, 1](out)
    monkeypatch.setitem(globals(), "SPEED", 8)
    first[1, 1](out)
    assert out[0] == 3
    second[1, 1](out)
    assert out[0] == 8


def test_an_array_constant_cannot_be_written():
    @wd.kernel
    def kernel(out):
        MASK[0] = False
        out[0] = 1

    with pytest.raises(wd.errors.WarpDriveError, match=r"test_constants.py:\d+.*read-only"):
        kernel[1, 1](np.zeros(1))
