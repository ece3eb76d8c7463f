"""Threads that wait for each other without a barrier, by atomics and memory alone: values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import warpdrive as wd
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.kernel import kernel as kernel_of
from warpdrive.kernels.lowering import resolve_kernel
from warpdrive.kernels.waiting import are_own_locks, waiting_loops


def zeros(*shape):
    return np.zeros(shape, np.int32)


def acquire(mutex):
    while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
        cuda.nanosleep(8)


def flags(mail, out):
    me = cuda.threadIdx.x
    if me == 0:
        while mail[0] == 0:
            pass
        out[0] = mail[0] * 10
        cuda.threadfence()
        mail[1] = 7
    elif me == 1:
        mail[0] = 4
        while mail[1] == 0:
            pass
        out[1] = mail[1] + 1


def served_under_a_lock(mutex, mail, replies, evens):
    """The holder of the lock waits for the last thread, which squares the value; all others wait for the lock."""
    shared = cuda.shared.array(1, np.int32)
    me, last = cuda.threadIdx.x, cuda.blockDim.x - 1
    if me == 0:
        shared[0] = 1
    cuda.syncthreads()
    if me == last:
        for _ in range(last):
            while mail[0] == 0:
                pass
            value = mail[0]
            mail[0] = 0
            mail[1] = value * value
    else:
        acquire(mutex)
        mail[1] = 0
        mail[0] = me + shared[0]
        while mail[1] == 0:
            pass
        replies[me] = mail[1]
        cuda.atomic.exch(mutex, 0, 0)
    evens[me] = cuda.syncthreads_count(replies[me] % 2 == 0)


def relay(seen, out, step):
    """Block b waits for block b + step; the last in that direction begins."""
    b = cuda.blockIdx.x
    before = b + step
    if cuda.threadIdx.x == 0:
        value = 0
        if 0 <= before < cuda.gridDim.x:
            while cuda.atomic.add(seen, before, 0) == 0:
                pass
            value = out[before]
        out[b] = value + b
        cuda.threadfence()
        cuda.atomic.exch(seen, b, 1)


def ticket_lock(tickets, serving, log):
    """Served in the order of the tickets, which the threads of a block draw backwards: all wait for the last one."""
    me = cuda.threadIdx.x
    while tickets[0] != cuda.blockDim.x - 1 - me:
        pass
    mine = cuda.atomic.add(tickets, 0, 1)
    while serving[0] != mine:
        pass
    log[serving[0]] = me
    cuda.threadfence()
    serving[0] += 1


def grid_barrier(arrived, values, out):
    """All blocks wait for each other, twice, with a barrier of the block within the loop."""
    done = cuda.shared.array(1, np.int32)
    b, me = cuda.blockIdx.x, cuda.threadIdx.x
    total = 0
    for turn in range(2):
        values[turn, b] = (turn + 1) * (b + 1)
        cuda.threadfence()
        cuda.syncthreads()
        if me == 0:
            cuda.atomic.add(arrived, turn, 1)
        while True:
            if me == 0:
                done[0] = arrived[turn] == cuda.gridDim.x
            cuda.syncthreads()
            if done[0]:
                break
            cuda.syncthreads()
        for other in range(cuda.gridDim.x):
            total += values[turn, other]
        cuda.syncthreads()
    out[b, me] = total


def lone_flag(flag):
    if cuda.threadIdx.x > 1:
        while flag[cuda.blockIdx.x] == 0:
            pass
    cuda.syncthreads()


def fails(index):
    me = cuda.threadIdx.x
    assert me != 2, "the third thread"
    while index[0] == 0:
        if me == 1:
            index[0] = 1


def test_flags_there_and_back():
    mail, out = zeros(2), zeros(2)
    wd.kernel(flags)[1, 2](mail, out)
    assert list(out) == [40, 8]


def test_a_lock_under_which_threads_wait():
    mail, replies, evens = zeros(2), zeros(6), zeros(6)
    wd.kernel(served_under_a_lock)[1, 6](zeros(1), mail, replies, evens)
    assert list(replies) == [1, 4, 9, 16, 25, 0]
    assert list(evens) == [3] * 6


@pytest.mark.parametrize("blocks", [5, 3000])
@pytest.mark.parametrize("step", [-1, 1])
def test_blocks_wait_for_their_neighbours(blocks, step):
    seen, out = zeros(blocks), zeros(blocks)
    wd.kernel(relay)[blocks, 4](seen, out, step)
    sums = np.arange(blocks).cumsum()
    assert (out == (sums if step < 0 else sums[-1] - sums + np.arange(blocks))).all()


def test_tickets_are_served_in_their_order():
    log = zeros(7)
    wd.kernel(ticket_lock)[1, 7](zeros(1), zeros(1), log)
    assert list(log) == [6, 5, 4, 3, 2, 1, 0]


def test_a_barrier_of_the_grid_written_by_hand():
    out = zeros(4, 40)
    wd.kernel(grid_barrier)[4, 40](zeros(2), zeros(2, 4), out)
    assert (out == (1 + 2 + 3 + 4) * 3).all()


def test_a_launch_that_waits_for_ever_says_where_and_the_next_one_runs():
    kernel = wd.kernel(lone_flag)
    with pytest.raises(KernelError) as raised:
        kernel[2, 8](zeros(2))
    text = str(raised.value)
    assert "kernel 'lone_flag' is deadlocked" in text
    assert "thread 0 of block 0 and 3 more at" in text and "cuda.syncthreads()" in text
    assert "thread 2 of block 0 and 11 more at" in text and "while flag[cuda.blockIdx.x] == 0:" in text
    kernel[2, 8](zeros(2) + 1)


def test_assertions_are_told():
    with pytest.raises(KernelError, match="the third thread"):
        wd.kernel(fails)[1, 4](zeros(1))


def waits_for_a_variable(a):
    seen = a[0]
    while seen == 0:
        seen = a[0]


def waits_and_counts(a, spins):
    n = 0
    while a[0] == 0:
        n += 1
        cuda.atomic.add(spins, 0, 1)
    spins[1] = n


def waits_until_done(lock):
    done = False
    while not done:
        if cuda.atomic.cas(lock, 0, 0, 1) == 0:
            done = True
    cuda.syncthreads()
    cuda.atomic.exch(lock, 0, 0)


def waits_for_all(flags):
    while True:
        n = 0
        for k in range(32):
            n += flags[k]
        if n == 32:
            break


def waits_with_patience(a):
    for _ in range(1_000_000):
        if a[0] != 0:
            break


def waits_in_phases(flag):
    p = 0
    while p < 3:
        if flag[p] == 1:
            p += 1


def waits_in_a_function(lock, a):
    acquire(lock)
    a[0] += 1
    cuda.atomic.exch(lock, 0, 0)


def locks_and_unlocks(lock, a):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    a[0] += 1
    cuda.atomic.exch(lock, 0, 0)


def locks_and_unlocks_within(lock, a):
    done = False
    while not done:
        if cuda.atomic.cas(lock, 0, 0, 1) == 0:
            a[0] += 1
            cuda.atomic.exch(lock, 0, 0)
            done = True


def searches(a, x, out):
    low, high = 0, a.size
    while low < high:
        middle = (low + high) // 2
        if a[middle] < x:
            low = middle + 1
        else:
            high = middle
    out[0] = low


def follows_pointers(parent, x, out):
    while parent[x] != x:
        x = parent[x]
    out[0] = x


def swaps_what_it_read(a, v):
    while True:
        old = a[0]
        if cuda.atomic.cas(a, 0, old, old * v) == old:
            break


def takes_tasks(a, n):
    task = cuda.atomic.add(a, 0, 1)
    while task < n:
        task = cuda.atomic.add(a, 0, 1)


def counts_down(a):
    i = cuda.grid(1)
    while a[i] > 0:
        a[i] -= 1


def converges(a, changed):
    i = cuda.threadIdx.x
    while True:
        cuda.syncthreads()
        changed[0] = 0
        cuda.syncthreads()
        if i > 0 and a[i - 1] < a[i]:
            a[i] = a[i - 1]
            changed[0] = 1
        cuda.syncthreads()
        if changed[0] == 0:
            break


def iterates(a, out):
    x = a[0]
    for _ in range(20):
        step = (x * x - a[0]) / (2 * x)
        x -= step
        if abs(step) < 1e-6:
            break
    out[0] = x


def draws_until_free(rng, taken, out):
    cell, free = 0, False
    while not free:
        cell = wd.random.integer(rng, cuda.blockIdx.x, cuda.threadIdx.x, 64)
        free = taken[cell] == 0
    out[0] = cell


CASES = [
    *(waits_for_a_variable, waits_and_counts, waits_until_done, waits_for_all, waits_with_patience, waits_in_phases),
    *(waits_in_a_function, locks_and_unlocks, locks_and_unlocks_within, searches, follows_pointers),
    *(swaps_what_it_read, takes_tasks, counts_down, converges, iterates, draws_until_free),
]


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_which_loops_wait(function):
    """Also which take locks that every thread gives back before anything can wait for it: they run as they did."""
    name, resolved = function.__name__, resolve_kernel(kernel_of(function).source, {})
    loops = waiting_loops([*resolved.function.callees(), resolved.function], resolved.table)
    assert bool(loops) == name.startswith(("waits", "locks"))
    assert not loops or are_own_locks(resolved.function, loops) == name.startswith("locks")
