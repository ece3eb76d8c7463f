"""Variables for members of ``numba.cuda``, as in ``thread = cuda.threadIdx`` and ``grid = cuda.cg.this_grid()``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from typing import Any

from warpdrive.kernels.errors import refuse
from warpdrive.kernels.language import GRID, Intrinsic
from warpdrive.kernels.syntax import at, copy_tree, stored_names, walk


def without_aliases(body: list[ast.stmt], look_up: Callable[[ast.expr], Any], paths: Collection[str]) -> list[ast.stmt]:
    """Return statements in which such variables are replaced by what they stand for.

    Args:
        body: The statements, which may be modified.
        look_up: Returns the value of an expression, an :class:`Intrinsic` for a member of ``numba.cuda``.
        paths: The dotted names of the members.

    Returns:
        The statements, without the assignments of such variables and without unused calls of ``cg.this_grid``.

    Raises:
        KernelError: If such a variable is assigned in another way, too.
    """
    stores = [node.id for node in walk(body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    stands_for: dict[str, ast.expr] = {}
    unused: set[int] = set()
    for node in walk(body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _path(look_up(node.value)) == GRID:
            unused.add(id(node))
        for target, value in _assignments(node):
            known = look_up(value)
            if _path(known) in paths and isinstance(target, ast.Name):
                if stores.count(target.id) > 1 and target.id not in stands_for:
                    names = [name for name in stores if name == target.id]
                    same = [v for n in walk(body) for t, v in _assignments(n) if getattr(t, "id", "") == target.id]
                    if len(same) < len(names) or any(_path(look_up(v)) != known.path for v in same):
                        refuse(node, f"a variable that stands for {known!r} is assigned once")
                stands_for[target.id] = value
    if not stands_for and not unused:
        return body

    class Replacer(ast.NodeTransformer):
        def visit_Assign(self, node: ast.Assign) -> ast.AST:
            if not stored_names(node.targets) & stands_for.keys():
                return self.generic_visit(node)
            if not stored_names(node.targets) <= stands_for.keys():
                refuse(node, "a variable that holds indices must be assigned in a separate statement")
            return at(node, ast.Pass())

        def visit_Expr(self, node: ast.Expr) -> ast.AST:
            return at(node, ast.Pass()) if id(node) in unused else self.generic_visit(node)

        def visit_Name(self, node: ast.Name) -> ast.expr:
            return at(node, copy_tree(stands_for[node.id])) if node.id in stands_for else node

    return [Replacer().visit(statement) for statement in body]


def _path(value: Any) -> str:
    return value.path if isinstance(value, Intrinsic) else ""


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Iterate over the target and value of each assignment of a name, an attribute or the result of a call."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        yield from (pair for pair in pairs if isinstance(pair[1], (ast.Name, ast.Attribute, ast.Call)))
