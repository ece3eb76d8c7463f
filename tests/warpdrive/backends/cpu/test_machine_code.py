"""Assumptions about numba, and properties of compiled kernels on any machine."""

from __future__ import annotations

import gc
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
import torch
from numba import cuda
from numba.core.codegen import JITCodeLibrary

import warpdrive as wd
from warpdrive.backends.cpu.launch import bind
from warpdrive.backends.host import workers
from warpdrive.backends.host.compiler import EntryCompiler, FunctionCompiler
from warpdrive.backends.host.functions import FUNCTION_DECORATOR
from warpdrive.backends.shared.cache import CACHE_VARIABLE


def test_numba_compiles_without_its_runtime(tmp_path):
    """The library compiles with numba's private flag ``_nrt=False``, which halves compile time.

    It relies on this: the flag exists, arrays and views of them can be passed, sliced and indexed under it, and what
    would take memory from the heap is an error when it is compiled.
    """
    assert "_nrt=False" in FUNCTION_DECORATOR

    @numba.njit(_nrt=False)
    def last_of(row):
        return row[1:][-1]

    @numba.njit(_nrt=False)
    def through_views(array):
        total = 0.0
        for row in range(array.shape[0]):
            total += last_of(array[row]) + array.T[0, row]
        return total

    array = np.arange(6.0).reshape(2, 3)
    assert through_views(array) == 2 + 5 + 0 + 3

    # in a process of its own: what numba has compiled with its runtime before, it would use again
    program = tmp_path / "takes_memory.py"
    program.write_text(TAKES_MEMORY)
    assert subprocess.run([sys.executable, program], capture_output=True, text=True).stdout == "refused"


TAKES_MEMORY = """
import numba
import numpy as np


@numba.njit(_nrt=False)
def takes_memory(n):
    return np.zeros(n)[0]


try:
    takes_memory(3)
except numba.core.errors.NumbaError:
    print("refused", end="")
"""


@wd.kernel
def views_of_views(array, out):
    row = array[cuda.blockIdx.x]
    part = row[1:-1][::2]
    out[cuda.blockIdx.x, cuda.threadIdx.x] = part[cuda.threadIdx.x % part.shape[0]]
    cuda.syncthreads()
    other = array[:, cuda.threadIdx.x][cuda.blockIdx.x :]
    out[cuda.blockIdx.x, cuda.threadIdx.x] += other[0]


def test_kernels_hold_no_memory_back():
    """Launches with views of arrays neither free nor keep what is not theirs."""
    for _ in range(300):
        array, out = torch.rand(5, 8), np.zeros((5, 8))
        expected = array.numpy()[:, 1:-1][:, ::2][:, [0, 1, 2] * 2 + [0, 1]].astype(float) + array.numpy()
        views_of_views[5, 8](array, out)
        np.testing.assert_allclose(out, expected, rtol=1e-6)


@wd.kernel
def smoothed(old, new):
    tile = cuda.shared.array((18, 18), np.float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row, column = cuda.blockIdx.y * 16 + y + 1, cuda.blockIdx.x * 16 + x + 1
    tile[y + 1, x + 1] = old[row, column]
    if y == 0:
        tile[0, x + 1] = old[row - 1, column]
    if y == 15:
        tile[17, x + 1] = old[row + 1, column]
    if x == 0:
        tile[y + 1, 0] = old[row, column - 1]
    if x == 15:
        tile[y + 1, 17] = old[row, column + 1]
    cuda.syncthreads()
    new[row, column] = tile[y, x + 1] + tile[y + 2, x + 1] + tile[y + 1, x] + tile[y + 1, x + 2]


def test_blocks_of_two_axes_go_through_memory_in_its_order(tmp_path, monkeypatch):
    """LLVM takes threads side by side along x, whose elements lie beside each other, not along y, with a stride."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))  # code from the cache cannot be looked at
    old, new = np.random.default_rng(0).random((66, 1026), np.float32), np.zeros((66, 1026), np.float32)
    bind(smoothed, {"old": old, "new": new}, (64, 4), (16, 16))()
    expected = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
    np.testing.assert_array_equal(new[1:-1, 1:-1], expected)
    (compiled,) = smoothed.memory["cpu"].values()
    code = compiled.module.entry.inspect_llvm()
    assert "gather" not in code and "scatter" not in code


@wd.kernel
def through_two_names(first, second):
    env = cuda.blockIdx.x
    first[env] = second[env] + 1
    second[env] = 2 * first[env]
    first[env] += second[env]


@pytest.mark.parametrize("distance", [0, 1, 100])
def test_arrays_of_a_fused_kernel_may_share_memory(distance, monkeypatch):
    """The whole memory, a part of it, or none: accesses happen in the order in which they are written."""
    monkeypatch.setattr(workers, "_num_threads", 1)
    memory, blocks = np.random.default_rng(0).integers(0, 9, 200), 90
    expected = memory.copy()
    for env in range(blocks):
        expected[env] = expected[env + distance] + 1
        expected[env + distance] = 2 * expected[env]
        expected[env] += expected[env + distance]
    bind(through_two_names, {"first": memory[:100], "second": memory[distance : distance + 100]}, blocks, 1)()
    np.testing.assert_array_equal(memory, expected)


@wd.kernel
def through_four_names(first, first_again, second, second_again):
    env = cuda.blockIdx.x
    first[env] += second_again[env]
    second[env] += first_again[env]


def test_code_does_not_depend_on_where_arrays_lie():
    memory = np.zeros(200)
    for first, second in ((memory[:100], memory[100:]), (memory[100:], memory[:100])):
        views = {"first": first, "first_again": first, "second": second, "second_again": second}
        bind(through_four_names, views, 70, 1)
    assert len(through_four_names.memory["cpu"]) == 1


PROGRAM = """
import hashlib
import numpy as np
from numba import cuda
import warpdrive as wd


@wd.kernel
def chaos(values, out):
    block, i, n = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    x = values[block, i]
    for k in range(50):
        out[block, i] = x
        cuda.syncthreads()
        x = np.float32(3.9) * x * (np.float32(1) - x) + np.float32(1e-3) * out[block, (i + k) % n]
        cuda.syncthreads()
    out[block, i] = x


values = np.random.default_rng(0).random((301, 33), dtype=np.float32)
out = np.zeros_like(values)
chaos[301, 33](values, out)
print(hashlib.sha256(out.tobytes()).hexdigest())
"""


def test_results_do_not_depend_on_the_number_of_threads(tmp_path):
    program = tmp_path / "chaos.py"
    program.write_text(PROGRAM)
    digests = {
        subprocess.run(
            [sys.executable, str(program)],
            env={**os.environ, "NUMBA_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in "12"
    }
    assert len(digests) == 1 and len(digests.pop().strip()) == hashlib.sha256().digest_size * 2


@wd.device_function
def twice(x):
    return 2 * x


@wd.device_function
def twice_and_one(x):
    return twice(x) + 1


@wd.kernel
def doubles_between_barriers(values):
    thread = cuda.threadIdx.x
    doubled = twice_and_one(values[thread])
    cuda.syncthreads()
    values[(thread + 1) % 4] = doubled


def test_device_functions_become_no_machine_code_of_their_own(monkeypatch):
    """They are linked into the kernel that calls them."""
    wd.kernel(doubles_between_barriers.function)[1, 1](np.zeros(4))  # what all kernels share is compiled
    made = []
    finalize = JITCodeLibrary._finalize_specific
    monkeypatch.setattr(
        JITCodeLibrary, "_finalize_specific", lambda library: (made.append(library.name), finalize(library))
    )
    values = np.arange(4.0)
    doubles_between_barriers[1, 4](values)
    np.testing.assert_array_equal(values, [7, 1, 3, 5])
    assert "entry" in made and not [name for name in made if "twice" in name]


def test_garbage_is_collected_again_after_compiling():
    wd.kernel(doubles_between_barriers.function)[1, 4](np.zeros(4, np.float32))
    assert gc.isenabled()


def test_a_deleted_function_leaves_those_with_its_content():
    options = dict.fromkeys(("nogil", "no_cpython_wrapper", "no_cfunc_wrapper"), True)
    options |= {"_nrt": False, "error_model": "numpy", "pipeline_class": FunctionCompiler}

    def new_function():
        def thrice_and_one(x):
            return 3 * x + 1

        return numba.njit(**options)(thrice_and_one)

    first, second = new_function(), new_function()
    for function in (first, second):
        function.compile((numba.int64,))
    del first, function
    gc.collect()
    caller = numba.cfunc("int64(int64)", pipeline_class=EntryCompiler, _nrt=False)(lambda x: second(x) + 1)
    assert caller.ctypes(5) == 17


def test_one_thread_gets_quickly_compiled_code_with_the_same_results():
    def total(values, out):
        for value in values:
            out[0] += value * value

    kernel, values = wd.kernel(total), np.random.default_rng(0).random(1000)
    results = []
    for threads, compiler in ((1, "QuickCompiler"), (2, "EntryCompiler")):
        out = np.zeros(1)
        kernel[1, threads](values[:500], out)
        results.append(out[0] / threads)
        (compiled,) = [code for key, code in kernel.memory["cpu"].items() if key[-1].block == (threads, 1, 1)]
        assert f"pipeline_class={compiler}, _nrt" in Path(compiled.module.__file__).read_text()
    assert results[0] == np.cumsum(values[:500] * values[:500])[-1]
    assert np.isclose(results[1], results[0])
