"""Arithmetic without a defined result, NaN and infinity, and numbers written to whole rows are reported."""

from __future__ import annotations

import math

import numpy as np
import pytest
from marked_lines import marked_lines
from numba import cuda
from race_corpus import floats

import warpdrive as wd


@wd.kernel
def divides(x, i):
    x[0] = i[0] // i[1]  # here


@wd.kernel
def remains(x, i):
    x[0] = i[0] % (i[1] * 2)  # here


@wd.kernel
def divides_in_place(x, i):
    i[0] //= i[1]  # here


@wd.kernel
def shifts_too_far(x, i):
    x[0] = 1 << (i[0] + 61)  # here


@wd.kernel
def shifts_back(x, i):
    x[0] = i[0] >> (i[1] - 1)  # here


@wd.kernel
def to_a_negative_power(x, i):
    x[0] = i[0] ** (i[1] - 1)  # here


@wd.kernel
def converts_infinity(x, i):
    i[0] = int(x[0] / np.float32(i[1]))  # here


@wd.kernel
def converts_too_much(x, i):
    i[0] = np.int32(x[0] * np.float32(3e9))  # here


@wd.kernel
def converts_negative(x, i):
    x[0] = np.uint32(-x[0] - x[0])  # here


@wd.kernel
def stores_nan(x, i):
    i[0] = math.log(-x[0])  # here


@pytest.mark.parametrize(
    "kernel",
    [
        *(divides, remains, divides_in_place, shifts_too_far, shifts_back, to_a_negative_power),
        *(converts_infinity, converts_too_much, converts_negative, stores_nan),
    ],
)
def test_arithmetic_without_a_defined_result_is_reported(kernel):
    report = wd.check_launch(kernel, 1, 1, floats(1), np.array([3, 0], np.int32))
    (finding,) = report.arithmetic
    assert set(finding.lines) == marked_lines(kernel)
    assert "no defined result" in finding.message and finding.advice


def test_arithmetic_with_a_defined_result_is_not_reported():
    @wd.kernel
    def hashes(x, i, u):
        i[0] = (i[0] * 1103515245 + 12345) // 7 % 5 - (-7) // 2
        u[0] = (u[0] ^ (u[0] >> 33)) * np.uint64(0xFF51AFD7ED558CCD) << 63
        i[1] = x[0] * np.float32(-2147483648)
        u[1] = np.uint8(np.float32(-0.5)) + 2**3
        x[0] = x[0] % np.float32(i[0] - i[0])
        x[0] = x[0] * 10**-3  # a literal, of Python

    arguments = np.ones(1, np.float32), np.array([3, 0], np.int32), np.array([2**63, 0], np.uint64)
    assert not wd.check_launch(hashes, 1, 1, *arguments).arithmetic


@wd.kernel
def logarithms(x, out):
    i = cuda.threadIdx.x
    y = math.log(x[i])
    out[i] = y  # here
    cuda.syncthreads()
    x[i] = out[i] + np.float32(1)


def test_nan_and_infinity_are_reported_on_request():
    arguments = np.array([1, -1, 0, 2], np.float32), np.zeros(4, np.float32)
    assert wd.check_launch(logarithms, 1, 4, *arguments).clean
    first, *_ = wd.check_launch(logarithms, 1, 4, *arguments, nan=True).nan
    assert (first.array, first.index, first.threads) == ("out", (1,), (1,))
    assert set(first.lines) == marked_lines(logarithms)
    assert "nan" in first.message
    assert not wd.check_launch(logarithms, 1, 4, floats(4), floats(4), nan=True).nan


def test_division_by_zero_gives_infinity_as_on_a_device():
    @wd.kernel
    def inverse(x):
        x[0] = np.float32(1) / x[0]

    (finding,) = wd.check_launch(inverse, 1, 1, np.zeros(1, np.float32), nan=True).nan
    assert "inf" in finding.message


@wd.kernel
def fills_its_row(x):
    x[cuda.threadIdx.x] = np.float32(0.5)  # here


def test_a_number_written_to_a_whole_row_is_reported():
    (finding,) = wd.check_launch(fills_its_row, 1, 2, np.zeros((2, 3), np.float32)).broadcasts
    assert (finding.array, set(finding.lines)) == ("x", marked_lines(fills_its_row))
    assert "writes 0.5 to 3 elements of 'x' at once" in finding.message and "array[..., :]" in finding.advice


def test_zeros_slices_and_rows_of_one_element_are_not_reported():
    @wd.kernel
    def rows(x, one):
        i = cuda.threadIdx.x
        x[i] = 0
        x[i, :] = 1
        x[i, 1:] = np.float32(2)
        one[i] = 3

    assert wd.check_launch(rows, 1, 2, np.zeros((2, 3), np.float32), np.zeros((2, 1), np.float32)).clean
