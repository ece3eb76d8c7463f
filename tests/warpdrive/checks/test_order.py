"""Results that depend on the order of threads or blocks are reported."""

from __future__ import annotations

import numpy as np
import pytest
from marked_lines import marked_lines
from numba import cuda

import warpdrive as wd


@wd.kernel
def slots_by_arrival(out, length):
    slot = cuda.atomic.add(length, 0, 1)
    out[slot] = cuda.threadIdx.x  # here


@wd.kernel
def last_exchange(out, length):
    cuda.atomic.exch(out, 0, cuda.threadIdx.x)  # here


@pytest.mark.parametrize("kernel", [slots_by_arrival, last_exchange])
def test_results_that_depend_on_the_order_are_reported(kernel):
    report = wd.check_launch(kernel, 1, 4, np.zeros(4, np.int32), np.zeros(1, np.int32))
    (finding,) = report.order
    assert not report.races
    assert finding.array == "out"
    assert finding.index == (0,)
    assert set(finding.lines) == marked_lines(kernel)


def test_the_order_of_blocks_counts_too():
    report = wd.check_launch(last_exchange, 4, 1, np.zeros(4, np.int32), np.zeros(1, np.int32))
    assert not report.order  # every block's only thread is 0

    @wd.kernel
    def last_block(out):
        cuda.atomic.exch(out, 0, cuda.blockIdx.x)

    assert wd.check_launch(last_block, 4, 1, np.zeros(1, np.int32)).order


def test_an_order_that_is_neither_forwards_nor_backwards_is_tried():
    @wd.kernel
    def the_middle_one_counts(out):
        arrived = cuda.atomic.add(out, 0, 1)
        if cuda.threadIdx.x == 1 and arrived != 1:  # the second of three, from either side
            cuda.atomic.exch(out, 1, 1)

    assert wd.check_launch(the_middle_one_counts, 1, 3, np.zeros(2, np.int32)).order


def test_sums_of_floats_may_differ_in_their_rounding():
    @wd.kernel
    def total(x, out):
        cuda.atomic.add(out, 0, x[cuda.threadIdx.x])

    x = np.random.default_rng(0).normal(0, 1000, 64).astype(np.float32)
    assert wd.check_launch(total, 1, 64, x, np.zeros(1, np.float32)).clean


def test_a_thread_that_waits_for_another_is_reported_with_its_race():
    @wd.kernel
    def spins(flag, out):
        if cuda.threadIdx.x == 0:
            while flag[0] == 0:
                pass
            out[0] = 1
        else:
            flag[0] = 1

    report = wd.check_launch(spins, 1, 2, np.zeros(1, np.int32), np.zeros(1, np.int32))
    assert "does not end" in report.order[0].message  # in one order; in the other it does
    assert {race.array for race in report.races} == {"flag"}
