"""Placement of a kernel's local variables: within one region, recomputed in each, or stored per thread between them.

Recomputing ``env, agent = cuda.blockIdx.x, cuda.threadIdx.x`` and other values that depend on indices and constants
only costs no memory traffic, and makes the strides of array accesses known to LLVM.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass, field

from warpdrive.kernels.language import POSITIONS, VALUES
from warpdrive.kernels.regions import Loop, Once, Part, Region, UniformLoop, all_parts, regions_of
from warpdrive.kernels.resolve import Table
from warpdrive.kernels.syntax import HERE, SENT, TALLY, FunctionName, IntrinsicName, loaded_names, stored_names, walk


@dataclass
class Variables:
    """Variables that are live in more than one region.

    Attributes:
        recomputed: Variables assigned once, from values that never change (indices, scalar arguments, constants, arrays
            in shared memory). Each region that reads one recomputes it.
        kept: All other variables that a region reads before it assigns them. Each has a slot per thread.
        once: Variables computed once per block, from values that never change.
    """

    recomputed: dict[str, ast.Assign]
    kept: list[str]
    once: dict[str, ast.Assign] = field(default_factory=dict)


def place_variables(parts: list[Part], parameters: Collection[str], arrays: Collection[str], table: Table) -> Variables:
    """Decide the placement of each local variable; assignments of recomputed variables are removed from the regions.

    Args:
        parts: The parts of the kernel. Their regions are modified in place.
        parameters: The names of the kernel's parameters.
        arrays: The names of the parameters that are arrays.
        table: The constants and shared arrays of the kernel.

    Returns:
        The variables that are live in more than one region.
    """
    regions = regions_of(parts)
    constant = _constant_names(regions, parameters, arrays, table)
    once = [part.statement for part in all_parts(parts) if isinstance(part, Once)]
    computed_once = _recomputed(_single_assignments(once), constant)
    computed_once = {name: node for name, node in computed_once.items() if not name.startswith(TALLY)}
    constant |= computed_once.keys()
    assignments = _single_assignments([statement for region in regions for statement in region.statements])
    recomputed = _recomputed(assignments, constant)
    for region in regions:
        region.statements = _without({*map(id, recomputed.values())}, region.statements)
    return Variables(recomputed, sorted(_kept(parts)), computed_once)


def recomputable(
    statements: list[ast.stmt], parameters: Collection[str], arrays: Collection[str], table: Table
) -> dict[str, ast.Assign]:
    """Return the variables that can be recomputed anywhere: assigned once, from values that never change.

    Args:
        statements: The statements that assign them.
        parameters: The names of the kernel's parameters.
        arrays: The names of the parameters that are arrays.
        table: The constants and shared arrays of the kernel.

    Returns:
        The assignment of each variable, by its name.
    """
    constant = _constant_names([Region(statements)], parameters, arrays, table)
    return _recomputed(_single_assignments(statements), constant)


def exposed_names(statements: list[ast.stmt]) -> set[str]:
    """Return the names that the statements may read before they assign them (live on entry)."""
    flow = _Flow()
    flow.block(statements, frozenset())
    return flow.exposed


def unsettled_names(statements: list[ast.stmt]) -> set[str]:
    """Return the names that may still have their previous value after the statements, or are read before assignment."""
    flow = _Flow()
    certain = flow.block(statements, frozenset())
    return flow.exposed | (stored_names(statements) - certain)


def needed(recomputed: dict[str, ast.Assign], statements: list[ast.stmt]) -> list[ast.Assign]:
    """Return the assignments of recomputed variables that the statements depend on, in dependency order."""
    wanted = loaded_names(statements)
    found = []
    for name, node in reversed(recomputed.items()):
        if name in wanted:
            wanted |= loaded_names([node.value])
            found.append(node)
    return found[::-1]


def _kept(parts: list[Part]) -> set[str]:
    """Return the names that are live between regions, or between iterations of a region in a loop."""
    regions = regions_of(parts)
    loops = [part for part in all_parts(parts) if isinstance(part, (Loop, UniformLoop))]
    in_loops = {id(region) for loop in loops for region in regions_of([loop])}
    assigned = {id(region): stored_names(region.statements) for region in regions}
    kept = {loop.going for loop in loops if isinstance(loop, Loop)}
    for region in regions:
        elsewhere = (names for key, names in assigned.items() if key != id(region) or key in in_loops)
        kept |= exposed_names(region.statements) & set().union(*elsewhere)
    return {name for name in kept if not name.startswith(TALLY)}  # tallies belong to the block, not to a thread


def _single_assignments(statements: list[ast.stmt]) -> dict[str, ast.Assign]:
    """Return the names with exactly one store among the statements, and the assignment that stores to it."""
    stores: dict[str, int] = {}
    single: dict[str, ast.Assign] = {}
    for node in walk(statements):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stores[node.id] = stores.get(node.id, 0) + 1
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            single[node.targets[0].id] = node
    return {n: node for n, node in single.items() if stores[n] == 1 and not n.startswith((SENT, HERE))}


def _constant_names(
    regions: list[Region], parameters: Collection[str], arrays: Collection[str], table: Table
) -> set[str]:
    assigned = stored_names(statement for region in regions for statement in region.statements)
    fixed = (table.constants, table.imports, table.classes, table.shared)
    return (set(parameters) - set(arrays) - assigned).union(*fixed)


def _recomputed(assignments: dict[str, ast.Assign], constant: set[str]) -> dict[str, ast.Assign]:
    found: dict[str, ast.Assign] = {}
    for name, node in assignments.items():
        if _never_changes(node.value, constant | found.keys()):
            found[name] = node
    return found


def _never_changes(node: ast.expr, constant: Collection[str]) -> bool:
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, IntrinsicName):
        return node.path in VALUES
    if isinstance(node, ast.Name):
        return node.id in constant and not isinstance(node, FunctionName)
    if isinstance(node, ast.Call):
        is_position = isinstance(node.func, IntrinsicName) and node.func.path in POSITIONS
        arguments = [*node.args, *(word.value for word in node.keywords)]
        return (is_position or _never_changes(node.func, constant)) and all(
            _never_changes(argument, constant) for argument in arguments
        )
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp)):
        return all(_never_changes(c, constant) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr))
    return False


def _without(removed: set[int], statements: list[ast.stmt]) -> list[ast.stmt]:
    class Remover(ast.NodeTransformer):
        def visit_Assign(self, node: ast.Assign) -> ast.stmt | None:
            return None if id(node) in removed else node

    kept = [remaining for statement in statements if (remaining := Remover().visit(statement)) is not None]
    for node in walk(kept):
        if isinstance(node, (ast.If, ast.For, ast.While)) and not node.body:
            node.body.append(ast.Pass())
    return kept


class _Flow:
    """Definite assignment analysis; collects the names that may be read before they are assigned."""

    def __init__(self) -> None:
        self.exposed: set[str] = set()

    def block(self, statements: list[ast.stmt], certain: frozenset[str]) -> frozenset[str]:
        for statement in statements:
            certain = self.statement(statement, certain)
        return certain

    def statement(self, node: ast.stmt, certain: frozenset[str]) -> frozenset[str]:
        if isinstance(node, ast.If):
            self.reads([node.test], certain)
            return self.block(node.body, certain) & self.block(node.orelse, certain)
        if isinstance(node, ast.For):
            self.reads([node.iter], certain)
            self.block(node.body, certain | stored_names([node.target]))
            return self.block(node.orelse, certain)
        if isinstance(node, ast.While):
            self.reads([node.test], certain)
            self.block(node.body, certain)
            return self.block(node.orelse, certain)
        self.reads([node], certain)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id not in certain:
            self.exposed.add(node.target.id)
        return certain | stored_names([node])

    def reads(self, nodes: list[ast.AST], certain: frozenset[str]) -> None:
        self.exposed |= loaded_names(nodes) - certain
