"""Records: arrays of them, records themselves, fields of every kind, constants."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, from_dtype

import warpdrive as wd

FIELDS = [("kind", np.int8), ("x", np.float32), ("v", np.float32, (3,)), ("n", np.int64)]
ALIGNED, PACKED = np.dtype(FIELDS, align=True), np.dtype(FIELDS)
INNER = np.dtype([("p", np.float32), ("q", np.int32)], align=True)
NESTED = np.dtype([("k", np.int32), ("pair", INNER), ("pairs", INNER, (2,)), ("z", np.float64)], align=True)
NODE = from_dtype(np.dtype([("key", np.int32), ("weight", np.float32)], align=True))
TABLE = np.array([(1, 0.5), (2, 1.5), (3, 2.5)], np.dtype([("n", np.int64), ("x", np.float64)]))
SETTINGS = np.array((7, 0.25), TABLE.dtype)[()]


def every_way_to_a_field(records, out):
    i = cuda.grid(1)
    if i < records.shape[0]:
        mine = records[i]
        mine.x = mine.x + 1
        records[i].n += 2
        records["kind"][i] = 3
        records[i]["x"] *= 2
        mine.v[0] = 9
        out[i] = records[i].x + records.x[i] + mine["n"] + mine.v[1] + records["v"][i, 2] + records[i].kind


def fields_across_barriers(records, out):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    xs, vs = records["x"], records.v
    cuda.syncthreads()
    xs[i] += 1
    cuda.syncthreads()
    out[i] = xs[(i + 1) % n] + vs[i, 2] + xs.shape[0]


def records_in_records(records, out):
    i = cuda.grid(1)
    records[i].pair.p = 5 + i
    inner = records[i].pair
    inner.q += 2
    records[i].pairs[1].p = 7
    cuda.syncthreads()
    out[i] = records[i]["pair"]["p"] + inner.q + records["pair"]["q"][i] + records[i].pairs[1].p


def whole_records(records, out):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    staged = cuda.shared.array(8, ALIGNED)
    staged[i] = records[i]
    cuda.syncthreads()
    records[i] = staged[(i + 1) % n]
    total = 0.0
    for record in staged:
        total += record.x
    out[i] = total


def nodes(out):
    i = cuda.threadIdx.x
    heap = cuda.shared.array(8, NODE)
    own = cuda.local.array(shape=2, dtype=NODE)
    heap[i].key = i
    heap[i].weight = 0.5 * i
    own[1].key = 100 * i
    cuda.syncthreads()
    own[0] = heap[7 - i]
    out[i] = own[0].key + own[0].weight + own[1].key


def constant_records(out):
    i = cuda.threadIdx.x
    table = cuda.const.array_like(TABLE)
    out[i] = TABLE[i % 3].x + table[1].n + SETTINGS.x + SETTINGS["n"]


def one_record(record, out):
    i = cuda.threadIdx.x
    out[i] = record.x + record["n"] + record.v[1]
    cuda.syncthreads()
    if i == 0:
        record.x = 77
        record.v[2] = 5


def some(dtype=ALIGNED):
    records = np.zeros(8, dtype)
    records["x"], records["n"] = np.arange(8) + 0.5, np.arange(8) * 10
    records["v"] = np.arange(24).reshape(8, 3)
    return records


def nested():
    records = np.zeros(8, NESTED)
    records["pair"]["q"] = np.arange(8)
    return records


def run(kernel, *arguments):
    """Launch a kernel of one block of 8 threads; debug it too, compare, and check it."""
    given = [argument.copy() for argument in arguments]
    wd.kernel(kernel)[1, 8](*given)
    debugged = [argument.copy() for argument in arguments]
    wd.debug(kernel)[1, 8](*debugged)
    for found, expected in zip(given, debugged, strict=True):
        np.testing.assert_array_equal(found, expected)
    report = wd.check_launch(kernel, 1, 8, *arguments)
    assert not (report.races or report.bounds or report.uninitialised or report.order), report
    return given


@pytest.mark.parametrize("dtype", [ALIGNED, PACKED], ids=["aligned", "packed"])
def test_fields_are_read_and_written(dtype):
    before = some(dtype)
    records, out = run(every_way_to_a_field, before, np.zeros(8))
    x = 2 * (before["x"] + 1)
    np.testing.assert_array_equal(records["x"], x)
    np.testing.assert_array_equal(records["n"], before["n"] + 2)
    np.testing.assert_array_equal(records["kind"], 3)
    np.testing.assert_array_equal(records["v"][:, 0], 9)
    np.testing.assert_array_equal(out, 2 * x + before["n"] + 2 + before["v"][:, 1] + before["v"][:, 2] + 3)


def test_fields_as_arrays_live_across_barriers():
    before = some()
    _, out = run(fields_across_barriers, before, np.zeros(8))
    np.testing.assert_array_equal(out, np.roll(before["x"] + 1, -1) + before["v"][:, 2] + 8)


def test_records_in_records():
    records, out = run(records_in_records, nested(), np.zeros(8))
    i = np.arange(8)
    np.testing.assert_array_equal(records["pair"]["p"], 5 + i)
    np.testing.assert_array_equal(records["pairs"]["p"], np.stack([0 * i, 7 + 0 * i], 1))
    np.testing.assert_array_equal(out, 5 + i + 2 * (i + 2) + 7)


def test_whole_records_are_copied():
    before = some()
    records, out = run(whole_records, before, np.zeros(8))
    np.testing.assert_array_equal(records, np.roll(before, -1))
    np.testing.assert_array_equal(out, before["x"].sum())


def test_records_in_shared_and_local_memory_and_as_constants():
    i = np.arange(8)
    np.testing.assert_array_equal(run(nodes, np.zeros(8))[0], 7 - i + 0.5 * (7 - i) + 100 * i)
    np.testing.assert_array_equal(run(constant_records, np.zeros(8))[0], 0.5 + i % 3 + 2 + 0.25 + 7)


@pytest.mark.parametrize("made", [wd.kernel, wd.debug], ids=["kernel", "debug"])
def test_a_record_is_an_argument_that_the_kernel_may_change(made):
    record, out = some()[3], np.zeros(8)
    made(one_record)[1, 8](record, out)
    np.testing.assert_array_equal(out, 3.5 + 30 + 10)
    assert (record["x"], record["v"].tolist()) == (77, [9, 10, 5])


def test_checks_see_the_fields_of_a_record_that_is_an_argument():
    def racy(record):
        record.n += 1

    record = some()[3]
    (race, *_) = wd.check_launch(racy, 1, 8, record).races
    assert race.array == "record"
    assert record["n"] == 30
    assert not wd.check_launch(one_record, 1, 8, record, np.zeros(8)).races
