"""Thread pool that distributes the blocks of a launch over the cores.

A launch is split into parts, which the calling thread and its helpers take in turn. The caller does not wait for
helpers without a part: if another program, or PyTorch's own threads, occupy the other cores, the calling thread does
the work alone. (The OpenMP threads of numba's ``parallel=True`` must all reach a barrier at the end of every launch:
with one busy process on two cores, small launches took ten times as long.)

Parts are handed out by atomic counters. Each thread starts with the same blocks in every launch, whose memory is then
in its core's cache, and per-thread storage shares no cache line with that of another thread. With one busy process on
two cores, OpenMP threads reduced ``tag_gridworld`` from 5 million to 250,000 steps per second.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from types import ModuleType

import numba
import numpy as np

from warpdrive.backends.host.interrupts import watch
from warpdrive.backends.host.native import native_module

PARTS_PER_THREAD = 4
"""Number of parts per thread: enough that threads of unequal speed finish together."""

PATIENCE = 200_000
"""Number of polls for the next launch before a helper sleeps: about 100 microseconds.

Waking it takes about as long, and steps of small environments follow each other within that time.
"""

LAST_PART = 20_000
"""Number of polls for the end of a launch before the calling thread yields its core: about 10 microseconds.

The last part of a short launch takes that long, and so does yielding and resuming. Rounds are waited for as long as a
helper waits: returning to Python after each would cost a tenth of a short one.
"""

ROUNDS_AT_ONCE = 16
"""Number of rounds between two returns to Python, which then handles signals and wakes helpers that sleep."""

WINDOW = 0.1
"""Seconds of rounds over which processor time is compared with the time that passes."""

MAX_THREADS = 256

# Words of a job, each in a cache line of its own: the number of finished parts, the machine code and its table, the
# number of parts, the number of queues, for how many threads rounds follow, and the queues. A queue's word holds its
# end in the upper bits and the next part in the lower ones: one atomic addition returns both, so that a thread never
# confuses parts of two launches. Each thread begins with its own queue, which holds the same blocks in every launch, so
# that their memory stays in its core's cache; then it helps with the others.
_TEXT = f"""
from numba import njit
from warpdrive.backends.host.intrinsics import (
    atomic_load, atomic_store, call_entry, fetch_add, load_word, store_word
)

LINE = 64
DONE, FUNCTION, TABLE, PARTS, QUEUES, ROUNDS = range(0, 6 * LINE, LINE)
FIRST_QUEUE = 6 * LINE
BITS, MASK = 24, (1 << 24) - 1

@njit("void(intp, intp)", nogil=True, cache=True, _nrt=False)
def take_parts(job, thread):
    queues = atomic_load(job + QUEUES)
    for turn in range(queues):
        queue = job + FIRST_QUEUE + LINE * ((thread + turn) % queues)
        while True:
            word = fetch_add(queue, 1)
            part = word & MASK
            if part >= word >> BITS:
                break
            call_entry(atomic_load(job + FUNCTION), atomic_load(job + TABLE), part, atomic_load(job + PARTS))
            fetch_add(job + DONE, 1)

@njit("void(intp, intp, intp)", nogil=True, cache=True, _nrt=False)
def help_out(job, thread, patience):
    idle = 0
    while idle < patience or thread < atomic_load(job + ROUNDS):
        word = atomic_load(job + FIRST_QUEUE + LINE * thread)
        if word & MASK < word >> BITS:
            take_parts(job, thread)
            idle = 0
        idle += 1

@njit("void(intp, intp, intp, intp, intp)", nogil=True, cache=True, _nrt=False)
def open_job(job, function, table, parts, queues):
    atomic_store(job + FUNCTION, function)
    atomic_store(job + TABLE, table)
    atomic_store(job + PARTS, parts)
    atomic_store(job + QUEUES, queues)
    atomic_store(job + DONE, 0)
    for queue in range(queues):
        first, end = queue * parts // queues, (queue + 1) * parts // queues
        atomic_store(job + FIRST_QUEUE + LINE * queue, end << BITS | first)

@njit("void(intp, intp)", nogil=True, cache=True, _nrt=False)
def run_alone(function, table):
    call_entry(function, table, 0, 1)

@njit("boolean(intp, intp)", nogil=True, cache=True, _nrt=False)
def is_done(job, polls):
    parts = atomic_load(job + PARTS)
    for _ in range(polls):
        if atomic_load(job + DONE) == parts:
            return True
    return False

@njit("void(intp)", nogil=True, cache=True, _nrt=False)
def finish(job):
    atomic_store(job + ROUNDS, 0)
    take_parts(job, 0)
    while not is_done(job, {LAST_PART}):
        pass

@njit("boolean(intp, intp, intp, intp, intp, intp, intp, intp)", nogil=True, cache=True, _nrt=False)
def run_rounds(job, function, then, table, counter, last, parts, queues):
    take_parts(job, 0)
    for _ in range({ROUNDS_AT_ONCE}):
        if not is_done(job, {PATIENCE}):
            return False
        number = load_word(counter) + 1
        atomic_store(job + ROUNDS, queues if number < last else 0)
        call_entry(then, table, 0, 1)
        store_word(counter, number)
        if number == last:
            return True
        open_job(job, function, table, parts, queues)
        take_parts(job, 0)
    return False
"""


class _Helper:
    """Thread that helps with launches, and the lock that it sleeps on."""

    def __init__(self, number: int, module: ModuleType, job: int) -> None:
        self.number, self.module, self.job = number, module, job
        self.door = threading.Lock()
        self.door.acquire()
        self.cores: set[int] = set()
        self.thread = threading.Thread(target=self._help, daemon=True, name=f"warpdrive-{number}")
        self.thread.start()
        self.clock = 0 if _clock_of is None else _clock_of(self.thread.ident)

    def wake(self) -> None:
        """Wake the helper if it sleeps, and keep it off the caller's core.

        If the other cores are busy, Linux would place a thread on the core of the one that woke it, and leave it there,
        where it would compete with the caller.
        """
        if not self.door.locked():  # it is already awake, or waking
            return
        if (cores := _other_cores()) and cores != self.cores:
            self.cores = cores
            os.sched_setaffinity(self.thread.native_id or 0, cores)
        self.door.release()

    def _help(self) -> None:
        while True:
            self.door.acquire()
            self.module.help_out(self.job, self.number, PATIENCE)


class SpareCores:
    """Estimate of the number of helpers for which other programs leave cores idle.

    A round ends when its last part ends. A helper that shares its core with another program also takes parts, and then
    all threads wait until it runs again: with one busy process on two cores, two threads took 1.5 times as long as one.
    """

    def __init__(self) -> None:
        self._elapsed = self._missing = self._until = 0.0
        self._fewer = 0

    def helpers(self, most: int) -> int:
        """Return the number of helpers to use, at most ``most``."""
        if time.perf_counter() > self._until:
            self._fewer = 0
        return max(0, most - self._fewer)

    def observe(self, elapsed: float, used: float, helpers: int) -> None:
        """Record the processor time of rounds; if a third of a core was missing, use one helper fewer for a while.

        Args:
            elapsed: Wall-clock time in seconds.
            used: Processor time in seconds of the calling thread and the helpers, which always compute or spin.
            helpers: Number of helpers.
        """
        if helpers == 0:
            return
        self._elapsed += elapsed
        self._missing += (1 + helpers) * elapsed - used
        if self._elapsed > WINDOW:
            if self._missing > self._elapsed / 3:
                self._fewer, self._until = self._fewer + 1, time.perf_counter() + 10 * self._elapsed
            self._elapsed = self._missing = 0.0


class _Pool:
    """Helpers of the calling thread, and the job that they share."""

    def __init__(self) -> None:
        self.module = native_module(_TEXT)
        self.job = np.zeros((6 + MAX_THREADS) * 8, np.int64)
        self.address = int(self.job.ctypes.data)
        self.busy = threading.Lock()
        self.helpers: list[_Helper] = []
        self.spare_cores = SpareCores()

    def launch(self, function: int, table: int, parts: int, helpers: int) -> None:
        address, module = self.address, self.module
        with self.busy:
            try:
                module.open_job(address, function, table, parts, helpers + 1)
                self.wake(helpers)
                module.take_parts(address, 0)
                while not module.is_done(address, LAST_PART):
                    time.sleep(0)
            except BaseException:  # such as Ctrl-C: helpers still use the job, which another launch would overwrite
                module.finish(address)
                raise

    def launch_rounds(self, function: int, then: int, table: int, counter: int, last: int, parts: int) -> None:
        address, module, spare_cores = self.address, self.module, self.spare_cores
        most = min(_num_threads, parts) - 1
        with self.busy:
            try:
                module.open_job(address, function, table, parts, most + 1)
                is_over = False
                while not is_over:
                    helpers = spare_cores.helpers(most)
                    self.wake(helpers)
                    began, used = time.perf_counter(), self.processor_time(helpers)
                    is_over = module.run_rounds(address, function, then, table, counter, last, parts, helpers + 1)
                    if not (is_over or module.is_done(address, 1)):
                        time.sleep(0)
                    spare_cores.observe(time.perf_counter() - began, self.processor_time(helpers) - used, helpers)
            except BaseException:
                module.finish(address)
                raise

    def processor_time(self, helpers: int) -> float:
        """Return the processor time of the calling thread and its helpers in seconds; wall-clock time if unknown."""
        if _clock_of is None or helpers == 0:
            return (1 + helpers) * time.perf_counter()
        return time.thread_time() + sum(time.clock_gettime(helper.clock) for helper in self.helpers[:helpers])

    def wake(self, count: int) -> None:
        """Wake a number of helpers."""
        while len(self.helpers) < count:
            self.helpers.append(_Helper(len(self.helpers) + 1, self.module, self.address))
        for helper in self.helpers[:count]:
            helper.wake()


def _other_cores() -> set[int]:
    """Return the cores available to this process except the caller's; empty if unknown."""
    if _this_core is None:
        return set()
    return os.sched_getaffinity(0) - {_this_core()}


_this_core = getattr(ctypes.CDLL(None), "sched_getcpu", None) if hasattr(os, "sched_setaffinity") else None
_clock_of = getattr(time, "pthread_getcpuclockid", None)
_pool: _Pool | None = None
_num_threads = min(int(numba.config.NUMBA_NUM_THREADS), MAX_THREADS)


def get_num_threads() -> int:
    """Return the number of threads that share a launch."""
    return _num_threads


def set_num_threads(count: int) -> None:
    """Set the number of threads that share a launch; the default is the number of cores, or ``NUMBA_NUM_THREADS``.

    Raises :class:`ValueError` for a number out of range.
    """
    global _num_threads
    if not 1 <= count <= MAX_THREADS:
        raise ValueError(f"the number of threads is {count}, expected 1 to {MAX_THREADS}")
    _num_threads = count


def parts_of(blocks: int) -> int:
    """Return the number of parts that a launch of ``blocks`` blocks is split into."""
    return 1 if _num_threads == 1 else min(blocks, PARTS_PER_THREAD * _num_threads)


def launch_on_all_cores(function: int, table: int, parts: int) -> Callable[[], None]:
    """Return a function that runs all parts of a launch.

    Args:
        function: Address of the machine code.
        table: Address of the argument table.
        parts: Number of parts.

    Returns:
        The function, which returns when all parts are done.
    """
    pool, helpers = _the_pool(), min(_num_threads, parts) - 1
    run_alone = pool.module.run_alone

    def launch_serially() -> None:
        run_alone(function, table)

    watch(_Pool.launch.__code__)
    watch(launch_serially.__code__)
    return launch_serially if helpers == 0 else lambda: pool.launch(function, table, parts, helpers)


def launch_rounds(function: int, then: int, table: int, counter: int, last: int, parts: int) -> None:
    """Run rounds of a launch on all cores and another function on one, without Python in between.

    Args:
        function: Address of machine code ``void(table, part, parts)``.
        then: Address of machine code that is called after all parts of a round, with part 0 of 1.
        table: Address of the argument table of both.
        counter: Address of the number of the current round, before the launch of the first one.
        last: Number of the round to end before, greater than that of the first one.
        parts: Number of parts.
    """
    _the_pool().launch_rounds(function, then, table, counter, last, parts)


def _the_pool() -> _Pool:
    global _pool
    if _pool is None:
        _pool = _Pool()
    return _pool


def _forget_helpers_after_fork() -> None:
    """Make the child of a fork start helpers of its own: threads do not survive, and one may have held the lock.

    The pool itself stays the same object, since bound launches refer to it.
    """
    if _pool is not None:
        _pool.busy, _pool.helpers = threading.Lock(), []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers_after_fork)
