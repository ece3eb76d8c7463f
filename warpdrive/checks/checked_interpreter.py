"""Interpreter of the checks: the arithmetic of compiled kernels, and arrays that log accesses."""

from __future__ import annotations

import ast
import dis
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from warpdrive.checks import arithmetic
from warpdrive.checks.arrays import CheckedArray
from warpdrive.checks.endless_error import endless_error
from warpdrive.checks.grid import Grid
from warpdrive.checks.helpers import is_guard_of_shapes
from warpdrive.checks.interpreter import Interpreter, Thread, ThreadLinker
from warpdrive.checks.linking import Linker
from warpdrive.checks.memory import Block, like, mark_mixed, memory_of
from warpdrive.checks.null_log import EndlessError, Line, NullLog
from warpdrive.checks.schedules import Order, forwards
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.source import FunctionSource
from warpdrive.kernels.syntax import GENERATED, copy_tree

_WRITTEN = "written"
"""Key of the addresses written in dynamic shared memory, among the shared arrays of a block."""
_FOLDED = (ast.Constant, ast.BinOp, ast.UnaryOp)


class CheckedInterpreter(Interpreter):
    """Interpreter that runs a kernel with the arithmetic of compiled kernels and logs its actions, launch after launch.

    Args:
        source: The kernel.
        grid: Its blocks and threads.
        log: Log of accesses and barriers.
        options: Options of :class:`Interpreter`.
    """

    def __init__(self, source: FunctionSource, grid: Grid, log: NullLog, **options: Any) -> None:
        self.log = log
        self.arguments: dict[str, Block] = {}
        super().__init__(source, grid, **options)

    def check(self, arguments: Mapping[str, Any], order: Order = forwards) -> None:
        """Run the kernel on arrays and numbers. Raises :class:`KernelError` for an exception in the kernel."""
        self.log.begin_launch()
        self.arguments = {}
        given = [self._checked(name, value) for name, value in arguments.items()]
        mark_mixed(list(self.arguments.values()))
        try:
            with np.errstate(all="ignore"):
                self.run(given, order)
        except UnboundLocalError as error:
            self.log.unassigned(str(error).split("'")[1], _last_line(error))
        except EndlessError as error:
            raise endless_error(self.threads, self.log, _last_line(error)) from None
        except KernelError:
            raise
        except Exception as error:
            code, number = _last_line(error)
            raise KernelError(
                f"{code.co_filename}:{number}: thread {self.log.me} stopped with {type(error).__name__}: {error}"
            ) from error

    def _checked(self, name: str, value: Any) -> Any:
        if isinstance(value, tuple):
            return like(value, (self._checked(f"{name}[{k}]", item) for k, item in enumerate(value)))
        if isinstance(value, np.void):
            return self._checked(name, memory_of(value))[0]
        if not isinstance(value, np.ndarray):
            return value
        self.arguments[name] = Block(name, value)
        return CheckedArray(value, self.arguments[name], self.log)

    def _checked_constant(self, name: str, value: Any) -> Any:
        if isinstance(value, np.void):
            return self._checked_constant(name, memory_of(value))[0]
        return CheckedArray(value, Block(name, value), self.log)

    def _stand_in(self, value: Any) -> Any:
        return arithmetic.stand_in(value, self.log.undefined)

    def _operation(self, kind: type[ast.operator]) -> Callable[[Any, Any], Any]:
        return arithmetic.operation(kind, self.log.undefined)

    def _negated(self, value: Any) -> Any:
        if isinstance(value, (np.uint8, np.uint16)) and value:
            self.log.wraps(value)
        return -arithmetic.number(value) if isinstance(value, (bool, np.bool_)) else -value

    def function(self, source: FunctionSource) -> Any:
        """Return the linked form of a device function; see :class:`Interpreter`."""
        if is_guard_of_shapes(source):  # of which an index outside of the array would otherwise not be found
            return lambda shapes, index: True
        return super().function(source)

    def linker(self, source: FunctionSource, is_kernel: bool = False) -> Linker:
        """Return the linker of a function; see :class:`Interpreter`."""
        linker = CheckedLinker(
            source,
            self.called_by(source),
            self.intrinsics.__getitem__,
            call=self._stand_in,
            has_barrier=self.has_barrier,
            is_kernel=is_kernel,
        )
        linker.checked_constant, linker.operation = self._checked_constant, self._operation
        linker.count, linker.negated = self.log.count, self._negated
        return linker

    def begin_block(self, block: int) -> None:
        """Begin a block; see :class:`Interpreter`."""
        self.written_dynamically: set[int] = set()
        self.shared[_WRITTEN] = self.written_dynamically
        self.log.begin_block(block)

    def suspend_block(self, block: int) -> None:
        """Suspend a block; see :class:`Interpreter`."""
        self.log.suspend_block(block)

    def resume_block(self, block: int) -> None:
        """Resume a block; see :class:`Interpreter`."""
        self.written_dynamically = self.shared[_WRITTEN]
        self.log.resume_block(block)

    def grid_barrier(self) -> None:
        """Log a barrier of the grid; see :class:`Interpreter`."""
        self.log.grid_barrier()

    def grid_divergence(self, block: int, waiting: Thread, ended: int) -> None:
        """Log blocks of which only some reach a barrier of the grid; see :class:`Interpreter`."""
        self.log.grid_divergence(block, waiting.number, _line_of(waiting), ended)

    def begin_thread(self, thread: int) -> None:
        """Begin or resume a thread; see :class:`Interpreter`."""
        self.log.begin_thread(thread)

    def barrier(self) -> None:
        """Log a barrier; see :class:`Interpreter`."""
        self.log.barrier()

    def warp_barrier(self, threads: list[int]) -> None:
        """Log a warp barrier; see :class:`Interpreter`."""
        self.log.warp_barrier(threads)

    def fence(self) -> None:
        """Log a fence; see :class:`Interpreter`."""
        self.log.fence()

    def divergence(self, waiting: Thread, elsewhere: Thread | int) -> None:
        """Log barrier divergence; see :class:`Interpreter`."""
        self.log.divergence(waiting.number, _line_of(waiting), *_location_of(elsewhere))

    def array(self, kind: str, shape: tuple[int, ...], dtype: Any, name: str, buffer: Any = None) -> Any:
        """Return a new shared or local array that logs accesses; see :class:`Interpreter`."""
        array = super().array(kind, shape, dtype, name, buffer)
        is_mixed = buffer is not None  # dynamic shared arrays overlap each other
        written = self.written_dynamically if is_mixed else set[int]()
        return CheckedArray(array, Block(name, array, kind == "local", written, is_mixed=is_mixed), self.log)


class CheckedLinker(ThreadLinker):
    """Linker that gives a function the arithmetic of compiled kernels, and checks the indexing of constant arrays."""

    checked_constant: Callable[[str, Any], Any]
    count: Callable[[], None]

    def visit_While(self, node: ast.While) -> ast.stmt:  # noqa: N802
        """Count each iteration of a loop."""
        return self._counted(node)

    def visit_For(self, node: ast.For) -> ast.stmt:  # noqa: N802
        """Count each iteration of a loop."""
        return self._counted(node)

    def _counted(self, node: ast.While | ast.For) -> ast.stmt:
        self.generic_visit(node)
        call = ast.Expr(ast.Call(self.named(self.count, node), [], []))
        node.body.insert(0, ast.copy_location(call, node))
        ast.fix_missing_locations(call)
        return node

    operation: Callable[[type[ast.operator]], Callable[[Any, Any], Any]]
    negated: Callable[[Any], Any]

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:  # noqa: N802
        """Replace a binary operator by a function; see :class:`ast.NodeTransformer`."""
        if _is_folded(node):
            return node
        operator = self.named(self.operation(type(node.op)), node)
        return ast.copy_location(ast.Call(operator, [self.visit(node.left), self.visit(node.right)], []), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:  # noqa: N802
        """Replace ``~`` and ``-`` by functions; see :class:`ast.NodeTransformer`."""
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Invert):
            return ast.copy_location(ast.Call(self.named(arithmetic.inverted, node), [operand], []), node)
        if isinstance(node.op, ast.USub) and not isinstance(operand, ast.Constant):
            return ast.copy_location(ast.Call(self.named(self.negated, node), [operand], []), node)
        return ast.copy_location(ast.UnaryOp(node.op, operand), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:  # noqa: N802
        """Rewrite ``x += y`` as ``x = x + y``, evaluating the parts of ``x`` once."""
        before: list[ast.stmt] = []
        target = node.target
        if isinstance(target, (ast.Subscript, ast.Attribute)):
            target.value = self._kept(target.value, before)
        if isinstance(target, ast.Subscript) and not any(
            isinstance(part, ast.Slice) for part in ast.walk(target.slice)
        ):
            target.slice = self._kept(target.slice, before)
        left = copy_tree(target)
        left.ctx = ast.Load()
        whole = ast.copy_location(ast.BinOp(left, node.op, node.value), node)
        assignment = ast.copy_location(ast.Assign([target], whole), node)
        body = ast.Module([*before, assignment], [])
        self.generic_visit(body)
        return body.body

    def _linked(self, node: ast.Name | ast.Attribute) -> ast.expr | None:
        value = self.value_of(node)
        if isinstance(value, (np.ndarray, np.void)):
            return self.named(self.checked_constant(ast.unparse(node), value), node)
        return super()._linked(node)

    def _kept(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Assign the value of an expression to a variable, in a statement appended to ``before``."""
        if isinstance(node, (ast.Name, ast.Constant)):
            return node
        name = f"{GENERATED}kept_{len(self.local)}"
        self.local.add(name)
        before.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], node), node))
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def _is_folded(node: ast.BinOp) -> bool:
    """Return True for an operation on literals, such as ``10 ** -3``, that Python computes when it compiles."""
    if any(isinstance(part, ast.expr) and not isinstance(part, _FOLDED) for part in ast.walk(node)):
        return False
    code = compile(ast.Expression(node), "", "eval")
    return not any(instruction.opname.startswith("BINARY") for instruction in dis.get_instructions(code))


def _line_of(thread: Thread) -> Line:
    code, line, _ = thread.place[-1]
    return code, line


def _location_of(elsewhere: Thread | int) -> tuple[int, Line | None]:
    return (elsewhere, None) if isinstance(elsewhere, int) else (elsewhere.number, _line_of(elsewhere))


def _last_line(error: BaseException) -> Line:
    """Return the line of a kernel function that raised an error: the innermost one outside of this package."""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = str(Path(__file__).parent)
    return next((place for place in reversed(frames) if not place[0].co_filename.startswith(own)), frames[-1])
