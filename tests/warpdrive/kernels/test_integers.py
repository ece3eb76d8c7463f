"""Integers as numba.cuda computes with them: 64 bits, wrapping around, and no exceptions."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import warpdrive as wd
from warpdrive.checks.checked_interpreter import CheckedInterpreter
from warpdrive.checks.grid import Grid
from warpdrive.checks.null_log import NullLog

SMALL = np.array([-3, -2, -1, 0, 1, 2, 3, 4], np.int32)
BYTES = np.array([250, 3, 0, 255, 7, 8, 9, 128], np.uint8)
LARGE = np.array([2**31 - 1, -(2**31), 5, -1, 2**30, 7, 0, -(2**30)], np.int32)
UNSIGNED = np.array([1, 2, 3, 2**63, 2**64 - 1, 7, 2**40, 9], np.uint64)
I64, U64 = np.int64, np.uint64


def narrow_operands(a, b, wide, narrow):
    """Two narrow integers give a wide one, one alone stays narrow; what is stored is cut off."""
    i = cuda.grid(1)
    wide[i, 0] = a[i] + a[i]
    wide[i, 1] = b[i] + b[0]
    wide[i, 2] = b[i] - b[7]
    wide[i, 3] = -b[i]
    wide[i, 4] = b[i] * b[i] * a[i]
    wide[i, 5] = ~b[i]
    narrow[i] = b[i] + 10
    narrow[i] += 250


def divisions(a, b, wide, quotients):
    """Down, as in Python; by zero without an exception."""
    i = cuda.grid(1)
    wide[i, 0] = a[i] // 2
    wide[i, 1] = a[i] % 3
    wide[i, 2] = a[i] % -3
    wide[i, 3], wide[i, 4] = divmod(a[i], -2)
    wide[i, 5] = b[i] // np.uint8(7)
    quotients[i, 0] = a[i] / 2
    quotients[i, 1] = 1.0 / a[i]
    quotients[i, 2] = b[i] / np.uint8(4)


def shifts(a, b, wide, unsigned):
    i = cuda.grid(1)
    wide[i, 0] = a[i] >> 1
    wide[i, 1] = a[i] << 40
    wide[i, 2] = b[i] >> 2
    wide[i, 3] = a[i] & 6
    wide[i, 4] = a[i] | 8
    wide[i, 5] = a[i] ^ 5
    wide[i, 6] = ~(a[i] > 0)
    unsigned[i] = b[i] << np.uint8(56)


def powers(a, b, wide, quotients):
    """An integer to a negative integer is an integer."""
    i = cuda.grid(1)
    wide[i, 0] = a[i] ** 2
    wide[i, 1] = 2 ** a[i]
    wide[i, 2] = (-1) ** a[i]
    wide[i, 3] = b[i] ** np.uint8(3)
    quotients[i, 0] = 2.0 ** a[i]
    quotients[i, 1] = np.float32(3) ** a[i]


def wrapping(a, b, wide, unsigned):
    """At the ends of 64 bits; two unsigned integers stay unsigned, a signed one with an unsigned one does not."""
    i = cuda.grid(1)
    wide[i, 0] = (a[i] * a[i]) * (a[i] * 2)
    wide[i, 1] = b[i] + a[i]
    wide[i, 2] = 1 if b[i] > np.uint64(2**62) else 0
    wide[i, 3] = abs(a[i]) + min(a[i], 2) + max(a[i], -5)
    unsigned[i] = (b[i] * np.uint64(3) + np.uint64(1)) >> np.uint64(1)


def wide_integers(count):
    return np.zeros((8, count), I64)


# numba.cuda computes with integers of 64 bits: so does NumPy here
a, b, large, unsigned = SMALL.astype(I64), BYTES.astype(U64), LARGE.astype(I64), UNSIGNED
with np.errstate(all="ignore"):
    EXPECTED = {
        narrow_operands: [
            (SMALL, BYTES, wide_integers(6), np.zeros(8, np.uint8)),
            np.stack([v.astype(I64) for v in (2 * a, b + b[0], b - b[7], -BYTES, b.astype(I64) ** 2 * a, ~BYTES)], 1),
            (BYTES.astype(int) + 260).astype(np.uint8),
        ],
        divisions: [
            (SMALL, BYTES, wide_integers(6), np.zeros((8, 3))),
            np.stack([a // 2, a % 3, a % -3, a // -2, a % -2, BYTES // 7], 1),
            np.stack([a / 2, 1 / a.astype(float), BYTES / 4], 1),
        ],
        shifts: [
            (SMALL, BYTES, wide_integers(7), np.zeros(8, U64)),
            np.stack([a >> 1, a << 40, BYTES >> 2, a & 6, a | 8, a ^ 5, a <= 0], 1),
            b << U64(56),
        ],
        powers: [
            (SMALL, BYTES, wide_integers(4), np.zeros((8, 2))),
            np.stack([a**2, [0, 0, 0, 1, 2, 4, 8, 16], [-1, 1, -1, 1, -1, 1, -1, 1], b.astype(I64) ** 3], 1),
            np.stack([2.0**a, np.float32(3) ** SMALL], 1),
        ],
        wrapping: [
            (LARGE, UNSIGNED, wide_integers(4), np.zeros(8, U64)),
            np.stack(
                [
                    large * large * (large * 2),
                    unsigned.astype(I64) + large,
                    [0, 0, 0, 1, 1, 0, 0, 0],
                    abs(LARGE) + np.minimum(large, 2) + np.maximum(large, -5),
                ],
                1,
            ),
            (unsigned * U64(3) + U64(1)) >> U64(1),
        ],
    }


@pytest.mark.parametrize("kernel", EXPECTED, ids=lambda kernel: kernel.__name__)
def test_integers_are_computed_as_on_a_gpu(kernel):
    arguments, *expected = EXPECTED[kernel]
    launched = [array.copy() for array in arguments]
    wd.kernel(kernel)[1, 8](*launched)
    interpreted = [array.copy() for array in arguments]
    grid = Grid.of(1, 8)
    machine = CheckedInterpreter(wd.kernel(kernel).source, grid, NullLog(grid))
    machine.check(dict(zip("abcd", interpreted, strict=True)))
    for found in (launched, interpreted):
        np.testing.assert_array_equal(found[2], expected[0])
        np.testing.assert_allclose(found[3], expected[1], rtol=1e-6)
