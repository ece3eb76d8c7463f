"""Inline the device functions that contain barriers, so that a kernel's barriers all stand in one body."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from warpdrive.kernels.errors import refuse
from warpdrive.kernels.resolve import Function
from warpdrive.kernels.structure import straighten
from warpdrive.kernels.syntax import (
    GENERATED,
    FunctionName,
    assign,
    at,
    contains_barrier,
    copy_tree,
    load,
    stored_names,
    walk,
)


def inline(function: Function) -> list[ast.stmt]:
    """Return the body of a kernel with its barrier-containing callees inlined and its control flow straightened.

    Local variables of what is inlined are renamed, so that no two functions share one. Raises :class:`KernelError`
    where a function with a barrier is called from a place where that means nothing.
    """
    changed = [name for name in function.parameters if name in stored_names(function.body)]
    names = {name: load(f"{GENERATED}own_{name}") for name in changed}
    copies = [at(function.body[0], assign(f"{GENERATED}own_{name}", load(name))) for name in changed]
    return [*copies, *_Inliner().expand(function, names)]


class _Inliner:
    def __init__(self) -> None:
        self.copies = 0

    def expand(self, function: Function, names: Mapping[str, ast.expr], result: str | None = None) -> list[ast.stmt]:
        """Return the body of ``function`` with its names replaced as ``names`` says."""
        body = straighten(function.body, str(self.copies), result)
        body = [_Renamer(names).visit(statement) for statement in body]
        return self.block(_split_tuples(body))

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [new for statement in statements for new in self.statement(statement)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        if not contains_barrier([node]):
            return [node]
        if isinstance(node, ast.If):
            before, node.test = self.expression(node.test)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return [*before, node]
        if isinstance(node, ast.While):
            if contains_barrier([node.test]):
                refuse(node.test, "a function with a barrier cannot be called in the condition of a loop")
            node.body = self.block(node.body)
            return [node]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if isinstance(node.value.func, FunctionName) and node.value.func.function.has_barrier:
                return self.call(node.value, None)
            return [node]
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            before, node.value = self.expression(node.value)
            return [*before, node]
        refuse(node, "a function with a barrier cannot be called here: call it in a statement of its own")

    def expression(self, node: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
        """Return the statements that compute the calls with barriers inside an expression, and what is left of it."""
        before: list[ast.stmt] = []

        class Caller(ast.NodeTransformer):
            def visit_Call(_, call: ast.Call) -> ast.expr:  # noqa: N805
                if not (isinstance(call.func, FunctionName) and call.func.function.has_barrier):
                    return Caller.generic_visit(_, call)  # type: ignore[return-value]
                result = f"{GENERATED}result_{self.copies + 1}"
                before.extend(self.call(call, result))
                return at(call, load(result))

        return before, Caller().visit(node)

    def call(self, node: ast.Call, result: str | None) -> list[ast.stmt]:
        assert isinstance(node.func, FunctionName)
        function: Function = node.func.function
        self.copies += 1
        own = f"{GENERATED}{self.copies}_"
        assigned = stored_names(function.body)
        names: dict[str, ast.expr] = {name: load(own + name) for name in assigned}
        before: list[ast.stmt] = []
        for parameter, argument in zip(function.parameters, node.args, strict=True):
            if isinstance(argument, (ast.Name, ast.Constant)) and parameter not in assigned:
                names[parameter] = argument
            else:
                names[parameter] = load(own + parameter)
                before.append(at(node, assign(own + parameter, argument)))
        return [*before, *self.expand(function, names, result)]


class _Renamer(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, ast.expr]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.names:
            return node
        new = copy_tree(self.names[node.id])
        if isinstance(node.ctx, ast.Store):
            assert isinstance(new, ast.Name)
            new.ctx = ast.Store()
        return at(node, new)


def _split_tuples(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Split ``a, b = x, y`` at the top of a function into two statements where that means the same."""
    split: list[ast.stmt] = []
    for node in statements:
        if (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, ast.Tuple)
            and len(node.targets[0].elts) == len(node.value.elts)
            and all(isinstance(target, ast.Name) for target in node.targets[0].elts)
            and not stored_names(node.targets) & {n.id for n in walk([node.value]) if isinstance(n, ast.Name)}
        ):
            pairs = zip(node.targets[0].elts, node.value.elts, strict=True)
            split += [at(node, ast.Assign([target], value)) for target, value in pairs]
        else:
            split.append(node)
    return split
