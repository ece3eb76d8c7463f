"""Error messages for unsupported syntax and members of ``numba.cuda``, Python and NumPy, with replacements.

The table in ``docs/reference/kernels.md`` has a row for each of them, which a test compares.
"""

from __future__ import annotations

import ast
from functools import cache
from types import FunctionType, MethodType, ModuleType
from typing import Any

from warpdrive.kernels.language import (
    DIMENSIONS,
    KERNEL_LIBRARY,
    SPACES,
    Intrinsic,
    cuda_modules,
    intrinsic_named,
    intrinsic_of,
)
from warpdrive.kernels.libraries import FUNCTIONS, MODULE_OF

_WITHOUT_MEMORY = "use cuda.local.array, or a tuple of a known length"
_IN_A_LOOP = "write a loop, with a cuda.local.array for the results"
SYNTAX: dict[type[ast.AST], str] = {
    kind: f"{name} is not part of the kernel language: {instead}"
    for kinds, name, instead in (
        ((ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await), "async", "a kernel runs to its end"),
        ((ast.Yield, ast.YieldFrom), "yield", "write results into arrays, or return them"),
        ((ast.ClassDef,), "a class", "write it outside"),
        ((ast.Try,), "try", "exceptions cannot be caught in a kernel, they end the launch"),
        ((ast.With,), "with", "there is nothing to close in a kernel"),
        ((ast.List,), "a list", _WITHOUT_MEMORY),
        ((ast.Dict,), "a dict", _WITHOUT_MEMORY),
        ((ast.Set,), "a set", _WITHOUT_MEMORY),
        ((ast.ListComp,), "a list comprehension", _IN_A_LOOP),
        ((ast.SetComp,), "a set comprehension", _IN_A_LOOP),
        ((ast.DictComp,), "a dict comprehension", _IN_A_LOOP),
        ((ast.GeneratorExp,), "a generator", _IN_A_LOOP),
        ((ast.Import, ast.ImportFrom), "import", "import outside of the kernel"),
        ((ast.Nonlocal,), "nonlocal", "return the value from the inner function"),
        (
            (ast.JoinedStr,),
            "an f-string",
            "print takes several values; wd.debug(kernel)[blocks, threads](*arrays) runs any Python",
        ),
    )
    for kind in kinds
}
"""Messages for unsupported nodes of syntax trees."""

_GROUPS = "cuda.cg.this_grid() and sync() of its result are"
_ONLY_CALLED = (
    "a function can be called, passed to functions, and held by variables and tuples, not returned or compared"
)
_PARTS = {
    **{"atomic": "atomic.add", "local": "local.array", "shared": "shared.array", "const": "const.array_like"},
    **{"libdevice": "libdevice.sinf", "fp16": "fp16.hadd"},
}
_HOST = "this is host code: run it before the launch and pass arrays and numbers to the kernel"
_INSTEAD = {
    "shfl_sync_intrinsic": "use cuda.shfl_sync, shfl_up_sync, shfl_down_sync or shfl_xor_sync",
    "vote_sync_intrinsic": "use cuda.all_sync, any_sync, eq_sync or ballot_sync",
    "rsqrt": "write 1 / math.sqrt(x)",
}


_MAKES_ARRAYS = (
    *("array", "asarray", "zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like"),
    *("arange", "linspace", "eye", "identity", "copy", "concatenate", "stack", "vstack", "hstack", "append"),
    *("sort", "argsort", "cumsum", "cumprod", "meshgrid", "repeat", "tile", "unique"),
)


_IN_PYTHON_ALONE = ("breakpoint", "input")


def refusal_of_function(module: str, name: str) -> str:
    """Return the error message for an unsupported function of Python or NumPy, or ``""`` if it may be supported."""
    if module == "builtins" and name in _IN_PYTHON_ALONE:
        return (
            f"{name}() needs the Python interpreter, which compiled kernels do not have: wd.debug(kernel)[blocks, "
            "threads](*arrays) runs "
            "it as Python, thread by thread"
        )
    if module == "builtins" and name == "sorted":
        return "sorted(...) allocates a list: sort in a cuda.local.array, in a loop"
    if module.startswith("numpy.random"):
        return (
            f"np.random.{name} draws from the host's generator: use wd.random or the xoroshiro128p functions of "
            "numba.cuda.random"
        )
    if module != "numpy" or name not in _MAKES_ARRAYS:
        return ""
    return (
        f"np.{name} allocates an array: use cuda.local.array or cuda.shared.array, and compute "
        "element by element, in a loop"
    )


def refusal(path: str) -> str:
    """Return the error message for an unsupported member of ``numba.cuda``, given its dotted name."""
    instead = {**_INSTEAD, "cg": _GROUPS}.get(
        path.split(".")[0], _HOST if path in _host_names(cuda_modules()[0]) else ""
    )
    return f"cuda.{path} is not part of the kernel language on this backend{': ' if instead else ''}{instead}"


def message_for_bare_member(path: str) -> str:
    """Return the error message for a member of ``numba.cuda`` that is used without an attribute or a call."""
    if path in DIMENSIONS:
        instead = f"name an axis, such as cuda.{path}.x, and pass that to functions"
    elif path in SPACES:
        instead = f"name one of its members, such as cuda.{_PARTS[path]}"
    else:
        instead = _ONLY_CALLED
    return f"cuda.{path} cannot be used alone: {instead}"


def unusable(name: str, value: Any) -> str:
    """Return the error message for an object of the user's module, referred to as ``name``, that kernels cannot use."""
    function = getattr(value, "py_func", value)
    if isinstance(function, FunctionType):
        return used_as_value(name)
    if isinstance(value, MethodType):
        return f"'{name}' is a method of an object: make it a function of the values that it needs"
    if isinstance(value, list):
        return f"'{name}' is a list: make it a tuple, or a NumPy array"
    if isinstance(value, (dict, set, frozenset)):
        return (
            f"'{name}' is a {type(value).__name__}: name each value that the kernel needs, or put them in a NumPy array"
        )
    kind = "class" if isinstance(value, type) else type(value).__name__
    return (
        f"'{name}' is a {kind}: a kernel can use numbers, NumPy arrays, tuples of these, strings, named tuples, "
        "enumerations, functions that it calls, and what numba supports of math, cmath and numpy"
    )


def used_as_value(name: str) -> str:
    """Return the error message for a function that is used as a value."""
    return f"the function '{name}' is used as a value: {_ONLY_CALLED}"


def refused_path(value: Any) -> str | None:
    """Return the dotted name of an unsupported member of ``numba.cuda``, or None for any other value."""
    if isinstance(value, Intrinsic):
        return None if intrinsic_named(value.path) else value.path
    for cuda in cuda_modules():
        if (path := _paths(cuda).get(id(value))) is not None:
            return path
    module, name = getattr(value, "__module__", None) or "", getattr(value, "__name__", None)
    if module == KERNEL_LIBRARY or name is None:
        return None
    if module in MODULE_OF and (path := f"{MODULE_OF[module]}.{name}") not in FUNCTIONS:
        return path
    if module == "numba.cuda.cg" and intrinsic_of(value) is None:
        return f"cg.{name}"
    return None


@cache
def _paths(cuda: ModuleType) -> dict[int, str]:
    return {id(value): name for name in _INSTEAD if (value := getattr(cuda, name, None)) is not None}


@cache
def _host_names(cuda: ModuleType) -> frozenset[str]:
    functions = (name for name, value in vars(cuda).items() if callable(value) and not isinstance(value, type))
    return frozenset(functions)
