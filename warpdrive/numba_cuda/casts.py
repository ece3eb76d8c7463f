"""Conversions that the declared signature of a device function implies, as statements of its source."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from numba.core import types

from warpdrive.kernels.source import FunctionFacts, FunctionSource
from warpdrive.kernels.syntax import at, copy_tree


def with_casts(source: FunctionSource, argument_types: tuple[types.Type, ...], result: types.Type) -> FunctionSource:
    """Return the source of a device function that converts its numbers to the declared types.

    Args:
        source: The source of the function.
        argument_types: Declared types of its parameters.
        result: Declared type of the return value.

    Returns:
        The source, in which each argument that is a number is first assigned to a variable of the declared type.
    """
    tree = copy_tree(source.tree)
    declared = dict(zip(source.parameters, argument_types, strict=False))
    variables = {name: f"{name}_as_{kind}_" for name, kind in declared.items() if _is_number(kind)}
    namespace: dict[str, Any] = dict(source.namespace)

    def cast(node: ast.expr, kind: types.Type) -> ast.expr:
        name = f"to_{kind}_"
        namespace[name] = kind
        return at(node, ast.Call(ast.Name(name, ast.Load()), [node], []))

    class Casts(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.Name:
            node.id = variables.get(node.id, node.id)
            return node

        def visit_Return(self, node: ast.Return) -> ast.Return:
            self.generic_visit(node)
            return at(node, ast.Return(cast(node.value, result))) if node.value and _is_number(result) else node

    body, first = [Casts().visit(statement) for statement in tree.body], source.tree.body[0]
    casts: list[ast.stmt] = [
        at(
            first,
            ast.Assign([ast.Name(variable, ast.Store())], cast(at(first, ast.Name(name, ast.Load())), declared[name])),
        )
        for name, variable in variables.items()
    ]
    tree.body = [*casts, *body]
    return replace(source, tree=tree, namespace=namespace, facts=FunctionFacts(tree))


def _is_number(declared: types.Type) -> bool:
    return isinstance(declared, (types.Integer, types.Float, types.Complex))
