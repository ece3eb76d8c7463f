"""One-line advice for findings."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

DIVERGENCE = (
    "all threads of a block must reach the same barrier: move it out of the condition or loop, "
    "or let the other threads leave by 'return' before it"
)
VARIABLE = "assign it before the condition or loop under which it is assigned now"
NAN = "look for a division by zero, a root or logarithm of a negative number, or an overflow"
ORDER_OF_RACES = "fix the races first: they are the likely cause"
ORDER = (
    "to be independent of the order, do not let the return value of an atomic operation decide: use the "
    "thread's index, not which thread comes first"
)
WAITING = (
    "threads of a block, and blocks, may not make progress while another waits: where all threads wait for one, "
    "use cuda.syncthreads(); where blocks wait for each other, end the launch"
)
ENDLESS = (
    "check the condition of the loop: threads run one after the other here, from barrier to barrier, so one "
    "that waits in a loop for another never ends; max_steps sets the limit"
)
FLOAT64 = "if float32 is sufficient, convert with np.float32(...)"
INTEGER_WITH_FLOAT32 = "numba computes an integer with float32 in float64: convert the integer first, np.float32(...)"
QUOTIENT_OF_INTEGERS = "a quotient of integers is float64: convert them first, np.float32(...), or use // for integers"
FUNCTION_OF_INTEGERS = "functions give float64 for integers: convert their arguments first, np.float32(...)"
OUTSIDE_OF_SPACE = "widen the space, or divide the observation by its largest possible value"
STALE = (
    "write the observations in an observe kernel, which also runs after each reset, or return the first ones "
    "from initial_state"
)
REFERENCE = (
    "one of the two is wrong; at a comparison of floats, the state may be within rounding error of the threshold"
)
NOT_DETERMINISTIC = (
    "look for races with the kernel checks, for state that initial_state does not return, and for random numbers that "
    "do not come from wd.random"
)
BACKENDS = (
    "look for results that backends do not define: the order of atomic operations, or races (see the kernel checks)"
)
DIVISOR = "check the divisor first: a device raises no error, and the result is undefined"
SHIFT = "shift by 0 to 63 places: integers are shifted in 64 bits"
CONVERSION = (
    "clamp the number with min and max first, and exclude NaN: a CPU gives the least integer, a GPU the nearest one, "
    "and 0 for NaN"
)
NEGATION = "unlike other arithmetic, '-' keeps the dtype of its operand: convert it first, -np.int32(...)"
FRACTION = "use an array of floats, such as a Box of np.float32; to drop the fraction on purpose, convert it: int(...)"
NEGATIVE_POWER = "of integers this is an integer, not a fraction: make the base a np.float32"
VERSIONS = (
    "the two versions compute different results: compare them line by line; if they agree, look for results "
    "that backends do not define, such as the order of atomic operations, and for races (see the kernel checks)"
)
DRAWS = (
    "one of them draws more random numbers than the other (rng[agent, 3] counts them): let each agent draw the "
    "same number of times, in the same order, and under the same conditions; other differences may follow from that"
)
WIDE_STATE = (
    "'{name}' is an array of float64, and so are computations with it, which a GPU does at a fraction of "
    "its speed: if float32 is sufficient, set dtype=np.float32"
)
WIDE_ARRAY = "if 32 bits are sufficient, use a dtype of 32 bits"


def for_race(kinds: tuple[str, str], lines: tuple[str, str], is_within_a_block: bool) -> str:
    """Return advice about a race.

    Args:
        kinds: Kinds of the two accesses: "reads", "writes" or "changes".
        lines: Their ``file:line``.
        is_within_a_block: True if threads of one block race, False for different blocks.

    Returns:
        The advice.
    """
    if lines[0] == lines[1] and (operator := _in_place_operator(lines[0])):
        function = {"+": "add", "-": "sub"}.get(operator)
        return (
            f"use cuda.atomic.{function}(array, index, value)"
            if function
            else "let one thread do it, or each thread write an element of its own and one combine them after a barrier"
        )
    if not is_within_a_block:
        return (
            "blocks run in any order and at the same time: let one block write, use cuda.atomic, "
            "write to an array that is not read, or end the launch between the two"
        )
    if "changes" in kinds:
        return "put cuda.syncthreads() between the two lines, or let both be atomic (cuda.atomic.exch to set)"
    if kinds == ("writes", "writes"):
        return "let one thread write, or use cuda.atomic.add, max or min if the values are to be combined"
    if _race_across_iterations(*lines):
        return (
            "put cuda.syncthreads() at the end of the loop's body, too: the next iteration begins before all have read"
        )
    return "put cuda.syncthreads() between the two lines, or write to an array that is not read here"


def for_bounds(array: str, index: tuple[int, ...], shape: tuple[int, ...], wraps: bool) -> str:
    """Return advice about an index outside of an array.

    Args:
        array: Name of the array.
        index: The index.
        shape: Shape of the array.
        wraps: True if the index counts from the end.

    Returns:
        The advice.
    """
    if wraps:
        return "ensure that the index is not negative; the index of the last element is array.shape[0] - 1"
    axis = next((axis for axis, (i, n) in enumerate(zip(index, shape, strict=False)) if not 0 <= i < n), 0)
    if index[axis] < 0:
        return "make sure that the index is not negative"
    if array in ("shapes", "things") and axis == 2:
        return f"set {array}_per_agent of the environment, which is {shape[axis]}, or draw fewer; the first is 0"
    return f"use the element only where the index is less than shape[{axis}], which is {shape[axis]}"


def for_range(dtype: Any) -> str:
    """Return advice about an integer out of the range of the array of ``dtype`` that it is stored in."""
    limits = np.iinfo(dtype)
    return (
        f"{dtype} has the range {limits.min} to {limits.max}: use a wider dtype, or clamp the number with min and max; "
        f"to wrap on purpose, convert it: np.{dtype}(...)"
    )


def for_broadcast(missing: int) -> str:
    """Return advice about a number that is written to a row; ``missing`` is the number of missing indices."""
    indices = "an index" if missing == 1 else f"{missing} indices"
    return f"add {indices} to write one element; if all are meant, say so: array[..., {', '.join([':'] * missing)}]"


def for_uninitialised(is_local: bool) -> str:
    """Return advice about a read of shared or local memory that was never written."""
    if is_local:
        return "local memory is not initialised: write all elements before reading them"
    return "shared memory is not initialised: let a thread write it, and put cuda.syncthreads() after that"


def source_line(place: str) -> str:
    """Return the source text at ``file:line``, or an empty string if it cannot be read."""
    file, _, number = place.rpartition(":")
    return linecache.getline(file, int(number)).strip() if number.isdigit() else ""


def _in_place_operator(place: str) -> str | None:
    found = re.search(r"(\+|-|\*|/|%|&|\||\^|<<|>>|//|\*\*)=(?!=)", source_line(place))
    return found.group(1) if found else None


def _race_across_iterations(*places: str) -> bool:
    """Return True if two accesses are in one loop with a barrier between: they race across iterations."""
    (file, _, number), (other_file, _, other) = (place.rpartition(":") for place in places)
    before, behind = sorted((int(number), int(other)))
    return file == other_file and any(
        any(before < call.lineno < behind for call in _barriers_in(loop))
        for loop in _loops_of(file)
        if loop.lineno < before and behind <= (loop.end_lineno or 0)
    )


def _loops_of(file: str) -> list[ast.For | ast.While]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return []
    return [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))]


def _barriers_in(loop: ast.AST) -> Iterator[ast.Call]:
    calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call))
    return (call for call in calls if ast.unparse(call.func).rpartition(".")[2].startswith("sync"))
