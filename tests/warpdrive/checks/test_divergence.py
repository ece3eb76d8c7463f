"""Barriers that not all threads of a block reach are reported with their lines."""

from __future__ import annotations

import numpy as np
import pytest
from marked_lines import marked_lines
from numba import cuda
from race_corpus import floats

import warpdrive as wd


@wd.device_function
def meet():
    cuda.syncthreads()


@wd.kernel
def barrier_under_a_condition(x):
    if cuda.threadIdx.x < 2:
        x[cuda.threadIdx.x] = 0
        cuda.syncthreads()  # here


@wd.kernel
def barriers_in_both_branches(x):
    if cuda.threadIdx.x < 2:
        cuda.syncthreads()  # here
    else:
        cuda.syncthreads()  # here
    x[cuda.threadIdx.x] = 0


@wd.kernel
def barrier_in_a_loop_of_different_length(x):
    for _ in range(cuda.threadIdx.x):
        cuda.syncthreads()  # here
    x[cuda.threadIdx.x] = 0


@wd.kernel
def some_skip_one_of_two_barriers(x):
    if cuda.threadIdx.x != 1:
        cuda.syncthreads()  # here
    x[cuda.threadIdx.x] = 0
    cuda.syncthreads()  # here


@pytest.mark.parametrize(
    "kernel",
    [
        barrier_under_a_condition,
        barriers_in_both_branches,
        barrier_in_a_loop_of_different_length,
        some_skip_one_of_two_barriers,
    ],
)
def test_a_barrier_that_not_all_threads_reach_is_reported(kernel):
    findings = wd.check_launch(kernel, 1, 4, floats(4)).divergence
    assert findings
    assert {line for finding in findings for line in finding.lines} == marked_lines(kernel)
    assert all(len(finding.threads) == 2 for finding in findings)


def test_threads_that_leave_a_loop_by_break_miss_its_barriers():
    @wd.kernel
    def breaks(x):
        for k in range(4):
            if k == cuda.threadIdx.x:
                break
            cuda.syncthreads()  # here
        x[cuda.threadIdx.x] = 0

    (finding,) = wd.check_launch(breaks, 1, 4, floats(4)).divergence
    assert set(finding.lines) == marked_lines(breaks)
    assert finding.threads == (1, 0)


def test_each_call_of_a_device_function_is_another_barrier():
    @wd.kernel
    def two_calls(x):
        if cuda.threadIdx.x < 2:
            meet()
        else:
            meet()
        x[cuda.threadIdx.x] = 0

    assert wd.check_launch(two_calls, 1, 4, floats(4)).divergence


def test_a_uniform_condition_and_an_early_return_are_no_divergence():
    @wd.kernel
    def uniform(x, n):
        i = cuda.threadIdx.x
        if i >= n:
            return
        if n > 1:
            x[i] = i
            cuda.syncthreads()
        for _ in range(n):
            cuda.syncthreads()

    assert wd.check_launch(uniform, 2, 4, np.zeros(4, np.float32), 3).clean
