"""Reads of memory that nothing has written are reported with their lines."""

from __future__ import annotations

import numpy as np
import pytest
from marked_lines import marked_lines
from numba import cuda, float32, int32
from race_corpus import floats

import warpdrive as wd


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
def test_an_uninitialised_read_is_reported(kernel):
    (finding,) = wd.check_launch(kernel, 1, 4, floats(4)).uninitialised
    assert finding.array == "tile"
    assert set(finding.lines) == marked_lines(kernel)


@wd.device_function
def filled(row, length):
    for k in range(length):
        row[k] = 1


def test_writes_through_views_and_device_functions_count():
    @wd.kernel
    def three_of_two(x):
        own = cuda.local.array(4, float32)
        filled(own[1:], 2)
        x[cuda.threadIdx.x] = own[1] + own[2]
        x[cuda.threadIdx.x] += own[1:][2]  # here

    (finding,) = wd.check_launch(three_of_two, 1, 1, floats(1)).uninitialised
    assert (finding.array, finding.index, set(finding.lines)) == ("own", (3,), marked_lines(three_of_two))


def test_a_device_function_has_the_same_shared_array_in_every_call():
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


def test_dynamic_shared_memory_is_written_under_any_name():
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
    assert (finding.array, finding.index, set(finding.lines)) == ("words", (5,), marked_lines(two_names))


def test_shared_memory_is_new_in_every_block():
    @wd.kernel
    def written_by_the_first_block(x):
        tile = cuda.shared.array(1, float32)
        if cuda.blockIdx.x == 0:
            tile[0] = 1
        x[cuda.blockIdx.x] = tile[0]

    (finding,) = wd.check_launch(written_by_the_first_block, 2, 1, floats(2)).uninitialised
    assert finding.blocks == (1,)
