"""Strided loops in rounds: all threads of a block run an iteration before any runs the next.

In ``for i in range(cuda.grid(1), n, cuda.gridsize(1))``, neighbouring threads access neighbouring elements at the same
time on a GPU. A thread that runs all of its iterations alone, as between barriers on a CPU, jumps through memory. Here
a barrier ends each iteration, and the loop counts the rounds, which are the same for all threads.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from warpdrive.kernels.control_flow import jumps_out_of
from warpdrive.kernels.language import BARRIER, POSITIONS
from warpdrive.kernels.syntax import (
    GENERATED,
    RANGE,
    RANGE_ITEM,
    IntrinsicName,
    assign,
    at,
    contains_barrier,
    copy_tree,
    load,
    loaded_names,
    stored_names,
    walk,
)
from warpdrive.kernels.uniform import Uniform


def in_rounds(body: Sequence[ast.stmt], uniform: Uniform, known: Mapping[str, ast.Assign]) -> list[ast.stmt]:
    """Return the statements of a kernel with strided loops outside of conditions and other loops run in rounds.

    Args:
        body: The straightened, inlined body.
        uniform: The uniform values of the body.
        known: The variables that only depend on indices and constants, with their assignments.
    """
    changed: list[ast.stmt] = []
    for number, node in enumerate(body):
        rounds = None
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and not _is_read(node.target.id, body, node):
            rounds = _rounds(node, number, uniform, known)
        changed += [node] if rounds is None else rounds
    return changed


def _is_read(name: str, body: Sequence[ast.stmt], loop: ast.For) -> bool:
    """Return True if a variable is read outside of a loop."""
    return name in loaded_names(statement for statement in body if statement is not loop)


def _rounds(loop: ast.For, number: int, uniform: Uniform, known: Mapping[str, ast.Assign]) -> list[ast.stmt] | None:
    """Return the statements that run a loop in rounds, or None if it is no strided loop."""
    over = loop.iter
    if not (isinstance(over, ast.Call) and getattr(over.func, "id", "") == RANGE and len(over.args) == 3):
        return None
    start, stop, step = (_Written(known).visit(copy_tree(argument)) for argument in over.args)
    axis = _axis(start)
    if axis is None or not _is_stride(step, axis) or not uniform.agrees(stop):
        return None
    if contains_barrier([loop]) or loop.orelse or any(map(jumps_out_of, loop.body)) or _has_strided_loop(loop, known):
        return None
    if stored_names(loop.body) & (loaded_names([over]) | loaded_names([start, stop, step])):
        return None
    assert isinstance(loop.target, ast.Name)
    count = f"{GENERATED}round_{number}"
    first = ast.BinOp(_OfFirst().visit(copy_tree(start)), ast.Add(), ast.BinOp(load(count), ast.Mult(), step))
    going = ast.Compare(first, [ast.Lt()], [stop])
    item = ast.Call(load(RANGE_ITEM), [copy_tree(over), load(count)], [])
    guarded = ast.If(ast.Compare(load(loop.target.id), [ast.Lt()], [copy_tree(stop)]), loop.body, [])
    barrier = ast.Expr(ast.Call(IntrinsicName.of(BARRIER, loop), [], []))
    following = assign(count, ast.BinOp(load(count), ast.Add(), ast.Constant(1)))
    rounds = ast.While(going, [assign(loop.target.id, item), guarded, barrier, following], [])
    return [at(loop, assign(count, ast.Constant(0))), at(loop, rounds)]


class _Written(ast.NodeTransformer):
    """Replaces known variables by what they are computed from."""

    def __init__(self, known: Mapping[str, ast.Assign]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        written = self.known.get(node.id)
        return node if written is None else self.visit(copy_tree(written.value))


class _OfFirst(ast.NodeTransformer):
    """Replaces a thread's indices by those of the first thread of its block."""

    def visit_IntrinsicName(self, node: IntrinsicName) -> ast.expr:
        return at(node, ast.Constant(0)) if node.path.startswith("threadIdx") else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if _is_position(node, "grid"):
            block, threads = (IntrinsicName.of(f"{part}.x", node) for part in ("blockIdx", "blockDim"))
            return at(node, ast.BinOp(block, ast.Mult(), threads))
        return self.generic_visit(node)  # type: ignore[return-value]


def _axis(start: ast.expr) -> str | None:
    """Return the axis of an index that grows by 1 from thread to thread, or None for any other expression."""
    if _is_position(start, "grid"):
        return "x"
    if isinstance(start, IntrinsicName) and start.path.startswith("threadIdx."):
        return start.path[-1]
    if isinstance(start, ast.BinOp) and isinstance(start.op, ast.Add):
        for own, other in ((start.left, start.right), (start.right, start.left)):
            if (axis := _axis(own)) is not None and not _depends_on_thread(other):
                return axis
    return None


def _is_stride(step: ast.expr, axis: str) -> bool:
    """Return True for the number of threads of a block or a grid along an axis."""
    if _is_position(step, "gridsize"):
        return axis == "x"
    factors = [step.left, step.right] if isinstance(step, ast.BinOp) and isinstance(step.op, ast.Mult) else [step]
    paths = [factor.path for factor in factors if isinstance(factor, IntrinsicName)]
    return len(paths) == len(factors) and sorted(paths) in (
        [f"blockDim.{axis}"],
        [f"blockDim.{axis}", f"gridDim.{axis}"],
    )


def _is_position(node: ast.expr, path: str) -> bool:
    """Return True for ``cuda.grid(1)`` or ``cuda.gridsize(1)``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, IntrinsicName)
        and node.func.path == path
        and [getattr(argument, "value", None) for argument in node.args] == [1]
    )


def _depends_on_thread(node: ast.expr) -> bool:
    names = [each for each in walk([node]) if isinstance(each, IntrinsicName)]
    return any(name.path.startswith(("threadIdx", "laneid")) or name.path in POSITIONS for name in names)


def _has_strided_loop(loop: ast.For, known: Mapping[str, ast.Assign]) -> bool:
    """Return True if a loop contains a loop with bounds that depend on the thread."""
    inner = (node.iter for node in walk(loop.body) if isinstance(node, ast.For))
    return any(_depends_on_thread(_Written(known).visit(copy_tree(bounds))) for bounds in inner)
