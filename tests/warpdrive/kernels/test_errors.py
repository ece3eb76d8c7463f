"""Messages about mistakes in kernels: the mistake, its line, and a remedy; for features see ``test_refusals.py``."""

from __future__ import annotations

import inspect
import linecache
import math
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import cuda
from numba.cuda import syncthreads

import warpdrive as wd

COUNT = 3


class Thing:
    pass


def undefined_name(out):
    speed = 2
    out[0] = sped + speed  # noqa: F821 # here


def undefined_attribute(out):
    out[0] = math.sqroot(2.0)  # here


def undefined_in_function(out):
    out[0] = 1
    calls_undefined(out)


def calls_undefined(out):
    cuda.syncthreads()
    out[0] = COUNTS  # noqa: F821 # here


def with_misspelt_atomic(out):
    cuda.atomic.ad(out, 0, 1)  # here


def with_w_dimension(out):
    out[0] = cuda.threadIdx.w  # here


def barrier_with_a_value(out):
    x = syncthreads()  # here
    out[0] = x


def assigned_index(x):
    cuda.threadIdx.x = 3  # here


def index_of_several_types(x):
    x[0] = (1, 2.5)[x[1]]  # here


def changed_tuple(x):
    pair = 1, 2
    pair[0] = 3  # here


def unpacked_into_three(x):
    a, b, c = 1, 2  # here
    x[0] = a + b + c


def index_by_its_number(out):
    out[0] = cuda.blockIdx[0]  # here


def takes_two(x, speed=2):
    return x * speed


def too_many_arguments(out):
    out[0] = takes_two(1, 2, 3)  # here


def too_few_arguments(out):
    out[0] = takes_two(speed=3)  # here


def unknown_keyword(out):
    out[0] = takes_two(1, sped=3)  # here


def argument_given_twice(out):
    out[0] = takes_two(1, x=3)  # here


def object_constant(out):
    out[0] = len(Thing())  # here


def reserved_name(out):
    wd__x = 1  # here
    out[0] = wd__x


def reserved_parameter(wd__out):  # here
    wd__out[0] = 1


def type_error(out):
    x = 1
    out[0] = x[0]  # here


def type_error_with_barrier(out):
    cuda.syncthreads()
    x = cuda.threadIdx.x
    cuda.syncthreads()
    if x > 0:
        out[0] = out < (1, 2)  # here


def type_error_in_function(out):
    out[0] = 1
    adds_a_tuple(out[0])


def adds_a_tuple(x):
    y = x + 1
    return y < (1, y)  # here


def type_error_in_inlined_function(out):
    waits_and_adds_a_tuple(out)


def waits_and_adds_a_tuple(out):
    y = out[0]
    cuda.syncthreads()
    out[0] = y[1]  # here


def types_that_do_not_unify(out):
    x = 1
    if cuda.threadIdx.x > 0:
        x = (1, 2)
    out[0] = x  # here


def shape_known_only_at_run_time(out):
    n = cuda.blockDim.x
    memory = cuda.local.array(n, numba.int32)  # here
    out[0] = memory[0]


def shape_known_only_at_run_time_in_a_function(out):
    n = cuda.blockDim.x + 1
    remembers(out, n)  # here


def remembers(out, n):
    memory = cuda.local.array((2, n), numba.int32)
    out[0] = memory[0, 0]


def shape_of_zero(out):
    memory = cuda.shared.array((2, COUNT - 3), numba.int32)  # here
    out[0] = memory[0, 0]


def shape_of_no_axes(out):
    memory = cuda.local.array((), numba.int32)  # here
    out[0] = memory[()]


def shape_that_divides_by_zero(out):
    memory = cuda.local.array(4 // (COUNT - 3), numba.int32)  # here
    out[0] = memory[0]


def shape_with_too_much(out):
    memory = cuda.shared.array(4, numba.int32, 128, 1)  # here
    out[0] = memory[0]


def shape_of_a_fraction(out):
    memory = cuda.local.array(COUNT / 2, numba.int32)  # here
    out[0] = memory[0]


def no_dtype(out):
    memory = cuda.shared.array(3)  # here
    out[0] = memory[0]


def unknown_dtype(out):
    memory = cuda.shared.array(3, COUNT)  # here
    out[0] = memory[0]


def four_dimensions(out):
    out[0] = cuda.grid(4)  # here


def waits(out):
    cuda.syncthreads()
    out[0] = 1


def result_of_nothing(out):
    out[0] = waits(out) + 1  # here


def barrier_with_an_argument(out):
    cuda.syncthreads(1)  # here


MISTAKES = [
    (barrier_with_an_argument, ["cuda.syncthreads takes no arguments"]),
    (undefined_name, ["'sped' is not defined", "Did you mean 'speed'?"]),
    (undefined_attribute, ["'math' has no 'sqroot'", "Did you mean 'sqrt'?"]),
    (undefined_in_function, ["'COUNTS' is not defined", "Did you mean 'COUNT'?"]),
    (with_misspelt_atomic, ["cuda.atomic.ad is not part", "Did you mean 'add'?"]),
    (with_w_dimension, ["cuda.threadIdx.w is not part"]),
    (barrier_with_a_value, ["cuda.syncthreads() is a statement"]),
    (assigned_index, ["'cuda.threadIdx.x' is a constant"]),
    (index_of_several_types, ["'(1, 2.5)[x[1]]'", "the index of a tuple with elements of several types must be"]),
    (changed_tuple, ["'pair[0]': a tuple cannot be changed"]),
    (unpacked_into_three, ["a tuple of 2 elements is assigned to 3 variables"]),
    (index_by_its_number, ["cuda.blockIdx cannot be used alone", "cuda.blockIdx.x"]),
    (too_many_arguments, ["'takes_two' takes 2 arguments, found 3"]),
    (too_few_arguments, ["'takes_two' needs an argument for its parameter 'x'"]),
    (unknown_keyword, ["'takes_two' has no parameter 'sped'", "Did you mean 'speed'?"]),
    (argument_given_twice, ["'takes_two' is given 'x' twice"]),
    (object_constant, ["'Thing' is a class"]),
    (reserved_name, ["'wd__'"]),
    (reserved_parameter, ["'wd__'"]),
    (type_error, ["type_error", "'x[0]': 1 has no elements"]),
    (
        type_error_with_barrier,
        ["type_error_with_barrier", "< does not work on an array of int32 with 1 axis and a tuple"],
    ),
    (type_error_in_function, ["< does not work on int64 and a tuple"]),
    (type_error_in_inlined_function, ["'y[1]': int32 has no elements"]),
    (types_that_do_not_unify, ["'x'", "unify"]),
    (shape_known_only_at_run_time, ["must be known when the kernel is compiled", "'n'"]),
    (shape_known_only_at_run_time_in_a_function, ["argument 'n' of 'remembers'", "must be known"]),
    (shape_of_zero, ["positive integers", "(2, 0)"]),
    (shape_of_no_axes, ["positive integers", "()"]),
    (shape_that_divides_by_zero, ["the shape of cuda.local.array", "by zero", "positive integers"]),
    (shape_with_too_much, ["takes a shape and a dtype"]),
    (shape_of_a_fraction, ["positive integers", "1.5"]),
    (no_dtype, ["takes a shape and a dtype"]),
    (unknown_dtype, ["'COUNT' is not a dtype"]),
    (four_dimensions, ["1, 2 or 3"]),
    (result_of_nothing, ["'waits' does not return a value"]),
]


def line_of_the_mistake(kernel):
    """The line of this file that ends in '# here', in the kernel or in the function that it calls."""
    source = Path(__file__).read_text().splitlines()
    first = inspect.getsourcelines(kernel)[1]
    return next(number for number in range(first, len(source)) if source[number - 1].endswith("# here"))


@pytest.mark.parametrize(("kernel", "parts"), MISTAKES, ids=[kernel.__name__ for kernel, _ in MISTAKES])
def test_a_mistake_is_told_with_its_line(kernel, parts):
    arguments = (np.zeros(4, np.int32), np.zeros((4, 4), np.int32))[: len(inspect.signature(kernel).parameters)]
    line = line_of_the_mistake(kernel)
    # the second time nothing is generated any more, but the mistake is still there
    for _ in range(2):
        with pytest.raises(wd.errors.WarpDriveError) as found:
            wd.kernel(kernel)[1, 2](*arguments)
        message = str(found.value)
        assert f"test_errors.py:{line}: " in message
        assert not [part for part in parts if part not in message], message
        assert "\n" not in message and "wd__" not in message.replace("'wd__'", "")


def test_a_lambda_is_no_kernel():
    with pytest.raises(wd.errors.WarpDriveError, match=r"test_errors.py:\d+: a kernel is a 'def', not a lambda"):
        wd.kernel(lambda out: None)[1, 1](np.zeros(1))


@pytest.mark.parametrize("value", [3, "kernel", Thing])
def test_what_is_no_function_is_no_kernel(value):
    with pytest.raises(wd.errors.WarpDriveError, match="expects a Python function"):
        wd.kernel(value)


def test_a_function_without_source_is_no_kernel():
    namespace = {}
    exec("def kernel(out):\n    out[0] = 1\n", namespace)
    told = r"source of kernel function 'kernel' cannot be read \(<string>\): .*exec.*write the function into a file"
    with pytest.raises(wd.errors.WarpDriveError, match=told):
        wd.kernel(namespace["kernel"])[1, 1](np.zeros(1))


PROMPT = """
import numpy as np
import warpdrive as wd

@wd.kernel
def double(x):
    x[0] = x[0] * 2


x = np.ones(1)
double[1, 1](x)
print("doubled", x[0])
"""


@pytest.mark.parametrize(
    ("arguments", "typed", "keeps_source"),
    [
        (["-i"], PROMPT, sys.version_info >= (3, 13)),
        (["-c", PROMPT], "", sys.version_info >= (3, 13)),
        (["-c", f"# another text\n\n\nexec({PROMPT!r})"], "", False),
    ],
)
def test_a_kernel_from_the_prompt_runs_or_says_why_not(arguments, typed, keeps_source):
    environment = {**os.environ, "PYTHONPATH": str(Path(wd.__file__).parent.parent)}
    run = subprocess.run([sys.executable, *arguments], env=environment, input=typed, text=True, capture_output=True)
    if keeps_source:
        assert "doubled 2.0" in run.stdout
    else:
        assert "KernelError: the source of kernel function 'double' cannot be read (<" in run.stderr
        assert "write the function into a file and import it, or use IPython or a notebook" in run.stderr


@pytest.mark.parametrize("text", ["x = 1\n", "def other(out):\n    pass\n", "def kernel(x, y):\n    pass\n", "def (\n"])
def test_lines_of_another_text_are_not_taken_for_a_kernel(text):
    namespace = {}
    exec(compile("def kernel(out):\n    out[0] = 1\n", "<text>", "exec"), namespace)
    linecache.cache["<text>"] = len(text), None, text.splitlines(keepends=True), "<text>"
    with pytest.raises(wd.errors.WarpDriveError, match="source of kernel function 'kernel' cannot be read"):
        wd.kernel(namespace["kernel"])[1, 1](np.zeros(1))


def test_kernels_have_plain_parameters():
    def kernel(out, *rest):
        out[0] = 1

    def by_keyword(out, *, speed):
        out[0] = speed

    with pytest.raises(
        wd.errors.WarpDriveError, match=r"a kernel cannot have the parameter \*rest: it takes a fixed number"
    ):
        wd.kernel(kernel)[1, 1](np.zeros(1), 2)
    with pytest.raises(wd.errors.WarpDriveError, match="keyword-only parameters"):
        wd.kernel(by_keyword)[1, 1](np.zeros(1), 2)


@wd.kernel
def calls_itself(out):
    if out[0] > 0:
        out[0] -= 1
        calls_itself(out)


def test_kernels_do_not_call_themselves():
    with pytest.raises(wd.errors.WarpDriveError, match="'calls_itself' calls itself: move what repeats to a device"):
        calls_itself[1, 1](np.ones(1))
