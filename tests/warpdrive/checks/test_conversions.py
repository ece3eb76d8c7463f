"""Numbers that lose a fraction or overflow when they are stored in integers are reported."""

from __future__ import annotations

import numpy as np
import pytest
from marked_lines import marked_lines
from numba import cuda

import warpdrive as wd


@wd.kernel
def loses_its_fraction(i, b, u):
    i[0] = np.float32(1) / np.float32(4)  # here


@wd.kernel
def adds_a_fraction(i, b, u):
    cuda.atomic.add(i, 0, 0.25)  # here


@wd.kernel
def is_too_large(i, b, u):
    b[0] = b[0] + 300  # here


@wd.kernel
def is_negative(i, b, u):
    b[0] -= 1  # here


@wd.kernel
def is_negated(i, b, u):
    b[0] = 5
    i[0] = -b[0]  # here


@pytest.mark.parametrize(
    ("kernel", "message", "advice"),
    [
        (loses_its_fraction, "stores 0.25 in 'i[0]' of int32, where it becomes 0", "np.float32"),
        (adds_a_fraction, "stores 0.25 in 'i[0]' of int32, where it becomes 0", "np.float32"),
        (is_too_large, "stores 300 in 'b[0]' of uint8, where it becomes 44", "uint8 has the range 0 to 255"),
        (is_negated, "negates 5 of uint8, which gives 251", "-np.int32(...)"),
        (is_negative, "stores -1 in 'b[0]' of uint8, where it becomes 255", "np.uint8(...)"),
    ],
)
def test_numbers_that_integers_cannot_hold_are_reported(kernel, message, advice):
    (finding,) = wd.check_launch(kernel, 1, 1, *map(np.zeros, (1, 1, 1), (np.int32, np.uint8, np.uint32))).conversions
    assert set(finding.lines) == marked_lines(kernel)
    assert message in finding.message and advice in finding.advice


def test_numbers_that_fit_are_converted_or_wrap_by_design_are_not_reported():
    @wd.kernel
    def stores(i, b, u):
        i[0] = np.float32(2) / np.float32(0.5)
        i[0] = int(np.float32(2.5)) + np.int32(np.float32(0.5))
        b[0] = True
        b[0] = np.uint8(b[0] + 300)
        u[0] = u[0] * 1664525 + 1013904223
        u[0] = -1
        i[0] = -np.int32(b[0]) - (-(b[0] > 0)) + (u[0] & -u[0])

    assert not wd.check_launch(stores, 1, 1, *map(np.ones, (1, 1, 1), (np.int32, np.uint8, np.uint32))).conversions
