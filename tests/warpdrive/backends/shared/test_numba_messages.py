"""Translation of numba's typing errors to the author's expressions and dtypes."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from numba import cuda

import warpdrive as wd
from warpdrive.backends.shared.numba_messages import in_words

NOTHING = "No implementation of function Function(<built-in function {0}>) found for signature: {0}({1})"


@pytest.mark.parametrize(
    ("line", "function", "given", "told"),
    [
        (
            "x[i, w[j]] = y[0, 1]",
            "setitem",
            "array(float32, 2d, C), Tuple(int64, float64), float32",
            "'x[i, w[j]]': the index 'w[j]' is float64, as 'w' is an array of float64; an index is an integer: "
            "give 'w' a dtype of integers, or write int(...)",
        ),
        (
            "x[0] = y[i / 2]",
            "getitem",
            "array(float32, 1d, C), float64",
            "'y[i / 2]': the index 'i / 2' is float64; an index is an integer: write int(...)",
        ),
        (
            "x[0] = y[0, 1]",
            "getitem",
            "array(int32, 1d, C), Tuple(Literal[int](0), Literal[int](1))",
            "'y[0, 1]': 'y' is an array of int32 with 1 axis, found 2 indices",
        ),
        (
            "x[0] = y[0]",
            "setitem",
            "array(float32, 1d, C), Literal[int](0), array(float32, 1d, C)",
            "'y[0]' is an array of float32 with 1 axis, which 'x[0]' cannot hold: give every axis an index",
        ),
        (
            "x[0] = y",
            "setitem",
            "array(float32, 1d, C), Literal[int](0), none",
            "'x[0]': 'x' is an array of float32 with 1 axis, which cannot hold None",
        ),
        (
            "x['weight'] = 1",
            "setitem",
            "array(Record(a[type=int32;offset=0],b[type=int32;offset=4];8;False), 1d, C), Literal[str](weight), int64",
            "'x['weight']': there is no such field, only a, b",
        ),
        ("y = x + z", "add", "float32, none", "+ does not work on float32 and None"),
        (
            "y += x",
            "iadd",
            "float32, array(float32, 1d, C)",
            "+= does not work on float32 and an array of float32 with 1 axis: give every axis an index",
        ),
        ("y = x & 1", "and_", "float32, int64", "& does not work on float32 and int64: only on integers"),
    ],
)
def test_types_that_do_not_fit_are_told_with_the_expressions_they_are_of(line, function, given, told):
    said = in_words(NOTHING.format(function, given), [ast.parse(line)])
    assert said is not None and said.startswith(told)


@pytest.mark.parametrize(
    ("line", "sentence", "told"),
    [
        (
            "y = x[0].astype(z)",
            "Unknown attribute 'astype' of type float32",
            "'x[0]' is float32, which has no 'astype' in a kernel: convert with np.int32(...)",
        ),
        (
            "y = x if z else w",
            "Cannot unify array(float32, 1d, C) and none for 'y'",
            "the variable 'y' is an array of float32 with 1 axis in one case and None in another: it needs one type",
        ),
        (
            "y = x(0)",
            "Invalid use of array(float32, 1d, C) with parameters (Literal[int](0))",
            "'x' is an array of float32 with 1 axis, which cannot be called: write an index in brackets",
        ),
        ("a, b = x[0]", "failed to unpack float32", "float32 cannot be unpacked"),
        (
            "y = np.median(x)",
            "No implementation of function Function(<function median at 0x7f>) found for signature: "
            "median(array(float32, 1d, C))",
            "median(...) does not work on an array of float32 with 1 axis",
        ),
    ],
)
def test_other_sentences_are_told_in_words(line, sentence, told):
    said = in_words(sentence, [ast.parse(line)])
    assert said is not None and said.startswith(told)


def test_what_is_not_known_is_left_as_it_is():
    assert in_words("Something that numba will say one day", [ast.parse("y = x")]) is None


def test_the_message_stands_at_the_authors_line_with_the_names_of_arrays():
    @wd.kernel
    def gathers(x, place):
        i = cuda.threadIdx.x
        if i < 2:
            x[i] = x[place[i]]

    line = gathers.source.tree.lineno + 3
    with pytest.raises(wd.KernelError, match=rf"test_numba_messages.py:{line}: .*'place' is an array of float64"):
        gathers[1, 2](np.ones(2, np.float32), np.ones(2))


def test_a_field_that_records_lack_is_told():
    @wd.kernel
    def weighs(items, x):
        x[0] = items[0].weigth

    items = np.zeros(2, [("weight", np.float32)])
    with pytest.raises(wd.KernelError, match=r"test_numba_messages.py:\d+: 'items\[0\]' is a record without a field"):
        weighs[1, 1](items, np.ones(1, np.float32))
