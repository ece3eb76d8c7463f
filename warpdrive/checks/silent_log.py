"""A log that keeps nothing but which thread runs."""

from __future__ import annotations

from types import CodeType
from typing import Any

from warpdrive.checks.grid import Grid
from warpdrive.checks.memory import Block
from warpdrive.kernels.errors import KernelError

Line = tuple[CodeType, int]
_MOST_ACCESSES = 1_000_000


class EndlessError(KernelError):
    """A thread does not end, or come to a barrier, before any other thread goes on."""


class SilentLog:
    """Is told of all that a launch does (see :class:`warpdrive.checks.arrays.Log`), and reports nothing.

    Args:
        grid: gives blocks and threads the names that people know them by.
    """

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.begin_launch()

    def begin_launch(self) -> None:
        """Forget the launch before."""
        self.block = self.thread = self.since_barrier = 0

    def begin_block(self, block: int) -> None:
        """Go on with the next block."""
        self.block = block

    def begin_thread(self, thread: int) -> None:
        """Go on with the next thread, until it waits."""
        self.thread = thread
        self.since_barrier = 0

    def barrier(self) -> None:
        """Note that all threads of the block have come to a barrier."""

    def warp_barrier(self, threads: list[int]) -> None:
        """Note that threads of a warp have waited for each other."""

    def fence(self) -> None:
        """Note that the running thread's writes so far are ordered before its later ones."""

    def read(self, block: Block, address: int) -> None:
        """Note a read."""
        self.count()

    def write(self, block: Block, address: int, value: Any) -> None:
        """Note a write."""

    def atomic(self, block: Block, address: int, value: Any) -> None:
        """Note an atomic change."""
        self.count()

    def outside(self, block: Block, index: tuple[int, ...], shape: tuple[int, ...], wraps: bool) -> None:
        """Note an index outside of an array."""

    def divergence(self, waiting: int, barrier: Line, other: int, elsewhere: Line | None) -> None:
        """Note that a thread waits at a barrier while another waits at one ``elsewhere``, or came to the end (None)."""

    def unassigned(self, variable: str, line: Line) -> None:
        """Note that the running thread reads a variable which it has not assigned."""

    def undefined(self, what: str, what_to_do: str) -> None:
        """Note that the running thread computes what has no defined result."""

    def broadcast(self, block: Block, value: Any, shape: tuple[int, ...]) -> None:
        """Note that the running thread writes one number to all elements of a row that it names by fewer indices."""

    def count(self) -> None:
        """Count an access. Raises :class:`EndlessError` for one too many without a barrier."""
        self.since_barrier += 1
        if self.since_barrier > _MOST_ACCESSES:
            raise EndlessError(f"thread {self.me} does not end: it waits for something that no other thread does")

    @property
    def me(self) -> str:
        """The running thread, in words."""
        thread, block = self.grid.thread_name(self.thread), self.grid.block_name(self.block)
        return f"{thread} of block {block}"
