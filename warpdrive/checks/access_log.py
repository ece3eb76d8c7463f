"""Log of a launch's memory accesses, and detection of races, out-of-bounds accesses, uninitialised memory and NaN.

Two accesses race if they are of one element, by threads of one block without a barrier between them or by different
blocks, and at least one is a plain write. Writes of the same value are no race, as in NVIDIA's racecheck. Nor are
accesses that fences and atomic operations order (see :mod:`warpdrive.checks.happens_before`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from warpdrive.checks import advice
from warpdrive.checks.findings import Finding, Report
from warpdrive.checks.grid import Grid
from warpdrive.checks.happens_before import HappensBefore
from warpdrive.checks.helpers import is_of_library
from warpdrive.checks.memory import Block
from warpdrive.checks.null_log import Line, NullLog


class _Access(NamedTuple):
    """One access; ``kind`` is "reads", "writes" or "changes" (atomically)."""

    kind: str
    memory: Block
    block: int
    thread: int
    line: Line


_WORDS = {"reads": "reads", "writes": "writes", "changes": "atomically changes"}
_By = tuple[int, int, int]
"""Source of an access: thread, and number and identity of a line."""
_When = tuple[int, int, int, Line, Block, Any]
"""Last access: block, epoch (which counts barriers and blocks), time, line, array, and written value."""


class _Element:
    """Last access of one element by each thread and line, by kind. Blocks run one after the other."""

    __slots__ = ("changes", "reads", "writes")

    def __init__(self) -> None:
        self.reads: dict[_By, _When] = {}
        self.writes: dict[_By, _When] = {}
        self.changes: dict[_By, _When] = {}


class AccessLog(NullLog):
    """Log that receives every access and reports errors.

    Args:
        report: Report that findings are added to.
        grid: Grid of the launch, which names blocks and threads.
        nan: If True, report NaN and infinity.
        helpers: Files of library functions, whose accesses are reported at the line of their caller.
        options: Options of :class:`NullLog`.
    """

    def __init__(
        self, report: Report, grid: Grid, nan: bool = False, helpers: Collection[str] = (), **options: Any
    ) -> None:
        super().__init__(grid, **options)
        self.report, self.nan = report, nan
        self.helpers = frozenset({*helpers, *map(str, Path(__file__).parent.glob("*.py"))})

    def begin_launch(self) -> None:
        """Clear the log of the previous launch."""
        super().begin_launch()
        self.epoch = self.time = 0
        self.order = HappensBefore()
        self.order_matters = False
        self.elements: dict[int, _Element] = {}
        self.shared_elements: dict[int, _Element] = {}

    def begin_block(self, block: int) -> None:
        """Begin the next block."""
        super().begin_block(block)
        self.shared_elements = {}
        self.barrier()

    def resume_block(self, block: int) -> None:
        """Resume a block after a barrier of the grid."""
        super().resume_block(block)
        self.shared_elements = {}
        self.barrier()

    def grid_barrier(self) -> None:
        """Begin anew: a barrier of the grid orders all accesses before it and all after it."""
        self.elements = {}

    def grid_divergence(self, block: int, waiting: int, barrier: Line, ended: int) -> None:
        """Report that only some blocks reach a barrier of the grid; see :class:`NullLog`."""
        thread, first, other = self.grid.thread_name(waiting), self.grid.block_name(block), self.grid.block_name(ended)
        what = f"thread {thread} of block {first} waits at a barrier of the grid, block {other} returned without it"
        place = (_place(barrier),)
        self.report.add(Finding("divergence", "", (), (thread, thread), (first, other), place, what, advice.DIVERGENCE))

    def barrier(self) -> None:
        """Begin a new epoch: all threads of the block have reached a barrier."""
        self.epoch += 1
        self.order.barrier(self.block, self.time)

    def warp_barrier(self, threads: list[int]) -> None:
        """Record a warp barrier, which orders the accesses of its threads."""
        self.order.meet(self.block, threads, self.time)

    def fence(self) -> None:
        """Record a fence, which orders the running thread's earlier writes before its later ones."""
        self.order.fence(self.block, self.thread, self.time)

    def read(self, block: Block, address: int) -> None:
        """Record a read; see :class:`warpdrive.checks.arrays.Log`."""
        self.last_read[self.thread] = block, address
        code, number = line = self._line()
        if block.written is not None and address not in block.written:
            self._uninitialised(block, address, line)
        if block.is_private:
            return
        self.time += 1
        element = self._element(block, address)
        if element.writes:
            self._compare(block, address, "writes", element.writes, "reads", line)
        if element.changes and not self.order_matters:
            self._note_order(element.changes)
        element.reads[self.thread, number, id(code)] = self.block, self.epoch, self.time, line, block, None

    def write(self, block: Block, address: int, value: Any) -> None:
        """Record a write; see :class:`warpdrive.checks.arrays.Log`."""
        code, number = line = self._line()
        self._put(block, address, value, line)
        if block.is_private:
            return
        self.time += 1
        element = self._element(block, address)
        if element.writes:
            self._compare(block, address, "writes", element.writes, "writes", line, value)
        if element.reads:
            self._compare(block, address, "reads", element.reads, "writes", line)
        if element.changes:
            self._compare(block, address, "changes", element.changes, "writes", line)
        element.writes[self.thread, number, id(code)] = self.block, self.epoch, self.time, line, block, value

    def atomic(self, block: Block, address: int, value: Any) -> None:
        """Record an atomic operation; see :class:`warpdrive.checks.arrays.Log`."""
        self.last_read[self.thread] = block, address
        code, number = line = self._line()
        if block.written is not None and address not in block.written:
            self._uninitialised(block, address, line)
        self._put(block, address, value, line)
        if block.is_private:
            return
        self.time += 1
        element = self._element(block, address)
        if element.writes:
            self._compare(block, address, "writes", element.writes, "changes", line)
        if not self.order_matters:
            self._note_order(element.changes)
            self._note_order(element.reads)
        element.changes[self.thread, number, id(code)] = self.block, self.epoch, self.time, line, block, None
        self.order.atomic(self.block, self.thread, address)

    def outside(self, block: Block, index: tuple[int, ...], shape: tuple[int, ...], wraps: bool) -> None:
        """Report an index outside of an array; see :class:`warpdrive.checks.arrays.Log`."""
        what = "counts from the end of" if wraps else "lies outside of"
        description = str(index[0] if len(index) == 1 else index)
        array = f"'{block.name}'" if shape == block.array.shape else f"a view of '{block.name}'"
        self.find(
            "bounds",
            block.name,
            index,
            [self._line()],
            f"index {description} {what} {array}, which has the shape {shape}, in thread {self.me}",
            advice.for_bounds(block.name, index, shape, wraps),
        )

    def divergence(self, waiting: int, barrier: Line, other: int, elsewhere: Line | None) -> None:
        """Report barrier divergence between two threads.

        Args:
            waiting: Number of the thread that waits at the barrier.
            barrier: Line of the barrier.
            other: Number of a thread that does not.
            elsewhere: Line of the barrier at which the other thread waits; None if it reached the end of the kernel.
        """
        description = "returned without reaching it" if elsewhere is None else "waits at another"
        name, block = self.grid.thread_name, self.grid.block_name(self.block)
        self.report.add(
            Finding(
                "divergence",
                "",
                (),
                (name(waiting), name(other)),
                (block, block),
                tuple(_place(line) for line in (barrier, elsewhere) if line is not None),
                f"thread {name(waiting)} of block {block} waits at a barrier, thread {name(other)} {description}",
                advice.DIVERGENCE,
            )
        )

    def unassigned(self, variable: str, line: Line) -> None:
        """Report that the running thread reads a variable before assignment."""
        message = f"the variable '{variable}' is read by thread {self.me}, which has not assigned it"
        self.find("uninitialised", variable, (), [line], message, advice.VARIABLE)

    def undefined(self, what: str, what_to_do: str) -> None:
        """Report that the running thread computes an undefined result."""
        line = self._line()
        self.find("arithmetic", "", (), [line], f"{what} has no defined result, in thread {self.me}", what_to_do)

    def lossy(self, block: Block, address: int, value: Any, element: Any) -> None:
        """Report that the running thread stores a number that an integer element cannot hold.

        Args:
            block: The array.
            address: Address of the element.
            value: The number.
            element: The stored value.
        """
        dtype = np.asarray(element).dtype if block.array.dtype.names else block.array.dtype
        is_fraction = isinstance(value, (float, np.floating))
        self.find(
            "conversions",
            block.name,
            block.index_of(address),
            [self._line()],
            f"thread {self.me} stores {value} in '{block.element_at(address)}' of {dtype}, where it becomes {element}",
            advice.FRACTION if is_fraction else advice.for_range(dtype),
        )

    def wraps(self, value: Any) -> None:
        """Report that the running thread negates a narrow unsigned integer."""
        message = f"thread {self.me} negates {value} of {value.dtype}, which gives {-value}"
        self.find("conversions", "", (), [self._line()], message, advice.NEGATION)

    def broadcast(self, block: Block, value: Any, shape: tuple[int, ...]) -> None:
        """Report that the running thread writes one number to a whole row, which it selects by fewer indices than axes.

        Args:
            block: The array.
            value: The number.
            shape: Shape of the row.
        """
        elements = " x ".join(map(str, shape))
        message = f"thread {self.me} writes {value} to {elements} elements of '{block.name}' at once"
        self.find("broadcasts", block.name, (), [self._line()], message, advice.for_broadcast(len(shape)))

    def find(
        self,
        kind: str,
        array: str,
        index: tuple[int, ...],
        lines: list[Line],
        message: str,
        what_to_do: str,
        other: _Access | None = None,
    ) -> None:
        """Report a finding about the running thread, and optionally an earlier access of another.

        Args:
            kind: List of the report.
            array: Name of the array.
            index: Index of the element; empty if there is none.
            lines: Lines of the accesses.
            message: Description of the error.
            what_to_do: Advice.
            other: Earlier access of another thread.
        """
        whose = [(self.block, self.thread)]
        if other is not None:
            whose.insert(0, (other.block, other.thread))
        self.report.add(
            Finding(
                kind,
                array,
                index,
                tuple(self.grid.thread_name(thread) for _, thread in whose),
                tuple(self.grid.block_name(block) for block, _ in whose),
                tuple(map(_place, lines)),
                message,
                what_to_do,
            )
        )

    def _element(self, block: Block, address: int) -> _Element:
        elements = self.elements if block.is_argument else self.shared_elements
        element = elements.get(address)
        if element is None:
            element = elements[address] = _Element()
        return element

    def _compare(
        self, block: Block, address: int, rival: str, others: dict[_By, _When], kind: str, line: Line, value: Any = None
    ) -> None:
        """Report a race with each line of the other accesses of the same element."""
        reported = set()
        for (thread, number, code), (other_block, epoch, time, other_line, memory, other_value) in others.items():
            if other_block == self.block and (epoch != self.epoch or thread == self.thread):
                continue  # the program or a barrier orders them
            self.order_matters = True
            if (code, number) in reported or (rival == kind and _same(other_value, value)):
                continue
            if not self.order.is_before(other_block, thread, time, self.block, self.thread):
                reported.add((code, number))
                first = _Access(rival, memory, other_block, thread, other_line)
                self._race(address, first, _Access(kind, block, self.block, self.thread, line))

    def _note_order(self, others: dict[_By, _When]) -> None:
        """Set ``order_matters`` if another thread's access of an element is not ordered with the current one."""
        self.order_matters = self.order_matters or any(
            block != self.block or (epoch == self.epoch and thread != self.thread)
            for (thread, _, _), (block, epoch, *_) in others.items()
        )

    def _race(self, address: int, first: _Access, second: _Access) -> None:
        index = second.memory.index_of(address)
        element = f"'{second.memory.element_at(address)}'"
        threads = [self.grid.thread_name(access.thread) for access in (first, second)]
        blocks = [self.grid.block_name(access.block) for access in (first, second)]
        if first.block == second.block:
            who = [
                f"thread {thread} {_WORDS[access.kind]}"
                for thread, access in zip(threads, (first, second), strict=True)
            ]
            what = f"{who[0]} and {who[1]} {element} in block {blocks[0]}, with no barrier between"
        else:
            who = [f"block {name} {_WORDS[access.kind]}" for name, access in zip(blocks, (first, second), strict=True)]
            what = f"{who[0]} and {who[1]} {element} in one launch (threads {threads[0]} and {threads[1]})"
        if first.memory.name != second.memory.name:
            what += f" ('{first.memory.element_at(address)}' is the same memory)"
        kinds, lines = (first.kind, second.kind), (_place(first.line), _place(second.line))
        what_to_do = advice.for_race(kinds, lines, is_within_a_block=first.block == second.block)
        self.find("races", second.memory.name, index, [first.line, second.line], what, what_to_do, first)

    def _put(self, block: Block, address: int, value: Any, line: Line) -> None:
        if block.written is not None:
            block.written.add(address)
        else:
            block.writers[address] = line
        if self.nan and not block.is_private and isinstance(value, (np.floating, np.complexfloating)):
            is_masked = np.isinf(value) and (
                not block.is_argument or is_of_library(block.name)
            )  # such as the masked logits of forbidden choices
            if np.isfinite(value) or is_masked:
                return
            index = block.index_of(address)
            message = f"{value} is written to '{block.element_at(address)}' by thread {self.me}"
            self.find("nan", block.name, index, [line], message, advice.NAN)

    def _uninitialised(self, block: Block, address: int, line: Line) -> None:
        index = block.index_of(address)
        message = f"thread {self.me} reads '{block.element_at(address)}', which was never written"
        self.find("uninitialised", block.name, index, [line], message, advice.for_uninitialised(block.is_private))

    def _line(self) -> Line:
        self.count()
        frame: FrameType | None = sys._getframe(3)
        while frame is not None and frame.f_code.co_filename in self.helpers:
            frame = frame.f_back
        assert frame is not None
        return frame.f_code, frame.f_lineno


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, np.floating) and math.isnan(first):
        return bool(np.isnan(second))
    return bool(np.all(first == second))


def _place(line: Line) -> str:
    code, number = line
    return f"{code.co_filename}:{number}"
