"""Every racy kernel of a corpus is reported, with its array and lines; of a clean corpus none is."""

from __future__ import annotations

import inspect

import clean_kernels  # noqa: F401 (fills CLEAN)
import numpy as np
import pytest
from numba import cuda, int32
from race_corpus import CLEAN, RACY, N, floats, zeros
from racy_kernels import deposit, shift_in_place

import warpdrive as wd


def test_the_corpora_are_large_enough():
    assert len(RACY) >= 40
    assert len(CLEAN) >= 30


@pytest.mark.parametrize("launch", RACY)
def test_a_racy_kernel_is_reported(launch):
    races = launch.check().races
    assert {race.array for race in races} == {launch.array}
    if launch.racy_lines:
        assert {line for race in races for line in race.lines} == launch.racy_lines


@pytest.mark.parametrize("launch", CLEAN)
def test_a_clean_kernel_is_not_reported(launch):
    report = launch.check()
    assert report.clean, str(report)
    assert not report.notes


def test_a_race_names_element_threads_blocks_and_both_lines():
    launch = next(case.values[0] for case in RACY if case.id == "read_of_the_neighbour_without_barrier")
    race = launch.check().races[0]
    write, read = sorted(launch.racy_lines, key=lambda line: int(line.rpartition(":")[2]))
    assert (race.array, race.index, race.threads, race.blocks) == ("x", (1,), (0, 1), (0, 0))
    assert set(race.lines) == {write, read}
    assert "with no barrier between" in race.message


def test_a_race_between_blocks_names_both_blocks():
    launch = next(case.values[0] for case in RACY if case.id == "blocks_overwrite")
    race = launch.check().races[0]
    assert race.blocks == (0, 1)
    assert race.count > 1


def test_threads_of_a_flat_block_are_numbers_and_others_positions():
    launch = next(case.values[0] for case in RACY if case.id == "transpose_in_place")
    first, second = launch.check().races[0].threads
    assert len(first) == len(second) == 3


@wd.kernel
def forgotten_barrier(x):
    i = cuda.threadIdx.x
    y = x[(i + 1) % 4]
    # cuda.syncthreads()
    x[i] = y


@wd.kernel
def forgotten_barrier_in_a_loop(x):
    i = cuda.threadIdx.x
    for _ in range(3):
        y = x[(i + 1) % 4]
        x[i] = y
        cuda.syncthreads()


@wd.kernel
def forgotten_barrier_at_the_end_of_a_loop(x):
    i = cuda.threadIdx.x
    for _ in range(3):
        y = x[(i + 1) % 4]
        cuda.syncthreads()
        x[i] = y


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (forgotten_barrier, "between the two lines"),
        (forgotten_barrier_in_a_loop, "between the two lines"),
        (forgotten_barrier_at_the_end_of_a_loop, "at the end of the loop's body"),
    ],
)
def test_the_place_of_a_forgotten_barrier_is_told(kernel, said):
    races = wd.check_launch(kernel, 1, 4, np.arange(4, dtype=np.int32)).races
    assert races and all(f"put cuda.syncthreads() {said}" in race.advice for race in races)


def test_a_race_in_a_device_function_has_its_line():
    launch = next(case.values[0] for case in RACY if case.id == "race_in_a_device_function")
    (race,) = launch.check().races
    assert (
        race.lines
        == (f"{inspect.getsourcefile(deposit.function)}:{inspect.getsourcelines(deposit.function)[1] + 2}",) * 2
    )


def test_arguments_that_share_memory_are_seen_as_one():
    @wd.kernel
    def through_two_names(x, rows):
        i = cuda.threadIdx.x
        x[i, 0] = i
        rows[(i + 1) % 4] = 9

    x = zeros(4, 1)
    races = {race.array: race for race in wd.check_launch(through_two_names, 1, 4, x, x.reshape(-1)).races}
    assert "'rows[1]' in block 0" in races["x"].message or "'x[0, 0]' is the same memory" in races["rows"].message
    assert "is the same memory" in races["rows"].message


def test_the_arguments_are_not_modified():
    x = floats(N)
    before = x.copy()
    wd.check_launch(shift_in_place, 1, N, x)
    np.testing.assert_array_equal(x, before)


RECORD = np.dtype([("mass", np.float32), ("place", np.float32, (2,)), ("id", np.int64)])


def test_fields_of_a_record_are_elements_of_their_own():
    @wd.kernel
    def two_fields(particles):
        if cuda.threadIdx.x == 0:
            particles[0].mass = 1
        elif cuda.threadIdx.x == 1:
            particles[0].id = 2
        else:
            particles[0].place[cuda.threadIdx.x - 2] = 3

    assert wd.check_launch(two_fields, 1, 4, np.zeros(1, RECORD)).clean

    @wd.kernel
    def a_field_and_the_whole(particles):
        if cuda.threadIdx.x == 0:
            particles[0].id = 2
        else:
            particles[1] = particles[0]

    (race,) = wd.check_launch(a_field_and_the_whole, 1, 2, np.zeros(2, RECORD)).races
    assert (race.array, race.index) == ("particles", (0,))
    assert "'particles[0].id'" in race.message


def test_arrays_in_a_tuple_are_followed_by_their_place_in_it():
    @wd.kernel
    def both(pair):
        i = cuda.threadIdx.x
        pair[0][0] += pair[1][i]

    pair = zeros(1), floats(4)
    report = wd.check_launch(both, 1, 4, pair)
    assert {race.array for race in report.races} == {"pair[0]"}
    assert not pair[0].any()


def test_arrays_of_other_dtypes_in_one_memory_are_seen_as_one():
    @wd.kernel
    def dynamic(out):
        narrow = cuda.shared.array(0, int32)
        wide = cuda.shared.array(0, np.float64)
        i = cuda.threadIdx.x
        if i == 0:
            wide[0] = 1.5  # bytes 0 to 7
        else:
            narrow[i] = 7  # of thread 1: bytes 4 to 7
        out[i] = 0

    races = wd.check_launch(dynamic, 1, 2, zeros(2), shared_bytes=16).races
    assert {race.array for race in races} == {"narrow"}
    assert "'wide[0]' is the same memory" in races[0].message

    @wd.kernel
    def apart(out):
        narrow = cuda.shared.array(0, int32)
        wide = cuda.shared.array(0, np.float64)
        i = cuda.threadIdx.x
        if i == 0:
            wide[1] = 1.5
        else:
            narrow[i] = 7
        out[i] = 0

    assert not wd.check_launch(apart, 1, 2, zeros(2), shared_bytes=16).races

    @wd.kernel
    def arguments(words, whole):
        if cuda.threadIdx.x == 0:
            whole[0] = 2**40
        else:
            words[1] = 7

    memory = np.zeros(2, np.int64)
    assert wd.check_launch(arguments, 1, 2, memory.view(np.int32), memory).races
