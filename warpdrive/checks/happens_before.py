"""Happens-before order of accesses without a barrier: through fences and atomic operations on one element.

A thread that writes data, executes a fence, and then updates a flag atomically publishes its data to every thread that
updates the flag atomically after it (the pattern of "the last block sums the results of all blocks", and of locks).
Each thread, and through barriers each block, has a clock per other thread: the time up to which that thread's accesses
are known to have happened. (Lamport, "Time, clocks, and the ordering of events in a distributed system", CACM 1978;
vector clocks after Mattern, 1989.)
"""

from __future__ import annotations

from collections import defaultdict

Thread = tuple[int, int | None]
"""Thread of a block; with None, all threads of the block, up to a barrier."""

Clock = dict[Thread, int]


class HappensBefore:
    """Vector clocks of a launch's fences, atomic operations and barriers."""

    def __init__(self) -> None:
        self._known: dict[Thread, Clock] = defaultdict(dict)
        self._released: dict[Thread, Clock] = {}
        self._at_address: dict[int, Clock] = {}
        self._barriers: dict[int, int] = {}
        self._blocks: dict[int, list[Thread]] = defaultdict(list)

    def fence(self, block: int, thread: int, time: int) -> None:
        """Record a fence: all accesses known to the thread are ordered before its later ones.

        Args:
            block: Number of the block.
            thread: Number of the thread.
            time: Time of the fence.
        """
        released = dict(self._known.get((block, None), {}))
        _merge(released, self._known.get((block, thread), {}))
        released[block, thread] = time
        if block in self._barriers:
            released[block, None] = self._barriers[block]
        self._released[block, thread] = released

    def atomic(self, block: int, thread: int, address: int) -> None:
        """Record an atomic operation: the thread acquires the clock of the element, and releases its own to it.

        Args:
            block: Number of the block.
            thread: Number of the thread.
            address: Address of the element.
        """
        clock = self._at_address.get(address)
        if clock:
            self._known[block, thread] = _merge(self._known.get((block, thread), {}), clock)
            self._blocks[block].append((block, thread))
        released = self._released.get((block, thread))
        if released:
            self._at_address[address] = _merge(clock or {}, released)

    def barrier(self, block: int, time: int) -> None:
        """Record a barrier: all threads of the block share their knowledge."""
        self._barriers[block] = time
        for member in self._blocks.pop(block, ()):
            self._known[block, None] = _merge(self._known.get((block, None), {}), self._known.pop(member, {}))

    def meet(self, block: int, threads: list[int], time: int) -> None:
        """Record a warp barrier: its threads share their knowledge.

        Args:
            block: Number of the block.
            threads: Numbers of the threads.
            time: Time of the barrier.
        """
        together: Clock = {(block, thread): time for thread in threads}
        for thread in threads:
            together = _merge(together, self._known.get((block, thread), {}))
        for thread in threads:
            self._known[block, thread] = dict(together)
            self._blocks[block].append((block, thread))

    def is_before(self, block: int, thread: int, time: int, by_block: int, by_thread: int) -> bool:
        """Return True if an access happened before the current action of another thread.

        Args:
            block: Block of the access.
            thread: Thread of the access.
            time: Time of the access.
            by_block: Block of the current action.
            by_thread: Thread of the current action.

        Returns:
            True if the access is known to have happened.
        """
        for knower in ((by_block, by_thread), (by_block, None)):
            clock = self._known.get(knower)
            if clock and (clock.get((block, thread), -1) >= time or clock.get((block, None), -1) >= time):
                return True
        return False


def _merge(into: Clock, clock: Clock) -> Clock:
    for thread, time in clock.items():
        into[thread] = max(into.get(thread, -1), time)
    return into
