"""A log that keeps nothing but which thread runs."""

from __future__ import annotations

from types import CodeType
from typing import Any

from warpdrive.checks.grid import Grid
from warpdrive.checks.memory import Block
from warpdrive.kernels.errors import KernelError

Line = tuple[CodeType, int]
MAX_STEPS = 1_000_000
"""How many steps a thread may take in a launch, if nothing else is said: turns of loops and accesses to memory."""

BLOCK_STEPS = 10
"""How many times as many all threads of a block may take together."""


class EndlessError(KernelError):
    """A thread, or a block, takes more steps than it may. ``lines`` are where its threads stand."""

    def __init__(self, message: str, lines: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.lines = lines


class SilentLog:
    """Is told of all that a launch does (see :class:`warpdrive.checks.arrays.Log`), and reports nothing.

    Args:
        grid: gives blocks and threads the names that people know them by.
        max_steps: how many steps a thread may take in a launch.
    """

    def __init__(self, grid: Grid, max_steps: int = MAX_STEPS) -> None:
        self.grid, self.max_steps = grid, max_steps
        self.begin_launch()

    def begin_launch(self) -> None:
        """Forget the launch before."""
        self.block = self.thread = 0
        self._begin_steps()

    def begin_block(self, block: int) -> None:
        """Go on with the next block."""
        self.block = block
        self._begin_steps()

    def begin_thread(self, thread: int) -> None:
        """Go on with the next thread, until it waits."""
        self.thread = thread

    def barrier(self) -> None:
        """Note that all threads of the block have come to a barrier."""

    def warp_barrier(self, threads: list[int]) -> None:
        """Note that threads of a warp have waited for each other."""

    def fence(self) -> None:
        """Note that the running thread's writes so far are ordered before its later ones."""

    def read(self, block: Block, address: int) -> None:
        """Note a read."""
        self.last_read[self.thread] = block, address
        self.count()

    def write(self, block: Block, address: int, value: Any) -> None:
        """Note a write."""

    def atomic(self, block: Block, address: int, value: Any) -> None:
        """Note an atomic change."""
        self.last_read[self.thread] = block, address
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
        """Count a step. Raises :class:`EndlessError` for one too many."""
        self.steps[self.thread] += 1
        self.steps_of_block += 1
        if self.steps[self.thread] > self.max_steps or self.steps_of_block > BLOCK_STEPS * self.max_steps:
            raise EndlessError(f"thread {self.me} does not end")

    def _begin_steps(self) -> None:
        self.steps = [0] * self.grid.num_threads
        self.steps_of_block = 0
        self.last_read: dict[int, tuple[Block, int]] = {}

    @property
    def me(self) -> str:
        """The running thread, in words."""
        thread, block = self.grid.thread_name(self.thread), self.grid.block_name(self.block)
        return f"{thread} of block {block}"
