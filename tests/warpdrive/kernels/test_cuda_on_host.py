"""The CPU backend does with generated kernels what numba-cuda's own typing and lowering do, bit for bit.

``benchmarks/kernel_oracle.py`` does the same with thousands of them.
"""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

pytest.importorskip("numba.cuda.core.errors", reason="numba-cuda is not installed")

from cuda_on_host import DeadlockError, HostKernel
from oracle import REFUSED_BY_CUDA, SAME, examine

FIRST, KERNELS = 1_000_000, 5
"""The seed of the first kernel, and how many a test has."""


@pytest.mark.parametrize("chunk", range(20))
def test_generated_kernels_do_the_same(chunk, tmp_path):
    compare(chunk, tmp_path, gpu_code=False)


@pytest.mark.parametrize("chunk", range(20, 24))
def test_gpu_code_of_generated_kernels_does_the_same(chunk, tmp_path):
    compare(chunk, tmp_path, gpu_code=True)


def compare(chunk, folder, gpu_code):
    for seed in range(FIRST + chunk * KERNELS, FIRST + (chunk + 1) * KERNELS):
        outcome = examine(seed, folder, gpu_code)
        assert outcome.kind in (SAME, REFUSED_BY_CUDA), f"{outcome.kind}\n{outcome.detail}\n{outcome.text}"


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


def parted(x):
    if cuda.threadIdx.x < 3:
        cuda.syncthreads()
    else:
        x[0] = cuda.syncthreads_count(1)


def test_threads_at_different_barriers_are_told():
    x = np.zeros(1, np.int32)
    with pytest.raises(DeadlockError, match="different barriers"):
        HostKernel(parted, [x]).launch(1, 6, [x])
