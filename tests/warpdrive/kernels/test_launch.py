"""Kernel launches: configurations, arguments, dynamic shared memory."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from numba import cuda, float32, int32

import warpdrive as wd
from warpdrive.kernels import kernel as kernels

HALF = np.float32(0.5)


def scale(out, factor=2, offset=HALF):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = out[i] * factor + offset


def reverse_in_parts(values, out):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    memory = cuda.shared.array(0, float32)
    integers = cuda.shared.array(shape=0, dtype=int32)
    first, second = memory[:n], memory[n:]
    first[i] = values[cuda.blockIdx.x, i]
    second[n - 1 - i] = 2 * values[cuda.blockIdx.x, i]
    cuda.syncthreads()
    out[cuda.blockIdx.x, i, 0] = first[n - 1 - i] + second[i]
    out[cuda.blockIdx.x, i, 1] = integers[i]
    out[cuda.blockIdx.x, i, 2] = memory.size
    out[cuda.blockIdx.x, i, 3] = length_of_doubles()


def length_of_doubles():
    return cuda.shared.array(0, np.float64).shape[0]


def line_of(function):
    return inspect.getsourcelines(function)[1]


ONES = np.ones(100, np.float32)


@pytest.mark.parametrize(
    "configuration",
    [
        (4, 32),
        (np.int64(4), np.int32(32)),
        ((4,), (32, 1)),
        ([4, 1], [32]),
        (4, 32, 0),
        (4, 32, None, 0),
        (4, 32, object(), 16),
    ],
)
def test_configurations_as_numba_takes_them(configuration):
    out, debugged = ONES.copy(), ONES.copy()
    wd.kernel(scale)[configuration](out)
    wd.debug(scale)[configuration](debugged)
    np.testing.assert_array_equal(out, np.full(100, 2.5, np.float32))
    np.testing.assert_array_equal(out, debugged)


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        ((100 / 32, 32), "found 3.125; for n elements and m threads in a block write (n + m - 1) // m blocks"),
        ((4, 0), "a positive number of threads, or up to three of them; found 0"),
        ((4, (2, 2, 2, 2)), "found (2, 2, 2, 2)"),
        ((1, 1025), "(1025, 1, 1) threads; a GPU has at most (1024, 1024, 64)"),
        ((1, (64, 64)), "4096 threads in a block; a GPU has at most 1024"),
        (((1, 70000), 1), "(1, 70000, 1) blocks"),
        ((4, 32, 0, -1), "-1 bytes of shared memory: expected 0 to"),
        ((4, 32, 0, 2**20), "1048576 bytes of shared memory"),
        ((4, 32, 0, 0, 0), "found k[4, 32, 0, 0, 0]"),
        (4, "launched as k[blocks, threads](...)"),
    ],
)
@pytest.mark.parametrize("made", [wd.kernel, wd.debug], ids=["kernel", "debug"])
def test_what_no_gpu_takes_is_refused(made, configuration, said):
    with pytest.raises(wd.KernelError) as error:
        made(scale)[configuration](ONES.copy())
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("given", "named", "expected"),
    [
        ((), {}, 2.5),
        ((3,), {}, 3.5),
        ((), {"factor": 3}, 3.5),
        ((3,), {"offset": np.float32(4)}, 7.0),
        ((), {"offset": np.float32(1), "factor": 5}, 6.0),
    ],
)
@pytest.mark.parametrize("made", [wd.kernel, wd.debug], ids=["kernel", "debug"])
def test_arguments_by_name_and_by_default(made, given, named, expected):
    out = ONES.copy()
    launch = made(scale)[4, 32]
    for _ in range(2):
        out[:] = 1
        launch(out, *given, **named)
        np.testing.assert_array_equal(out, np.full(100, expected, np.float32))
    out[:] = 1
    launch(factor=1, offset=np.float32(1), out=out)
    np.testing.assert_array_equal(out, np.full(100, 2, np.float32))


@pytest.mark.parametrize(
    ("given", "named", "said"),
    [
        ((), {}, "takes 3 arguments (out, factor, offset), found 0"),
        ((ONES, 1, 1, 1), {}, "takes 3 arguments (out, factor, offset), found 4"),
        ((ONES,), {"factr": 1}, "has no 'factr'. Did you mean 'factor'?"),
        ((ONES,), {"out": 1}, "is given 'out' twice"),
    ],
)
def test_arguments_that_do_not_fit(given, named, said):
    with pytest.raises(wd.KernelError, match=rf"test_launch.py:{line_of(scale)}: ") as error:
        wd.kernel(scale)[4, 32](*given, **named)
    assert said in str(error.value)


@pytest.mark.parametrize("options", [{}, {"tpb": 7}, {"tpb": 64, "stream": 0, "sharedmem": 128}], ids=str)
@pytest.mark.parametrize("length", [0, 1, 100, 1000])
def test_forall_has_a_thread_for_each_task(options, length):
    out = np.ones(length, np.float32)
    wd.kernel(scale).forall(length, **options)(out, factor=3)
    np.testing.assert_array_equal(out, np.full(length, 3.5, np.float32))


def test_launchers_of_many_configurations_are_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr(kernels, "MAX_LAUNCHERS", 4)
    kernel = wd.kernel(scale)
    for blocks in (*range(1, 10), 1):
        out = np.ones(blocks, np.float32)
        kernel[blocks, 1](out, 3)
        np.testing.assert_array_equal(out, np.full(blocks, 3.5, np.float32))
    assert len(kernel._launchers) == len(kernel.memory["launchers"]) == 4


def test_streams_are_told_apart_by_their_handles():
    class Stream:
        def __init__(self, handle):
            self.handle = handle

        def __repr__(self):
            return "<Stream at an address>"

    kernel = wd.kernel(scale)
    assert kernel[1, 2, Stream(16)] is kernel[1, 2, Stream(16)]
    assert kernel[1, 2, Stream(16)] is not kernel[1, 2, Stream(32)]


def test_a_launch_is_configured_by_name():
    out = ONES.copy()
    wd.kernel(scale).configure(blockdim=32, griddim=4, sharedmem=16)(out)
    np.testing.assert_array_equal(out, np.full(100, 2.5, np.float32))


def staged(out):
    memory = cuda.shared.array((len(SIZES), max(SIZES)), int32)
    memory[1, cuda.threadIdx.x] = cuda.threadIdx.x
    out[cuda.threadIdx.x] = memory.size + memory[1, cuda.threadIdx.x]


SIZES = (4, 9, 2)


def staged_by_variables(out, width):
    rows = 3
    columns = rows * rows
    memory = cuda.shared.array((rows, columns), int32)
    own = helper_array(columns + rows, width)
    memory[1, cuda.threadIdx.x] = cuda.threadIdx.x
    out[cuda.threadIdx.x] = memory.size + memory[1, cuda.threadIdx.x] + own


def helper_array(size, width):
    double = 2 * width
    memory = cuda.local.array((size, double), float32)
    return memory.size


def of_the_same_dtype(values, out):
    i = cuda.threadIdx.x
    memory = cuda.shared.array(8, dtype=values.dtype)
    memory[i] = values[i]
    cuda.syncthreads()
    out[i] = memory[7 - i] + rounded(values[i], values, int32) * 1000 + rounded(values[i], values)


def rounded(value, like, kind=np.float64):
    own = cuda.local.array(1, kind)
    same = cuda.local.array(2, dtype=like.dtype)
    same[0] = value
    own[0] = same[0]
    return own[0]


@pytest.mark.parametrize("made", [wd.kernel, wd.debug], ids=["kernel", "debug"])
def test_the_dtype_of_an_array_is_that_of_another_or_given(made):
    for dtype in (np.float32, np.int16, np.float64):
        values, out = (np.arange(8) * 1.3).astype(dtype), np.zeros(8)
        made(of_the_same_dtype)[1, 8](values, out)
        np.testing.assert_array_equal(out, values[::-1] + values.astype(np.int32) * 1000.0 + values)


def test_the_shape_of_an_array_is_computed_from_variables_that_are_constant():
    out = np.zeros(9, np.int32)
    wd.kernel(staged_by_variables)[1, 9](out, 5)
    np.testing.assert_array_equal(out, 27 + np.arange(9) + 12 * 10)


def test_the_shape_of_an_array_is_computed_from_constants():
    out = np.zeros(9, np.int32)
    wd.kernel(staged)[1, 9](out)
    np.testing.assert_array_equal(out, 27 + np.arange(9))


def test_dynamic_shared_memory_is_one_memory_for_all_dtypes():
    values = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    outs = np.zeros((2, 3, 8, 4), np.float32)
    for out, made in zip(outs, (wd.kernel, wd.debug), strict=True):
        made(reverse_in_parts)[3, 8, 0, 72](values, out)
    np.testing.assert_array_equal(outs[0], outs[1])
    out = outs[0]
    np.testing.assert_array_equal(out[..., 0], values[:, ::-1] + 2 * values[:, ::-1])
    np.testing.assert_array_equal(out[..., 1], values.view(np.int32).astype(np.float32))
    assert (out[..., 2] == 18).all()
    assert (out[..., 3] == 9).all()
    assert not wd.check_launch(reverse_in_parts, 3, 8, values, out, shared_bytes=72).races
    wd.kernel(reverse_in_parts)[3, 8, 0, 128](values, out)  # another size
    assert (out[..., 2] == 32).all()


def test_dynamic_shared_memory_needs_a_size():
    with pytest.raises(wd.KernelError, match=rf"test_launch.py:{line_of(reverse_in_parts)}: .* k\[blocks, threads, 0"):
        wd.kernel(reverse_in_parts)[1, 8](np.zeros((1, 8), np.float32), np.zeros((1, 8, 4), np.float32))
