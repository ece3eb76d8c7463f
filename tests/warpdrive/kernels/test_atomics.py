"""Every atomic operation: what it does for each dtype, between blocks that run in parallel, and what is refused.

What is expected is computed here, in Python's own integers and NumPy's floats.
"""

from __future__ import annotations

import inspect
import math

import numba
import numpy as np
import pytest
from exhaustive import exhaustive
from numba import cuda

import warpdrive as wd

INTEGERS = [np.int32, np.uint32, np.int64, np.uint64]
FLOATS = [np.float32, np.float64]
BLOCKS, THREADS = 64, 32
TOTAL = BLOCKS * THREADS


def launch(kernel, blocks, threads, *arguments):
    wd.kernel(kernel)[blocks, threads](*arguments)


def debug(kernel, blocks, threads, *arguments):
    wd.debug(kernel)[blocks, threads](*arguments)


def each_on_integers(elements, operands, old):
    """One element, operand and old value for each operation."""
    i = cuda.threadIdx.x
    old[0, i] = cuda.atomic.add(elements, (0, i), operands[i])
    old[1, i] = cuda.atomic.sub(elements, (1, i), operands[i])
    old[2, i] = cuda.atomic.and_(elements, (2, i), operands[i])
    old[3, i] = cuda.atomic.or_(elements, (3, i), operands[i])
    old[4, i] = cuda.atomic.xor(elements, (4, i), operands[i])
    old[5, i] = cuda.atomic.exch(elements, (5, i), operands[i])
    old[6, i] = cuda.atomic.max(elements, (6, i), operands[i])
    old[7, i] = cuda.atomic.min(elements, (7, i), operands[i])
    old[8, i] = cuda.atomic.nanmax(elements, (8, i), operands[i])
    old[9, i] = cuda.atomic.nanmin(elements, (9, i), operands[i])
    old[10, i] = cuda.atomic.cas(elements, (10, i), 5, operands[i])
    old[11, i] = cuda.atomic.compare_and_swap(elements[11, i:], 5, operands[i])


OF_INTEGERS = [
    lambda old, value: old + value,
    lambda old, value: old - value,
    lambda old, value: old & value,
    lambda old, value: old | value,
    lambda old, value: old ^ value,
    lambda old, value: value,
    max,
    min,
    max,
    min,
    lambda old, value: value if old == 5 else old,
    lambda old, value: value if old == 5 else old,
]


def around_the_ends(elements, operands, old):
    i = cuda.threadIdx.x
    old[0, i] = cuda.atomic.inc(elements, (0, i), operands[i])
    old[1, i] = cuda.atomic.dec(elements, (1, i), operands[i])


OF_UNSIGNED = [
    lambda old, limit: 0 if old >= limit else old + 1,
    lambda old, limit: limit if old == 0 or old > limit else old - 1,
]


def compare(run, kernel, meanings, dtype):
    info = np.iinfo(dtype)
    values = [info.min, info.max, 0, 1, 5, 6, info.max // 2 + 1, info.min // 2 + 77]
    pairs = [(old, value) for old in values for value in values]
    elements = np.array([[old for old, _ in pairs]] * len(meanings), dtype)
    before, old = elements.copy(), np.zeros_like(elements)
    run(kernel, 1, len(pairs), elements, np.array([value for _, value in pairs], dtype), old)
    np.testing.assert_array_equal(old, before)
    for row, meaning in zip(elements, meanings, strict=True):
        expected = [(meaning(old, value) - info.min) % (info.max - info.min + 1) + info.min for old, value in pairs]
        assert row.tolist() == expected


@pytest.mark.parametrize("run", [launch, debug])
@pytest.mark.parametrize("dtype", exhaustive(INTEGERS, (np.int32, np.uint64)))
def test_integers(dtype, run) -> None:
    compare(run, each_on_integers, OF_INTEGERS, dtype)
    if np.dtype(dtype).kind == "u":
        compare(run, around_the_ends, OF_UNSIGNED, dtype)


def each_on_floats(elements, operands, old):
    i = cuda.threadIdx.x
    old[0, i] = cuda.atomic.add(elements[0], i, operands[i])
    old[1, i] = cuda.atomic.sub(elements[1], i, operands[i])
    old[2, i] = cuda.atomic.max(elements[2], i, operands[i])
    old[3, i] = cuda.atomic.min(elements[3], i, operands[i])
    old[4, i] = cuda.atomic.nanmax(elements[4], i, operands[i])
    old[5, i] = cuda.atomic.nanmin(elements[5], i, operands[i])


@pytest.mark.parametrize("run", [launch, debug])
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_and_nan(dtype, run) -> None:
    values = [0.0, -1.5, 2.25, math.inf, -math.inf, math.nan, 0.1]
    pairs = np.array([(old, value) for old in values for value in values], dtype)
    first, second = pairs[:, 0], pairs[:, 1]
    elements, old = np.array([first] * 6), np.zeros((6, len(pairs)), dtype)
    run(each_on_floats, 1, len(pairs), elements, second, old)
    np.testing.assert_array_equal(old, np.array([first] * 6))
    with np.errstate(invalid="ignore"):
        expected = [
            first + second,
            first - second,
            np.where(second > first, second, first),  # a NaN in the element stays, a NaN for a value changes nothing
            np.where(second < first, second, first),
            np.fmax(first, second),  # NaN is a missing value
            np.fmin(first, second),
        ]
    np.testing.assert_array_equal(elements, np.array(expected))


@wd.kernel
def contend_for_integers(values, results, tickets):
    place = cuda.grid(1)
    cuda.atomic.add(results, 0, values[place])
    cuda.atomic.sub(results, 1, values[place])
    cuda.atomic.and_(results, 2, ~(1 << (values[place] % 20)))
    cuda.atomic.or_(results, 3, 1 << (values[place] % 20))
    cuda.atomic.xor(results, 4, values[place])
    cuda.atomic.max(results, 5, values[place])
    cuda.atomic.min(results, 6, values[place])
    tickets[0, cuda.atomic.add(results, 7, 1)] += 1
    tickets[1, cuda.atomic.exch(results, 8, values[place])] += 1
    old = results[9]
    while cuda.atomic.cas(results, 9, old, old + 1) != old:
        old = cuda.atomic.add(results, 9, 0)
    tickets[2, old] += 1


@wd.kernel
def contend_in_a_ring(results, tickets, length):
    tickets[0, cuda.atomic.inc(results, 0, length - 1), cuda.blockIdx.x] += 1
    tickets[1, cuda.atomic.dec(results, 1, length - 1), cuda.blockIdx.x] += 1


@pytest.mark.parametrize("dtype", exhaustive(INTEGERS, (np.int32, np.uint64)))
def test_nothing_is_lost_between_blocks(dtype) -> None:
    values = np.random.default_rng(1).permutation(TOTAL).astype(dtype)
    for _ in range(5):
        results = np.array([0, TOTAL * TOTAL, 2**20 - 1, 0, 0, 7, 10_000, 0, 0, 0], dtype)
        tickets = np.zeros((3, TOTAL), np.int32)
        contend_for_integers[BLOCKS, THREADS](values, results, tickets)
        total = TOTAL * (TOTAL - 1) // 2
        xor = np.bitwise_xor.reduce(values)
        last = int(results[8])
        expected = [total, TOTAL * TOTAL - total, 0, 2**20 - 1, xor, TOTAL - 1, 0, TOTAL, last, TOTAL]
        assert results.tolist() == expected
        # each ticket is drawn once; of the exchanged values, each but the last is handed on, and the first 0
        handed = np.ones(TOTAL)
        handed[last] -= 1
        handed[0] += 1
        np.testing.assert_array_equal(tickets, [np.ones(TOTAL), handed, np.ones(TOTAL)])


@pytest.mark.parametrize("dtype", exhaustive([np.uint32, np.uint64], (np.uint64,)))
def test_rings_go_round_between_blocks(dtype) -> None:
    length = 24  # does not divide the number of threads
    results, tickets = np.zeros(2, dtype), np.zeros((2, length, BLOCKS), np.int32)
    contend_in_a_ring[BLOCKS, THREADS](results, tickets, length)
    rounds, rest = divmod(TOTAL, length)
    places = np.arange(length)
    expected = [rounds + (places < rest), rounds + ((places == 0) | (places > length - rest))]
    np.testing.assert_array_equal(tickets.sum(2), expected)
    assert results.tolist() == [rest, (length - rest) % length]


@wd.kernel
def contend_for_floats(values, results):
    place = cuda.grid(1)
    value = values[place]
    cuda.atomic.add(results, 0, value)
    cuda.atomic.sub(results, 1, value)
    cuda.atomic.max(results, 2, value)
    cuda.atomic.min(results, 3, value)
    missing = math.nan if place % 3 else value
    cuda.atomic.nanmax(results, 4, missing)
    cuda.atomic.nanmin(results, 5, missing)


@pytest.mark.parametrize("dtype", exhaustive(FLOATS, (np.float32,)))
def test_no_sum_is_lost_between_blocks(dtype) -> None:
    values = np.random.default_rng(2).permutation(TOTAL).astype(dtype)
    for _ in range(5):
        results = np.array([0, 0, -1, 10_000, math.nan, math.nan], dtype)
        contend_for_floats[BLOCKS, THREADS](values, results)
        known = values[::3]
        assert results.tolist() == [values.sum(), -values.sum(), TOTAL - 1, 0, known.max(), known.min()]


def everywhere(cells, records, strided, out):
    """Shared and local arrays, views, a field of records, indices of several types in one tuple."""
    i = cuda.threadIdx.x
    counts = cuda.shared.array((2, 2), numba.uint64)
    own = cuda.local.array(2, numba.int64)
    if i == 0:
        for k in range(4):
            counts[k // 2, k % 2] = 0
    own[0] = own[1] = i
    cuda.syncthreads()
    cuda.atomic.add(counts, (np.int8(1), np.uint32(i % 2)), 1)
    cuda.atomic.inc(counts[0], i % 2, 3)
    cuda.atomic.xor(own, 1, 3)
    cuda.atomic.add(cells, (i % 2, np.int16(-1), cuda.blockIdx.x), 2)
    cuda.atomic.max(cells[1, 0], 1, i)
    cuda.atomic.add(records["hits"], i % 2, 1)
    cuda.atomic.min(records["nearest"], cuda.blockIdx.x, 10.0 - i)
    cuda.atomic.sub(strided[::2], 1, 1)
    cuda.syncthreads()
    out[cuda.grid(1)] = 1000 * counts[1, i % 2] + 100 * counts[0, i % 2] + own[0] + own[1]


RECORD = np.dtype([("kind", np.int8), ("hits", np.uint32), ("nearest", np.float64)], align=True)


@pytest.mark.parametrize("run", [launch, debug])
def test_arrays_of_every_kind(run) -> None:
    cells, records, strided = np.zeros((2, 3, 2), np.int32), np.zeros(2, RECORD), np.zeros(4, np.float32)
    records["nearest"] = 5.5
    out = np.zeros(20, np.int64)
    run(everywhere, 2, 10, cells, records, strided, out)
    assert cells.tolist() == [[[0, 0], [0, 0], [10, 10]], [[0, 9], [0, 0], [10, 10]]]
    assert records["hits"].tolist() == [10, 10] and records["nearest"].tolist() == [1.0, 1.0]
    assert records["kind"].tolist() == [0, 0] and strided.tolist() == [0, 0, -20, 0]
    assert out.tolist() == [5000 + 100 + i + (i ^ 3) for i in range(10)] * 2


def casts_operands(whole, real):
    cuda.atomic.add(whole, 0, 2.7)
    cuda.atomic.add(whole, 1, -0.5)
    cuda.atomic.max(whole, 2, np.int8(5))
    cuda.atomic.add(real, 0, 0.1)
    cuda.atomic.add(real, 1, True)


@pytest.mark.parametrize("run", [launch, debug])
def test_operands_become_what_the_array_holds(run) -> None:
    whole, real = np.full(3, -3, np.int32), np.full(2, 0.2, np.float32)
    run(casts_operands, 1, 1, whole, real)
    assert whole.tolist() == [-1, -3, 5]
    assert real.tolist() == [np.float32(0.2) + np.float32(0.1), np.float32(1.2)]


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


def test_locks_made_of_compare_and_swap() -> None:
    counter, lock, protected = np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1)
    by_compare_and_swap[BLOCKS, THREADS](counter, lock, protected)
    assert counter[0] == TOTAL and lock[0] == 0 and protected[0] == TOTAL


def hand_over(data, flags, got):
    """The last block to arrive reads what the others wrote."""
    if cuda.threadIdx.x == 0:
        data[cuda.blockIdx.x] = cuda.blockIdx.x + 1
        cuda.threadfence()
        if cuda.atomic.add(flags, 0, 1) == cuda.gridDim.x - 1:
            cuda.threadfence()
            for k in range(cuda.gridDim.x):
                got[0] += data[k]


def test_fences_order_what_blocks_hand_over() -> None:
    for _ in range(50):
        data, flags, got = np.zeros(500, np.int64), np.zeros(1, np.int32), np.zeros(1, np.int64)
        launch(hand_over, 500, 2, data, flags, got)
        assert got[0] == 500 * 501 // 2


def every_operation_at_once(numbers, unsigned):
    cuda.atomic.add(numbers, 0, 1)
    cuda.atomic.sub(numbers, 0, 1)
    cuda.atomic.and_(numbers, 0, 1)
    cuda.atomic.or_(numbers, 0, 1)
    cuda.atomic.xor(numbers, 0, 1)
    cuda.atomic.exch(numbers, 0, 1)
    cuda.atomic.max(numbers, 0, 1)
    cuda.atomic.min(numbers, 0, 1)
    cuda.atomic.nanmax(numbers, 0, 1)
    cuda.atomic.nanmin(numbers, 0, 1)
    cuda.atomic.cas(numbers, 0, 1, 1)
    cuda.atomic.compare_and_swap(numbers, 1, 1)
    cuda.atomic.inc(unsigned, 0, 1)
    cuda.atomic.dec(unsigned, 0, 1)


def test_no_operation_races_with_another() -> None:
    assert not wd.check_launch(every_operation_at_once, 2, 3, np.zeros(1, np.int32), np.zeros(1, np.uint32)).races


def add(array):
    cuda.atomic.add(array, 0, 1)


def inc(array):
    cuda.atomic.inc(array, 0, 1)


def exch(array):
    cuda.atomic.exch(array, 0, 1.0)


def cas(array):
    cuda.atomic.cas(array, 0, 1, 2)


def compare_and_swap(array):
    cuda.atomic.compare_and_swap(array, 1, 2)


def by_keyword(array):
    cuda.atomic.add(array, idx=0, val=1)


def too_few(array):
    cuda.atomic.cas(array, 0, 1)


def float_index(array):
    cuda.atomic.add(array, 0.5, 1)


def complex_value(array):
    cuda.atomic.add(array, 0, 1j)


def read_only(array):
    cuda.atomic.add(CONSTANT, 0, 1)


def unaligned_field(array):
    cuda.atomic.add(array["count"], 0, 1)


CONSTANT = np.arange(3)
PACKED = [("kind", np.int8), ("count", np.int32)]
REFUSED = [
    (add, np.int16, "cuda.atomic.add works on an array of int32, uint32, int64, uint64, float32 or float64"),
    (add, np.complex128, "cuda.atomic.add works on"),
    (add, np.bool_, "cuda.atomic.add works on"),
    (inc, np.int32, "cuda.atomic.inc works on an array of uint32 or uint64, found array.int32"),
    (exch, np.float32, "cuda.atomic.exch works on an array of int32, uint32, int64 or uint64"),
    (cas, np.float64, "cuda.atomic.cas works on"),
    (compare_and_swap, (np.int32, (2, 2)), "cuda.atomic.compare_and_swap needs 2 indices"),
    (add, (np.int32, (2, 2)), "cuda.atomic.add needs 2 indices .* found 1"),
    (by_keyword, np.int32, "cuda.atomic.add takes 3 arguments by position .array, index, value., found 1 and keywords"),
    (too_few, np.int32, "cuda.atomic.cas takes 4 arguments by position .array, index, expected, value., found 3"),
    (float_index, np.int32, "takes an integer for each axis as the index, found float64"),
    (complex_value, np.int32, "cuda.atomic.add takes numbers, found complex128"),
    (unaligned_field, PACKED, "cuda.atomic.add needs elements at multiples of their size: .*align=True"),
    (read_only, np.int32, "cuda.atomic.add changes an array, but this one is read-only"),
]


@pytest.mark.parametrize(("kernel", "dtype", "message"), REFUSED)
def test_what_a_gpu_refuses_is_refused(kernel, dtype, message) -> None:
    dtype, shape = dtype if isinstance(dtype, tuple) else (dtype, 3)
    line = inspect.getsourcelines(kernel)[1] + 1
    with pytest.raises(wd.errors.WarpDriveError, match=rf"test_atomics.py:{line}: .*{message}"):
        wd.kernel(kernel)[1, 1](np.zeros(shape, dtype))
