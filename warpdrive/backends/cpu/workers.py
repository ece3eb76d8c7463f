"""Spread the blocks of a launch over the cores.

A launch is cut into parts, which the calling thread and its helpers take from a common counter, one after the other.
Nobody waits for a helper that got no part: where another program, or PyTorch's own threads, have the other cores, the
calling thread does the work alone instead of waiting for its turn there. (OpenMP's threads, which numba's
``parallel=True`` uses, must all arrive at the end of every launch: with one busy neighbour on two cores, small launches
took ten times as long so.)
"""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from types import ModuleType

import numba
import numpy as np

from warpdrive.backends.cpu import cache

PARTS_PER_THREAD = 4
"""How finely a launch is cut: enough that threads of unequal speed end together."""

# The word that parts are taken from holds how many there are and, below it, which comes next: one atomic addition
# tells a thread both, so that it can never mistake a part of one launch for a part of another.
_TEXT = """
from numba import njit
from warpdrive.backends.cpu.intrinsics import atomic_load, atomic_store, call_entry, fetch_add

TAKEN, DONE, FUNCTION, TABLE = 0, 8, 16, 24
BITS, MASK = 24, (1 << 24) - 1

@njit("void(intp)", nogil=True, cache=True, _nrt=False)
def take_parts(job):
    while True:
        word = fetch_add(job + TAKEN, 1)
        part, parts = word & MASK, word >> BITS
        if part >= parts:
            return
        call_entry(atomic_load(job + FUNCTION), atomic_load(job + TABLE), part, parts)
        fetch_add(job + DONE, 1)

@njit("void(intp, intp, intp, intp)", nogil=True, cache=True, _nrt=False)
def open_job(job, function, table, parts):
    atomic_store(job + FUNCTION, function)
    atomic_store(job + TABLE, table)
    atomic_store(job + DONE, 0)
    atomic_store(job + TAKEN, parts << BITS)

@njit("void(intp, intp)", nogil=True, cache=True, _nrt=False)
def run_alone(function, table):
    call_entry(function, table, 0, 1)

@njit("boolean(intp, intp)", nogil=True, cache=True, _nrt=False)
def is_done(job, parts):
    for _ in range(2000):
        if atomic_load(job + DONE) == parts:
            return True
    return False
"""


class _Pool:
    """The calling thread's helpers, and the job that they share."""

    def __init__(self) -> None:
        self.module = _native_code()
        self.job = np.zeros(4, np.int64)
        self.busy = threading.Lock()
        self.doors: list[_thread.LockType] = []

    def launch(self, function: int, table: int, parts: int, helpers: int) -> None:
        address = self.job.ctypes.data
        with self.busy:
            self._employ(helpers)
            self.module.open_job(address, function, table, parts)
            for door in self.doors[:helpers]:
                if door.locked():  # its helper waits behind it
                    door.release()
            self.module.take_parts(address)
            while not self.module.is_done(address, parts):
                time.sleep(0)

    def _employ(self, helpers: int) -> None:
        while len(self.doors) < helpers:
            door = _thread.allocate_lock()
            door.acquire()
            self.doors.append(door)
            threading.Thread(target=self._help, args=(door,), daemon=True, name="warpdrive-helper").start()

    def _help(self, door: _thread.LockType) -> None:
        address, take_parts = self.job.ctypes.data, self.module.take_parts
        while True:
            door.acquire()
            take_parts(address)


_pool: _Pool | None = None
_num_threads = int(numba.config.NUMBA_NUM_THREADS)


def get_num_threads() -> int:
    """Return how many threads share a launch."""
    return _num_threads


def set_num_threads(count: int) -> None:
    """Set how many threads share a launch: at first as many as there are cores, or ``NUMBA_NUM_THREADS``."""
    global _num_threads
    if count < 1:
        raise ValueError(f"the number of threads is {count}, expected 1 or more")
    _num_threads = count


def parts_of(blocks: int) -> int:
    """Return into how many parts a launch of that many blocks is cut."""
    return 1 if _num_threads == 1 else min(blocks, PARTS_PER_THREAD * _num_threads)


def launch_on_all_cores(function: int, table: int, parts: int) -> Callable[[], None]:
    """Return a function that runs all parts of a launch: the machine code and table of arguments at these addresses."""
    global _pool
    if _pool is None:
        _pool = _Pool()
    pool, helpers = _pool, min(_num_threads, parts) - 1
    run_alone = pool.module.run_alone
    if helpers == 0:
        return lambda: run_alone(function, table)
    return lambda: pool.launch(function, table, parts, helpers)


def _native_code() -> ModuleType:
    key = cache.key_of(_TEXT)
    if not cache.is_stored(key):
        cache.store(key, {"kernel": _TEXT})
    return cache.load(key, "kernel")
