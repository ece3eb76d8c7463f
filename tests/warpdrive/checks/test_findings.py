"""Bounds, uninitialised memory, divergence, order and NaN: findings with their locations, and clean kernels."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
from numba import cuda, float32, int32

import warpdrive as wd

FILE = __file__


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(1, 2, shape).astype(np.float32)


def marked(kernel: Any) -> set[str]:
    """Return the lines of a kernel that end with ``# here``."""
    lines, first = inspect.getsourcelines(kernel.function)
    return {f"{FILE}:{first + n}" for n, text in enumerate(lines) if text.rstrip().endswith("# here")}


@wd.device_function
def meet():
    cuda.syncthreads()


@wd.device_function
def endless(x):
    endless(x)


# --- bounds ---


@wd.kernel
def beyond_the_end(x):
    x[cuda.grid(1) + 1] = 1  # here


@wd.kernel
def read_beyond_the_end(x):
    i = cuda.grid(1)
    y = x[i + 1]  # here
    cuda.syncthreads()
    x[i] = y


@wd.kernel
def before_the_start(x):
    x[cuda.grid(1) - 5] = 1  # here


@wd.kernel
def wraps_around(x):
    i = cuda.threadIdx.x
    y = x[i - 1]  # here
    cuda.syncthreads()
    x[i] = y


@wd.kernel
def second_axis(x):
    x[0, cuda.threadIdx.x + 1] = 1  # here


@wd.kernel
def axes_exchanged(x):
    x[cuda.threadIdx.x, 0] = 1  # here


@wd.kernel
def atomic_outside(x):
    cuda.atomic.add(x, cuda.threadIdx.x + 1, 1)  # here


@wd.kernel
def row_outside(x):
    row = x[cuda.threadIdx.x]  # here
    row[0] = 1


@wd.kernel
def element_of_a_row_outside(x):
    row = x[0]
    row[cuda.threadIdx.x + 1] = 1  # here


@wd.kernel
def shared_outside(x):
    tile = cuda.shared.array(4, int32)
    i = cuda.threadIdx.x
    tile[i + 1] = i  # here
    cuda.syncthreads()
    x[i] = 0


@wd.kernel
def local_outside(x):
    own = cuda.local.array(2, int32)
    for k in range(3):
        own[k] = k  # here
    x[cuda.threadIdx.x] = own[0]


@wd.kernel
def more_threads_than_elements(x):
    if cuda.grid(1) <= x.shape[0]:
        x[cuda.grid(1)] = 1  # here


TABLE = np.arange(4, dtype=np.int32)


@wd.kernel
def constant_outside(x):
    x[cuda.threadIdx.x] = TABLE[cuda.threadIdx.x + 1]  # here


BOUNDS = [
    (constant_outside, 4, (4,), "TABLE", (4,), 3),
    (beyond_the_end, 4, (4,), "x", (4,), 3),
    (read_beyond_the_end, 4, (4,), "x", (4,), 3),
    (before_the_start, 1, (4,), "x", (-5,), 0),
    (wraps_around, 4, (4,), "x", (-1,), 0),
    (second_axis, 4, (2, 4), "x", (0, 4), 3),
    (axes_exchanged, 4, (3, 4), "x", (3, 0), 3),
    (atomic_outside, 4, (4,), "x", (4,), 3),
    (row_outside, 3, (2, 4), "x", (2,), 2),
    (element_of_a_row_outside, 4, (2, 4), "x", (4,), 3),
    (shared_outside, 4, (4,), "tile", (4,), 3),
    (local_outside, 1, (4,), "own", (2,), 0),
    (more_threads_than_elements, 8, (4,), "x", (4,), 4),
]


@pytest.mark.parametrize(("kernel", "threads", "shape", "array", "index", "thread"), BOUNDS)
def test_an_index_outside_of_an_array_is_reported(kernel, threads, shape, array, index, thread):
    (finding,) = wd.check_launch(kernel, 1, threads, np.zeros(shape, np.int32)).bounds
    assert (finding.array, finding.index, finding.threads) == (array, index, (thread,))
    assert set(finding.lines) == marked(kernel)
    assert "shape" in finding.message


def test_an_index_outside_of_a_view_tells_the_shape_of_the_view():
    @wd.kernel
    def beyond_a_slice(x):
        last = x[-2:]
        last[cuda.threadIdx.x] = 1

    (finding,) = wd.check_launch(beyond_a_slice, 1, 3, np.zeros(4, np.int32)).bounds
    assert "index 2 lies outside of a view of 'x', which has the shape (2,)" in finding.message


def test_neighbouring_memory_is_not_touched_by_an_index_outside():
    x = np.zeros(5, np.int32)
    wd.check_launch(beyond_the_end, 1, 4, x[:4])
    assert not x.any()


# --- uninitialised memory ---


@wd.kernel
def shared_never_written(x):
    tile = cuda.shared.array(8, float32)
    x[cuda.threadIdx.x] = tile[cuda.threadIdx.x]  # here


@wd.kernel
def shared_written_in_part(x):
    tile = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    if i < 3:
        tile[i] = i
    cuda.syncthreads()
    x[i] = tile[i]  # here


@wd.kernel
def local_never_written(x):
    tile = cuda.local.array(2, float32)
    tile[0] = 1
    x[cuda.threadIdx.x] = tile[0] + tile[1]  # here


@wd.kernel
def counter_in_shared_memory_never_cleared(x):
    tile = cuda.shared.array(1, int32)
    cuda.atomic.add(tile, 0, 1)  # here
    cuda.syncthreads()
    x[cuda.threadIdx.x] = 1


@wd.kernel
def variable_assigned_under_a_condition(x):
    if cuda.threadIdx.x < 2:
        tile = np.float32(1)
    x[cuda.threadIdx.x] = tile  # here


@pytest.mark.parametrize(
    "kernel",
    [
        shared_never_written,
        shared_written_in_part,
        local_never_written,
        counter_in_shared_memory_never_cleared,
        variable_assigned_under_a_condition,
    ],
)
def test_a_read_of_what_nothing_wrote_is_reported(kernel):
    (finding,) = wd.check_launch(kernel, 1, 4, floats(4)).uninitialised
    assert finding.array == "tile"
    assert set(finding.lines) == marked(kernel)


@wd.device_function
def filled(row, length):
    for k in range(length):
        row[k] = 1


def test_memory_written_in_part_through_views_and_device_functions_is_followed():
    @wd.kernel
    def three_of_two(x):
        own = cuda.local.array(4, float32)
        filled(own[1:], 2)
        x[cuda.threadIdx.x] = own[1] + own[2]
        x[cuda.threadIdx.x] += own[1:][2]  # here

    (finding,) = wd.check_launch(three_of_two, 1, 1, floats(1)).uninitialised
    assert (finding.array, finding.index, set(finding.lines)) == ("own", (3,), marked(three_of_two))


def test_an_array_in_shared_memory_is_one_wherever_its_function_is_called():
    @wd.device_function
    def box(value):
        kept = cuda.shared.array(1, float32)
        if value > 0:
            kept[0] = value
        cuda.syncthreads()
        return kept[0]

    @wd.kernel
    def puts_and_gets(x):
        first = box(x[0])
        cuda.syncthreads()
        x[cuda.threadIdx.x + 1] = first + box(np.float32(-1))

    assert wd.check_launch(puts_and_gets, 1, 2, floats(3)).clean


def test_dynamic_shared_memory_is_written_by_whatever_name():
    @wd.kernel
    def two_names(x):
        words = cuda.shared.array(0, int32)
        numbers = cuda.shared.array(0, float32)
        i = cuda.threadIdx.x
        numbers[i] = x[i]
        cuda.syncthreads()
        x[i] = np.float32(words[3 - i])
        if i == 0:
            x[0] = np.float32(words[5])  # here

    report = wd.check_launch(two_names, 2, 4, floats(4), shared_bytes=32)
    (finding,) = report.uninitialised
    assert (finding.array, finding.index, set(finding.lines)) == ("words", (5,), marked(two_names))


def test_shared_memory_is_new_in_every_block():
    @wd.kernel
    def written_by_the_first_block(x):
        tile = cuda.shared.array(1, float32)
        if cuda.blockIdx.x == 0:
            tile[0] = 1
        x[cuda.blockIdx.x] = tile[0]

    (finding,) = wd.check_launch(written_by_the_first_block, 2, 1, floats(2)).uninitialised
    assert finding.blocks == (1,)


# --- divergence ---


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
    assert {line for finding in findings for line in finding.lines} == marked(kernel)
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
    assert set(finding.lines) == marked(breaks)
    assert finding.threads == (1, 0)


def test_barriers_of_one_device_function_called_in_two_places_are_two():
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


# --- order ---


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
    assert set(finding.lines) == marked(kernel)


def test_the_order_of_blocks_counts_too():
    report = wd.check_launch(last_exchange, 4, 1, np.zeros(4, np.int32), np.zeros(1, np.int32))
    assert not report.order  # every block's only thread is 0

    @wd.kernel
    def last_block(out):
        cuda.atomic.exch(out, 0, cuda.blockIdx.x)

    assert wd.check_launch(last_block, 4, 1, np.zeros(1, np.int32)).order


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


# --- NaN ---


@wd.kernel
def logarithms(x, out):
    i = cuda.threadIdx.x
    y = math.log(x[i])
    out[i] = y  # here
    cuda.syncthreads()
    x[i] = out[i] + np.float32(1)


def test_nan_and_infinity_are_reported_on_request_the_first_first():
    arguments = np.array([1, -1, 0, 2], np.float32), np.zeros(4, np.float32)
    assert wd.check_launch(logarithms, 1, 4, *arguments).clean
    first, *_ = wd.check_launch(logarithms, 1, 4, *arguments, nan=True).nan
    assert (first.array, first.index, first.threads) == ("out", (1,), (1,))
    assert set(first.lines) == marked(logarithms)
    assert "nan" in first.message


def test_finite_numbers_are_not_reported():
    assert not wd.check_launch(logarithms, 1, 4, floats(4), floats(4), nan=True).nan


def test_division_by_zero_gives_infinity_as_on_a_device():
    @wd.kernel
    def inverse(x):
        x[0] = np.float32(1) / x[0]

    (finding,) = wd.check_launch(inverse, 1, 1, np.zeros(1, np.float32), nan=True).nan
    assert "inf" in finding.message


# --- arithmetic ---


@wd.kernel
def divides(x, i):
    x[0] = i[0] // i[1]  # here


@wd.kernel
def remains(x, i):
    x[0] = i[0] % (i[1] * 2)  # here


@wd.kernel
def divides_in_place(x, i):
    i[0] //= i[1]  # here


@wd.kernel
def shifts_too_far(x, i):
    x[0] = 1 << (i[0] + 61)  # here


@wd.kernel
def shifts_back(x, i):
    x[0] = i[0] >> (i[1] - 1)  # here


@wd.kernel
def to_a_negative_power(x, i):
    x[0] = i[0] ** (i[1] - 1)  # here


@wd.kernel
def converts_infinity(x, i):
    i[0] = int(x[0] / np.float32(i[1]))  # here


@wd.kernel
def converts_too_much(x, i):
    i[0] = np.int32(x[0] * np.float32(3e9))  # here


@wd.kernel
def converts_negative(x, i):
    x[0] = np.uint32(-x[0] - x[0])  # here


@wd.kernel
def stores_nan(x, i):
    i[0] = math.log(-x[0])  # here


@pytest.mark.parametrize(
    "kernel",
    [
        *(divides, remains, divides_in_place, shifts_too_far, shifts_back, to_a_negative_power),
        *(converts_infinity, converts_too_much, converts_negative, stores_nan),
    ],
)
def test_arithmetic_without_a_defined_result_is_reported(kernel):
    report = wd.check_launch(kernel, 1, 1, floats(1), np.array([3, 0], np.int32))
    (finding,) = report.arithmetic
    assert set(finding.lines) == marked(kernel)
    assert "no defined result" in finding.message and finding.advice


def test_arithmetic_with_a_defined_result_is_not_reported():
    @wd.kernel
    def hashes(x, i, u):
        i[0] = (i[0] * 1103515245 + 12345) // 7 % 5 - (-7) // 2
        u[0] = (u[0] ^ (u[0] >> 33)) * np.uint64(0xFF51AFD7ED558CCD) << 63
        i[1] = x[0] * np.float32(-2147483648)
        u[1] = np.uint8(np.float32(-0.5)) + 2**3
        x[0] = x[0] % np.float32(i[0] - i[0])

    arguments = np.ones(1, np.float32), np.array([3, 0], np.int32), np.array([2**63, 0], np.uint64)
    assert not wd.check_launch(hashes, 1, 1, *arguments).arithmetic


# --- broadcasts ---


@wd.kernel
def fills_its_row(x):
    x[cuda.threadIdx.x] = np.float32(0.5)  # here


def test_a_number_written_to_a_whole_row_is_reported():
    (finding,) = wd.check_launch(fills_its_row, 1, 2, np.zeros((2, 3), np.float32)).broadcasts
    assert (finding.array, set(finding.lines)) == ("x", marked(fills_its_row))
    assert "writes 0.5 to 3 elements of 'x' at once" in finding.message and "array[..., :]" in finding.advice


def test_a_row_that_is_meant_cleared_or_has_one_element_is_not_reported():
    @wd.kernel
    def rows(x, one):
        i = cuda.threadIdx.x
        x[i] = 0
        x[i, :] = 1
        x[i, 1:] = np.float32(2)
        one[i] = 3

    assert wd.check_launch(rows, 1, 2, np.zeros((2, 3), np.float32), np.zeros((2, 1), np.float32)).clean


# --- the report ---


def test_a_report_can_be_read():
    report = wd.check_launch(beyond_the_end, 1, 4, np.zeros(4, np.int32))
    assert not report.clean
    assert f"bounds  {next(iter(marked(beyond_the_end)))}: index 4 lies outside of 'x'" in str(report)
    assert "x[cuda.grid(1) + 1] = 1  # here" in str(report)
    assert "> use the element only where the index is less than shape[0], which is 4" in str(report)
    assert str(wd.check_launch(beyond_the_end, 1, 4, np.zeros(5, np.int32))) == "nothing found"


def test_every_finding_says_what_to_do():
    @wd.kernel
    def everything(x, out):
        own = cuda.local.array(1, float32)
        i = cuda.threadIdx.x
        out[0] = x[i + 1] * 0.5 + own[0]
        if i < 2:
            cuda.syncthreads()
        out[0] = math.log(x[i] - x[i])

    report = wd.check_launch(everything, 1, 4, floats(4), floats(1), nan=True)
    for kind in ("races", "bounds", "uninitialised", "divergence", "float64", "nan"):
        assert getattr(report, kind), kind
    for finding in report:
        assert finding.advice
        assert all(finding.sources), finding
    told = report.as_dict()
    assert not told["clean"]
    assert [finding["message"] for finding in told["races"]] == [finding.message for finding in report.races]


@pytest.mark.parametrize("kernel", [beyond_the_end.function, cuda.jit(beyond_the_end.function)])
def test_plain_functions_and_kernels_of_numba_are_checked_as_well(kernel):
    assert wd.check_launch(kernel, 1, 4, np.zeros(4, np.int32)).bounds


def test_tensors_are_checked_as_arrays():
    torch = pytest.importorskip("torch")
    x = torch.zeros(4, dtype=torch.int32)
    assert wd.check_launch(beyond_the_end, 1, 4, x).bounds
    assert not x.any()


def test_an_exception_in_a_kernel_has_the_authors_line():
    @wd.kernel
    def asserts(x):
        assert x[0] > np.float32(100)

    line = inspect.getsourcelines(asserts.function)[1] + 2
    with pytest.raises(wd.KernelError, match=rf"test_findings.py:{line}: thread 0 of block 0 stopped with Assert"):
        wd.check_launch(asserts, 1, 1, floats(1))


def counted(x):
    global FILE
    FILE = "assigned"
    x[0] = 1


def answers(x):
    x[0] = 1
    return 1


@pytest.mark.parametrize(
    ("function", "said"),
    [(counted, "'FILE' is a constant of the module"), (answers, "a kernel returns nothing")],
)
def test_what_is_not_part_of_the_kernel_language_is_refused_with_its_line(function, said):
    with pytest.raises(wd.KernelError, match=rf"test_findings.py:\d+: {said}"):
        wd.check_launch(function, 1, 1, floats(1))


def test_endless_recursion_and_what_cannot_be_checked_is_refused_with_its_line():
    @wd.kernel
    def of_the_host(x):
        x[0] = cuda.to_device(x)[0]

    with pytest.raises(wd.KernelError, match=r"test_findings.py:\d+: cuda.to_device is not part of the"):
        wd.check_launch(of_the_host, 1, 1, floats(1))

    @wd.kernel
    def calls_itself(x):
        endless(x)

    with pytest.raises(wd.KernelError, match=r"thread 0 of block 0 stopped with RecursionError"):
        wd.check_launch(calls_itself, 1, 1, floats(1))


def test_a_wrong_number_of_arguments_is_refused():
    with pytest.raises(wd.KernelError, match=r"takes 1 arguments \(x\), found 2"):
        wd.check_launch(beyond_the_end, 1, 4, floats(4), 1)
