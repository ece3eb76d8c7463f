"""Threads that make what others take, across barriers."""

from __future__ import annotations

import numba
import numpy as np
from numba import cuda, float32, int32

from .cases import case, close, equal

SLOTS = 4
WORKERS = 8


@cuda.jit
def ring_buffer(items, out, slots_used):
    """One half fills a ring of slots, the other empties it, several rounds behind."""
    ring = cuda.shared.array((SLOTS, WORKERS), int32)
    t = cuda.threadIdx.x
    is_producer = t < WORKERS
    lane = t % WORKERS
    n = items.shape[0]
    total = 0
    for turn in range(n + SLOTS - 1):
        if is_producer:
            if turn < n:
                ring[turn % SLOTS, lane] = items[turn, lane] * 2 + 1
        elif turn >= SLOTS - 1:
            total += ring[(turn - SLOTS + 1) % SLOTS, lane]
        cuda.syncthreads()
    if not is_producer:
        out[lane] = total
    elif lane == 0:
        slots_used[0] = min(n, SLOTS)


@case
def ring_of_slots(launch, rng):
    items = rng.integers(-9, 9, (7, WORKERS)).astype(np.int32)
    out, used = np.zeros(WORKERS, np.int32), np.zeros(1, np.int32)
    launch(ring_buffer, 1, 2 * WORKERS, items, out, used)
    equal(out, (2 * items + 1).sum(axis=0))
    equal(used, [4])


@cuda.jit
def pipeline(numbers, out):
    """Three stages by three groups of threads; each hands over what it has to the next at every barrier."""
    first = cuda.shared.array((2, 4), numba.int64)
    second = cuda.shared.array((2, 4), numba.int64)
    stage, lane = cuda.threadIdx.y, cuda.threadIdx.x
    rounds = numbers.shape[0] + 2
    for r in range(rounds):
        into, fro = r & 1, (r + 1) & 1
        if stage == 0 and r < numbers.shape[0]:
            first[into, lane] = numbers[r, lane] + 1
        if stage == 1 and 1 <= r <= numbers.shape[0]:
            second[into, lane] = first[fro, lane] * first[fro, lane]
        if stage == 2 and r >= 2:
            out[r - 2, lane] = second[fro, lane] - 1
        cuda.syncthreads()


@case
def three_stages(launch, rng):
    numbers = rng.integers(-9, 9, (5, 4))
    out = np.zeros((5, 4), np.int64)
    launch(pipeline, 1, (4, 3), numbers, out)
    equal(out, (numbers + 1) ** 2 - 1)


@cuda.jit
def baton(order, log):
    """A baton goes from hand to hand: at each step one thread writes and says who is next."""
    turn = cuda.shared.array(1, int32)
    me = cuda.threadIdx.x
    if me == 0:
        turn[0] = order[0]
    cuda.syncthreads()
    for step in range(order.size):
        mine = turn[0] == me
        cuda.syncthreads()
        if mine:
            log[step] = me * 100 + step
            if step + 1 < order.size:
                turn[0] = order[step + 1]
        cuda.syncthreads()


@case
def hand_to_hand(launch, rng):
    order = rng.integers(0, WORKERS, 10).astype(np.int32)
    log = np.zeros(10, np.int32)
    launch(baton, 1, WORKERS, order, log)
    equal(log, order * 100 + np.arange(10))


@cuda.jit
def work_queue(tasks, results, taken):
    """Persistent threads take tasks from a counter until there are none; who does what does not show."""
    while True:
        task = cuda.atomic.add(taken, 0, 1)
        if task >= tasks.shape[0]:
            break
        n, steps = tasks[task], 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        results[task] = steps


def collatz(n):
    return 0 if n == 1 else 1 + collatz(n // 2 if n % 2 == 0 else 3 * n + 1)


@case
def tasks_from_a_counter(launch, rng):
    tasks = rng.integers(1, 40, 20)
    results, taken = np.zeros(20, np.int32), np.zeros(1, np.int32)
    launch(work_queue, 2, 4, tasks, results, taken)
    equal(results, [collatz(int(n)) for n in tasks])
    equal(taken, 20 + 8)


@cuda.jit
def block_queue(tasks, results, taken):
    """A block takes a task as a whole: one thread asks, all work."""
    task = cuda.shared.array(1, int32)
    partial = cuda.shared.array(WORKERS, int32)
    t = cuda.threadIdx.x
    while True:
        if t == 0:
            task[0] = cuda.atomic.add(taken, 0, 1)
        cuda.syncthreads()
        current = task[0]
        cuda.syncthreads()
        if current >= tasks.shape[0]:
            return
        partial[t] = tasks[current, t]
        cuda.syncthreads()
        if t == 0:
            total = 0
            for k in range(WORKERS):
                total += partial[k]
            results[current] = total


@case
def tasks_for_blocks(launch, rng):
    tasks = rng.integers(-9, 9, (9, WORKERS)).astype(np.int32)
    results = np.zeros(9, np.int32)
    launch(block_queue, 3, WORKERS, tasks, results, np.zeros(1, np.int32))
    equal(results, tasks.sum(axis=1))


@cuda.jit
def double_buffer(stream, out, weight):
    """Loads the next piece while this one is used, with two arrays that swap their names by an index."""
    buffers = cuda.shared.array((2, WORKERS), float32)
    t = cuda.threadIdx.x
    pieces = stream.shape[0] // WORKERS
    current = 0
    buffers[current, t] = stream[t]
    cuda.syncthreads()
    for piece in range(pieces):
        upcoming = current ^ 1
        if piece + 1 < pieces:
            buffers[upcoming, t] = stream[(piece + 1) * WORKERS + t]
        left = buffers[current, (t + WORKERS - 1) % WORKERS]
        right = buffers[current, (t + 1) % WORKERS]
        out[piece * WORKERS + t] = weight * buffers[current, t] + left + right
        cuda.syncthreads()
        current = upcoming


@case
def pieces_loaded_ahead(launch, rng):
    stream = rng.integers(-9, 9, 5 * WORKERS).astype(np.float32)
    out = np.zeros_like(stream)
    launch(double_buffer, 1, WORKERS, stream, out, np.float32(2))
    rows = stream.reshape(5, WORKERS)
    equal(out, (2 * rows + np.roll(rows, 1, 1) + np.roll(rows, -1, 1)).ravel())


@cuda.jit
def guarded_by_a_lock(mutex, account, deposits):
    """A lock taken by one thread of each block."""
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        account[0] = account[0] + deposits[cuda.blockIdx.x]
        account[1] = account[1] + 1
        cuda.threadfence()
        cuda.atomic.exch(mutex, 0, 0)
    cuda.syncthreads()


@case
def a_lock(launch, rng):
    deposits = rng.integers(1, 50, 6)
    mutex, account = np.zeros(1, np.int32), np.zeros(2, np.int64)
    launch(guarded_by_a_lock, 6, 4, mutex, account, deposits)
    equal(account, [deposits.sum(), 6])
    equal(mutex, 0)


@cuda.jit
def broadcast_by_turns(values, out):
    """Every thread is the producer once; the value it sends depends on what it heard before."""
    slot = cuda.shared.array(1, numba.float64)
    t = cuda.threadIdx.x
    mine = values[t]
    for sender in range(cuda.blockDim.x):
        if t == sender:
            slot[0] = mine
        cuda.syncthreads()
        if t != sender:
            mine = 0.5 * mine + 0.25 * slot[0]
        cuda.syncthreads()
    out[t] = mine


@case
def everybody_sends_once(launch, rng):
    values = rng.normal(size=5)
    out = np.zeros(5)
    launch(broadcast_by_turns, 1, 5, values, out)
    step = values.copy()
    for sender in range(5):
        step = np.where(np.arange(5) == sender, step, 0.5 * step + 0.25 * step[sender])
    close(out, step, rtol=1e-12)
