"""Barriers among conditions, loops, break, continue and return, compared with the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda


def numbers(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-20, 20, count).astype(np.int32)


def empty_kernel(a):
    """Nothing but a docstring."""


def no_barrier(a, out):
    i = cuda.grid(1)
    if i >= a.shape[0]:
        return
    for k in range(10):
        if k == a[i]:
            out[i] = -1
            return
        if k % 2:
            continue
        out[i] += k
    else:
        out[i] += 100


def rotate(a, out):
    i = cuda.threadIdx.x
    base = cuda.blockIdx.x * cuda.blockDim.x
    out[base + i] = a[base + i] * 2
    cuda.syncthreads()
    x = out[base + (i + 1) % cuda.blockDim.x]
    cuda.syncthreads()
    out[base + i] = x


def guarded(a, out):
    """Barriers under a guard that the last threads of the block do not pass."""
    i, n = cuda.threadIdx.x, a.shape[0] - 3
    if i < n:
        out[i] = a[i] + 1
        cuda.syncthreads()
        x = out[(i + 1) % n]
        cuda.syncthreads()
        out[i] = x
    else:
        out[i] = a[i - n]


def guarded_with_else(a, out, flag):
    i = cuda.threadIdx.x
    if flag > 2:
        out[i] = a[i]
        cuda.syncthreads()
        y = out[i ^ 1]
    elif flag:
        out[i] = -a[i]
        cuda.syncthreads()
        y = out[i ^ 2] * 3
    else:
        y = 7
        cuda.syncthreads()
        y += a[i]
    cuda.syncthreads()
    out[i] = y


def nested_conditions(a, out, flag):
    i = cuda.threadIdx.x
    y = 0
    if flag & 1:
        y = i
        if flag & 2:
            out[i] = a[i]
            cuda.syncthreads()
            y += out[cuda.blockDim.x - 1 - i]
            if flag & 4:
                cuda.syncthreads()
                out[i] = y
                cuda.syncthreads()
                y -= out[(i + 3) % cuda.blockDim.x]
            else:
                y *= 2
        elif flag & 4:
            y = 100
        cuda.syncthreads()
    out[i] += y


def guard_changed_inside(a, out):
    """The body changes a variable that its condition has tested."""
    i, go = cuda.threadIdx.x, 1
    if go:
        go = 0
        out[i] = a[i]
        cuda.syncthreads()
        go = out[i ^ 1]
        cuda.syncthreads()
        out[i] = go + 1
    else:
        out[i] = 1000


def early_return_before(a, out):
    i = cuda.threadIdx.x
    if a[i] < 0:
        out[i] = -1
        return
    out[i] = a[i]
    cuda.syncthreads()
    x = out[0]
    cuda.syncthreads()
    out[i] += x


def early_returns_between(a, out):
    i = cuda.threadIdx.x
    out[i] = a[i]
    cuda.syncthreads()
    if i == 3:
        return
    x = out[i ^ 1] if i ^ 1 != 3 else 0
    cuda.syncthreads()
    if i > 8:
        out[i] = x
        return
    elif i > 6:
        x += 5
    else:
        if i == 1:
            return
        x -= 5
    cuda.syncthreads()
    out[i] = x * 10


def return_in_loop_without_barrier(a, out):
    i = cuda.threadIdx.x
    for k in range(a.shape[0]):
        if a[k] == i:
            out[i] = k
            return
        for j in range(k):
            if a[j] + a[k] == 7 * i + 1:
                out[i] = -j
                return
            if j > 4:
                break
    out[i] = 50
    cuda.syncthreads()
    out[i] = 60 + a[i]


def return_in_else_of_loop(a, out):
    """The else of a loop without a barrier returns, in a kernel with barriers."""
    i = cuda.threadIdx.x
    for k in range(3):
        if a[k] == a[i]:
            break
    else:
        out[i] = -5
        return
    k = 0
    while k < 2:
        k += 1
        if a[k] > 15:
            break
    else:
        if i == 1:
            return
    cuda.syncthreads()
    out[i] = 9


def loop_around_barrier(a, out):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    out[i] = a[i]
    cuda.syncthreads()
    for k in range(5):
        x = out[(i + k) % n]
        cuda.syncthreads()
        out[i] += x
        cuda.syncthreads()
    out[i] += k


def loops_of_all_kinds_of_range(a, out, start, stop, step):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    total = 0
    for k in range(start, stop, step):
        out[i] = a[(i + k) % n]
        cuda.syncthreads()
        total += out[i ^ 1] * k
        cuda.syncthreads()
    for k in range(8, 0, -3):
        cuda.syncthreads()
        total = total * 2 + k
    for k in range(2, 4):
        k += 10
        cuda.syncthreads()
        total += k
    for _ in range(stop - stop):
        total = -1
        cuda.syncthreads()
    out[i] = total


def break_and_continue(a, out, limit):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    out[i] = 0
    for k in range(10):
        if k == limit:
            break
        if k == 2:
            continue
        cuda.syncthreads()
        out[i] += a[(i + k) % n]
        if k == 4:
            continue
        cuda.syncthreads()
        if out[i] > 20:
            out[i] -= 5
        else:
            if k > 6:
                break
            out[i] += 1
        cuda.syncthreads()
    cuda.syncthreads()
    out[i] = out[i] * 10 + k


def threads_leave_a_loop_one_by_one(a, out):
    """Each thread goes round as often as its own number says."""
    i = cuda.threadIdx.x
    x = 0
    while x < i:
        x += 1
        out[i] += x
        cuda.syncthreads()
        if x == 4 and i % 2:
            break
        out[i] += 100
    out[i] = out[i] * 2 + x


def while_true(a, out):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    rounds = 0
    while True:
        out[i] = a[(i + rounds) % n] + rounds
        cuda.syncthreads()
        top = out[0]
        for j in range(n):
            top = max(top, out[j])
        rounds += 1
        cuda.syncthreads()
        if top > 22 or rounds == 7:
            break
    while 1:
        cuda.syncthreads()
        rounds -= 1
        if not rounds:
            break
    out[i] = top + rounds


def nested_loops(a, out):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    for k in range(3):
        for j in range(k, 4):
            if j == 2 and k == 1:
                continue
            out[i] += a[(i + j) % n]
            cuda.syncthreads()
            x = out[(i + k) % n]
            cuda.syncthreads()
            out[i] = x + j
            if j == 3 - k:
                break
        w = 0
        while w < k:
            w += 1
            if w == 2:
                break
            cuda.syncthreads()
        out[i] += w


def return_in_loops_with_barriers(a, out):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    for k in range(4):
        cuda.syncthreads()
        while True:
            out[i] += a[(i + k) % n]
            cuda.syncthreads()
            if i == k * 3:
                out[i] += 1000
                return
            for j in range(3):
                if out[i] == j:
                    return
            break
        out[i] += 1
    cuda.syncthreads()
    out[i] *= 2


def loop_under_guard(a, out):
    i, n = cuda.threadIdx.x, a.shape[0] // 2
    if i < n:
        for k in range(3):
            out[i] = a[i] + k
            cuda.syncthreads()
            x = out[(i + 1) % n]
            cuda.syncthreads()
            if x > 5:
                out[i] = x
                continue
            out[i] = -x
        if x > 0:
            return
    out[i] += 3


def condition_of_numbers(a, out, flag, scale):
    """Conditions that are numbers, not bools, around barriers."""
    i = cuda.threadIdx.x
    if flag and flag - 2:
        cuda.syncthreads()
        out[i] = 1
    if not flag or scale:
        cuda.syncthreads()
        out[i] += 2
    if scale:
        cuda.syncthreads()
        out[i] += 4
    while flag:
        cuda.syncthreads()
        flag -= 1
        out[i] += 8


def tuples(a, out):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    x, y = i, a[i]
    cuda.syncthreads()
    x, y = y, x
    out[i] = x
    cuda.syncthreads()
    (x, z), y = (y, out[(i + 1) % n]), x
    cuda.syncthreads()
    both = (x + 1, y)
    out[i] = both[0] * 100 + both[1] + z


KERNELS_OF_A_AND_OUT = [
    no_barrier,
    rotate,
    guarded,
    guard_changed_inside,
    early_return_before,
    early_returns_between,
    return_in_loop_without_barrier,
    return_in_else_of_loop,
    loop_around_barrier,
    threads_leave_a_loop_one_by_one,
    while_true,
    nested_loops,
    return_in_loops_with_barriers,
    loop_under_guard,
    tuples,
]


@pytest.mark.parametrize("kernel", KERNELS_OF_A_AND_OUT, ids=lambda kernel: kernel.__name__)
def test_kernel_does_what_its_python_does(check, kernel):
    for seed in range(3):
        check(kernel, 1, 12, numbers(12, seed), np.zeros(12, np.int32))


@pytest.mark.parametrize("kernel", [guarded_with_else, nested_conditions], ids=lambda kernel: kernel.__name__)
def test_every_branch(check, kernel):
    for flag in range(8):
        check(kernel, 1, 12, numbers(12), np.zeros(12, np.int32), flag)


def test_an_empty_kernel_does_nothing(check):
    check(empty_kernel, 2, 3, numbers(4))


def test_blocks_do_not_disturb_each_other(check):
    check(rotate, 7, 16, numbers(7 * 16), np.zeros(7 * 16, np.int32))


def test_every_kind_of_range(check):
    for start, stop, step in [(0, 4, 1), (3, -3, -2), (5, 5, 1), (1, 9, 4)]:
        check(loops_of_all_kinds_of_range, 1, 8, numbers(8), np.zeros(8, np.int32), start, stop, step)


def test_break_and_continue_around_barriers(check):
    for limit in (0, 3, 9, 11):
        check(break_and_continue, 1, 8, numbers(8), np.zeros(8, np.int32), limit)


def test_conditions_that_are_numbers(check):
    for flag, scale in [(0, 0.0), (0, 0.5), (2, 0.0), (3, -1.0)]:
        check(condition_of_numbers, 1, 4, numbers(4), np.zeros(4, np.int32), flag, scale)
