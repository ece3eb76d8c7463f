"""Which accesses are ordered without a barrier: by fences and atomic operations on one element.

A thread that writes data, then a fence, then changes a flag atomically hands its data to every thread that changes
the flag atomically after it (the pattern of "the last block adds up what all blocks wrote", and of locks). Each
thread, and through barriers each block, has a clock per other thread: up to when that one's accesses are known to
have happened. (Lamport, "Time, clocks, and the ordering of events in a distributed system", CACM 1978; vector clocks
after Mattern, 1989.)
"""

from __future__ import annotations

from collections import defaultdict

Thread = tuple[int, int | None]
"""A thread of a block; with None, all threads of it, up to a barrier."""

Clock = dict[Thread, int]


class HappensBefore:
    """Follows the fences, atomic operations and barriers of a launch."""

    def __init__(self) -> None:
        self._known: dict[Thread, Clock] = defaultdict(dict)
        self._released: dict[Thread, Clock] = {}
        self._at_address: dict[int, Clock] = {}
        self._barriers: dict[int, int] = {}
        self._blocks: dict[int, list[Thread]] = defaultdict(list)

    def fence(self, block: int, thread: int, time: int) -> None:
        """All accesses that the thread knows of are before whatever it does now."""
        released = dict(self._known.get((block, None), {}))
        _merge(released, self._known.get((block, thread), {}))
        released[block, thread] = time
        if block in self._barriers:
            released[block, None] = self._barriers[block]
        self._released[block, thread] = released

    def atomic(self, block: int, thread: int, address: int) -> None:
        """The thread changes an element: it learns what was handed over there, and hands over what it released."""
        clock = self._at_address.get(address)
        if clock:
            self._known[block, thread] = _merge(self._known.get((block, thread), {}), clock)
            self._blocks[block].append((block, thread))
        released = self._released.get((block, thread))
        if released:
            self._at_address[address] = _merge(clock or {}, released)

    def barrier(self, block: int, time: int) -> None:
        """What one thread of the block knows, all know now."""
        self._barriers[block] = time
        for member in self._blocks.pop(block, ()):
            self._known[block, None] = _merge(self._known.get((block, None), {}), self._known.pop(member, {}))

    def meet(self, block: int, threads: list[int], time: int) -> None:
        """Threads of a warp have waited for each other."""
        together: Clock = {(block, thread): time for thread in threads}
        for thread in threads:
            together = _merge(together, self._known.get((block, thread), {}))
        for thread in threads:
            self._known[block, thread] = dict(together)
            self._blocks[block].append((block, thread))

    def is_before(self, block: int, thread: int, time: int, by_block: int, by_thread: int) -> bool:
        """Whether an access at ``time`` is known to have happened by what another thread does now."""
        for knower in ((by_block, by_thread), (by_block, None)):
            clock = self._known.get(knower)
            if clock and (clock.get((block, thread), -1) >= time or clock.get((block, None), -1) >= time):
                return True
        return False


def _merge(into: Clock, clock: Clock) -> Clock:
    for thread, time in clock.items():
        into[thread] = max(into.get(thread, -1), time)
    return into
