"""Atomic operations, within a block and between blocks that run at the same time."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba import cuda

import warpdrive as wd

BLOCKS, THREADS = 40, 25
TOTAL = BLOCKS * THREADS


@wd.kernel
def contend(values, results, tickets):
    """All threads of all blocks on the same elements; whole results are exact in every dtype."""
    place = cuda.grid(1)
    cuda.atomic.add(results, 0, values[place])
    cuda.atomic.sub(results, 1, values[place])
    cuda.atomic.max(results, 2, values[place])
    cuda.atomic.min(results, 3, values[place])
    tickets[cuda.atomic.add(results, 4, 1)] += 1
    cuda.syncthreads()
    tickets[cuda.atomic.exch(results, 5, values[place])] += 1


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64], ids=lambda dtype: dtype.__name__)
def test_blocks_that_contend_for_an_element_lose_nothing(dtype):
    values = np.random.default_rng(0).permutation(TOTAL).astype(dtype)
    results = np.array([0, TOTAL * TOTAL, 7, 10_000, 0, 0], dtype)
    tickets = np.zeros(TOTAL, np.int32)
    contend[BLOCKS, THREADS](values, results, tickets)
    total = values.sum()
    np.testing.assert_array_equal(results[:5], np.array([total, TOTAL * TOTAL - total, TOTAL - 1, 0, TOTAL], dtype))
    # each ticket is drawn once; of the exchanged values, each but the last is handed on, and the first 0
    expected = np.full(TOTAL, 2)
    expected[results[5]] -= 1
    expected[0] += 1
    np.testing.assert_array_equal(tickets, expected)


@wd.kernel
def contend_in_floats(values, results):
    place = cuda.grid(1)
    cuda.atomic.add(results, (0, 0), values[place])
    cuda.atomic.sub(results, (0, 1), values[place])
    cuda.atomic.max(results[1], 0, values[place])
    cuda.atomic.min(results, (-1, -1), values[place] - 0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda dtype: dtype.__name__)
def test_floats_that_contend(dtype):
    values = np.random.default_rng(0).permutation(TOTAL).astype(dtype)
    results = np.zeros((2, 2), dtype)
    contend_in_floats[BLOCKS, THREADS](values, results)
    np.testing.assert_array_equal(results, [[values.sum(), -values.sum()], [TOTAL - 1, -0.5]])


@wd.kernel
def by_compare_and_swap(counter, lock, protected):
    """Counts with compare-and-swap alone, and guards a plain variable with a lock made of it."""
    done = False
    while not done:
        old = counter[0]
        done = cuda.atomic.cas(counter, 0, old, old + 1) == old
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    protected[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


def test_compare_and_swap():
    counter, lock, protected = np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1)
    by_compare_and_swap[BLOCKS, THREADS](counter, lock, protected)
    assert counter[0] == TOTAL and lock[0] == 0 and protected[0] == TOTAL


@wd.kernel
def in_shared_and_local_memory(out):
    counts = cuda.shared.array(2, numba.int32)
    own = cuda.local.array(1, numba.float32)
    i = cuda.threadIdx.x
    if i < 2:
        counts[i] = 0
    own[0] = 0.0
    cuda.syncthreads()
    before = cuda.atomic.add(counts, i % 2, 1)
    cuda.atomic.add(own, 0, 2.5)
    cuda.atomic.max(counts, 1, before)
    cuda.syncthreads()
    out[cuda.grid(1)] = counts[0] * own[0]


def test_atomics_in_shared_and_local_memory():
    out = np.zeros(3 * 10)
    in_shared_and_local_memory[3, 10](out)
    np.testing.assert_array_equal(out, np.full(30, 5 * 2.5))


@wd.kernel
def values_of_other_types(whole, real, flag):
    cuda.atomic.add(whole, 0, 2.0)
    cuda.atomic.add(real, 0, 3)
    cuda.atomic.add(real, 0, flag)
    cuda.atomic.max(whole, 1, np.int8(5))


def test_values_become_what_the_array_holds():
    whole, real = np.zeros(2, np.int32), np.zeros(1, np.float32)
    values_of_other_types[1, 3](whole, real, True)
    assert whole.tolist() == [6, 5] and real[0] == 12


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(2, np.bool_), "integers or floats"),
        (np.zeros((2, 2)), "needs 2 indices"),
        (np.zeros(2, np.complex64), "integers or floats"),
    ],
    ids=["bool", "rank", "complex"],
)
def test_what_has_no_atomics_is_refused(array, message):
    @wd.kernel
    def kernel(array):
        cuda.atomic.add(array, 0, 1)

    with pytest.raises(wd.errors.WarpDriveError, match=rf"test_atomics.py:\d+.*{message}"):
        kernel[1, 1](array)
