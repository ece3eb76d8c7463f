"""Constant folding of conditions on arguments that are None.

Numba prunes such branches as well, but not once the lowering of barriers has turned returns into flags.
"""

from __future__ import annotations

import ast

from warpdrive.kernels.syntax import at


def without_dead_branches(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the reachable statements of a function body in which some names were replaced by None."""
    return _Pruner().block(body)


class _Pruner(ast.NodeTransformer):
    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Fold the decidable conditions; statements after an unconditional jump are dropped."""
        kept: list[ast.stmt] = []
        for statement in statements:
            kept += self.statement(statement)
            if kept and isinstance(kept[-1], (ast.Return, ast.Break, ast.Continue, ast.Raise)):
                break
        return kept

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        holds = _decided(node.test) if isinstance(node, ast.If) else None
        if isinstance(node, ast.If) and holds is not None:
            return self.block(node.body if holds else node.orelse)
        if isinstance(node, (ast.If, ast.For, ast.While)):
            inside = node.test if isinstance(node, (ast.If, ast.While)) else node.iter
            self.visit(inside)
            node.body = self.block(node.body) or [at(node, ast.Pass())]
            node.orelse = self.block(node.orelse)
            return [node]
        return [self.visit(node)]

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        holds = _decided(node.test)
        return node if holds is None else node.body if holds else node.orelse


def _decided(test: ast.expr) -> bool | None:
    """Return the value of a condition, or None if it is only known at run time."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        holds = _decided(test.operand)
        return None if holds is None else not holds
    if isinstance(test, ast.BoolOp):
        decisive = isinstance(test.op, ast.Or)
        found = [_decided(value) for value in test.values]
        return decisive if decisive in found else None if None in found else not decisive
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and _is_none(test.left) and _is_none(test.comparators[0]):
        return {ast.Is: True, ast.Eq: True, ast.IsNot: False, ast.NotEq: False}.get(type(test.ops[0]))
    return None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
