"""Log that tracks only the running thread and its number of steps."""

from __future__ import annotations

from types import CodeType
from typing import Any

from warpdrive.checks.grid import Grid
from warpdrive.checks.memory import Block
from warpdrive.kernels.errors import KernelError

Line = tuple[CodeType, int]
MAX_STEPS = 1_000_000
"""Default for the maximum number of steps of a thread in a launch: loop iterations and memory accesses."""

BLOCK_STEPS = 10
"""Factor by which all threads of a block together may exceed the maximum of one."""


class EndlessError(KernelError):
    """Thread or block that exceeds its maximum number of steps. ``lines`` are the locations of its threads."""

    def __init__(self, message: str, lines: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.lines = lines


class NullLog:
    """Log of all events of a launch (see :class:`warpdrive.checks.arrays.Log`) that discards them.

    Args:
        grid: Grid of the launch, which names blocks and threads.
        max_steps: Maximum number of steps of a thread in a launch.
    """

    def __init__(self, grid: Grid, max_steps: int = MAX_STEPS) -> None:
        self.grid, self.max_steps = grid, max_steps
        self.begin_launch()

    def begin_launch(self) -> None:
        """Clear the log of the previous launch."""
        self.block = self.thread = 0
        self._steps: dict[int, tuple[list[int], int]] = {}
        self._begin_steps()

    def begin_block(self, block: int) -> None:
        """Begin the next block."""
        self.block = block
        self._begin_steps()

    def suspend_block(self, block: int) -> None:
        """Keep the steps of a block whose threads wait for a barrier of the grid."""
        self._steps[block] = self.steps, self.steps_of_block

    def resume_block(self, block: int) -> None:
        """Resume a block after a barrier of the grid."""
        self.block = block
        self.steps, self.steps_of_block = self._steps.pop(block)
        self.count()

    def begin_thread(self, thread: int) -> None:
        """Begin or resume a thread, until it waits."""
        self.thread = thread

    def barrier(self) -> None:
        """Record a barrier that all threads of the block have reached."""

    def warp_barrier(self, threads: list[int]) -> None:
        """Record a warp barrier."""

    def grid_barrier(self) -> None:
        """Record a barrier that the threads of all blocks have passed."""

    def grid_divergence(self, block: int, waiting: int, barrier: Line, ended: int) -> None:
        """Record a block whose threads wait for the grid while another block has ended.

        Args:
            block: Number of the waiting block.
            waiting: Number of one of its threads.
            barrier: Location of its barrier.
            ended: Number of the other block.
        """

    def fence(self) -> None:
        """Record a fence, which orders the running thread's earlier writes before its later ones."""

    def read(self, block: Block, address: int) -> None:
        """Record a read."""
        self.last_read[self.thread] = block, address
        self.count()

    def write(self, block: Block, address: int, value: Any) -> None:
        """Record a write."""

    def atomic(self, block: Block, address: int, value: Any) -> None:
        """Record an atomic operation."""
        self.last_read[self.thread] = block, address
        self.count()

    def outside(self, block: Block, index: tuple[int, ...], shape: tuple[int, ...], wraps: bool) -> None:
        """Record an index outside of an array."""

    def divergence(self, waiting: int, barrier: Line, other: int, elsewhere: Line | None) -> None:
        """Record a thread that waits at a barrier while another waits ``elsewhere``, or reached the end (None).

        Args:
            waiting: Index of the waiting thread.
            barrier: Location of its barrier.
            other: Index of the other thread.
            elsewhere: Location of the other thread's barrier; None if it has reached the end of the kernel.
        """

    def unassigned(self, variable: str, line: Line) -> None:
        """Record a read of a variable before assignment by the running thread."""

    def undefined(self, what: str, what_to_do: str) -> None:
        """Record a computation with an undefined result by the running thread."""

    def lossy(self, block: Block, address: int, value: Any, element: Any) -> None:
        """Record a store of a number that an integer element cannot hold, by the running thread."""

    def wraps(self, value: Any) -> None:
        """Record the negation of a narrow unsigned integer by the running thread."""

    def broadcast(self, block: Block, value: Any, shape: tuple[int, ...]) -> None:
        """Record a write of one number to a whole row, selected by fewer indices than axes."""

    def count(self) -> None:
        """Count a step. Raises :class:`EndlessError` if the maximum is exceeded."""
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
        """Description of the running thread."""
        thread, block = self.grid.thread_name(self.thread), self.grid.block_name(self.block)
        return f"{thread} of block {block}"
