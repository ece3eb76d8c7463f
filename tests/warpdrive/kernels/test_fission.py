"""Blocks of one thread do a kernel stretch by stretch, many blocks at a time; each still gets its own results."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import warpdrive as wd
from warpdrive.backends.cpu.launch import bind
from warpdrive.kernels.fission import groups
from warpdrive.kernels.fusion import Barrier, Call, Fusion, When
from warpdrive.kernels.lowering import lower, resolve_kernel

BLOCKS = 600
"""More than are packed together."""


@wd.device_function
def draw(state, env):
    state[env] = (state[env] * 1103515245 + 12345) % 2147483648
    return state[env] % 7


@wd.kernel
def an_episode(state, total, length, log, n):
    """A kernel like the fused step of an environment with one agent."""
    env = cuda.blockIdx.x + cuda.blockIdx.y * cuda.gridDim.x
    length[env] += 1
    cuda.syncthreads()
    total[env] += draw(state, env)
    cuda.syncthreads()
    limit = n * 2
    done = total[env] > limit or length[env] > 5
    if done:
        log[env] += total[env]
        cuda.syncthreads()
        for i in range(3):
            log[env] += i * env
            cuda.syncthreads()
        total[env] = 0
        length[env] = 0
    cuda.syncthreads()
    log[env] += limit


@wd.kernel
def nothing_crosses_but_what_is_computed_anew(state, total, length, log, n):
    column, line = cuda.grid(2)
    row = (column + line * cuda.gridDim.x) * 2
    half = row // 2
    total[half] += n
    cuda.syncthreads()
    if total[half] % 3 == 0:
        return
    log[half] = total[half] + row
    cuda.syncwarp()
    total[half] = 0


@wd.kernel
def variables_cross(state, total, length, log, n):
    env = cuda.blockIdx.x + cuda.blockIdx.y * cuda.gridDim.x
    before = state[env] % 10
    own = cuda.local.array(3, np.int64)
    for i in range(3):
        own[i] = env * i
    cuda.syncthreads()
    state[env] = 0
    cuda.syncthreads()
    count = before
    cuda.syncthreads()
    while count > 0:
        total[env] += own[count % 3]
        count -= 1
        cuda.syncthreads()
    log[env] = before


@wd.kernel
def shared_memory_stays(state, total, length, log, n):
    env = cuda.blockIdx.x + cuda.blockIdx.y * cuda.gridDim.x
    memory = cuda.shared.array(4, np.int64)
    memory[env % 4] = state[env]
    cuda.syncthreads()
    total[env] = memory[env % 4] + n


@wd.kernel
def blocks_share_counters(state, total, length, log, n):
    """Every block adds to what all blocks use, in each stretch."""
    env = cuda.blockIdx.x + cuda.blockIdx.y * cuda.gridDim.x
    cuda.atomic.add(total, env % 5, 1)
    cuda.syncthreads()
    cuda.atomic.max(length, 0, state[env])
    cuda.syncthreads()
    cuda.atomic.add(log, 1, env)


def add_state(state, total, env):
    total[env] += state[env]


def count_states(state, length, env):
    cuda.atomic.add(length, state[env] % 7, 1)


@wd.kernel
def calls(state, total, length, log, n):
    env = cuda.blockIdx.x + cuda.blockIdx.y * cuda.gridDim.x
    add_state(state, total, env)
    state[env] = 3 * n
    log[env] = n
    add_state(state, total, env)
    add_state(total, log, env)


@wd.kernel
def calls_that_blocks_see(state, total, length, log, n):
    env = cuda.blockIdx.x + cuda.blockIdx.y * cuda.gridDim.x
    add_state(state, total, env)
    count_states(state, length, env)
    add_state(state, total, env)


@pytest.mark.parametrize(
    ("kernel", "count"),
    [
        (calls, 5),
        (calls_that_blocks_see, 1),
        (an_episode, 4),
        (nothing_crosses_but_what_is_computed_anew, 2),
        (variables_cross, 1),
        (shared_memory_stays, 1),
        (blocks_share_counters, 3),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_blocks_of_one_thread(check, kernel, count):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 1000, BLOCKS), *np.zeros((3, BLOCKS), np.int64)]
    arrays[1][:] = rng.integers(0, 9, BLOCKS)
    for _ in range(3):
        *arrays, _ = check(kernel, BLOCKS, 1, *arrays, 7)
    assert len(lower(resolve_kernel(kernel.source, {}), kernel.parameters[:4]).pieces) == count
    check(kernel, (BLOCKS // 2, 2), 1, *arrays, 7)


@wd.kernel
def one_at_a_time(lock, total, order):
    """Blocks that wait for each other's critical sections, which on a GPU they may."""
    env = cuda.blockIdx.x
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.syncthreads()
    total[0] = total[0] + env
    order[env] = total[1]
    total[1] += 1
    cuda.syncthreads()
    cuda.atomic.exch(lock, 0, 0)


def test_blocks_may_wait_for_each_other():
    lock, total, order = np.zeros(1, np.int32), np.zeros(2, np.int64), np.zeros(BLOCKS, np.int64)
    one_at_a_time[BLOCKS, 1](lock, total, order)
    assert total.tolist() == [BLOCKS * (BLOCKS - 1) // 2, BLOCKS]
    assert sorted(order.tolist()) == list(range(BLOCKS))


@wd.device_function
def advance(state):
    state[cuda.blockIdx.x, cuda.threadIdx.x] += 1


@wd.device_function
def is_over(state):
    return state[cuda.blockIdx.x, 0] % 3 == 0


@wd.device_function
def begin_anew(state, total):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    while state[env, agent] > 5:
        state[env, agent] -= 5
    cuda.syncthreads()
    total[env, agent] = state[env, (agent + 1) % cuda.blockDim.x]


@wd.device_function
def record(state, total):
    total[cuda.blockIdx.x, cuda.threadIdx.x] += 100 * state[cuda.blockIdx.x, 0]


def test_the_end_of_episodes_runs_apart_from_their_steps():
    """With several threads, too: values by NumPy."""
    end = When("over", (Barrier(), Call(begin_anew, ("state", "total")), Barrier()))
    steps = (
        Call(advance, ("state",)),
        Barrier(),
        Call(is_over, ("state",), "over"),
        end,
        Call(record, ("state", "total")),
    )
    kernel = Fusion("episode", ("state", "total"), steps).kernel()
    lowered = lower(resolve_kernel(kernel.source, {}), kernel.parameters, on_cpu=True)
    assert len(groups(lowered.parts, lowered.variables, [], lowered.device_functions)) == 3

    state = np.random.default_rng(0).integers(0, 100, (BLOCKS, 4))
    total = np.zeros_like(state)
    expected, over = state + 1, (state[:, 0] + 1) % 3 == 0
    shortened = np.where(expected > 5, (expected - 1) % 5 + 1, expected)
    expected[over] = shortened[over]
    bind(kernel, {"state": state, "total": total}, BLOCKS, 4)()
    assert (state == expected).all()
    assert (total == np.where(over[:, None], np.roll(expected, -1, 1), 0) + 100 * expected[:, :1]).all()
