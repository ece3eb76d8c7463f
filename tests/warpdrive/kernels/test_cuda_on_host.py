"""The CPU backend does with generated kernels what numba-cuda's own typing and lowering do, bit for bit.

``benchmarks/kernel_oracle.py`` does the same with thousands of them.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import cuda

pytest.importorskip("numba.cuda.core.errors", reason="numba-cuda is not installed")

from cuda_on_host import DeadlockError, HostKernel
from exhaustive import exhaustive
from generated_kernels import Generator
from oracle import CPU, GPU, REFUSED_BY_CUDA, SAME, examine, launch_gpu_code
from paths import SUPPORT

import warpdrive as wd

FIRST, KERNELS = 1_000_000, 2
"""The seed of the first kernel, and how many a test has."""


@pytest.mark.parametrize("chunk", exhaustive(range(20), (15,)))
def test_generated_kernels_do_the_same(chunk, tmp_path):
    """Those of five chunks are compiled for GPUs, too."""
    targets = (CPU, GPU) if chunk >= 15 else (CPU,)
    for seed in range(FIRST + chunk * KERNELS, FIRST + (chunk + 1) * KERNELS):
        outcome = examine(seed, tmp_path, targets)
        assert outcome.kind in (SAME, REFUSED_BY_CUDA), f"{outcome.kind}\n{outcome.detail}\n{outcome.text}"


def test_a_seed_generates_the_same_kernel_in_every_process():
    """Among these are seeds whose kernel followed the order of a set, which differs between processes."""
    seeds = (12, 16, 18, 29, 31)
    program = f"from generated_kernels import Generator; print(*(Generator(seed).text() for seed in {seeds}), sep='')"
    command, variables = [sys.executable, "-c", program], {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run(command, env=variables, cwd=SUPPORT, capture_output=True, text=True, check=True)
    assert done.stdout == "".join(Generator(seed).text() for seed in seeds) + "\n"


def turned(x, out):
    i, n = cuda.threadIdx.x, cuda.blockDim.x
    shared = cuda.shared.array(64, np.int32)
    shared[i] = x[cuda.blockIdx.x, i]
    if x[cuda.blockIdx.x, i] < 0:
        return
    cuda.syncthreads()
    total = cuda.syncthreads_count(int(shared[i] & 1))
    cuda.atomic.add(out, (cuda.blockIdx.x, n), shared[n - 1 - i])
    out[cuda.blockIdx.x, i] = shared[n - 1 - i] * 100 + total


def test_what_the_oracle_itself_computes():
    """By hand: threads leave, others read what they wrote before, and count without them."""
    x = np.random.default_rng(0).integers(-2, 9, (3, 40)).astype(np.int32)
    out = np.zeros((3, 41), np.int32)
    HostKernel(turned, [x, out]).launch(3, 40, [x, out])
    stays = x >= 0
    odd = ((x % 2 == 1) & stays).sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(out[:, :40], np.where(stays, x[:, ::-1] * 100 + odd, 0))
    np.testing.assert_array_equal(out[:, 40], np.where(stays, x[:, ::-1], 0).sum(axis=1))


def counts_to_integers_of_all_kinds(u, s, b, out):
    """A loop variable is int32, int64 or uint64, as the numbers of its range: then its complement, say, is another."""
    i = cuda.threadIdx.x
    for k in range(u[i]):
        cuda.syncthreads()
        out[i, 0] += ~k / 2
    for k in range(s[0], u[3]):  # of int32 and uint64: int32
        cuda.syncthreads()
        out[i, 1] += k // np.uint64(3)
    for k in range(b[0], s[1], s[2]):  # of uint8 and int32: int32
        cuda.syncthreads()
        out[i, 2] += cuda.clz(k)
    for k in range(u[4], 3):  # of uint64 and int64: int64
        cuda.syncthreads()
        out[i, 3] += k
    for k in range(u[4]):  # counted as a signed number: none
        cuda.syncthreads()
        out[i, 4] += k


def reads_before_it_becomes_a_float(a, out):
    """The first test compares an integer, the later ones a float, in a loop with a barrier and in one that returns."""
    i = cuda.threadIdx.x
    x, k = a[i], 0
    while x != 9007199254740993 and k < 3:
        k += 1
        cuda.syncthreads()
        out[i, 0] += 1
        x = k / 2
    x = a[i]
    while x != 9007199254740993:
        out[i, 1] += 1
        x = x + 0.5
        if x > 3:
            return
    cuda.syncthreads()
    out[i, 2] += x


@pytest.mark.parametrize("gpu_code", [False, True])
def test_loops_have_numbas_types(gpu_code):
    unsigned, signed, small = np.array([3, 1, 2, 4, 2**64 - 2], np.uint64), np.array([0, 7, 2], np.int32), np.uint8([1])
    numbers = 9007199254740993 + np.arange(-2, 3)
    for kernel, given in (
        (counts_to_integers_of_all_kinds, [unsigned, signed, small]),
        (reads_before_it_becomes_a_float, [numbers]),
    ):
        expected, found = np.zeros((2, 5, 5))
        HostKernel(kernel, [*given, expected]).launch(1, 5, [*given, expected])
        if gpu_code:
            launch_gpu_code(kernel, 1, 5, [*given, found])
        else:
            wd.kernel(kernel)[1, 5](*given, found)
        np.testing.assert_array_equal(found, expected)


def parted(x):
    if cuda.threadIdx.x < 3:
        cuda.syncthreads()
    else:
        x[0] = cuda.syncthreads_count(1)


def test_threads_at_different_barriers_are_told():
    x = np.zeros(1, np.int32)
    with pytest.raises(DeadlockError, match="different barriers"):
        HostKernel(parted, [x]).launch(1, 6, [x])
