"""Named values in kernels: named tuples, enumerations, strings, None."""

from __future__ import annotations

import enum
from collections import namedtuple
from typing import NamedTuple

import numpy as np
import pytest
from numba import cuda

import warpdrive as wd

Point = namedtuple("Point", "x y")


class Field(NamedTuple):
    values: np.ndarray
    scale: float


class Phase(enum.Enum):
    SOLID = 1
    LIQUID = 2
    GAS = 3


class Color(enum.IntEnum):
    RED = 1
    BLUE = 5


ORIGIN = Point(3, 4.5)
CORNERS = (ORIGIN, Point(1, 2))
MODE = "fast"
MODES = ("slow", MODE)


def nearer(point, other):
    return point if point.x < other.x else other


def shifted(point, by=ORIGIN, scale=None):
    cuda.syncthreads()
    if scale is None:
        return Point(point.x + by.x, point.y + by.y)
    return Point(scale[0] * point.x, scale[1] * point.y)


def points(out, point, field):
    i = cuda.threadIdx.x
    mine = Point(float(i), y=0.5)
    cuda.syncthreads()
    moved = shifted(mine, point)
    cuda.syncthreads()
    x, y = shifted(moved)
    out[i, 0] = x + 10 * y
    out[i, 1] = shifted(mine, scale=field.values)[0] + field.scale
    out[i, 2] = ORIGIN.x + CORNERS[1].y + nearer(point, Point(2.0, 2.5))[1] + len(mine)


def is_gas(out, phase, color):
    cuda.syncthreads()
    out[cuda.threadIdx.x] = color + (1 if phase is Phase.GAS else 0)


def phases(out, numbers):
    i = cuda.threadIdx.x
    phase = Phase.SOLID if numbers[i] < 0 else Phase.GAS
    if numbers[i] == 0:
        phase = Phase.LIQUID
    cuda.syncthreads()
    if phase == Phase.SOLID:
        out[i] = 1
    elif phase is Phase.LIQUID:
        out[i] = Phase.GAS.value
    if phase != Phase.SOLID and numbers[i] == Color.BLUE:
        out[i] = 10 + Color.RED


def modes(out):
    i = cuda.threadIdx.x
    name = "slow" if MODE == "fast" else "fast"
    if MODE == "fast" and name != MODES[1]:
        out[i] = 3


def optional(out, weights, bias=None):
    """Without its weights, a thread returns before the barrier."""
    i = cuda.threadIdx.x
    out[i] = 1
    if weights is None:
        return
    if bias is not None:
        out[i] = bias
    cuda.syncthreads()
    row = weights[i]
    cuda.syncthreads()
    out[i] += row[1] * (2 if bias is None else bias)


def everywhere(kernel, *arguments):
    """Launch a kernel of one block of 4 threads and debug it; return what the first argument is afterwards."""
    out = arguments[0].copy()
    wd.kernel(kernel)[1, 4](out, *arguments[1:])
    debugged = arguments[0].copy()
    wd.debug(kernel)[1, 4](debugged, *arguments[1:])
    np.testing.assert_array_equal(out, debugged)
    report = wd.check_launch(kernel, 1, 4, *arguments)
    assert not (report.races or report.bounds or report.uninitialised or report.divergence), report
    return out


def test_named_tuples_are_made_kept_passed_and_returned():
    field = Field(np.array([2.0, 3.0]), 0.5)
    out = everywhere(points, np.zeros((4, 3)), Point(1.0, 2.0), field)
    i = np.arange(4)
    np.testing.assert_array_equal(out[:, 0], i + 1 + 3 + 10 * (0.5 + 2 + 4.5))
    np.testing.assert_array_equal(out[:, 1], 2 * i + 0.5)
    np.testing.assert_array_equal(out[:, 2], 3 + 2 + 2 + 2)


def test_named_tuples_with_the_same_fields_are_told_apart_from_others():
    def sums(out, point):
        out[cuda.threadIdx.x] = point.x - point.y

    Pixel = namedtuple("Pixel", "y x")
    assert everywhere(sums, np.zeros(4), Point(3, 1)).tolist() == [2] * 4
    assert everywhere(sums, np.zeros(4), Pixel(3, 1)).tolist() == [-2] * 4
    with pytest.raises(wd.KernelError, match=r"test_named_values.py:\d+: .*'x'"):
        wd.kernel(sums)[1, 4](np.zeros(4), (3, 1))


def test_members_of_enumerations_are_compared():
    out = everywhere(phases, np.zeros(4), np.array([-1, 0, 1, 5]))
    assert out.tolist() == [1, 3, 0, 11]


def test_strings_are_compared():
    assert everywhere(modes, np.zeros(4)).tolist() == [3] * 4


def test_what_is_none_is_left_out_around_barriers():
    weights = np.arange(8.0).reshape(4, 2)
    assert everywhere(optional, np.zeros(4), None).tolist() == [1] * 4
    assert everywhere(optional, np.zeros(4), weights).tolist() == [3, 7, 11, 15]
    assert everywhere(optional, np.zeros(4), weights, 10).tolist() == [20, 40, 60, 80]
    assert everywhere(optional, np.zeros(4), None, 10).tolist() == [1] * 4


def test_members_of_enumerations_are_arguments():
    for phase in Phase:
        assert everywhere(is_gas, np.zeros(4), phase, Color.BLUE).tolist() == [5 + (phase is Phase.GAS)] * 4
