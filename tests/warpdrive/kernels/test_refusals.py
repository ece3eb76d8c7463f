"""The table of refusals in the documentation, compared with kernels that are refused, and with the code.

``python tests/warpdrive/kernels/test_refusals.py`` prints its rows.
"""

from __future__ import annotations

import ast
import inspect
import re
import traceback
from pathlib import Path

import numpy as np
import pytest
from numba import cuda, float64

import warpdrive as wd
from warpdrive.errors import WarpDriveError
from warpdrive.kernels.unsupported import SYNTAX

FRONT_END = Path(wd.__file__).parent / "kernels"
COUNT, NAMES, PLACES = 3, {"speed": 1}, [1, 2]

KERNELS = {}


def row(feature):
    """Make a function a kernel that is refused for a feature."""

    def add(function):
        KERNELS[feature] = function
        return function

    return add


class Thing:
    def double(self, x):
        return 2 * x


THING = Thing()


def twice(x):
    return 2 * x


def thrice(x):
    return 3 * x


def waits(out):
    cuda.syncthreads()
    return out[0]


def waits_and_counts(n):
    cuda.syncthreads()
    return 1 + waits_and_counts(n - 1) if n > 0 else 0


def by_keyword(x, *, scale):
    return x * scale


@row("`async`, `await`")
def asynchronous(out):

    async def double(x):  # here
        return 2 * x


@row("`yield`")
def yields(out):
    yield out[0]  # here


@row("`class`")
def with_class(out):

    class Pair:  # here
        pass


@row("`try`")
def with_try(out):
    try:  # here
        out[0] = 1
    finally:
        out[0] = 2


@row("`with`")
def with_with(out):
    with out:  # here
        out[0] = 1


@row("lists, except after `in` and as targets")
def with_list(out):
    places = [1, 2]  # here
    out[0] = places[0]


@row("dictionaries")
def with_dict(out):
    out[0] = {1: 2}[1]  # here


@row("sets")
def with_set(out):
    out[0] = 1 in {1, 2}  # here


@row("list comprehensions")
def with_list_comprehension(out):
    out[0] = sum([x for x in range(3)])  # here


@row("set comprehensions")
def with_set_comprehension(out):
    out[0] = len({x for x in range(3)})  # here


@row("dict comprehensions")
def with_dict_comprehension(out):
    out[0] = len({x: x for x in range(3)})  # here


@row("generators")
def with_generator(out):
    out[0] = sum(x for x in range(3))  # here


@row("`import`")
def with_import(out):
    import math  # noqa: F401 # here


@row("`nonlocal`")
def with_nonlocal(out):
    count = 1

    def reset():
        nonlocal count  # here
        count = 0

    reset()
    out[0] = count


@row("f-strings with values")
def with_formatted_string(out):
    print(f"{out[0]}")  # here


@row("`match` with patterns of sequences, mappings and classes")
def with_pattern_of_a_sequence(out):
    match (1, 2):
        case (x, y):  # here
            out[0] = x + y


@row("`:=` in one of several targets")
def with_name_in_a_target(out):
    out[(i := 0)], out[1] = 1, 2  # noqa: F841 # here


@row("`*` before a target")
def with_starred_target(out):
    first, *rest = 1, 2, 3  # noqa: F841 # here
    out[0] = first


@row("`**` before an argument")
def with_dictionary_of_arguments(out):
    out[0] = twice(**{"x": 1})  # here


@row("keyword-only parameters and `**` parameters")
def with_keyword_only_parameters(out):
    out[0] = by_keyword(1, scale=2)


@row("`*` before a call or an array, as an argument of a function with a barrier, an array or further parameters")
def with_star_before_a_call(out):
    out[0] = waits(*tuple((out,)))  # here


@row("`*` parameters of kernels")
def with_further_arguments(out, *rest):  # here
    out[0] = len(rest)


@row("decorated inner functions")
def with_decorated_function(out):

    @wd.device_function
    def double(x):  # here
        return 2 * x

    out[0] = double(1)


@row("inner functions that call themselves")
def with_recursive_inner_function(out):

    def countdown(n):  # here
        return countdown(n - 1) if n > 0 else 0

    out[0] = countdown(3)


@row("`*` parameters of inner functions")
def with_starred_inner_function(out):
    total = lambda *numbers: numbers[0]  # noqa: E731 # here
    out[0] = total(1, 2)


def applied(function, x):
    return function(x)


@row("passing on inner functions that read variables")
def with_capturing_function_passed_on(out):
    x = out[0]
    out[1] = applied(lambda y: x + y, 1)  # here


@row("default arguments of a lambda in the condition of a `while`")
def with_lambda_in_a_condition(out):
    while (lambda x, y=out[0]: x < y)(out[1]):  # here
        out[1] += 1


@row("variables that hold one function or another")
def with_one_function_or_another(out):
    if out[0] > 1:  # noqa: SIM108
        f = twice
    else:
        f = thrice
    out[0] = f(1)  # here


@row("tuples of functions with an index of the run time")
def with_index_of_functions(out):
    functions = (twice, thrice)
    out[0] = functions[int(out[0])](1)  # here


@row("loops over tuples of functions")
def with_loop_over_functions(out):
    for f in (twice, thrice):  # here
        out[0] += f(1)


@row("assigning a tuple of functions to elements of arrays")
def with_functions_assigned_together(out):
    functions = out[0], out[1] = twice, thrice  # noqa: F841 # here


@row("comparing functions")
def with_compared_function(out):
    out[0] = twice is twice  # here


@row("returning functions")
def with_returned_lambda(out):
    out[0] = returns_a_function()(1)


def returns_a_function():
    return lambda x: x  # here


@row("recursion of functions with a barrier")
def with_recursion_around_a_barrier(out):
    out[0] = waits_and_counts(2)


@row("loops around a barrier over `map`, `filter`, `np.nditer`")
def with_loop_over_a_map(out):
    for x in map(abs, out):  # here
        cuda.syncthreads()
        out[0] = x


@row("loops around a barrier over `np.ndindex` of a variable")
def with_indices_of_a_variable(out):
    shape = out.shape
    for i in np.ndindex(shape):  # here
        cuda.syncthreads()
        out[i] = 1


@row("iterators and other objects in variables around a barrier")
def with_iterator_around_a_barrier(out):
    values = iter(out)  # here
    cuda.syncthreads()
    out[0] = next(values)


@row("jumps in the `else` of a `while` with a barrier in its condition")
def with_break_after_a_condition(out):
    for _ in range(2):
        while waits(out) > 1:  # here
            out[0] -= 1
        else:
            break


@row("functions with a barrier in a target")
def with_barrier_in_an_index(out):
    out[int(waits(out))] = 1  # here


@row("functions with a barrier in the target of `+=`")
def with_barrier_and_itself(out):
    out[int(waits(out))] += 1  # here


@row("the value of `syncthreads()`")
def with_value_of_a_barrier(out):
    x = cuda.syncthreads()  # here
    out[0] = x


@row("results of kernels")
def returns(out):
    return out[0]  # here


@row("raising anything but a new exception")
def raises_a_variable(out):
    raise out  # here


@row("exceptions with values of the run time")
def raises_a_number(out):
    raise ValueError(out[0])  # here


@row("`assert` with values of the run time")
def asserts_a_number(out):
    assert out[0] > 1, out[0]  # here


@row("`del` of anything but variables")
def deletes_an_element(out):
    del out[0]  # here


@row("assigning to variables of the module")
def assigns_to_the_module(out):
    global COUNT  # here
    COUNT = 2


@row("shapes of shared and local arrays that are known at run time only")
def with_shape_of_the_run_time(out):
    for n in range(1, 3):
        memory = cuda.local.array(n, float64)  # here
        out[0] = memory[0]


@row("dictionaries and sets of the module")
def with_dict_of_the_module(out):
    out[0] = NAMES["speed"]  # here


@row("lists of the module")
def with_list_of_the_module(out):
    out[0] = PLACES[0]  # here


@row("methods")
def with_method(out):
    out[0] = THING.double(1)  # here


@row("objects of other classes")
def with_object(out):
    out[0] = len(THING)  # here


@row("`cuda.threadIdx` and the like as values")
def with_dimensions(out):
    out[0] = cuda.threadIdx  # here


@row("`cuda.shared` and the like as values")
def with_space(out):
    out[0] = cuda.shared  # here


@row("functions of `cuda` for the host")
def with_host_code(out):
    out[0] = cuda.to_device(out)[0]  # here


@row("other members of cooperative groups")
def with_member_of_a_group(out):
    out[0] = cuda.cg.this_grid().thread_rank()  # here


@row("groups as values")
def with_group_as_a_value(out):
    out[0] = cuda.cg.this_grid() == 1  # here


@row("NumPy functions that make arrays")
def with_new_array(out):
    out[0] = np.zeros(3)[0]  # here


@row("expressions of whole arrays")
def with_sum_of_arrays(out):
    total = out + out  # here
    out[0] = total[0]


@row("`sorted`")
def with_sorted(out):
    out[0] = sorted((2, 1))[0]  # here


@row("NumPy functions of float16")
def with_function_of_half(out):  # here
    out[0] = np.sqrt(np.float16(out[1]))


@row("`np.random`")
def with_random_numbers(out):
    out[0] = np.random.rand()  # here


@row("`input`, `breakpoint`")
def with_input(out):
    out[0] = input()  # here


@row("functions of a warp in kernels with [spin-wait loops](#spin-locks-and-flags)")
def with_warp_that_waits(out):
    while cuda.atomic.cas(out.view(np.int64), 0, 0, 1) != 0:
        pass
    out[1] = cuda.shfl_sync(0xFFFFFFFF, out[1], 0)  # here


@row("recursion with a new shape each time")
def with_shape_that_changes(out):
    out[0] = shrinking(200)


def shrinking(n):  # here
    memory = cuda.local.array(n, float64)
    memory[0] = 1
    return memory[0] + shrinking(n - 1)


MISTAKES = (
    *(
        "is not defined",
        "is not part of the kernel language on this backend",
        "has no '",
        "has no parameter",
        "refusal(",
        "takes the arguments",
    ),
    *("are reserved for the library", "takes no arguments", "constant of the environment", "message_for_bare_member"),
    *("the dtype of an array in", "arguments, found", "is given '", "needs an argument", "takes a shape and a dtype"),
    *("it must consist of positive integers", "is not a dtype", "no device has more than", "arguments by position"),
    *("cannot be used in an environment", "does not return a value", "takes {'a condition'", "calls itself: move what"),
    "is a constant: a kernel cannot",
)
"""Parts of the messages for mistakes and for environments, rather than for parts of Python; see ``test_errors.py``."""


def refusal_of(kernel):
    """Return the place of a kernel's mistake, the message, and the place in the code that refused it."""
    code = kernel.__code__
    has_rest = bool(code.co_flags & inspect.CO_VARARGS)
    with pytest.raises(WarpDriveError) as found:
        wd.kernel(kernel)[1, 4](*[np.ones(4), np.ones(4)][: code.co_argcount + has_rest])
    place, message = re.fullmatch(r"(.*?\.py:\d+): (.*)", str(found.value), re.DOTALL).groups()
    frames = traceback.extract_tb(found.value.__traceback__)
    refused = next(frame for frame in reversed(frames) if frame.name != "refuse")
    return place, message, (Path(refused.filename).name, refused.lineno)


def line_of(feature, message):
    """Return the line of a feature in the documentation's table."""
    what, _, instead = re.sub(r"^kernel '\w+' cannot be compiled: ", "", message).partition(": ")
    code = r"wd\.debug\(.*?\*\w+\)|(?<!`)(?:\*+|__)(?!`)"  # else Markdown reads a link, or emphasis
    cells = (re.sub(code, r"`\g<0>`", cell) for cell in (feature, what, instead))
    return f"| {' | '.join(cells)} |"


@pytest.fixture(scope="module")
def refusals():
    return {feature: refusal_of(kernel) for feature, kernel in KERNELS.items()}


def test_the_table_has_a_row_for_each_kernel_that_is_refused(refusals):
    document = (Path(wd.__file__).parent.parent / "docs" / "reference" / "kernels.md").read_text()
    section = document.split("## Unsupported features")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("| ")]
    assert table[2:] == [line_of(feature, message) for feature, (_, message, _) in refusals.items()]


def test_a_refusal_names_the_line(refusals):
    for feature, kernel in KERNELS.items():
        lines, first = inspect.getsourcelines(kernel)
        marked = [first + number for number, line in enumerate(lines) if "# here" in line]
        assert not marked or refusals[feature][0] == f"{__file__}:{marked[0]}"


def test_each_refusal_in_the_code_has_a_row(refusals):
    assert set(SYNTAX.values()) <= {message for _, message, _ in refusals.values()}
    places = {place for _, _, place in refusals.values()}
    without_row = []
    for path in FRONT_END.glob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "refuse":
                called = ast.get_source_segment(text, node)
                has_row = any(file == path.name and node.lineno <= line <= node.end_lineno for file, line in places)
                without_row += [called] * (not has_row and not any(part in called for part in MISTAKES))
    assert not without_row


if __name__ == "__main__":
    for feature, kernel in KERNELS.items():
        print(line_of(feature, refusal_of(kernel)[1]))
