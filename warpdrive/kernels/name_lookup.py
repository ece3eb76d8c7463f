"""Name lookup in kernel functions: members of ``numba.cuda``, objects of the user's module, or local variables."""

from __future__ import annotations

import ast
import enum
import types
from collections.abc import Callable, Mapping, Set
from typing import Any

import numpy as np

from warpdrive.errors import nearest
from warpdrive.kernels.errors import KernelError, refuse
from warpdrive.kernels.kernel import DeviceFunction
from warpdrive.kernels.language import (
    GRID,
    KERNEL_LIBRARY,
    KEYWORDS,
    SUPPORTED,
    THIS_GRID,
    USABLE_MODULES,
    VALUES,
    Intrinsic,
    intrinsic_named,
    intrinsic_of,
    is_cuda_module,
)
from warpdrive.kernels.source import Closure, FunctionSource, read_function
from warpdrive.kernels.unsupported import refusal, refused_path

LITERALS = (bool, int, float, complex)

LOCAL = object()
"""Sentinel for names whose value is only known at run time."""


def source_of(value: Any) -> FunctionSource | None:
    """Return the source of a value that can be called as a device function, or None if it cannot."""
    if isinstance(value, FunctionSource):
        return value
    if isinstance(value, DeviceFunction):
        return value.source
    function = getattr(value, "py_func", value)
    if isinstance(function, types.FunctionType) and not _is_of_a_library(function):
        return read_function(function)
    return None


def functions_among(
    given: Mapping[str, ast.expr], callee: FunctionSource, value_of: Callable[[ast.expr], Any]
) -> dict[str, Any]:
    """Return the arguments of a call that are functions, which are known when the kernel is compiled, by parameter.

    Args:
        given: The expressions of the arguments, by parameter.
        callee: The called function.
        value_of: Returns the value of an expression; anything but a function if it is only known at run time.

    Returns:
        Functions, members of ``numba.cuda`` such as ``threadIdx``, and types that the callee calls.
    """
    called = {node.func.id for node in callee.facts.calls if isinstance(node.func, ast.Name)}
    fixed = set(callee.parameters) - callee.facts.stored_names
    values = {name: value_of(node) for name, node in given.items()}
    values |= {name: value for name, value in callee.defaults.items() if name not in given}
    return {
        name: value
        for name, value in values.items()
        if name in fixed and is_function_or_type(value) and (name in called or not _is_type(value))
    }


def is_function_or_type(value: Any) -> bool:
    """Return True for functions, types and members of ``numba.cuda`` such as ``threadIdx``, and tuples with some."""
    if isinstance(value, tuple):
        return any(map(is_function_or_type, value))
    intrinsic = intrinsic_of(value)
    if intrinsic is not None:
        return intrinsic.path not in VALUES
    return callable(value) or isinstance(value, FunctionSource) or _is_type(value)


def _is_type(value: Any) -> bool:
    import numba

    return isinstance(value, (type, numba.types.Type))


def look_up(
    node: ast.expr, source: FunctionSource, local_names: Set[str], members: list[tuple[Any, str, Any]] | None = None
) -> Any:
    """Return the value of a name or dotted name, or ``LOCAL`` if it is only known at run time.

    Args:
        node: The expression; one that is no name, attribute or call of ``cg.this_grid`` is ``LOCAL``.
        source: The function that it is part of, whose namespace is searched.
        local_names: The names of the function's parameters and variables, see :class:`FunctionFacts`.
        members: The owner, name and value of the members that are read are appended to it.

    Returns:
        The object, an :class:`Intrinsic`, or ``LOCAL``.

    Raises:
        KernelError: If the name is undefined, or belongs to ``numba.cuda`` but not to the kernel language.
    """
    if isinstance(node, ast.Name):
        if node.id in local_names or not isinstance(node.ctx, ast.Load):
            return LOCAL
        if node.id not in source.namespace:
            refuse(node, f"name '{node.id}' is not defined.{nearest(node.id, [*local_names, *source.namespace])}")
        return _known(node, source.namespace[node.id])
    if isinstance(node, ast.Attribute):
        owner = look_up(node.value, source, local_names, members)
        if owner is LOCAL or isinstance(owner, (np.ndarray, np.generic)):
            return LOCAL
        if isinstance(owner, Intrinsic):
            if f"{owner.path}.{node.attr}" not in SUPPORTED:
                prefix = f"{owner.path}."
                known = [path.removeprefix(prefix) for path in sorted(SUPPORTED) if path.startswith(prefix)]
                hint = nearest(node.attr, known)
                hint = f".{hint}" if hint else f": there is {', '.join(known)}"
                refuse(node, f"cuda.{owner.path}.{node.attr} is not part of the kernel language on this backend{hint}")
            return Intrinsic(f"{owner.path}.{node.attr}")
        if not hasattr(owner, node.attr) and is_cuda_module(owner):
            intrinsic = intrinsic_named(node.attr)
            if intrinsic is not None:
                return intrinsic
            hint = nearest(node.attr, sorted({path.partition(".")[0] for path in SUPPORTED}))
            refuse(node, f"{refusal(node.attr)}{hint and '.'}{hint}")
        if not hasattr(owner, node.attr):
            refuse(node, f"'{ast.unparse(node.value)}' has no '{node.attr}'.{nearest(node.attr, dir(owner))}")
        value = getattr(owner, node.attr)
        if members is not None:
            members.append((owner, node.attr, value))
        known = _known(node, value)
        is_foreign = known is value and is_cuda_module(owner) and getattr(value, "__name__", "") not in USABLE_MODULES
        if is_foreign and not _is_number_or_type(value):
            refuse(node, refusal(node.attr))
        return known
    if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
        return group_of(look_up(node.func, source, local_names, members)) or LOCAL
    return value_in_tuple(node, source, lambda part: look_up(part, source, local_names, members))


def value_in_tuple(node: ast.expr, source: FunctionSource, value_of: Callable[[ast.expr], Any]) -> Any:
    """Return an inner function, a tuple of functions or a constant element of one, or ``LOCAL`` for anything else.

    Args:
        node: The expression.
        source: The function that it is part of.
        value_of: Returns the values of the parts, or ``LOCAL``.

    Returns:
        The value.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, Closure):
        return node.value.source(source)
    parts = node.elts if isinstance(node, ast.Tuple) else [node.value] if isinstance(node, ast.Subscript) else []
    values = tuple(map(value_of, parts))
    if any(value is LOCAL for value in values) or not is_function_or_type(values):
        return LOCAL
    return _element(values[0], node) if isinstance(node, ast.Subscript) else values


def _element(value: Any, node: ast.Subscript) -> Any:
    """Return the element of a tuple of functions, or of an enumeration, at a constant index."""
    index = node.slice.value if isinstance(node.slice, ast.Constant) else None
    if isinstance(value, tuple) and isinstance(index, int) and -len(value) <= index < len(value):
        return value[index]
    is_member = isinstance(value, enum.EnumMeta) and isinstance(index, str) and index in value.__members__
    return value[index] if is_member else LOCAL


def group_of(function: Any) -> Intrinsic | None:
    """Return the value of a call of a function without arguments: the group of a grid, or None if it is not known."""
    intrinsic = intrinsic_of(function)
    return Intrinsic(GRID) if intrinsic is not None and intrinsic.path == THIS_GRID else None


def names_grid(source: FunctionSource, callers: tuple[ast.AST, ...] = ()) -> bool:
    """Return True if a function, or one that it calls, calls ``cg.this_grid``."""
    for node in source.facts.calls:
        try:
            value = look_up(node.func, source, source.facts.local_names)
        except KernelError:
            continue
        callee = None if value is LOCAL else source_of(value)
        if group_of(value) is not None:
            return True
        if callee is not None and callee.tree not in callers and names_grid(callee, (*callers, source.tree)):
            return True
    return False


def _known(node: ast.expr, value: Any) -> Any:
    """Return a value or its :class:`Intrinsic`. Raises :class:`KernelError` for what the kernel language lacks."""
    path = refused_path(value)
    if path is not None:
        refuse(node, refusal(path))
    return intrinsic_of(value) or value


def give_by_position(node: ast.Call, path: str) -> None:
    """Turn the keyword arguments of a call of an intrinsic into positional ones."""
    if not node.keywords:
        return
    names = KEYWORDS[path]
    given = {word.arg: word.value for word in node.keywords}
    further = names[len(node.args) : len(node.args) + len(given)]
    if given.keys() != set(further):
        refuse(node, f"cuda.{path} takes the arguments ({', '.join(names)})")
    node.args, node.keywords = [*node.args, *(given[name] for name in further)], []


def names_in(node: ast.AST) -> set[str]:
    """Return all names in the subtree of a node."""
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def importable(value: Any) -> tuple[str, str] | None:
    """Return ``(module, name)`` of an object that numba supports natively, or None."""
    import numba

    if isinstance(value, numba.types.Type) and hasattr(numba.types, str(value)):
        return "numba.types", str(value)
    name = getattr(value, "__name__", None)
    module = "numpy" if isinstance(value, np.ufunc) and hasattr(np, name or "") else None
    module = module or getattr(value, "__module__", None)
    if (
        name is None
        or module is None
        or module.split(".")[0] not in (*("numpy", "math", "cmath", "builtins"), *("operator", "_operator"))
    ):
        return None
    if value is getattr(np, name, None):
        module = "numpy"
    return (module, name)


def dtype_named(value: Any) -> np.dtype[Any] | None:
    """Return the dtype for a NumPy or numba type or a dtype name, or None for anything else."""
    import numba

    if isinstance(value, numba.types.Type):
        try:
            value = numba.np.numpy_support.as_dtype(value)
        except numba.core.errors.NumbaError:
            return None
    try:
        dtype: np.dtype[Any] = np.dtype(value)
    except (TypeError, ValueError):
        return None
    return dtype


def _is_number_or_type(value: Any) -> bool:
    import numba

    return isinstance(value, (*LITERALS, numba.types.Type))


def _is_of_a_library(function: types.FunctionType) -> bool:
    module = (function.__module__ or "").split(".")
    return (
        module[0] in ("numpy", "math", "numba", "builtins")
        and function.__module__ != KERNEL_LIBRARY
        and "tests" not in module
    )
