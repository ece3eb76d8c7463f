"""Linking of kernel functions into functions that Python itself can run, with references resolved.

The author's statements are unchanged, with the author's file and line numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from warpdrive.kernels.errors import refuse
from warpdrive.kernels.function_values import explicit
from warpdrive.kernels.kernel import python_function
from warpdrive.kernels.language import (
    GRID,
    INDICES,
    KEYWORDS,
    SPACES,
    SYNC_POINTS,
    Intrinsic,
    intrinsic_named,
    intrinsic_of,
    is_cuda_module,
)
from warpdrive.kernels.name_lookup import LOCAL, functions_among, give_by_position, group_of, source_of, value_in_tuple
from warpdrive.kernels.source import FunctionSource, read_function
from warpdrive.kernels.syntax import GENERATED, copy_tree
from warpdrive.kernels.unsupported import refusal, refused_path

UNKNOWN = LOCAL
"""Sentinel for names whose value is known only when the kernel runs."""


class Linker(ast.NodeTransformer):
    """Linker of one function: device functions and intrinsics of ``numba.cuda`` are replaced by new names.

    Args:
        source: The function.
        function: Function that returns the replacement of a device function.
        intrinsics: Function that returns the replacement of an intrinsic, by its dotted name in ``numba.cuda``.
        call: Function that returns the replacement of any other function, or None to keep it.
    """

    def __init__(
        self,
        source: FunctionSource,
        function: Callable[[FunctionSource], Any],
        intrinsics: Callable[[str], Any],
        call: Callable[[Any], Any] = lambda value: None,
    ) -> None:
        source = explicit(source)
        self.source, self.function, self.intrinsics, self.call = source, function, intrinsics, call
        self.namespace = dict(source.namespace)
        self.local = set(source.parameters) | {
            node.id for node in ast.walk(source.tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        self.definition: ast.FunctionDef = copy_tree(source.tree)

    def link(self) -> Any:
        """Return the linked function."""
        definition = self.definition
        definition.body = self.linked_body(definition)
        definition.args.defaults, definition.returns = [], None
        for argument in definition.args.args:
            argument.annotation = None
        module = ast.fix_missing_locations(ast.Module([definition], []))
        exec(compile(module, self.source.file, "exec"), self.namespace)
        function = self.namespace[self.source.name]
        function.__defaults__ = tuple(self.source.defaults.values()) or None
        return function

    def linked_body(self, definition: ast.FunctionDef) -> list[ast.stmt]:
        """Return the statements of the linked function."""
        body = ast.Module(definition.body, [])
        self.generic_visit(body)
        return body.body

    def value_of(self, node: ast.expr) -> Any:
        """Return the value of a name or dotted name, or ``UNKNOWN``."""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in self.local:
            return self.namespace.get(node.id, UNKNOWN)
        if isinstance(node, ast.Attribute):
            owner = self.value_of(node.value)
            if owner is not UNKNOWN and not isinstance(owner, (np.ndarray, np.generic)):
                if isinstance(owner, Intrinsic) and owner.path == GRID:
                    return Intrinsic(f"{GRID}.{node.attr}")
                return getattr(owner, node.attr, UNKNOWN)
            return UNKNOWN
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            return group_of(self.value_of(node.func)) or UNKNOWN
        return value_in_tuple(node, self.source, self.value_of)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name; see :class:`ast.NodeTransformer`."""
        return self._linked(node) or node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Replace an attribute; see :class:`ast.NodeTransformer`."""
        linked = self._linked(node)
        if linked is None:
            self.generic_visit(node)
        return linked or node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Replace the called function; see :class:`ast.NodeTransformer`."""
        value = self.value_of(node.func)
        path = path_of(value)
        if path in KEYWORDS:
            give_by_position(node, path)
        source = device_source(value) if path is None else None
        if source is None:
            other = None if path is not None or value is UNKNOWN else self.call(value)
            node.func = self.named(other, node.func) if other is not None else self.visit(node.func)
        else:
            source = self.bound(node, source)
            node.func = self.named(self.function(source), node.func)
        node.args = [self.visit(argument) for argument in node.args]
        node.keywords = [self.visit(word) for word in node.keywords]
        return self.linked_call(node, path, source)

    def bound(self, node: ast.Call, callee: FunctionSource) -> FunctionSource:
        """Return the called function without parameters for functions, whose arguments are removed from the call."""
        given = dict(zip(callee.parameters, node.args, strict=False))
        given |= {word.arg: word.value for word in node.keywords if word.arg}
        functions = functions_among(given, callee, self.value_of)
        removed = {id(given[name]) for name in functions if name in given}
        node.args = [argument for argument in node.args if id(argument) not in removed]
        node.keywords = [word for word in node.keywords if id(word.value) not in removed]
        return callee.bind(functions)

    def linked_call(self, node: ast.Call, path: str | None, source: FunctionSource | None) -> ast.expr:
        """Return the final form of a call with linked parts.

        Args:
            node: The call.
            path: Dotted name of the called intrinsic in ``numba.cuda``, or None.
            source: Source of the called device function, or None.

        Returns:
            The expression that replaces the call.
        """
        return node

    def named(self, value: Any, place: ast.AST) -> ast.expr:
        """Return a new name for a value."""
        name = f"{GENERATED}{len(self.namespace)}"
        self.namespace[name] = value
        return ast.copy_location(ast.Name(name, ast.Load()), place)

    def _linked(self, node: ast.Name | ast.Attribute) -> ast.expr | None:
        value = self.value_of(node)
        if value is UNKNOWN:
            if (
                isinstance(node, ast.Attribute)
                and is_cuda_module(self.value_of(node.value))
                and intrinsic_named(node.attr) is None
            ):
                refuse(node, refusal(node.attr))  # missing from this version of numba.cuda
            return None
        path = path_of(value)
        if path in INDICES:
            dimension, axis = path.split(".")
            owner = self.named(self.intrinsics(dimension), node)
            return ast.copy_location(ast.Attribute(owner, axis, ast.Load()), node)
        if path is not None:
            return self.named(self.intrinsics(path), node)
        refused = refused_path(value)
        if refused is not None:
            refuse(node, refusal(refused))
        if str(getattr(value, "__module__", "")).startswith("numba.cuda") and intrinsic_of(value) is None:
            refuse(node, f"'{ast.unparse(node)}' cannot be checked: it is not part of the kernel language")
        return None


def path_of(value: Any) -> str | None:
    """Return the dotted name of an intrinsic in ``numba.cuda``, or None for anything else."""
    intrinsic = intrinsic_of(value)
    return intrinsic.path if intrinsic is not None and intrinsic.path not in SPACES else None


def device_source(value: Any) -> FunctionSource | None:
    """Return the source of a device function, including those of ``numba.cuda.random``, or None for anything else."""
    if getattr(value, "__module__", None) == "numba.cuda.random" and hasattr(value, "py_func"):
        return read_function(python_function(value))
    return None if value is UNKNOWN or isinstance(value, type) else source_of(value)


def has_barrier(source: FunctionSource) -> bool:
    """Return True if a function, or one that it calls, contains a barrier."""
    return _has_barrier(source, ())


def _has_barrier(source: FunctionSource, callers: tuple[Any, ...]) -> bool:
    own = (source.file, source.tree.lineno, source.name)
    if own in callers:
        return False
    linker = Linker(source, lambda callee: None, lambda path: None)
    for node in ast.walk(linker.definition):
        if isinstance(node, ast.Call):
            value = linker.value_of(node.func)
            if path_of(value) in SYNC_POINTS:
                return True
            callee = device_source(value)
            if callee is not None and _has_barrier(linker.bound(copy_tree(node), callee), (*callers, own)):
                return True
    return False
