"""Parameters that must be known at compile time: shapes and dtypes of device arrays."""

from __future__ import annotations

import ast
from collections.abc import Callable

from warpdrive.kernels.function_values import explicit
from warpdrive.kernels.language import ARRAYS, Intrinsic
from warpdrive.kernels.name_lookup import look_up, names_in, source_of
from warpdrive.kernels.source import FunctionSource
from warpdrive.kernels.syntax import copy_tree

DTYPE = ".dtype"
"""Suffix of a parameter's name for the dtype of that parameter, among the compile-time values."""
ON_GPU = "on_gpu"
"""Parameter of an environment's kernel function that is True on a GPU, where it is known at compile time."""


def shape_parameters(source: FunctionSource) -> set[str]:
    """Return the parameters of a function whose values must be known at compile time.

    These determine the shape of a local or shared array, in the function itself or in one of its callees.
    """

    def in_shape(node: ast.expr, part: str, source: FunctionSource) -> set[str]:
        return set(names_in(with_local_constants(node, source))) & set(source.parameters)

    return _parameters(source, "shape", in_shape, ())


def dtype_parameters(source: FunctionSource) -> set[str]:
    """Return the compile-time values needed for the dtypes of a function's local and shared arrays.

    An entry is ``"p"`` for a parameter that is a dtype, and ``"p.dtype"`` for an array parameter whose dtype is used.
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
    """Return the compile-time values needed for the argument ``word`` of all array declarations in a function.

    Args:
        source: The function.
        word: The argument of the declarations: ``"shape"`` or ``"dtype"``.
        of_argument: Returns the values needed for one argument expression. Its second argument is the suffix of the
            value needed of it: ``".dtype"``, or ``""`` for the argument itself.
        callers: Syntax trees of the functions in progress, which end the recursion.

    Returns:
        Names of parameters, some with the suffix ``".dtype"``.
    """
    needed: set[str] = set()
    source = explicit(source)
    if source.tree in callers:
        return needed
    for node in source.facts.calls:
        value = look_up(node.func, source, source.facts.local_names)
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
    """Return the source text of an array or dtype expression; a view of an array counts as the array."""
    if isinstance(node, ast.Attribute) and node.attr == "dtype":
        return place_of_dtype(node.value) + DTYPE
    is_field = isinstance(node, ast.Subscript) and isinstance(getattr(node.slice, "value", None), str)
    return place_of_dtype(node.value) if isinstance(node, ast.Subscript) and not is_field else ast.unparse(node)


def unassigned_parameters(source: FunctionSource) -> set[str]:
    """Return the parameters of a function that it never reassigns."""
    return set(source.parameters) - source.facts.stored_names


def with_local_constants(node: ast.expr, source: FunctionSource) -> ast.expr:
    """Return a copy of an expression in which variables that are assigned once are replaced by their values."""
    known = source.facts.assigned_once
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
