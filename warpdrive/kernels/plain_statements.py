"""Rewriting of ``match`` and ``:=`` as statements that the later passes support.

As in numba, the patterns of ``match`` are values, alternatives of values, and names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from warpdrive.kernels.errors import refuse
from warpdrive.kernels.hoisting import Hoister
from warpdrive.kernels.syntax import assign, at, conjunction, copy_tree, load, negate, stored_names, walk


def with_plain_statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the body of a function without ``match`` and ``:=``, except in inner functions.

    Raises :class:`KernelError` for patterns of sequences, mappings and classes.
    """
    is_plain = not any(isinstance(node, (ast.Match, ast.NamedExpr)) for node in walk(body))
    return body if is_plain else _Rewriter("named").block(body)


class _Rewriter(Hoister):
    def is_hoisted(self, nodes: Iterable[ast.AST]) -> bool:
        return any(
            isinstance(node, ast.NamedExpr)
            or (not isinstance(node, ast.Lambda) and self.is_hoisted(ast.iter_child_nodes(node)))
            for node in nodes
        )

    def hoisted(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr | None:
        if not isinstance(node, ast.NamedExpr):
            return None
        before.append(at(node, assign(node.target.id, self.expression(node.value, before))))
        return at(node, load(node.target.id))

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [new for node in statements for new in self.statement(node)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            return [node]
        if isinstance(node, ast.Match):
            return self.match(node)
        if isinstance(node, (ast.If, ast.For, ast.While)):
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
        if isinstance(node, ast.While):
            return self.loop(node)
        before: list[ast.stmt] = []
        if isinstance(node, ast.AugAssign) and self.is_hoisted([node]):
            node = self.without_augmentation(node, before)
        if isinstance(node, ast.Assign):
            if any(isinstance(target, ast.Tuple) and self.is_hoisted([target]) for target in node.targets):
                refuse(node, "an assignment inside the target of another: assign in a separate statement")
            node.value, *node.targets = self.expressions([node.value, *node.targets], before)
        else:
            for name in ("test", "iter", "value", "exc"):
                part = getattr(node, name, None)
                if isinstance(part, ast.expr):
                    setattr(node, name, self.expression(part, before))
        return [*before, node]

    def without_augmentation(self, node: ast.AugAssign, before: list[ast.stmt]) -> ast.stmt:
        """Return ``x = x + y`` for ``x += y``, with the parts of ``x`` evaluated once."""
        target = node.target
        if isinstance(target, ast.Subscript):
            target.value, target.slice = self.expressions([target.value, target.slice], before)
            target.slice = self.saved(target.slice, stored_names([node.value]), before)
        value = copy_tree(target)
        value.ctx = ast.Load()
        return at(node, ast.Assign([target], at(node, ast.BinOp(value, node.op, node.value))))

    def loop(self, node: ast.While) -> list[ast.stmt]:
        if not self.is_hoisted([node.test]):
            return [node]
        first: list[ast.stmt] = []
        test = self.expression(node.test, first)
        if not node.orelse:
            leave = ast.If(negate(test), [ast.Break()], [])
            return [at(node, ast.While(ast.Constant(True), [*first, at(node.test, leave), *node.body], []))]
        goes_on = self.name_for_value()
        body = [*first, ast.If(test, node.body, [assign(goes_on, ast.Constant(False))])]
        return [at(node, assign(goes_on, ast.Constant(True))), at(node, ast.While(load(goes_on), body, node.orelse))]

    def match(self, node: ast.Match) -> list[ast.stmt]:
        before: list[ast.stmt] = []
        subject = self.saved(self.expression(node.subject, before), set(), before)
        otherwise: list[ast.stmt] = []
        for case in reversed(node.cases):
            test = _test(case.pattern, subject)
            names = sorted(_names(case.pattern))
            named: list[ast.stmt] = [at(case.pattern, assign(name, copy_tree(subject))) for name in names]
            body = case.body
            if case.guard is not None and (named or test is None):
                body, named = [*named, at(case.guard, ast.If(case.guard, body, copy_tree(otherwise)))], []
            elif case.guard is not None:
                test = conjunction(test, case.guard)
            body = [*named, *body]
            otherwise = body if test is None else [at(case.pattern, ast.If(test, body, otherwise))]
        return [*before, *self.block(otherwise)]


def _test(pattern: ast.pattern, subject: ast.expr) -> ast.expr | None:
    """Return the condition under which a pattern matches, or None if it always does."""
    if isinstance(pattern, ast.MatchValue):
        return ast.Compare(copy_tree(subject), [ast.Eq()], [pattern.value])
    if isinstance(pattern, ast.MatchSingleton):
        return ast.Compare(copy_tree(subject), [ast.Is()], [ast.Constant(pattern.value)])
    if isinstance(pattern, ast.MatchAs):
        return None if pattern.pattern is None else _test(pattern.pattern, subject)
    if isinstance(pattern, ast.MatchOr):
        tests = [_test(alternative, subject) for alternative in pattern.patterns]
        known = [test for test in tests if test is not None]
        return ast.BoolOp(ast.Or(), known) if len(known) == len(tests) else None
    refuse(pattern, "a pattern of a sequence, a mapping or a class is not part of the kernel language: compare values")


def _names(pattern: ast.pattern) -> set[str]:
    return {node.name for node in walk([pattern]) if isinstance(node, ast.MatchAs) and node.name is not None}
