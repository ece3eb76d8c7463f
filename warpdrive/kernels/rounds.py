"""Strided loops in rounds: all threads of a block run an iteration before any runs the next.

In ``for i in range(cuda.grid(1), n, cuda.gridsize(1))``, neighbouring threads access neighbouring elements at the same
time on a GPU. A thread that runs all of its iterations alone, as between barriers on a CPU, jumps through memory. Here
a barrier ends each iteration, and the loop counts the rounds, which are the same for all threads.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
    position,
    stored_names,
    walk,
)
from warpdrive.kernels.uniform import Uniform


@dataclass(frozen=True)
class _Strided:
    """A strided loop: ``variable`` starts at ``start`` and grows by ``step`` while it is less than ``stop``.

    Attributes:
        item: Returns the value of the variable in a round.
    """

    variable: str
    start: ast.expr
    stop: ast.expr
    step: ast.expr
    item: Callable[[ast.expr], ast.expr]
    body: list[ast.stmt]


def in_rounds(body: Sequence[ast.stmt], uniform: Uniform, known: Mapping[str, ast.Assign]) -> list[ast.stmt]:
    """Return the statements of a kernel with strided loops outside of conditions and other loops run in rounds.

    Args:
        body: The inlined body.
        uniform: The uniform values of the body.
        known: The variables that only depend on indices and constants, with their assignments.
    """
    changed: list[ast.stmt] = []
    for number, node in enumerate(body):
        loop = _strided(node, body[:number])
        others = [statement for statement in body if statement is not node]
        if loop is not None and loop.variable not in loaded_names(others):
            changed += _rounds(node, loop, f"{GENERATED}round_{number}", uniform, known)
        else:
            changed.append(node)
    return changed


def _strided(node: ast.stmt, before: Sequence[ast.stmt]) -> _Strided | None:
    """Return the parts of a loop over an arithmetic sequence, or None for any other statement."""
    if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
        over = node.iter
        if not (isinstance(over, ast.Call) and getattr(over.func, "id", "") == RANGE and len(over.args) == 3):
            return None
        start, stop, step = over.args

        def item(count: ast.expr) -> ast.expr:
            return ast.Call(load(RANGE_ITEM), [copy_tree(over), count], [])

        return _Strided(node.target.id, start, stop, step, item, node.body)
    if not (isinstance(node, ast.While) and isinstance(node.test, ast.Compare)):
        return None
    variable, grown = node.test.left, _growth(node.body[-1])
    if not (isinstance(variable, ast.Name) and grown is not None and grown[0] == variable.id):
        return None
    if not isinstance(node.test.ops[0], ast.Lt) or len(node.test.ops) != 1:
        return None
    starts = [statement for statement in before if variable.id in stored_names([statement])]
    if variable.id in stored_names(node.body[:-1]) or len(starts) != 1 or not isinstance(starts[0], ast.Assign):
        return None
    start, step = starts[0].value, grown[1]
    if loaded_names([start]) & stored_names(before[before.index(starts[0]) :]):
        return None  # it would have another value in the loop
    return _Strided(
        variable.id, start, node.test.comparators[0], step, lambda count: _after(start, step, count), node.body[:-1]
    )


def _growth(node: ast.stmt) -> tuple[str, ast.expr] | None:
    """Return the variable and the step of ``variable += step``, also written as a sum."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name):
        return node.target.id, node.value
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name, value = node.targets[0].id, node.value
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and getattr(value.left, "id", "") == name:
            return name, value.right
    return None


def _after(start: ast.expr, step: ast.expr, count: ast.expr) -> ast.expr:
    return ast.BinOp(copy_tree(start), ast.Add(), ast.BinOp(count, ast.Mult(), copy_tree(step)))


def _rounds(
    node: ast.stmt, loop: _Strided, count: str, uniform: Uniform, known: Mapping[str, ast.Assign]
) -> list[ast.stmt]:
    """Return the statements that run a loop in rounds; the loop itself if its threads do not stride together."""
    assert isinstance(node, (ast.For, ast.While))
    start, stop, step = (_Written(known).visit(copy_tree(bound)) for bound in (loop.start, loop.stop, loop.step))
    axis, of_first = _axis(start), _OfFirst().visit(copy_tree(start))
    if (
        axis is None
        or not (_is_stride(step, axis) and uniform.agrees(stop) and uniform.agrees(of_first))
        or contains_barrier([node])
        or node.orelse
        or any(map(jumps_out_of, loop.body))
        or _has_strided_loop(loop.body, known)
        or stored_names(loop.body) & loaded_names([loop.start, loop.stop, loop.step, start, stop, step])
    ):
        return [node]
    going = ast.Compare(_after(of_first, step, load(count)), [ast.Lt()], [stop])
    guarded = ast.If(ast.Compare(load(loop.variable), [ast.Lt()], [copy_tree(stop)]), loop.body or [ast.Pass()], [])
    barrier = ast.Expr(ast.Call(IntrinsicName.of(BARRIER, node), [], []))
    following = assign(count, ast.BinOp(load(count), ast.Add(), ast.Constant(1)))
    rounds = ast.While(going, [assign(loop.variable, loop.item(load(count))), guarded, barrier, following], [])
    return [at(node, assign(count, ast.Constant(0))), at(node, rounds)]


class _Written(ast.NodeTransformer):
    """Replaces known variables, and positions in the grid, by the indices that they are computed from."""

    def __init__(self, known: Mapping[str, ast.Assign]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        written = self.known.get(node.id)
        return node if written is None else self.visit(copy_tree(written.value))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if (
            isinstance(node.func, IntrinsicName)
            and node.func.path in POSITIONS
            and [getattr(argument, "value", None) for argument in node.args] == [1]
        ):
            return position(node, "x")
        return self.generic_visit(node)  # type: ignore[return-value]


class _OfFirst(ast.NodeTransformer):
    """Replaces a thread's indices by those of the first thread of its block."""

    def visit_IntrinsicName(self, node: IntrinsicName) -> ast.expr:
        return at(node, ast.Constant(0)) if node.path.startswith("threadIdx") else node


def _axis(start: ast.expr) -> str | None:
    """Return the axis of an index that grows by 1 from thread to thread, or None for any other expression."""
    if isinstance(start, IntrinsicName) and start.path.startswith("threadIdx."):
        return start.path[-1]
    if isinstance(start, ast.BinOp) and isinstance(start.op, ast.Add):
        for own, other in ((start.left, start.right), (start.right, start.left)):
            if (axis := _axis(own)) is not None and not _depends_on_thread(other):
                return axis
    return None


def _is_stride(step: ast.expr, axis: str) -> bool:
    """Return True for the number of threads of a block or a grid along an axis."""
    factors = [step.left, step.right] if isinstance(step, ast.BinOp) and isinstance(step.op, ast.Mult) else [step]
    paths = [factor.path for factor in factors if isinstance(factor, IntrinsicName)]
    return len(paths) == len(factors) and sorted(paths) in (
        [f"blockDim.{axis}"],
        [f"blockDim.{axis}", f"gridDim.{axis}"],
    )


def _depends_on_thread(node: ast.expr) -> bool:
    names = [each for each in walk([node]) if isinstance(each, IntrinsicName)]
    return any(name.path.startswith(("threadIdx", "laneid")) or name.path in POSITIONS for name in names)


def _has_strided_loop(body: Sequence[ast.stmt], known: Mapping[str, ast.Assign]) -> bool:
    """Return True if statements contain a loop with bounds that depend on the thread."""
    inner = (node.iter for node in walk(body) if isinstance(node, ast.For))
    return any(_depends_on_thread(_Written(known).visit(copy_tree(bounds))) for bounds in inner)
