"""Unintended float64 arithmetic is reported with its line and cause, and nothing else is."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from numba import cuda, float32, float64, from_dtype, int64

import warpdrive as wd

HALF = 0.5
SINGLE = np.float32(0.5)
START = 7


def find(kernel, *arguments):
    """Return ``{(number of the line in the kernel, cause)}``."""
    report = wd.check_launch(kernel, 1, 1, *arguments)
    assert not report.notes
    _, first = inspect.getsourcelines(kernel.function)
    return {(int(f.lines[0].rpartition(":")[2]) - first, f.array) for f in report.float64}


def single(*shape):
    return np.ones(shape or (4,), np.float32)


@wd.kernel
def literal(x):
    x[0] = x[1] * 0.5


@wd.kernel
def literal_first(x):
    x[0] = 0.5 * x[1] + 0.25


@wd.kernel
def in_place(x):
    x[0] += 0.1


@wd.kernel
def accumulator(x):
    total = 0.0
    for i in range(4):
        total += x[i]
    x[0] = total


@wd.kernel
def integer_literal(x):
    x[0] = 2 * x[1]


@wd.kernel
def unsigned_with_signed(x, n):
    if np.uint64(n) < n:
        x[0] = 1


@wd.kernel
def mixed_with_an_index(x):
    x[0] = x[1] * cuda.threadIdx.x


@wd.kernel
def division_of_integers(x):
    for i in range(3):
        x[i] = i / 3


@wd.kernel
def constant_of_a_module(x):
    x[0] = x[1] * HALF + math.pi


@wd.kernel
def function_of_an_integer(x):
    x[0] = math.sqrt(cuda.threadIdx.x)


@wd.kernel
def conversion(x):
    x[0] = float(cuda.threadIdx.x)


@wd.kernel
def least(x):
    x[0] = min(x[1], 1.0)


@wd.kernel
def inexact_comparison(x):
    if x[0] > 0.1:
        x[0] = np.float32(0)


@wd.kernel
def power(x):
    x[0] = x[1] ** 0.5


@wd.kernel
def double_constant(x):
    x[0] = x[1] * np.float64(2)


@wd.kernel
def argument(x, dt):
    x[0] += x[1] * dt


@wd.kernel
def only_of_arguments(x, dt):
    x[0] = dt * 2


@wd.kernel
def wide_arrays(x):
    own = cuda.local.array(2, float64)
    whole = cuda.shared.array(2, int64)
    own[0] = x[0]
    whole[0] = 1
    x[0] = np.float32(own[0])


@wd.kernel
def negative_constant_of_a_module(x):
    x[0] = x[1] * -math.inf


@wd.device_function
def scaled(value, factor):
    return value * factor


@wd.kernel
def literal_handed_over(x):
    x[0] = scaled(x[1], 0.5)


@wd.kernel
def accumulators_through_a_function(x):
    total, other = 0.0, x[1]
    for i in range(3):
        total, other = halves(other, total, x[i])
    x[0] = total


def halves(a, b, weight):
    return SINGLE * (a + b), a - weight


REPORTED = [
    (accumulators_through_a_function, (single(),), {(9, "0.0")}),
    (literal, (single(),), {(2, "0.5")}),
    (literal_first, (single(),), {(2, "0.5"), (2, "0.25")}),
    (in_place, (single(),), {(2, "0.1")}),
    (accumulator, (single(),), {(4, "0.0")}),
    (integer_literal, (single(),), {(2, "2")}),
    (unsigned_with_signed, (single(), 3), {(2, "uint64 < int64")}),
    (mixed_with_an_index, (single(),), {(2, "float32 * int32")}),
    (division_of_integers, (single(),), {(3, "3")}),
    (constant_of_a_module, (single(),), {(2, "HALF (0.5)"), (2, "math.pi")}),
    (negative_constant_of_a_module, (single(),), {(2, "math.inf")}),
    (function_of_an_integer, (single(),), {(2, "sqrt(...)")}),
    (conversion, (single(),), {(2, "float(...)")}),
    (least, (single(),), {(2, "1.0")}),
    (inexact_comparison, (single(),), {(2, "0.1")}),
    (power, (single(),), {(2, "0.5")}),
    (double_constant, (single(),), {(2, "float64(2)")}),
    (argument, (single(), 0.5), {(2, "argument 'dt'")}),
    (wide_arrays, (single(),), {(2, "float64"), (3, "int64")}),
]


@pytest.mark.parametrize(("kernel", "arguments", "expected"), REPORTED)
def test_float64_is_reported_with_its_line_and_cause(kernel, arguments, expected):
    assert find(kernel, *arguments) == expected


def test_a_literal_handed_to_a_device_function_is_reported_with_both_lines():
    (finding,) = wd.check_launch(literal_handed_over, 1, 1, single()).float64
    inside, call = (inspect.getsourcelines(f.function)[1] + 2 for f in (scaled, literal_handed_over))
    assert finding.array == "0.5"
    assert finding.lines == (f"{__file__}:{inside}", f"{__file__}:{call}")


def test_a_literal_that_comes_through_a_variable_is_reported_with_both_lines():
    (finding,) = wd.check_launch(accumulator, 1, 1, single()).float64
    first = inspect.getsourcelines(accumulator.function)[1]
    assert finding.lines == (f"{__file__}:{first + 4}", f"{__file__}:{first + 2}")


def least_of(a, b):
    return a if a < b else b


@wd.kernel
def all_single(x, n):
    i = cuda.threadIdx.x
    own = cuda.local.array(n, float32)
    own[0] = x[i] * SINGLE + np.float32(0.25)
    x[i] = min(max(own[0], np.float32(0)), SINGLE) + math.sqrt(x[i]) + np.float32(i) / np.float32(n)
    if x[i] > 0 and x[i] < 0.5 and i * 2 // 3 < n % 5:
        x[i] = 0.1
    elif x[i] > 9:
        x[i] = -math.inf
    nearest = START
    for other in range(n):
        nearest = least_of(nearest, other)
    x[nearest] = x[i] ** 2 + scaled(x[i], SINGLE)
    if np.uint32(n) & np.uint32(1) == 1:
        cuda.atomic.add(x, i, 1.0)


def test_a_kernel_in_float32_is_clean():
    assert find(all_single, single(), 4) == set()


@pytest.mark.parametrize("kernel", [literal, literal_first, in_place, accumulator, integer_literal, power])
def test_float64_is_needed_where_arrays_of_it_are_given(kernel):
    assert find(kernel, np.ones(4)) == set()


def test_float64_is_needed_where_no_other_floats_are_given():
    assert find(argument, np.ones(4), 0.5) == set()
    assert find(only_of_arguments, np.ones(4), 0.5) == set()
    assert find(only_of_arguments, np.ones(4, np.int32), 0.5) == {(2, "argument 'dt'")}


PLACE = np.dtype([("x", np.float64), ("parts", np.float64, (2,)), ("kind", np.int32)], align=True)
RECORD = from_dtype(PLACE)


@wd.kernel
def of_records(places, limit):
    own = cuda.shared.array(2, RECORD)
    own[0].x = 2 * limit
    places[0].x = own[0].x


@wd.kernel
def half_of_a_field(items):
    items["weight"][0] = items["weight"][1] * 0.5


def test_fields_of_arrays_of_records_are_looked_into():
    items = np.zeros(2, [("number", np.int32), ("weight", np.float32)])
    assert find(half_of_a_field, items) == {(2, "0.5")}


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (mixed_with_an_index, "an integer with float32 in float64: convert the integer first"),
        (integer_literal, "convert the integer first"),
        (division_of_integers, "a quotient of integers is float64"),
        (function_of_an_integer, "functions give float64 for integers"),
        (double_constant, "if float32 is sufficient"),
    ],
)
def test_what_to_do_about_integers_is_said(kernel, said):
    (finding,) = wd.check_launch(kernel, 1, 1, single()).float64
    assert said in finding.advice


def test_fields_of_records_are_given_numbers():
    assert find(of_records, np.zeros(4, PLACE), 0.5) == set()


def test_float64_beside_float32_in_one_kernel():
    @wd.kernel
    def both(x, wide):
        wide[0] = wide[1] * x[0]
        x[0] = x[1] * 0.5

    assert find(both, single(), np.ones(4)) == {(3, "0.5")}


def test_what_cannot_be_typed_is_refused_with_its_line():
    @wd.kernel
    def odd(x):
        x[0] = "text" if x[0] > 9 else x[0]

    line = inspect.getsourcelines(odd.function)[1] + 2
    with pytest.raises(wd.KernelError, match=rf"test_float64.py:{line}: .*the string 'text' in one case and float32"):
        wd.check_launch(odd, 1, 1, single())
