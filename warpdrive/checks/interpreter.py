"""Interpreter of kernels in Python: the threads of a block advance together from barrier to barrier."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.np.numpy_support import as_dtype

from warpdrive.checks.grid import Grid
from warpdrive.checks.intrinsics import PLAIN, Index
from warpdrive.checks.linking import Linker, has_barrier, path_of
from warpdrive.checks.memory import with_fields
from warpdrive.checks.schedules import Order, forwards
from warpdrive.checks.warps import warp_result
from warpdrive.kernels.language import (
    ARRAYS,
    BARRIERS,
    FENCES,
    GRID_BARRIER,
    SYNC_POINTS,
    WARP,
    WARP_BARRIER,
    WARP_FUNCTIONS,
)
from warpdrive.kernels.source import FunctionSource

AXES = "xyz"
_AT_THE_END = object()
"""Return value of a thread that reached the end of the kernel, rather than an earlier ``return``."""

Place = tuple[tuple[Any, int, int], ...]
"""Location at which a thread waits: code, line and instruction of the kernel, and of the functions called there."""


@dataclass(eq=False)
class Thread:
    """Thread that has not ended: the barrier it waits at, and the result passed to it when it resumes.

    Attributes:
        waits_for: ``"block"``, ``"warp"`` or ``"grid"``, and ``""`` if it does not wait.
        has_left: If True, it has left a kernel function of a fused kernel by ``return``, and waits for the others.
    """

    number: int
    run: Generator[tuple[str, Any], Any, Any]
    waits_for: str = ""
    has_left: bool = False
    given: Any = None
    answer: Any = None

    @property
    def place(self) -> Place:
        """Location at which it waits."""
        places: list[tuple[Any, int, int]] = []
        generator: Any = self.run
        while generator is not None and hasattr(generator, "gi_frame"):
            frame = generator.gi_frame
            places.append((frame.f_code, frame.f_lineno, frame.f_lasti))
            generator = generator.gi_yieldfrom
        return tuple(places)


class _WaitingBlock(NamedTuple):
    """Block that waits at a barrier of the grid: its number, threads that have not ended, and shared arrays."""

    block: int
    threads: list[Thread]
    shared: dict[Any, Any]


class Interpreter:
    """Interpreter of one kernel on a grid of threads.

    Subclasses may override the linking of functions, the creation of arrays, and the event callbacks.

    Args:
        source: The kernel.
        grid: Its blocks and threads.
        shared_bytes: Size of dynamic shared memory in bytes.
        is_fused: If True, it calls kernel functions, which threads may leave by ``return`` before a barrier.
    """

    def __init__(self, source: FunctionSource, grid: Grid, *, shared_bytes: int = 0, is_fused: bool = False) -> None:
        self.source, self.grid, self.shared_bytes, self.is_fused = source, grid, shared_bytes, is_fused
        self.thread_index, self.block_index = SimpleNamespace(), SimpleNamespace()
        self.shared: dict[Any, Any] = {}
        self.intrinsics = self._intrinsics()
        self.functions: dict[int, Any] = {}
        self.kernel_functions: dict[int, Any] = {}
        self.barriers: dict[ast.FunctionDef, bool] = {}
        self.threads: list[Thread] = []
        self.kernel = self.linker(source, is_kernel=True).link()

    def run(self, arguments: Sequence[Any], order: Order = forwards) -> None:
        """Run all threads of all blocks, in the given order."""
        waiting: list[_WaitingBlock] = []
        self.num_running = self.grid.num_blocks
        for block in order(self.grid.num_blocks):
            self._select(block)
            self.shared = {None: np.zeros(self.shared_bytes, np.uint8)}
            self.begin_block(block)
            self.threads = [Thread(number, self.kernel(*arguments)) for number in order(self.grid.num_threads)]
            self._run_part(block, [*self.threads], waiting)
        while waiting:  # all blocks have reached a barrier of the grid, or ended
            self._meet(waiting)
            going, waiting = waiting, []
            for state in going:
                self._select(state.block)
                self.shared, self.threads = state.shared, state.threads
                self.resume_block(state.block)
                _answer([thread for thread in state.threads if thread.waits_for == "grid"])
                self._run_part(state.block, [*state.threads], waiting)

    def _select(self, block: int) -> None:
        vars(self.block_index).update(zip(AXES, map(Index, self.grid.block_position(block)), strict=True))

    def _run_part(self, block: int, threads: list[Thread], waiting: list[_WaitingBlock]) -> None:
        """Run a block until its threads wait for the grid; it is then added to ``waiting``."""
        left = self._run_block(threads)
        if left:
            waiting.append(_WaitingBlock(block, left, self.shared))
            self.suspend_block(block)

    def _meet(self, waiting: list[_WaitingBlock]) -> None:
        if len(waiting) < self.num_running:
            present = {state.block for state in waiting}
            ended = next(block for block in range(self.grid.num_blocks) if block not in present)
            self.grid_divergence(waiting[0].block, waiting[0].threads[0], ended)
        self.num_running = len(waiting)
        self.grid_barrier()

    def linker(self, source: FunctionSource, is_kernel: bool = False) -> Linker:
        """Return the linker of a function."""
        intrinsics, function = self.intrinsics.__getitem__, self.called_by(source)
        return ThreadLinker(source, function, intrinsics, has_barrier=self.has_barrier, is_kernel=is_kernel)

    def called_by(self, source: FunctionSource) -> Callable[[FunctionSource], Any]:
        """Return the function that links what a function calls."""
        return self.kernel_function if self.is_fused and source is self.source else self.function

    def kernel_function(self, source: FunctionSource) -> Any:
        """Return the linked form of a function called by a fused kernel, which notes threads that leave it early."""
        if not self.has_barrier(source):
            return self.function(source)
        key = id(source.tree)
        if key not in self.kernel_functions:
            linked = self.linker(source, is_kernel=True).link()

            def run(*given: Any) -> Generator[Any, Any, None]:
                end = yield from linked(*given)
                self.running.has_left = end is not _AT_THE_END

            self.kernel_functions[key] = run
        return self.kernel_functions[key]

    def has_barrier(self, source: FunctionSource) -> bool:
        """Return True if a device function, or one that it calls, contains a barrier."""
        if source.tree not in self.barriers:
            self.barriers[source.tree] = has_barrier(source)
        return self.barriers[source.tree]

    def function(self, source: FunctionSource) -> Any:
        """Return the linked form of a device function: a generator function if it contains a barrier.

        All callers share it, so that a shared array in it is allocated once.
        """
        key, functions = id(source.tree), self.functions
        if key not in functions:
            functions[key] = lambda *given, **words: functions[key](*given, **words)  # of a function that calls itself
            functions[key] = self.linker(source).link()
        return functions[key]

    def begin_block(self, block: int) -> None:
        """Handle the start of a block."""

    def suspend_block(self, block: int) -> None:
        """Handle a block whose threads have reached a barrier of the grid."""

    def resume_block(self, block: int) -> None:
        """Handle the resumption of a block after a barrier of the grid."""

    def begin_thread(self, thread: int) -> None:
        """Handle the start, or resumption, of a thread."""

    def barrier(self) -> None:
        """Handle a barrier that the threads of a block have passed."""

    def grid_barrier(self) -> None:
        """Handle a barrier that the threads of all blocks have passed."""

    def warp_barrier(self, threads: list[int]) -> None:
        """Handle a barrier that threads of a warp have passed."""

    def fence(self) -> None:
        """Handle a fence of the running thread."""

    def divergence(self, waiting: Thread, elsewhere: Thread | int) -> None:
        """Handle divergence: a thread waits at a barrier while another waits elsewhere, or (its number) has ended."""

    def grid_divergence(self, block: int, waiting: Thread, ended: int) -> None:
        """Handle divergence of blocks: threads of one wait at a barrier of the grid while another has ended.

        Args:
            block: Number of the block that waits.
            waiting: One of its threads.
            ended: Number of a block that has ended.
        """

    def array(self, kind: str, shape: tuple[int, ...], dtype: Any, name: str, buffer: Any = None) -> Any:
        """Return a new shared or local array.

        Args:
            kind: ``"shared"`` or ``"local"``.
            shape: Shape of the array.
            dtype: Dtype of its elements.
            name: Name of the array in messages.
            buffer: Memory of an array with a dynamic size, else None.

        Returns:
            The array, zero-initialised unless it uses the buffer.
        """
        return with_fields(np.zeros(shape, dtype) if buffer is None else np.frombuffer(buffer, dtype))

    def _run_block(self, threads: list[Thread]) -> list[Thread]:
        """Run the threads until all have ended, or wait for the grid; return those that wait."""
        ended: list[int] = []
        while True:
            threads = self._run_until_barrier(threads, ended)
            places = {thread: thread.place for thread in threads}
            if not places:
                return []
            first = min(places.values(), key=lambda place: [part[1:] for part in place])
            here = [thread for thread in threads if places[thread] == first]
            for other in (thread for thread in threads if places[thread] != first and not thread.has_left):
                is_outside = self.is_fused and len(places[other]) == 1  # it has ended the kernel function
                self.divergence(here[0], other.number if is_outside else other)
            for number in ended:
                self.divergence(here[0], number)
            if here[0].waits_for == "grid":
                return threads
            self.barrier()
            _answer(here)

    def _run_until_barrier(self, threads: list[Thread], ended: list[int]) -> list[Thread]:
        """Run the threads until all wait for the whole block; return those that did not end."""
        while True:
            for thread in [thread for thread in threads if not thread.waits_for]:
                if self._run_thread(thread, ended):
                    continue
                threads.remove(thread)
            if not self._release_warps(threads):
                return threads

    def _run_thread(self, thread: Thread, ended: list[int]) -> bool:
        """Run a thread until it waits; return False if it ended instead."""
        position = (*self.grid.thread_position(thread.number), thread.number % WARP)
        vars(self.thread_index).update(zip((*AXES, "lane"), map(Index, position), strict=True))
        self.begin_thread(thread.number)
        self.running = thread
        try:
            thread.waits_for, thread.given = thread.run.send(thread.answer)
        except StopIteration as end:
            if end.value is _AT_THE_END:
                ended.append(thread.number)
            return False
        thread.answer = None
        return True

    def _release_warps(self, threads: list[Thread]) -> bool:
        """Release the threads that wait for their warp; return True if there were any."""
        waiting = [thread for thread in threads if thread.waits_for == "warp"]
        groups: dict[tuple[int, Place], list[Thread]] = {}
        for thread in sorted(waiting, key=lambda thread: thread.number):
            groups.setdefault((thread.number // WARP, thread.place), []).append(thread)
        for warp in sorted({thread.number // WARP for thread in waiting}):
            self.warp_barrier([thread.number for thread in waiting if thread.number // WARP == warp])
        for together in groups.values():
            _answer_warp(together)
        return bool(waiting)

    def _intrinsics(self) -> dict[str, Any]:
        block, grid = self.grid.threads, self.grid.blocks
        fences = dict.fromkeys(FENCES, lambda: self.fence())
        return {
            **PLAIN,
            **fences,
            **dict.fromkeys(SYNC_POINTS),
            "lanemask_lt": lambda: np.uint32((1 << self.thread_index.lane) - 1),
            "threadIdx": self.thread_index,
            "laneid": self.thread_index,
            "blockIdx": self.block_index,
            "blockDim": SimpleNamespace(**dict(zip(AXES, map(Index, block), strict=True))),
            "gridDim": SimpleNamespace(**dict(zip(AXES, map(Index, grid), strict=True))),
            "warpsize": Index(WARP),
            "grid": self._per_axis(lambda axis: self._block(axis) * block[axis] + self._thread(axis)),
            "gridsize": self._per_axis(lambda axis: grid[axis] * block[axis]),
            "shared.array": self._shared_array,
            "local.array": self._local_array,
        }

    def _thread(self, axis: int) -> int:
        return int(getattr(self.thread_index, AXES[axis]))

    def _block(self, axis: int) -> int:
        return int(getattr(self.block_index, AXES[axis]))

    def _per_axis(self, value: Callable[[int], int]) -> Callable[[int], Any]:
        return lambda rank: value(0) if rank == 1 else tuple(value(axis) for axis in range(rank))

    def _shared_array(self, site: int, name: str, shape: Any, dtype: Any, **_: Any) -> Any:
        """Return a block's shared array for one call site; all arrays of size 0 are the whole dynamic memory.

        A function called with different shapes or dtypes has an array for each.
        """
        lengths, kind = _lengths(shape), _dtype(dtype)
        key = (site, lengths, kind)
        if key not in self.shared:
            buffer = self.shared[None] if lengths == (0,) else None
            self.shared[key] = self.array("shared", lengths, kind, name, buffer)
        return self.shared[key]

    def _local_array(self, site: int, name: str, shape: Any, dtype: Any, **_: Any) -> Any:
        return self.array("local", _lengths(shape), _dtype(dtype), name)


class ThreadLinker(Linker):
    """Linker that turns a function with barriers into a generator that yields at each of them."""

    def __init__(
        self, *arguments: Any, has_barrier: Callable[[FunctionSource], bool], is_kernel: bool, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.has_barrier, self.is_kernel = has_barrier, is_kernel
        self.array_names: dict[int, str] = {}

    def linked_body(self, definition: ast.FunctionDef) -> list[ast.stmt]:
        """Return the linked statements; those of a kernel return a sentinel at the end and always contain a yield."""
        last = definition.body[-1]
        body = super().linked_body(definition)
        if self.is_kernel:
            end = ast.Return(self.named(_AT_THE_END, last))
            never = ast.Expr(ast.Yield())
            body += [ast.copy_location(statement, last) for statement in (end, never)]
        return body

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:  # noqa: N802
        """Record the names of assigned arrays; see :class:`ast.NodeTransformer`."""
        for target, value in _pairs(node.targets[0], node.value):
            if isinstance(target, ast.Name) and isinstance(value, ast.Call):
                self.array_names[id(value)] = target.id
        self.generic_visit(node)
        return node

    def linked_call(self, node: ast.Call, path: str | None, source: FunctionSource | None) -> ast.expr:
        """Turn barriers and calls that contain them into yields; pass call site and name to array constructors.

        Args:
            node: The call, with its parts linked.
            path: Dotted name of the called intrinsic in ``numba.cuda``, or None.
            source: Source of the called device function, or None.

        Returns:
            The expression that replaces the call.
        """
        if path in SYNC_POINTS:
            kind = "grid" if path == GRID_BARRIER else "block" if path in BARRIERS and path != WARP_BARRIER else "warp"
            given: ast.expr = node.args[0] if node.args and kind == "block" else ast.Constant(None)
            if path in WARP_FUNCTIONS:
                given = ast.Tuple(node.args, ast.Load())
            signal = ast.Tuple([ast.Constant(kind), ast.Tuple([ast.Constant(path), given], ast.Load())], ast.Load())
            return ast.copy_location(ast.Yield(signal), node)
        if source is not None and self.has_barrier(source):
            return ast.copy_location(ast.YieldFrom(node), node)
        if path in ARRAYS:
            name = self.array_names.get(id(node), "an array")
            node.args = [self.named(object(), node), ast.Constant(name), *node.args]
        return node

    def _linked(self, node: ast.Name | ast.Attribute) -> ast.expr | None:
        linked, value = super()._linked(node), self.value_of(node)
        if isinstance(value, (np.ndarray, np.void)):
            return self.named(with_fields(value), node)
        if linked is not None and path_of(value) == "laneid":
            return ast.copy_location(ast.Attribute(linked, "lane", ast.Load()), node)
        return linked


def _answer_warp(threads: list[Thread]) -> None:
    """Release threads of a warp that have met, each with the result of the function for which they met."""
    path = threads[0].given[0]
    if path == WARP_BARRIER:
        for thread in threads:
            thread.waits_for = ""
        return
    lanes = [thread.number % WARP for thread in threads]
    given = [thread.given[1] for thread in threads]
    for thread, lane, arguments in zip(threads, lanes, given, strict=True):
        thread.waits_for, thread.answer = "", warp_result(path, dict(zip(lanes, given, strict=True)), lane, arguments)


def _answer(threads: list[Thread]) -> None:
    """Release threads that have met, each with the result of the barrier."""
    values = [bool(thread.given[1]) for thread in threads]
    answers = {
        GRID_BARRIER: None,
        "syncthreads": None,
        "syncthreads_count": sum(values),
        "syncthreads_and": int(all(values)),
        "syncthreads_or": int(any(values)),
    }
    for thread in threads:
        thread.waits_for, thread.answer, thread.has_left = "", answers[thread.given[0]], False


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=False))
    return [(target, value)]


def _lengths(shape: Any) -> tuple[int, ...]:
    return tuple(map(int, shape)) if isinstance(shape, tuple) else (int(shape),)


def _dtype(dtype: Any) -> np.dtype[Any]:
    return np.dtype(as_dtype(dtype) if isinstance(dtype, types.Type) else dtype)
