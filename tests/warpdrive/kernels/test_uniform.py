"""Uniform values are computed once per block, and values that only seem uniform are not."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest
from numba import cuda

import warpdrive as wd
from warpdrive.kernels.inline import inline
from warpdrive.kernels.lowering import resolve_kernel
from warpdrive.kernels.uniform import find_uniform


@wd.kernel
def halving(a, out, n):
    """The stride changes after the threads have used it, in the same stretch between barriers."""
    i = cuda.threadIdx.x
    part = cuda.shared.array(16, np.int32)
    part[i] = a[i]
    stride = 8
    while stride > 0:
        cuda.syncthreads()
        if i < stride:
            part[i] += part[i + stride]
        stride //= 2
    cuda.syncthreads()
    out[i] = part[0] + stride + n


@wd.kernel
def behind_a_guard(a, out, n):
    """The loop is uniform among the threads that get there, and only they know its counter."""
    i = cuda.threadIdx.x
    part = cuda.shared.array(16, np.int32)
    part[i] = a[i]
    if i >= n:
        return
    turns = 3
    total = 0
    for k in range(turns):
        cuda.syncthreads()
        total += part[(i + k) % n]
    out[i] = total


@wd.kernel
def seen_from_outside(a, out, n):
    """``level`` is 5 for the threads that went through the guard alone."""
    i = cuda.threadIdx.x
    level = 1
    if i < n:
        level = 5
        cuda.syncthreads()
        out[i] = level
    cuda.syncthreads()
    out[i] += 10 * level + a[i]


@wd.kernel
def two_ways(a, out, n):
    """A condition on an argument, with barriers on both sides of it."""
    i = cuda.threadIdx.x
    part = cuda.shared.array(16, np.int32)
    part[i] = a[i]
    if n > 3:
        bonus = 100
        cuda.syncthreads()
        out[i] = part[15 - i] + bonus
    else:
        bonus = 200
        cuda.syncthreads()
        out[i] = part[(i + 1) % 16] - bonus
    cuda.syncthreads()
    out[i] += bonus


@wd.kernel
def leave_one_by_one(a, out, n):
    """Threads leave the loop at different times; the counter advances for the others."""
    i = cuda.threadIdx.x
    k = 0
    going = a[i] % 5
    while k < 6:
        cuda.syncthreads()
        if k == going:
            break
        k += 1
    out[i] = k


@wd.kernel
def nested(a, out, n):
    """Loops in loops, over the shape of an argument, in a block of three dimensions."""
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    i = y * cuda.blockDim.x + x
    part = cuda.shared.array(16, np.int32)
    part[i] = a[i]
    steps = a.shape[0] // 4
    for outer in range(steps):
        base = outer * 2
        for inner in range(0, 3, 2):
            cuda.syncthreads()
            value = part[(i + base + inner) % 16]
            cuda.syncthreads()
            part[i] = value + outer
        base += n
        part[i] += base
    cuda.syncthreads()
    out[i] = part[i]


@wd.kernel
def assigned_in_a_plain_loop(a, out, n):
    """``last`` is assigned in a stretch that each thread runs for itself, and leaves at a time of its own."""
    i = cuda.threadIdx.x
    last = 0
    for k in range(8):
        if k == i % 4:
            break
        last = k
    cuda.syncthreads()
    out[i] = last + a[i]


DIRECTIONS = (1, -3, 2)


@wd.kernel
def through_tuples(a, out, n):
    """Loops over tuples, with barriers in them and under conditions on what they hold."""
    i = cuda.threadIdx.x
    part = cuda.shared.array(16, np.int32)
    part[i] = a[i]
    length = len(a)
    for direction in DIRECTIONS:
        cuda.syncthreads()
        value = part[(i + direction) % length]
        cuda.syncthreads()
        part[i] = value + direction
        for factor in (2, -n):
            if factor > direction:
                cuda.syncthreads()
                value = part[length - 1 - i]
                cuda.syncthreads()
                part[i] = value * factor % 1000
    cuda.syncthreads()
    out[i] = part[i]


@wd.kernel
def tuples_of_threads(a, out, n):
    """Tuples of what threads differ on, one of which stands for another later."""
    i = cuda.threadIdx.x
    own = (n, 2 * n)
    own = (i, n)
    for number in own:
        cuda.syncthreads()
        first = own[0]
        out[i] += number + first * a[i]


KERNELS = [
    (halving, 16),
    (behind_a_guard, 16),
    (seen_from_outside, 16),
    (two_ways, 16),
    (leave_one_by_one, 16),
    (nested, (4, 4)),
    (assigned_in_a_plain_loop, 16),
    (through_tuples, 16),
    (tuples_of_threads, 16),
]


@pytest.mark.parametrize("n", [3, 7])
@pytest.mark.parametrize(("kernel", "threads"), KERNELS, ids=lambda value: getattr(value, "__name__", ""))
def test_kernel_does_what_its_python_does(check: Any, kernel: wd.Kernel, threads: Any, n: int) -> None:
    a = np.random.default_rng(n).integers(0, 100, 16, dtype=np.int32)
    check(kernel, 2, threads, a, np.zeros(16, np.int32), n, uniform=False)


@pytest.mark.parametrize(
    ("kernel", "uniform", "differing"),
    [
        (halving, {"stride"}, {"i"}),
        (behind_a_guard, {"turns"}, {"i", "total"}),
        (seen_from_outside, set(), {"i", "level"}),
        (two_ways, {"bonus"}, {"i"}),
        (nested, {"steps", "outer", "inner", "base"}, {"x", "y", "i", "value"}),
        (leave_one_by_one, set(), {"i", "k", "going"}),
        (assigned_in_a_plain_loop, set(), {"i", "last"}),
        (through_tuples, {"length", "direction", "factor"}, {"i", "value"}),
        (tuples_of_threads, set(), {"i", "own", "number", "first"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_threads_agree_on(kernel: wd.Kernel, uniform: set[str], differing: set[str]) -> None:
    resolved = resolve_kernel(kernel.source, {})
    body: list[ast.stmt] = inline(resolved.function, lambda versions: [0] * len(versions))  # names as they are written
    found = set(find_uniform(body, ["a", "out", "n"], ["a", "out"], resolved.table).variables)
    assert uniform <= found
    assert not differing & found
