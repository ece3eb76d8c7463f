"""Naming of local memory arrays, for kernels whose own names for them are reassigned."""

from __future__ import annotations

import ast
from itertools import count

from warpdrive.kernels.syntax import GENERATED, IntrinsicName, assign, at, contains_barrier, load, stored_names, walk


def is_local_array(node: ast.AST) -> bool:
    """Return True if an expression declares a local memory array."""
    return isinstance(node, ast.Call) and isinstance(node.func, IntrinsicName) and node.func.path == "local.array"


def name_local_arrays(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return an inlined body in which names of local memory arrays are assigned nothing else.

    ``a, b = b, a`` then swaps references, while both arrays stay in place.
    """
    if not contains_barrier(body) or not any(map(is_local_array, walk(body))):
        return body
    stores = [name for node in walk(body) if isinstance(node, ast.Assign) for name in stored_names(node.targets)]
    others = stored_names(node for node in walk(body) if isinstance(node, (ast.For, ast.AugAssign)))
    return _Namer({name for name in stores if stores.count(name) > 1} | others).block(body)


class _Namer:
    def __init__(self, changing: set[str]) -> None:
        self.changing = changing
        self.numbers = count(1)

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [new for statement in statements for new in self.statement(statement)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, (ast.If, ast.For, ast.While)):
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return [node]
        is_plain = isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        if is_plain and is_local_array(node.value) and node.targets[0].id not in self.changing:  # type: ignore[attr-defined]
            return [node]
        before: list[ast.stmt] = []
        numbers = self.numbers

        class Replacer(ast.NodeTransformer):
            def visit_Call(self, call: ast.Call) -> ast.expr:
                if not is_local_array(call):
                    self.generic_visit(call)
                    return call
                name = f"{GENERATED}local_{next(numbers)}"
                before.append(at(call, assign(name, call)))
                return at(call, load(name))

        replaced = Replacer().visit(node)
        return [*before, replaced]
