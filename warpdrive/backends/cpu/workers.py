"""Spread the blocks of a launch over the cores."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numba

from warpdrive.backends.cpu import cache as module_cache

_TEXT = """
from numba import njit, prange
from warpdrive.backends.cpu.intrinsics import call_entry

@njit("void(intp, intp, intp)", parallel=True, nogil=True, cache=True)
def run_workers(function, table, workers):
    if workers == 1:  # one core alone: waking the others would cost more than the work
        call_entry(function, table, 0, 1)
    else:
        for worker in prange(workers):
            call_entry(function, table, worker, workers)
"""


@cache
def run_workers() -> Callable[[int, int, int], None]:
    """Return a function that runs the machine code at an address in parallel.

    It takes that address, the address of the table of arguments, and the number of workers.
    """
    key = module_cache.key_of(_TEXT)
    if not module_cache.is_stored(key):
        module_cache.store(key, {"kernel": _TEXT})
    dispatcher = module_cache.load(key, "kernel").run_workers
    (overload,) = dispatcher.overloads.values()
    return overload.entry_point  # type: ignore[no-any-return]


def number_of_workers(blocks: int) -> int:
    """Return how many workers share that many blocks: one for each core that numba may use."""
    return min(blocks, int(numba.get_num_threads()))
