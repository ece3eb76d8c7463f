"""Hoisting of parts of expressions into statements before them, in Python's order of evaluation."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from warpdrive.kernels.syntax import GENERATED, assign, at, copy_tree, load, negate, stored_names


class Hoister:
    """Base class of passes that replace some expressions by variables, which preceding statements assign.

    Operands that are evaluated before a hoisted expression are saved in variables before it, and short-circuiting
    operators become branches.

    Args:
        prefix: Prefix of the names of new variables.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.values = 0

    def is_hoisted(self, nodes: Iterable[ast.AST]) -> bool:
        """Return True if the nodes or their descendants contain an expression to hoist."""
        raise NotImplementedError

    def hoisted(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr | None:
        """Return the replacement of an expression, whose statements are appended to ``before``; None to look inside."""
        raise NotImplementedError

    def expression(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Return the remainder of an expression; statements that compute hoisted parts are appended to ``before``."""
        if not self.is_hoisted([node]):
            return node
        replacement = self.hoisted(node, before)
        if replacement is not None:
            return replacement
        if isinstance(node, ast.BoolOp):
            return self._short_circuit(node, before)
        if isinstance(node, ast.IfExp):
            branch = ast.If(self.expression(node.test, before), [], [])
            value = self.name_for_value()
            for statements, choice in ((branch.body, node.body), (branch.orelse, node.orelse)):
                statements.append(at(choice, assign(value, self.expression(choice, statements))))
            before.append(at(node, branch))
            return at(node, load(value))
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            return self._chain(node, before)
        parts = [part for part in _operands(node) if isinstance(part, ast.expr)]
        replaced = dict(zip(map(id, parts), self.expressions(parts, before), strict=True))

        class Replacer(ast.NodeTransformer):
            def visit(self, child: ast.AST) -> ast.AST:
                return replaced[id(child)] if id(child) in replaced else self.generic_visit(child)

        return Replacer().generic_visit(node)  # type: ignore[return-value]

    def expressions(self, nodes: list[ast.expr], before: list[ast.stmt]) -> list[ast.expr]:
        """Apply :meth:`expression` to expressions that are evaluated in order."""
        left = []
        for index, node in enumerate(nodes):
            remainder = self.expression(node, before)
            later = nodes[index + 1 :]
            if self.is_hoisted(later):
                remainder = self.saved(remainder, stored_names(later), before)
            left.append(remainder)
        return left

    def name_for_value(self) -> str:
        """Return the name of a new variable."""
        self.values += 1
        return f"{GENERATED}{self.prefix}_{self.values}"

    def saved(self, node: ast.expr, changing: set[str], before: list[ast.stmt]) -> ast.expr:
        """Return an expression with the same value after ``changing`` variables were assigned."""
        if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id not in changing):
            return node
        if isinstance(node, (ast.Starred, ast.Slice)):
            for name in node._fields:
                part = getattr(node, name)
                if isinstance(part, ast.expr):
                    setattr(node, name, self.saved(part, changing, before))
            return node
        value = self.name_for_value()
        before.append(at(node, assign(value, node)))
        return at(node, load(value))

    def _short_circuit(self, node: ast.BoolOp, before: list[ast.stmt]) -> ast.expr:
        value = self.name_for_value()
        statements = before
        for index, operand in enumerate(node.values):
            if index > 0:
                test = load(value) if isinstance(node.op, ast.And) else negate(load(value))
                further = at(operand, ast.If(test, [], []))
                statements.append(further)
                statements = further.body
            statements.append(at(operand, assign(value, self.expression(operand, statements))))
        return at(node, load(value))

    def _chain(self, node: ast.Compare, before: list[ast.stmt]) -> ast.expr:
        """Rewrite ``a < b < c`` as ``a < b and b < c``, with ``b`` evaluated once."""
        value = self.name_for_value()
        statements, left = before, node.left
        for place, (operator, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            if place > 0:
                further = at(right, ast.If(load(value), [], []))
                statements.append(further)
                statements = further.body
            left, right = self.expressions([left, right], statements)
            if place < len(node.ops) - 1:
                right = self.saved(right, set(), statements)
            statements.append(at(right, assign(value, ast.Compare(left, [operator], [right]))))
            left = copy_tree(right)
        return at(node, load(value))


def _operands(node: ast.expr) -> Iterator[ast.AST]:
    """Iterate over the operands of an expression in order of evaluation; names of called functions have no value."""
    if not isinstance(node, ast.Call):
        yield from ast.iter_child_nodes(node)
        return
    yield node.func.value if isinstance(node.func, ast.Attribute) else node.func
    yield from node.args
    yield from (word.value for word in node.keywords)
