"""What of a function's parameters must be known when it is compiled: the shapes and dtypes of its arrays, and None."""

from __future__ import annotations

import ast
from collections.abc import Callable

from warpdrive.kernels.language import ARRAYS, Intrinsic
from warpdrive.kernels.names import local_names_of, look_up, names_in, source_of
from warpdrive.kernels.source import FunctionSource
from warpdrive.kernels.syntax import copy_tree, stored_names, walk

DTYPE = ".dtype"
"""What follows a parameter's name where its dtype is meant, among what is known when a function is compiled."""


def shape_parameters(source: FunctionSource) -> set[str]:
    """Return the parameters of a function whose values must be known when it is compiled.

    They are those that give the shape of a local or shared array, there or in a function that is called there.
    """

    def in_shape(node: ast.expr, part: str, source: FunctionSource) -> set[str]:
        return set(names_in(with_local_constants(node, source))) & set(source.parameters)

    return _parameters(source, "shape", in_shape, ())


def dtype_parameters(source: FunctionSource) -> set[str]:
    """Return what must be known of a function's parameters for the dtypes of its local and shared arrays.

    That is ``"p"`` for a parameter that is a dtype, and ``"p.dtype"`` for one that is an array whose dtype is taken.
    """

    def has_dtype(node: ast.expr, part: str, source: FunctionSource) -> set[str]:
        places = {known for name in unassigned_parameters(source) for known in (name, name + DTYPE)}
        return {place_of_dtype(node) + part} & places

    return _parameters(source, "dtype", has_dtype, ())


def _parameters(
    source: FunctionSource,
    word: str,
    of_argument: Callable[[ast.expr, str, FunctionSource], set[str]],
    callers: tuple[ast.AST, ...],
) -> set[str]:
    """Return what must be known of a function's parameters for an argument ``word`` of all declarations of arrays.

    ``of_argument`` tells that of one argument in a function, given what of the argument must be known: ``".dtype"``,
    or ``""`` for itself.
    """
    needed: set[str] = set()
    if source.tree in callers:
        return needed
    local_names = local_names_of(source)
    for node in walk(source.tree.body):
        if not isinstance(node, ast.Call):
            continue
        value = look_up(node.func, source, local_names)
        if isinstance(value, Intrinsic) and value.path in ARRAYS:
            parameters: tuple[str, ...] = ("shape", "dtype")
            inner = {word}
        elif (callee := source_of(value)) is not None:
            parameters, inner = callee.parameters, _parameters(callee, word, of_argument, (*callers, source.tree))
        else:
            continue
        given = dict(zip(parameters, node.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        for name in inner:
            parameter = name.removesuffix(DTYPE)
            if parameter in given:
                needed |= of_argument(given[parameter], name[len(parameter) :], source)
    return needed


def place_of_dtype(node: ast.expr) -> str:
    """Return the text of an expression for an array or its dtype, where a view of an array is the array."""
    if isinstance(node, ast.Attribute) and node.attr == "dtype":
        return place_of_dtype(node.value) + DTYPE
    is_field = isinstance(node, ast.Subscript) and isinstance(getattr(node.slice, "value", None), str)
    return place_of_dtype(node.value) if isinstance(node, ast.Subscript) and not is_field else ast.unparse(node)


def unassigned_parameters(source: FunctionSource) -> set[str]:
    """Return the parameters of a function that it assigns nothing else to."""
    return set(source.parameters) - stored_names(source.tree.body)


def with_local_constants(node: ast.expr, source: FunctionSource) -> ast.expr:
    """Return a copy of an expression in which each variable that is assigned once stands for what it is assigned."""
    body = source.tree.body
    stores = [child.id for child in walk(body) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)]
    assignments = [node for node in walk(body) if isinstance(node, ast.Assign) and len(node.targets) == 1]
    values = {node.targets[0].id: node.value for node in assignments if isinstance(node.targets[0], ast.Name)}
    known = {name: value for name, value in values.items() if stores.count(name) == 1 and name not in source.parameters}

    in_progress: list[str] = []

    class Replacer(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            if name.id not in known or name.id in in_progress:
                return name
            in_progress.append(name.id)
            value = self.visit(copy_tree(known[name.id]))
            in_progress.pop()
            return value  # type: ignore[no-any-return]

    return Replacer().visit(copy_tree(node))  # type: ignore[no-any-return]
