"""Uniformity analysis: variables, loops and conditions with the same value in all threads of a block.

They are evaluated once per block. A variable is uniform if every assignment computes it from constants, block indices
and other uniform variables only, is at the level of barriers (not inside a region), and dominates every read of it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from warpdrive.kernels.language import VALUES
from warpdrive.kernels.resolve import Table
from warpdrive.kernels.syntax import (
    AGREED,
    HERE,
    ITEMS,
    LEN,
    SENT,
    TALLY,
    FunctionName,
    IntrinsicName,
    contains_barrier,
    loaded_names,
    stored_names,
    walk,
)

Chain = tuple[int, ...]
"""The enclosing divergent conditions and loops of a statement, outermost first."""


@dataclass(frozen=True)
class Uniform:
    """Uniform values of a kernel.

    Attributes:
        variables: The variables computed once per block.
        constants: The names whose values never change.
        arrays: The names of the parameters that are arrays, whose shapes are uniform.
        tuples: The constants and variables that only ever hold tuples.
        conditions_agree: If True, conditions of fused kernels are uniform, whatever they are computed from.
    """

    variables: Collection[str]
    constants: Collection[str]
    arrays: Collection[str]
    tuples: Collection[str] = ()
    conditions_agree: bool = False

    def agrees(self, node: ast.expr) -> bool:
        """Return True if an expression has the same value in all threads of a block."""
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, IntrinsicName):
            return node.path in VALUES and not node.path.startswith(("threadIdx", "laneid"))
        if isinstance(node, ast.Name):
            is_known = node.id in self.variables or node.id in self.constants or node.id in ITEMS
            return is_known and not isinstance(node, FunctionName)
        if isinstance(node, ast.Attribute):
            return node.attr in ("shape", "size", "ndim") and getattr(node.value, "id", None) in self.arrays
        if isinstance(node, ast.Subscript):
            is_fixed = isinstance(node.value, (ast.Attribute, ast.Tuple))
            is_fixed = is_fixed or getattr(node.value, "id", None) in self.tuples
            return is_fixed and self.agrees(node.value) and self.agrees(node.slice)
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == LEN and len(node.args) == 1:
            return self.agrees(node.args[0]) or getattr(node.args[0], "id", None) in self.arrays
        if isinstance(node, (ast.Tuple, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Call)):
            keywords = [word.value for word in node.keywords] if isinstance(node, ast.Call) else []
            parts = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
            return all(map(self.agrees, (*parts, *keywords)))
        return False

    def is_once(self, node: ast.stmt) -> bool:
        """Return True if a statement at the level of barriers only needs to run once per block."""
        name = _assigned_name(node)
        return name in self.variables or (isinstance(node, ast.Assign) and (name or "").startswith(TALLY))


def find_uniform(
    body: Sequence[ast.stmt],
    parameters: Collection[str],
    arrays: Collection[str],
    table: Table,
    conditions_agree: bool = False,
) -> Uniform:
    """Find the uniform values of an inlined body.

    Args:
        body: The statements of the body.
        parameters: The names of the kernel's parameters.
        arrays: The names of the parameters that are arrays.
        table: The constants, imports and classes of the kernel.
        conditions_agree: If True, conditions of fused kernels are uniform, whatever they are computed from.

    Returns:
        The largest set of variables that satisfies the conditions of uniformity.
    """
    assigned = stored_names(body)
    tallies = {name for name in assigned if name.startswith(TALLY)}  # only read after the barrier that ends the count
    constants = {*(set(parameters) - set(arrays)), *table.constants, *table.imports, *table.classes, *tallies}
    tuples = {name for name, value in table.constants.items() if isinstance(value, tuple)} | _tuple_variables(body)
    candidates = {name for name in assigned - set(parameters) - tallies if not name.startswith((SENT, HERE))}
    while True:
        uniform = Uniform(candidates, constants, arrays, tuples, conditions_agree)
        uses = _Uses(uniform)
        uses.block(body, ())
        remaining = {name for name in candidates if uses.qualifies(name)}
        if remaining == candidates:
            return uniform
        candidates = remaining


@dataclass
class _Uses:
    """Locations of the stores and loads of variables, under an assumption on which variables are uniform."""

    uniform: Uniform
    stores: dict[str, set[Chain]] = field(default_factory=dict)
    loads: dict[str, set[Chain]] = field(default_factory=dict)
    disqualified: set[str] = field(default_factory=set)

    def qualifies(self, name: str) -> bool:
        stores = self.stores.get(name, set())
        if name in self.disqualified or len(stores) != 1:
            return False
        (chain,) = stores
        return all(reader[: len(chain)] == chain for reader in self.loads.get(name, ()))

    def block(self, statements: Sequence[ast.stmt], chain: Chain) -> None:
        for node in statements:
            if isinstance(node, (ast.If, ast.While)) and contains_barrier([node]):
                self._read([node.test], chain)
                inner = chain if self.uniform.agrees(node.test) else (*chain, id(node))
                self.block(node.body, inner)
                self.block(node.orelse, inner if inner == chain else (*chain, -id(node)))
            else:
                self._statement(node, chain)

    def _statement(self, node: ast.stmt, chain: Chain) -> None:
        self._read([node], chain)
        name = _assigned_name(node)
        if name is None:
            self.disqualified |= stored_names([node])
            return
        assert isinstance(node, (ast.Assign, ast.AugAssign))
        if isinstance(node, ast.AugAssign):
            self.loads.setdefault(name, set()).add(chain)
        if self.uniform.agrees(node.value) or (self.uniform.conditions_agree and name.startswith(AGREED)):
            self.stores.setdefault(name, set()).add(chain)
        else:
            self.disqualified.add(name)

    def _read(self, nodes: Sequence[ast.AST], chain: Chain) -> None:
        for name in loaded_names(nodes):
            self.loads.setdefault(name, set()).add(chain)


def _tuple_variables(body: Sequence[ast.stmt]) -> set[str]:
    """Return the variables that are only assigned tuple displays."""
    assignments = [node for node in walk(body) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)]
    names = [node.targets[0].id for node in assignments if isinstance(node.targets[0], ast.Name)]
    stores = [node.id for node in walk(body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return {name for name in names if names.count(name) == stores.count(name)}


def _assigned_name(node: ast.stmt) -> str | None:
    """Return the target of an assignment to a single name, or None for any other statement."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return None
