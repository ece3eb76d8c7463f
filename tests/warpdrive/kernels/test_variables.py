"""Locals that live across barriers, and those that do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import cuda

import warpdrive as wd


def numbers(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-20, 20, count).astype(np.int32)


def of_all_types(a, out, weights):
    i = cuda.threadIdx.x
    whole = a[i]
    long = np.int64(3_000_000_000) + i
    half = weights[i] * 0.5
    single = np.float32(1.5) * weights[i]
    small = np.int8(i)
    positive = a[i] > 0
    unsigned = np.uint32(4_000_000_000) + np.uint32(i)
    turning = complex(half, whole)
    cuda.syncthreads()
    out[i] = whole + long + half + single + small + unsigned + turning.imag + turning.real
    if positive:
        cuda.syncthreads()
        out[i] += 0.25
    positive = not positive
    cuda.syncthreads()
    out[i] += 0.125 * positive


def assigned_in_some_branches(a, out):
    i = cuda.threadIdx.x
    if a[i] > 0:
        x = a[i]
    elif a[i] < -5:
        x = -1
        y = i
    cuda.syncthreads()
    if a[i] > 0:
        out[i] = x
        x += 1
    cuda.syncthreads()
    if a[i] < -5:
        out[i] = x + y
    elif a[i] > 0:
        out[i] += 10 * x


def reassigned_parameters(a, out, count, scale):
    i = cuda.threadIdx.x
    count = count + i
    cuda.syncthreads()
    if i > 3:
        scale = 0.5
        count -= 1
    cuda.syncthreads()
    out[i] = a[i] * scale + count
    for count in range(3):
        cuda.syncthreads()
        out[i] += count


def from_int_to_float(a, out):
    i = cuda.threadIdx.x
    x = 1
    cuda.syncthreads()
    x = x + a[i] * 0.5
    cuda.syncthreads()
    total = 0
    for k in range(3):
        total += x * k
        cuda.syncthreads()
        if k == 1:
            total /= 4
    out[i] = total


def loop_variables_after_loops(a, out):
    i = cuda.threadIdx.x
    k = -7
    for k in range(a[i]):
        if k == i:
            break
    cuda.syncthreads()
    out[i] = k
    for j in range(2, 9, 3):
        for m in range(j):  # noqa: B007
            cuda.syncthreads()
    out[i] += 100 * j + 10_000 * m


def recomputed_between_barriers(a, out, count):
    """Some locals never change: the library may compute them anew, in loops, conditions and functions, too."""
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    half = n // 2
    quarter = half // 2 if half > 1 else 1
    if i < n:
        angle = math.cos(float(count)) + half
        step = min(quarter, count)
    cuda.syncthreads()
    for _ in range(2):
        offset = step + half
        cuda.syncthreads()
        out[i] += a[(i + offset) % n] * quarter + angle
    count = 2
    cuda.syncthreads()
    out[i] += offset * count


def depends_on_what_changes(a, out, count):
    """Looks as if it never changed, but what it is computed from does."""
    i = cuda.threadIdx.x
    total = 0
    for k in range(3):
        count += k
        twice = 2 * count
        cuda.syncthreads()
        total += twice
    row = a[i]
    a[i] = 1000
    cuda.syncthreads()
    out[i] = total + row


def loop_variables_of_the_iteration_before(a, out):
    i = cuda.threadIdx.x
    for n in range(3):
        cuda.syncthreads()
        for k in range(min(n, a[i] & 3)):  # without a turn, k stays what it was
            out[i] += k
        if n > 0:
            out[i] += 10 * k
        for k in range(2, 6 - n):
            cuda.syncthreads()
            out[i] += 100 * k


def swapped(a, out):
    i = cuda.threadIdx.x
    x, y = 1, 1
    for _ in range(6):
        x, y = y, x + y
        cuda.syncthreads()
    out[i] = x + 100 * y + a[i]


def named_like_what_the_library_adds(a, out):
    i = cuda.threadIdx.x
    guard_1, returned_0, result_1, own_x, value_1, thread, array_0 = i, 2 * i, 3, a[i], 5, 6, 7
    if i < 5:
        cuda.syncthreads()
        guard_1 += 1
        if i == 2:
            return
    for following_0_1 in range(2):
        end_0_1 = following_0_1
        out[i] += end_0_1
    cuda.syncthreads()
    out[i] += guard_1 + returned_0 + result_1 + own_x + value_1 + thread + array_0


def stay_in_their_block(out):
    """Values of a block's variables must not reach the next block."""
    i = cuda.threadIdx.x
    x = 0
    cuda.syncthreads()
    x += 1
    done = False
    while not done:
        cuda.syncthreads()
        x += 1
        done = x > i
    out[cuda.grid(1)] = x


HUGE = 2**53 + 1
"""An integer that float64 does not have: it would become 2**53."""


def a_bool_and_later_an_integer(a, out):
    i = cuda.grid(1)
    f = a[i] > 3
    cuda.syncthreads()
    out[i, 0] = ~f
    f = a[i] * 2
    cuda.syncthreads()
    out[i, 1] = f


def an_integer_and_later_a_float(a, out):
    i = cuda.grid(1)
    x = a[i]
    cuda.syncthreads()
    out[i, 0] = x // 3
    x = 0.5
    cuda.syncthreads()
    out[i, 1] = x * 4


def another_type_on_a_path_that_returns(a, out):
    i = cuda.grid(1)
    n = a[i]
    if n > 100:
        n = np.uint64(2**63 + 1)
        out[i, 0] = n % np.uint64(16)
        return
    cuda.syncthreads()
    out[i, 0] = n & 7


def a_remainder_and_later_a_quotient(a, out):
    i = cuda.grid(1)
    t = a[i] % 8
    cuda.syncthreads()
    out[i, 0] = t
    t = a[i] / 8
    cuda.syncthreads()
    out[i, 1] = t * 8


def one_type_before_two_meet(a, out):
    """Only behind the condition is it a float: numba knows of what each use sees."""
    i = cuda.grid(1)
    x = a[i]
    cuda.syncthreads()
    out[i, 0] = x % 1000
    if i > 0:
        cuda.syncthreads()
        x = 0.5
    cuda.syncthreads()
    out[i, 1] = x - 2**53 if i == 0 else x * 4


def types_change_in_a_loop(a, out):
    i = cuda.grid(1)
    x = a[i]
    for k in range(3):
        x *= 2  # a float from the second time on, and so always
        out[i, k] = x - 2**54
        x = a[i]
        cuda.syncthreads()
        out[i, 3] = x % 1000
        if i == 1:
            x = 0.25
            break
        x = a[i] / 1
    else:
        x = x // 2
    cuda.syncthreads()
    out[i, 4] = x * 4


@wd.device_function
def halved(x):
    cuda.syncthreads()
    if x % 2 == 1:
        x = x / 2
        cuda.syncthreads()
        return x
    return x // 2


def parameters_of_functions_change_type(a, out):
    i = cuda.grid(1)
    out[i, 0] = halved(a[i]) * 2
    out[i, 1] = halved(np.float32(4))


def float32_stays_float32(a, out):
    i = cuda.grid(1)
    w = np.float32(16777216)
    cuda.syncthreads()
    out[i, 0] = w + np.float32(1)  # 16777217 in float64
    w = 0.1
    cuda.syncthreads()
    out[i, 1] = w * 10


def a_tuple_and_later_a_number(a, out):
    i = cuda.grid(1)
    p = (a[i], 2.5)
    cuda.syncthreads()
    out[i, 0] = p[0] % 1000
    p = p[1]
    cuda.syncthreads()
    out[i, 1] = p * 2


TYPE_OF_EACH_ASSIGNMENT = {
    a_bool_and_later_an_integer: ([1, 5], [[1, 2], [0, 10]]),
    an_integer_and_later_a_float: ([HUGE, 3 * HUGE], [[HUGE // 3, 2], [HUGE, 2]]),
    another_type_on_a_path_that_returns: ([15, 200], [[7], [1]]),
    a_remainder_and_later_a_quotient: ([9, 17], [[1, 9], [1, 17]]),
    one_type_before_two_meet: ([HUGE, HUGE], [[993, 0], [993, 2]]),
    types_change_in_a_loop: ([HUGE, HUGE], [[0, 0, 0, 993, 2**54], [0, 0, 0, 993, 1]]),
    parameters_of_functions_change_type: ([6, 7], [[6, 2], [7, 2]]),
    float32_stays_float32: ([0, 0], [[16777216, 1], [16777216, 1]]),
    a_tuple_and_later_a_number: ([HUGE, 7], [[993, 5], [7, 5]]),
}
"""Kernels, the integers they are given, and the integers they should leave, by numba's rules."""


@pytest.mark.parametrize(
    "grid",
    [pytest.param((1, 2), id="two threads"), pytest.param((2, 1), id="two blocks", marks=pytest.mark.exhaustive)],
)
@pytest.mark.parametrize("kernel", TYPE_OF_EACH_ASSIGNMENT, ids=lambda kernel: kernel.__name__)
def test_each_assignment_has_its_own_type(kernel, grid):
    given, expected = TYPE_OF_EACH_ASSIGNMENT[kernel]
    out = np.zeros((2, len(expected[0])), np.int64)
    wd.kernel(kernel)[grid](np.array(given), out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    "kernel",
    [
        assigned_in_some_branches,
        from_int_to_float,
        loop_variables_after_loops,
        loop_variables_of_the_iteration_before,
        swapped,
    ],
    ids=lambda kernel: kernel.__name__,
)
def test_kernel_does_what_its_python_does(check, kernel):
    for seed in range(2):
        check(kernel, 1, 12, numbers(12, seed), np.zeros(12, np.float64))


def test_numbers_of_all_types(check):
    check(of_all_types, 1, 8, numbers(8), np.zeros(8), np.linspace(-1, 1, 8).astype(np.float32), uniform=False)


def test_parameters_that_are_reassigned(check):
    check(reassigned_parameters, 1, 8, numbers(8), np.zeros(8), 5, 2.0)


def test_what_never_changes_and_what_only_seems_so(check):
    check(recomputed_between_barriers, 1, 8, numbers(8), np.zeros(8), 3)
    check(depends_on_what_changes, 1, 8, numbers(8), np.zeros(8), 3)


def test_authors_may_use_any_name_without_the_library_s_prefix(check):
    check(named_like_what_the_library_adds, 1, 8, numbers(8), np.zeros(8), uniform=False)


def test_every_block_starts_afresh(check):
    check(stay_in_their_block, 9, 5, np.zeros(45, np.int64))
