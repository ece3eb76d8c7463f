"""Functions that kernels call: of every kind, with and without barriers, to any depth."""

from __future__ import annotations

import importlib.util
import math
import sys

import numba
import numpy as np
import pytest
from numba import cuda
from paths import SUPPORT

import warpdrive as wd

OFFSET = 5


def numbers(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-20, 20, count).astype(np.int32)


def plain(x, y=3):
    return x * 2 + y


@wd.device_function
def of_the_library(x):
    if x < 0:
        return -x
    return plain(x)


@cuda.jit(device=True)
def lazily_compiled(x, factor=2):
    return factor * of_the_library(x)


@cuda.jit
def without_device(x):
    return x - OFFSET


@numba.njit
def compiled_by_numba(x, y):
    if x > y:
        return x - y, True
    return y - x, False


def with_indices(out, value):
    """Reads its thread's indices though it is not given them."""
    out[cuda.grid(1)] += value * cuda.threadIdx.x + cuda.gridsize(1)
    return cuda.blockIdx.x


def exchange(row, i, value):
    row[i] = value
    cuda.syncthreads()
    taken = row[i ^ 1]
    cuda.syncthreads()
    return taken


def two_deep(row, i, value):
    taken = exchange(row, i, value + 1)
    cuda.syncthreads()
    return taken + exchange(row, i, value * 2)


@cuda.jit(device=True)
def three_deep(row, i, value, repeat=2):
    total = 0
    for k in range(repeat):
        total += two_deep(row, i, value + k)
        cuda.syncthreads()
    return total


def returns_early(row, i, value):
    """Returns before, between and after barriers, and out of loops, with and without a return value."""
    if value > 10:
        return -1
    row[i] = value
    cuda.syncthreads()
    for k in range(4):
        if k * i == 6:
            return k
    cuda.syncthreads()
    for k in range(3):
        cuda.syncthreads()
        if k == i:
            return 50 + k
    if i == 7:
        return 100
    else:
        value += 1
    return value


def returns_nothing(row, i):
    if i > 5:
        return
    row[i] = 1
    cuda.syncthreads()
    row[i] += 1


def returns_two(row, i, value):
    taken = exchange(row, i, value)
    cuda.syncthreads()
    return taken, value + 1


def returns_two_early(row, i, value):
    if value > 0:
        return 1, value
    row[i] = value
    cuda.syncthreads()
    if i == 2:
        return 2, row[i ^ 1]
    cuda.syncthreads()
    return 3, -1


def changes_its_parameters(row, i, value):
    value += 1
    i = i ^ 3
    cuda.syncthreads()
    row[i] = value
    cuda.syncthreads()
    return row[i ^ 1]


def uses_builtins(a, n):
    cuda.syncthreads()
    total = 0
    for k in range(n):
        total += max(abs(a[k]), int(k))
    return total


def kinds_of_functions(a, out):
    i = cuda.threadIdx.x
    x = plain(a[i]) + plain(y=a[i], x=1)
    x += lazily_compiled(a[i]) + lazily_compiled(factor=5, x=a[i])
    x += without_device(a[i])
    difference, larger = compiled_by_numba(a[i], 4)
    if larger:
        x += difference
    out[i] = x
    out[i] += with_indices(out, 3)


def barriers_in_functions(a, out):
    i = cuda.threadIdx.x
    out[i] = exchange(out, i, a[i])
    cuda.syncthreads()
    x = two_deep(out, i, a[i])
    cuda.syncthreads()
    y = three_deep(out, i, x % 7) - three_deep(out, i, i, repeat=3)
    cuda.syncthreads()
    out[i] = x + y


def early_returns_of_functions(a, out, row):
    i = cuda.threadIdx.x
    out[i] = returns_early(row, i, a[i])
    cuda.syncthreads()
    returns_nothing(row, i)
    cuda.syncthreads()
    for k in range(3):
        out[i] += returns_early(row, i, k) * 2
        cuda.syncthreads()
    cuda.syncthreads()
    out[i] += row[i ^ 1]


def results_of_functions(a, out):
    i = cuda.threadIdx.x
    x, y = returns_two(out, i, a[i])
    cuda.syncthreads()
    z = changes_its_parameters(out, i, y)
    cuda.syncthreads()
    if returns_two(out, i, a[i])[0] > 0:
        z += 1000
    cuda.syncthreads()
    out[i] = x + 10 * y + 100 * z + i


def calls_within_calls(a, out):
    i = cuda.threadIdx.x
    x = exchange(out, plain(i, y=-i), exchange(out, i, a[i]) * 0 + exchange(out, i, a[i]))
    cuda.syncthreads()
    x += plain(two_deep(out, i, x))
    cuda.syncthreads()
    out[i] = x


def tuples_from_several_returns(a, out):
    i = cuda.threadIdx.x
    which, x = returns_two_early(out, i, a[i])
    cuda.syncthreads()
    out[i] = which * 100 + x


def barrier_in_the_condition_of_a_loop(a, out):
    i = cuda.threadIdx.x
    k, total = 0, 0
    while exchange(out, i, k) < 4:
        k += 1
        if k == 2:
            continue
        total += a[i]
        if total > 30:
            total = 0
        cuda.syncthreads()
    out[i] = total


def order_of_evaluation(a, out):
    """Operands left of a call with a barrier are read before it."""
    i = cuda.threadIdx.x
    out[i] = a[i] * 100
    cuda.syncthreads()
    x = out[i] + exchange(out, i, a[i])
    cuda.syncthreads()
    out[i] = 7
    out[i] += exchange(a, i, x)


def calls_that_may_not_happen(a, out, flag):
    i = cuda.threadIdx.x
    out[i] = 1
    if flag > 1 and exchange(out, i, a[i]) > 0:
        out[i] = 2
    cuda.syncthreads()
    if flag == 1 or exchange(a, i, flag):
        out[i] += 10
    cuda.syncthreads()
    x = exchange(out, i, 5) if flag == 2 else 40
    cuda.syncthreads()
    out[i] += x


def shadows_builtins(a, out):
    """A kernel may call its variables max, abs or range; the functions it calls still mean Python's."""
    i = cuda.threadIdx.x
    max = a[i]
    abs = i
    range = 3
    out[i] = uses_builtins(a, range) + max + abs


def shadowing_parameters(range, len, np):
    i = cuda.threadIdx.x
    len[i] = range[i] + 1
    cuda.syncthreads()
    range[i] = len[i ^ 1] + np


def one_of_many(offset):
    def inner(x):
        return x + offset

    return inner


NEAR, FAR = one_of_many(1), one_of_many(1000)


def closures_of_one_definition(a, out):
    i = cuda.threadIdx.x
    out[i] = NEAR(a[i]) * FAR(i)


@wd.device_function(inline=False)
def called_collatz(x, steps):
    """Neither inlined nor specialised for its caller."""
    for j in range(40):
        if x <= 1:
            break
        x = 3 * x + 1 if x % 2 else x // 2
        steps[j % 4] += 1
    return x


def calls_that_are_never_inlined(a, out):
    i = cuda.threadIdx.x
    steps = cuda.local.array(4, numba.int32)
    for j in range(4):
        steps[j] = 0
    out[i] = called_collatz(abs(a[i]), steps) + called_collatz(i + 7, steps) * 10 + steps[1]


TWELVE = [
    calls_that_are_never_inlined,
    kinds_of_functions,
    barriers_in_functions,
    results_of_functions,
    calls_within_calls,
    barrier_in_the_condition_of_a_loop,
    order_of_evaluation,
    shadows_builtins,
    closures_of_one_definition,
]


@pytest.mark.parametrize("kernel", TWELVE, ids=lambda kernel: kernel.__name__)
def test_kernel_does_what_its_python_does(check, kernel):
    check(kernel, 1, 12, numbers(12), np.zeros(12, np.int32))


def test_returns_before_between_and_after_barriers(check):
    check(early_returns_of_functions, 1, 12, numbers(12), np.zeros(12, np.int32), np.zeros(12, np.int32), uniform=False)


def test_tuples_from_returns_before_and_after_barriers(check):
    check(tuples_from_several_returns, 1, 12, numbers(12), np.zeros(12, np.int32), uniform=False)


def test_a_call_with_a_barrier_happens_only_where_python_calls(check):
    for flag in range(3):
        check(calls_that_may_not_happen, 1, 4, numbers(4), np.zeros(4, np.int32), flag)


def test_parameters_may_have_the_names_of_builtins_and_modules(check):
    check(shadowing_parameters, 1, 4, numbers(4), np.zeros(4, np.int32), 3)


def test_functions_of_another_module_see_that_module(check):
    path = SUPPORT / "helpers_elsewhere.py"
    specification = importlib.util.spec_from_file_location("helpers_elsewhere", path)
    elsewhere = importlib.util.module_from_spec(specification)
    sys.modules["helpers_elsewhere"] = elsewhere
    specification.loader.exec_module(elsewhere)
    shifted = elsewhere.shifted

    def kernel(a, out):
        i = cuda.threadIdx.x
        out[i] = shifted(a[i]) + elsewhere.exchanged(a, i, out[i]) + OFFSET

    _, out = check(kernel, 1, 4, np.arange(4), np.zeros(4, np.int64))
    np.testing.assert_array_equal(out, np.arange(4) + 40 + 40 + 5)


def test_a_kernel_made_of_a_cuda_jit_function(check):
    compiled_later = cuda.jit(barriers_in_functions)
    check(compiled_later, 1, 4, numbers(4), np.zeros(4, np.int32))


def test_a_device_function_does_not_run_on_the_host():
    with pytest.raises(wd.errors.WarpDriveError, match="call it from a kernel"):
        of_the_library(3)


def divides_by(constants):
    """Make a kernel whose device function has the same code as all others, but other constants."""

    @wd.device_function
    def divided(x):
        return x / constants[0]

    def kernel(out, x):
        out[0] = divided(x)

    return wd.kernel(kernel)


def test_functions_of_the_same_code_have_their_own_constants():
    found = []
    for constants in ((0.0,), (-0.0,), (np.float32(3),), (3,), np.float32([3]), np.float64([3])):
        out = np.zeros(1)
        divides_by(constants)[1, 1](out, np.float32(1))
        found.append(out[0])
    third = np.float32(1) / np.float32(3)
    np.testing.assert_array_equal(found, [np.inf, -np.inf, third, 1 / 3, third, 1 / 3])


@cuda.jit(device=True)
def apply_to_root(function, x, root=math.sqrt):
    return function(root(x))


def exchange_by(function, values, i):
    row = cuda.shared.array(8, np.int32)
    row[i] = function(values[i])
    cuda.syncthreads()
    return row[7 - i]


@wd.device_function
def through(function, operation, counts, meeting, values, index):
    """Passes functions on; one of them has a barrier."""
    operation(counts, 0, 1)
    return meeting(function, values, index.x)


@wd.kernel
def give_functions(x, y, counts):
    i = cuda.threadIdx.x
    x[i] = apply_to_root(np.float32, x[i]) + apply_to_root(lazily_compiled, x[i], root=plain)
    y[i] = through(of_the_library, cuda.atomic.add, counts, exchange_by, y, cuda.threadIdx)
    cuda.syncthreads()
    y[i] += through(plain, cuda.atomic.sub, counts, exchange_by, y, index=cuda.threadIdx)
    if i == 0:
        counts[1] = apply_to_root(int, 9.5, root=math.floor)


@pytest.mark.parametrize("run", [lambda kernel: kernel, wd.debug], ids=["compiled", "interpreted"])
def test_functions_as_arguments(run) -> None:
    x, y, counts = np.arange(1, 9, dtype=np.float32) ** 2, numbers(8), np.zeros(2, np.int32)
    root, absolute = np.arange(1, 9), np.vectorize(lambda v: abs(v) if v < 0 else plain(v))
    expected = root + 2 * absolute(plain(x))
    first = absolute(y)[::-1]
    second = first + plain(first)[::-1]
    run(give_functions)[1, 8](x, y, counts)
    np.testing.assert_array_equal(x, expected.astype(np.float32))
    np.testing.assert_array_equal(y, second)
    np.testing.assert_array_equal(counts, [0, 9])
