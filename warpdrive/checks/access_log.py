"""The log of a launch's accesses to memory, and what is wrong with them: races, bounds, uninitialised memory, NaN.

Two accesses race if they are of one element, by threads of one block with no barrier between or by different blocks,
and at least one is a plain write. Writes of the same value are no race, as in NVIDIA's racecheck. Nor are accesses
that fences and atomic operations order (see :mod:`warpdrive.checks.happens_before`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from warpdrive.checks.findings import Finding, Report
from warpdrive.checks.grid import Grid
from warpdrive.checks.happens_before import HappensBefore
from warpdrive.checks.memory import Block

Line = tuple[CodeType, int]
_MOST_ACCESSES = 1_000_000


class Access(NamedTuple):
    """One access; ``kind`` is how the message calls it."""

    kind: str
    block: int
    thread: int
    line: Line
    value: Any
    time: int


class _Element:
    """The accesses of one element that later ones may race with.

    Those of the running block since its last barrier, by thread; and of the whole launch, the first by each line:
    blocks run one after the other, so that is enough to see that another block was there.
    """

    __slots__ = ("epoch", "launch", "recent")

    def __init__(self) -> None:
        self.epoch = -1
        self.recent: dict[str, dict[Any, Access]] = {"reads": {}, "writes": {}, "changes": {}}
        self.launch: dict[str, dict[Any, Access]] = {"reads": {}, "writes": {}, "changes": {}}


_RIVALS = {"reads": ("writes",), "writes": ("reads", "writes", "changes"), "changes": ("writes",)}


class AccessLog:
    """Is told of every access, and reports what is wrong.

    Args:
        report: where findings go.
        grid: gives blocks and threads the names that people know them by.
        nan: whether to report NaN and infinity.
        helpers: files of library functions: what they do is told with the line of their caller.
    """

    def __init__(self, report: Report, grid: Grid, nan: bool = False, helpers: Collection[str] = ()) -> None:
        self.report, self.grid, self.nan = report, grid, nan
        self.helpers = frozenset({*helpers, *map(str, Path(__file__).parent.glob("*.py"))})
        self.block = self.thread = 0
        self.epoch = self.time = 0
        self.order = HappensBefore()
        self.elements: dict[int, _Element] = {}
        self.shared_elements: dict[int, _Element] = {}
        self.since_barrier = 0

    def begin_block(self, block: int) -> None:
        """Go on with the next block."""
        self.block = block
        self.shared_elements = {}
        self.barrier()

    def begin_thread(self, thread: int) -> None:
        """Go on with the next thread, until it waits."""
        self.thread = thread
        self.since_barrier = 0

    def barrier(self) -> None:
        """Begin a new epoch: all threads of the block have come to a barrier."""
        self.epoch += 1
        self.order.barrier(self.block, self.time)

    def fence(self) -> None:
        """Note that the running thread's writes so far are ordered before its later ones."""
        self.order.fence(self.block, self.thread, self.time)

    def read(self, block: Block, address: int) -> None:
        """See :class:`warpdrive.checks.arrays.Log`."""
        line = self._line()
        if block.written is not None and address not in block.written:
            self._uninitialised(block, address, line)
        if not block.is_private:
            self._access(block, address, "reads", line, None)

    def write(self, block: Block, address: int, value: Any) -> None:
        """See :class:`warpdrive.checks.arrays.Log`."""
        line = self._line()
        self._put(block, address, value, line)
        if not block.is_private:
            self._access(block, address, "writes", line, value)

    def atomic(self, block: Block, address: int, value: Any) -> None:
        """See :class:`warpdrive.checks.arrays.Log`."""
        line = self._line()
        if block.written is not None and address not in block.written:
            self._uninitialised(block, address, line)
        self._put(block, address, value, line)
        if not block.is_private:
            self._access(block, address, "changes", line, value)
            self.order.atomic(self.block, self.thread, address)

    def outside(self, block: Block, index: tuple[int, ...], shape: tuple[int, ...], wraps: bool) -> None:
        """See :class:`warpdrive.checks.arrays.Log`."""
        what = "counts from the end of" if wraps else "lies outside of"
        self.find(
            "bounds",
            block.name,
            index,
            [self._line()],
            f"index {_told(index)} {what} '{block.name}', which has the shape {shape}, in thread {self.me}",
        )

    def divergence(self, waiting: int, barrier: Line, other: int, elsewhere: Line | None) -> None:
        """Note that a thread waits at a barrier while another waits at one ``elsewhere``, or came to the end (None)."""
        told = "came to the end of the kernel without it" if elsewhere is None else "waits at another"
        name = self.grid.thread_name
        self.report.add(
            Finding(
                "divergence",
                "",
                (),
                (name(waiting), name(other)),
                (self.grid.block_name(self.block),) * 2,
                tuple(_place(line) for line in (barrier, elsewhere) if line is not None),
                f"thread {name(waiting)} waits at a barrier, thread {name(other)} of the same block {told}",
            )
        )

    def find(
        self,
        kind: str,
        array: str,
        index: tuple[int, ...],
        lines: list[Line],
        message: str,
        other: Access | None = None,
    ) -> None:
        """Report a finding about the running thread, and the access of another before it."""
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
            )
        )

    def _access(self, block: Block, address: int, kind: str, line: Line, value: Any) -> None:
        self.time += 1
        elements = self.elements if block.is_argument else self.shared_elements
        element = elements.get(address)
        if element is None:
            element = elements[address] = _Element()
        if element.epoch != self.epoch:
            element.epoch = self.epoch
            for accesses in element.recent.values():
                accesses.clear()
        access = Access(kind, self.block, self.thread, line, value, self.time)
        for rivals in _RIVALS[kind]:
            for other in element.recent[rivals].values():
                if other.thread != self.thread:
                    self._race(block, address, other, access)
            for other in element.launch[rivals].values():
                if other.block != self.block:
                    self._race(block, address, other, access)
        element.recent[kind][(self.thread, line)] = access
        first = element.launch[kind].get(line)
        if first is None or first.block == self.block:
            element.launch[kind][line] = access

    def _race(self, block: Block, address: int, first: Access, second: Access) -> None:
        if first.kind == second.kind == "writes" and _same(first.value, second.value):
            return
        if self.order.is_before(first.block, first.thread, first.time, self.block, self.thread):
            return
        index = block.index_of(address)
        thread, block_name = self.grid.thread_name, self.grid.block_name
        if first.block == second.block:
            who = [f"thread {thread(access.thread)} {access.kind}" for access in (first, second)]
            what = f"{who[0]} and {who[1]} '{block.name}[{_told(index)}]' with no barrier between"
        else:
            who = [f"block {block_name(access.block)} {access.kind}" for access in (first, second)]
            what = f"{who[0]} and {who[1]} '{block.name}[{_told(index)}]' in one launch"
        self.find("races", block.name, index, [first.line, second.line], what, first)

    def _put(self, block: Block, address: int, value: Any, line: Line) -> None:
        if block.written is not None:
            block.written.add(address)
        else:
            block.writers[address] = line
        if self.nan and not block.is_private and isinstance(value, (np.floating, np.complexfloating)):
            if np.isfinite(value) or (np.isinf(value) and not block.is_argument):
                return
            index = block.index_of(address)
            message = f"{value} is written to '{block.name}[{_told(index)}]' by thread {self.me}"
            self.find("nan", block.name, index, [line], message)

    def _uninitialised(self, block: Block, address: int, line: Line) -> None:
        index = block.index_of(address)
        message = f"thread {self.me} reads '{block.name}[{_told(index)}]', which nothing has written"
        self.find("uninitialised", block.name, index, [line], message)

    def _line(self) -> Line:
        self.since_barrier += 1
        if self.since_barrier > _MOST_ACCESSES:
            raise TimeoutError(f"thread {self.me} does not end: it waits for something that no other thread does")
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename in self.helpers:
            frame = frame.f_back
        assert frame is not None
        return frame.f_code, frame.f_lineno

    @property
    def me(self) -> str:
        """The running thread, in words."""
        thread, block = self.grid.thread_name(self.thread), self.grid.block_name(self.block)
        return f"{thread} of block {block}"


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, np.floating) and math.isnan(first):
        return bool(np.isnan(second))
    return bool(np.all(first == second))


def _told(index: tuple[int, ...]) -> str:
    return ", ".join(map(str, index))


def _place(line: Line) -> str:
    code, number = line
    return f"{code.co_filename}:{number}"
