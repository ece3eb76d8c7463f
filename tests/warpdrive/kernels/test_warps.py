"""Functions of a warp: shuffles, votes, matches and masks, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from numba import cuda

import warpdrive as wd
from warpdrive.backends.numba_cuda.compile import compile_kernel
from warpdrive.backends.numba_cuda.fused import prepare
from warpdrive.kernels.errors import KernelError

FULL = 0xFFFFFFFF


@wd.kernel
def sum_by_shuffles(values, sums):
    i = cuda.grid(1)
    value = values[i]
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(FULL, value, offset)
        offset //= 2
    if cuda.laneid == 0:
        sums[i // 32] = value


@wd.kernel
def shuffle(values, found):
    i = cuda.grid(1)
    found[0, i] = cuda.shfl_sync(FULL, values[i], 5)
    found[1, i] = cuda.shfl_up_sync(FULL, values[i], 3)
    found[2, i] = cuda.shfl_down_sync(FULL, values[i], 3)
    found[3, i] = cuda.shfl_xor_sync(FULL, values[i], 9) + cuda.shfl_sync(FULL, values[i], i + 1)


@wd.kernel
def vote(values, found, flags):
    i = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    found[i, 0] = cuda.ballot_sync(FULL, values[i] > 2)
    flags[i, 0] = cuda.all_sync(FULL, values[i] > 2)
    flags[i, 1] = cuda.any_sync(FULL, values[i] > 2)
    flags[i, 2] = cuda.eq_sync(FULL, values[i] > 2)
    found[i, 1] = cuda.match_any_sync(FULL, values[i])
    found[i, 2], flags[i, 3] = cuda.match_all_sync(FULL, values[i])
    found[i, 3] = cuda.activemask()
    found[i, 4] = cuda.lanemask_lt()
    if values[i] > 2:  # only some threads take part
        found[i, 5] = cuda.activemask()
        found[i, 6] = cuda.ballot_sync(FULL, values[i] == 4)
        flags[i, 4] = cuda.all_sync(FULL, values[i] > 2)


@wd.device_function
def inclusive_sum(value):
    for power in range(5):
        below = cuda.shfl_up_sync(FULL, value, 1 << power)
        if cuda.laneid >= 1 << power:
            value += below
    return value


@wd.kernel
def scan_of_block(values, sums):
    """Inclusive scan of a block: of each warp, then of the sums of the warps, by the first warp alone."""
    totals = cuda.shared.array(32, np.float32)
    i = cuda.threadIdx.x
    warp = i // 32
    own = inclusive_sum(values[i])
    if cuda.laneid == 31:
        totals[warp] = own
    cuda.syncthreads()
    if warp == 0:
        totals[i] = inclusive_sum(totals[i] if i < cuda.blockDim.x // 32 else np.float32(0))
    cuda.syncthreads()
    sums[i] = own + (totals[warp - 1] if warp > 0 else np.float32(0))


@wd.kernel
def append_where(values, count, chosen):
    """Compaction with one atomic operation per warp, by its first active lane."""
    i = cuda.grid(1)
    if i < values.size and values[i] > 0:
        active = cuda.activemask()
        leader = cuda.ffs(active) - 1
        place = 0
        if cuda.laneid == leader:
            place = cuda.atomic.add(count, 0, cuda.popc(active))
        place = cuda.shfl_sync(active, place, leader)
        chosen[place + cuda.popc(active & cuda.lanemask_lt())] = values[i]


@wd.kernel
def vote_of_halves(values, found):
    i = cuda.threadIdx.x
    half = 0xFFFF if cuda.laneid < 16 else 0xFFFF0000
    found[i, 0] = cuda.ballot_sync(half, values[i] > 2)
    found[i, 1] = cuda.match_any_sync(half, values[i])
    found[i, 2] = cuda.all_sync(half, values[i] > 0)


def run(kernel: Any, in_python: bool) -> Any:
    return wd.debug(kernel) if in_python else kernel


in_both = pytest.mark.parametrize("in_python", [False, True], ids=["compiled", "interpreted"])


@in_both
@pytest.mark.parametrize("dtype", exhaustive([np.int64, np.float32], (np.float32,)))
def test_sums_by_shuffles(dtype: Any, in_python: bool) -> None:
    values = np.random.default_rng(0).integers(0, 100, 3 * 96).astype(dtype)
    sums = np.zeros(9, dtype)
    run(sum_by_shuffles, in_python)[3, 96](values, sums)
    np.testing.assert_array_equal(sums, values.reshape(9, 32).sum(1))


@in_both
def test_shuffles(in_python: bool) -> None:
    values = np.random.default_rng(1).integers(0, 1000, 64).astype(np.int32)
    found = np.zeros((4, 64), np.int32)
    run(shuffle, in_python)[1, 64](values, found)
    for first in (0, 32):
        warp, lane = values[first : first + 32], np.arange(32)
        own = found[:, first : first + 32]
        np.testing.assert_array_equal(own[0], np.full(32, warp[5]))
        np.testing.assert_array_equal(own[1], np.where(lane < 3, warp, np.roll(warp, 3)))
        np.testing.assert_array_equal(own[2], np.where(lane > 28, warp, np.roll(warp, -3)))
        np.testing.assert_array_equal(own[3], warp[lane ^ 9] + np.roll(warp, -1))


def bits(lanes: Any) -> int:
    return int(sum(1 << int(lane) for lane in np.flatnonzero(lanes)))


@in_both
@pytest.mark.parametrize("case", ["mixed", "equal"])
def test_votes(case: str, in_python: bool) -> None:
    """Blocks of 12 x 4 threads: the second warp has 16."""
    values = (
        np.random.default_rng(2).integers(0, 6, 48).astype(np.int32) if case == "mixed" else np.full(48, 4, np.int32)
    )
    found, flags = np.zeros((48, 7), np.uint32), np.zeros((48, 5), np.bool_)
    run(vote, in_python)[1, (12, 4)](values, found, flags)
    for i in range(48):
        warp, lane = values[i // 32 * 32 : i // 32 * 32 + 32], i % 32
        is_same = bool((warp == warp[0]).all())
        everyone = bits(warp == warp)
        expected = [bits(warp > 2), bits(warp == values[i]), everyone if is_same else 0, everyone, (1 << lane) - 1]
        expected += [bits(warp > 2), bits(warp == 4)] if values[i] > 2 else [0, 0]
        np.testing.assert_array_equal(found[i], np.array(expected, np.uint32))
        said = [(warp > 2).all(), (warp > 2).any(), len(set(warp > 2)) == 1, is_same, values[i] > 2]
        np.testing.assert_array_equal(flags[i], said)


@in_both
def test_votes_of_halves_of_a_warp(in_python: bool) -> None:
    values = np.random.default_rng(5).integers(0, 6, 32).astype(np.int32)
    values[:16] += 1
    found = np.zeros((32, 3), np.uint32)
    run(vote_of_halves, in_python)[1, 32](values, found)
    lanes = np.arange(32)
    for i in range(32):
        half = lanes // 16 == i // 16
        expected = [bits(half & (values > 2)), bits(half & (values == values[i])), (values[half] > 0).all()]
        np.testing.assert_array_equal(found[i], np.array(expected, np.uint32))


@in_both
def test_scan_of_a_block(in_python: bool) -> None:
    values = np.random.default_rng(3).integers(0, 100, 256).astype(np.float32)
    sums = np.zeros(256, np.float32)
    run(scan_of_block, in_python)[1, 256](values, sums)
    np.testing.assert_array_equal(sums, values.cumsum())


@in_both
def test_compaction(in_python: bool) -> None:
    values = np.random.default_rng(4).integers(-5, 6, 1000).astype(np.int32)
    count, chosen = np.zeros(1, np.int32), np.zeros(1000, np.int32)
    run(append_where, in_python)[8, 128](values, count, chosen)
    assert count[0] == (values > 0).sum()
    np.testing.assert_array_equal(np.sort(chosen[: count[0]]), np.sort(values[values > 0]))


def test_a_block_of_one_thread() -> None:
    found, flags = np.zeros((1, 7), np.uint32), np.zeros((1, 5), np.bool_)
    vote[1, 1](np.array([4], np.int32), found, flags)
    assert found.tolist() == [[1, 1, 1, 1, 0, 1, 1]]
    assert flags.tolist() == [[True] * 5]


def gpu_code(kernel: Any, agents: int, **arguments: torch.Tensor) -> str:
    fused = prepare(kernel, arguments, replicas=5)
    packing = fused.packing(agents)
    assert packing.replicas_per_warp == 0, "lanes are those of the author's block"
    return compile_kernel(fused.kernel, fused.parameters, packing, (9, 0)).ptx


def test_gpu_code_uses_the_instructions_of_warps() -> None:
    values, found, flags = (
        torch.zeros(8, dtype=torch.int32),
        torch.zeros(8, 7, dtype=torch.int64),
        torch.zeros(8, 5) > 0,
    )
    code = gpu_code(vote, 8, values=values, found=found, flags=flags)
    for instruction in (
        "vote.sync.ballot",
        "vote.sync.all",
        "vote.sync.any",
        "vote.sync.uni",
        "match.any",
        "match.all",
    ):
        assert instruction in code
    shuffles = gpu_code(shuffle, 8, values=values, found=torch.zeros(4, 8, dtype=torch.int32))
    for mode in ("idx", "up", "down", "bfly"):
        assert f"shfl.sync.{mode}" in shuffles


def test_gpus_refuse_several_agents_of_a_thread() -> None:
    values = torch.zeros(2000, dtype=torch.int32)
    with pytest.raises(KernelError, match=r"cuda\.shfl_sync works on a GPU for up to 1024 agents, found 2000"):
        gpu_code(shuffle, 2000, values=values, found=torch.zeros(4, 2000, dtype=torch.int32))


def test_no_warp_functions_beside_spin_locks() -> None:
    @wd.kernel
    def wait(lock):
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        lock[1] = cuda.shfl_sync(FULL, lock[1], 0)
        lock[0] = 0

    with pytest.raises(KernelError, match=r"cuda\.shfl_sync is not supported in a kernel whose threads wait"):
        wait[1, 32](np.zeros(2, np.int32))
