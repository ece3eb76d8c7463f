"""Barriers that count, and barriers of a warp."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import warpdrive as wd


def all_three(values, out):
    env, i = cuda.blockIdx.x, cuda.threadIdx.x
    x = values[env, i]
    out[env, i, 0] = cuda.syncthreads_count(x > 3)
    out[env, i, 1] = cuda.syncthreads_and(x > 3)
    found = cuda.syncthreads_or(x > 8)
    out[env, i, 2] = found
    out[env, i, 3] = 10 * cuda.syncthreads_count(x) + found


def of_those_still_there(values, out):
    env, i = cuda.blockIdx.x, cuda.threadIdx.x
    if values[env, i] == 0:
        return
    out[env, i, 0] = cuda.syncthreads_and(values[env, i] > 0)
    out[env, i, 1] = cuda.syncthreads_count(1)


def until_all_are_done(values, out):
    env, i = cuda.blockIdx.x, cuda.threadIdx.x
    left = values[env, i]
    rounds = 0
    while cuda.syncthreads_or(left > 0):
        if left > 0:
            left -= 1
        rounds += 1
    out[env, i, 0] = rounds
    out[env, i, 1] = left


def in_every_round(values, out):
    env, i = cuda.blockIdx.x, cuda.threadIdx.x
    total = 0
    for limit in range(6):
        above = cuda.syncthreads_count(values[env, i] > limit)
        if above < 3:
            break
        total += above
        if cuda.syncthreads_and(values[env, i] > limit) and limit > 0:
            continue
        total += 100
    out[env, i, 0] = total


def majority(value, threshold):
    if cuda.syncthreads_count(value > threshold) * 2 > cuda.blockDim.x:
        return 1
    return 0


def in_functions(values, out):
    env, i = cuda.blockIdx.x, cuda.threadIdx.x
    first = majority(values[env, i], 2) + 2 * majority(values[env, i], 6)
    out[env, i, 0] = first
    if first > 0:
        out[env, i, 1] = majority(values[env, i], 4) or majority(values[env, i], 1)


def beside_side_effects(values, out):
    env, i = cuda.blockIdx.x, cuda.threadIdx.x
    seen = cuda.shared.array(16, np.int32)
    seen[i] = values[env, i]
    count = cuda.syncthreads_count(values[env, i] % 2 == 0)
    out[env, i, 0] = seen[(i + count) % cuda.blockDim.x]
    out[env, i, 1] = count if values[env, i] > 4 else -count


def warps_by_turns(values, out):
    env, i = cuda.blockIdx.x, cuda.threadIdx.x
    staged = cuda.shared.array(64, np.int32)
    lane = i % 32
    warp = i // 32
    staged[i] = values[env, i]
    cuda.syncwarp()
    if warp == 0:
        partial = staged[lane ^ 1]
        cuda.syncwarp(0xFFFFFFFF)
        staged[i] += partial
        cuda.syncwarp()
        out[env, i, 0] = staged[31 - lane]
    cuda.syncthreads()
    out[env, i, 1] = staged[(i + 32) % cuda.blockDim.x]


KERNELS = [all_three, of_those_still_there, until_all_are_done, in_every_round, in_functions, beside_side_effects]


def run(check, kernel, threads, seed=0):
    values = np.random.default_rng(seed).integers(0, 10, (5, threads)).astype(np.int32)
    values[3] = 7
    _, out = check(kernel, 5, threads, values, np.zeros((5, threads, 4), np.int32))
    return values, out


@pytest.mark.parametrize("threads", [1, 13])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_votes_agree_with_the_interpreter(check, kernel, threads):
    run(check, kernel, threads)


def test_votes_are_those_of_numpy(check):
    values, out = run(check, all_three, 13)
    expected = [(values > 3).sum(1), (values > 3).all(1), (values > 8).any(1)]
    expected.append(10 * (values != 0).sum(1) + (values > 8).any(1))
    np.testing.assert_array_equal(out, np.broadcast_to(np.stack(expected, -1)[:, None], out.shape))


def test_threads_that_have_returned_do_not_vote(check):
    values, out = run(check, of_those_still_there, 13)
    there = values != 0
    assert (~there).any()
    np.testing.assert_array_equal(out[..., 0], there)
    np.testing.assert_array_equal(out[..., 1], np.where(there, there.sum(1, keepdims=True), 0))


def test_a_loop_goes_on_until_all_threads_are_done(check):
    values, out = run(check, until_all_are_done, 13)
    np.testing.assert_array_equal(out[..., 0], np.broadcast_to(values.max(1, keepdims=True), values.shape))


def test_a_barrier_of_a_warp_lets_its_threads_see_what_they_wrote(check):
    values = np.random.default_rng(1).integers(0, 10, (3, 64)).astype(np.int32)
    _, out = check(warps_by_turns, 3, 64, values, np.zeros((3, 64, 4), np.int32), uniform=False)
    sums = values.copy()
    sums[:, :32] += values[:, np.arange(32) ^ 1]
    np.testing.assert_array_equal(out[:, :32, 0], sums[:, 31::-1])
    np.testing.assert_array_equal(out[..., 1], np.roll(sums, -32, axis=1))


@pytest.mark.parametrize("kernel", [*KERNELS, warps_by_turns], ids=lambda kernel: kernel.__name__)
def test_checks_and_the_debugger_know_them(kernel):
    threads = 64 if kernel is warps_by_turns else 13
    values = np.random.default_rng(0).integers(0, 10, (2, threads)).astype(np.int32)
    compiled, debugged = (np.zeros((2, threads, 4), np.int32) for _ in range(2))
    wd.kernel(kernel)[2, threads](values, compiled)
    wd.debug(kernel)[2, threads](values, debugged)
    np.testing.assert_array_equal(compiled, debugged)
    assert not wd.check_launch(kernel, 2, threads, values, compiled).races
