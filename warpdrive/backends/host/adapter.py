"""Rewriting of CUDA constructs in a kernel's syntax tree into their CPU equivalents."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from typing import Any

from warpdrive.backends.host import atomics, debug_checks, intrinsics, mathematics, scalars, warps
from warpdrive.backends.shared.module_writer import header_of, hidden_parameters, int32, lane, position
from warpdrive.kernels.language import ATOMIC_DTYPES, INDICES, MET, WARP
from warpdrive.kernels.resolve import Table
from warpdrive.kernels.syntax import (
    DEBUG,
    GENERATED,
    ITEMS,
    FunctionName,
    IntrinsicName,
    SharedName,
    at,
    load,
    with_one_star,
)

ACCUMULATE = f"{GENERATED}accumulate"
DEPTH = f"{GENERATED}depth"
"""Parameter of recursive functions: number of calls that they are in."""
ALONE, TOGETHER = f"{GENERATED}alone_", f"{GENERATED}together_"
"""Prefixes of warp functions in generated modules, for blocks of one thread and of several."""


class CpuAdapter(ast.NodeTransformer):
    """AST transformer that replaces CUDA constructs by their equivalents in generated CPU code.

    It also records the imports and helper functions that the generated code needs.

    Args:
        depends_on_int32: If True, indices are converted to int32, as on a GPU. Only few functions depend on the width,
            and code without the conversions is easier to vectorise.
        accumulators: For each array that is only added to, the name of the variable that is True if it is a copy.
        shared: Variables that hold arrays in shared memory.

    Attributes:
        depth: Argument of calls of recursive functions, see ``DEPTH``.
    """

    def __init__(
        self,
        depends_on_int32: bool = False,
        accumulators: Mapping[str, str] | None = None,
        shared: Collection[str] = (),
    ) -> None:
        self.depends_on_int32, self.shared = depends_on_int32, shared
        self.accumulators = accumulators or {}
        self.intrinsics: set[str] = set()
        self.block_atomics: set[str] = set()
        self.of_warps: set[str] = set()
        self.stack_arrays: dict[tuple[Any, Any], str] = {}
        self.views: dict[str, str] = {}
        self.kinds: dict[bytes, tuple[str, str]] = {}
        self.depth = "0"

    def stack_array(self, shape: Any, dtype: Any) -> str:
        """Return the name of the function that allocates an uninitialised array on the stack."""
        return self.stack_arrays.setdefault((shape, dtype), f"{GENERATED}array_{len(self.stack_arrays)}")

    def view(self, dtype: str) -> str:
        """Return the name of the function that views an array of bytes as an array of ``dtype``."""
        return self.views.setdefault(dtype, f"{GENERATED}view_{len(self.views)}")

    def accessors(self, kind: bytes) -> tuple[str, str]:
        """Return the names of the functions that load and store a value of a pickled numba type in its slot."""
        number = len(self.kinds)
        return self.kinds.setdefault(kind, (f"{GENERATED}get_{number}", f"{GENERATED}put_{number}"))

    def header(self, table: Table, imports: str) -> list[str]:
        """Return the header of a generated module: imports of the kernel's names and recorded helpers."""
        lines = header_of(table, dict.fromkeys(mathematics.REPLACEMENTS, mathematics.__name__))
        lines.append("from numba import cfunc, njit")
        lines.append(
            "from warpdrive.backends.host.compiler import BlockCompiler, CalledFunctionCompiler, EntryCompiler"
        )
        lines.append("from warpdrive.backends.host.compiler import FunctionCompiler, QuickCompiler")
        lines.append(
            "from warpdrive.backends.host.intrinsics import array_loader, not_constant, not_negative, number_loader"
        )
        lines.append("from warpdrive.backends.host.intrinsics import known_array, stack_array, view")
        lines.append("from warpdrive.backends.host.outlining import outlined")
        lines += [f"from {intrinsics.__name__} import {name} as {alias}" for alias, name in ITEMS.items()]
        lines.append("from warpdrive.backends.host.kept_values import slot_accessors")
        lines += imports.splitlines()
        for path in sorted(self.intrinsics):
            name = path.replace(".", "_")
            module = atomics if path in ATOMIC_DTYPES else debug_checks if path.startswith(DEBUG) else intrinsics
            home, own = scalars.home_of(path) or (module.__name__, name)
            lines.append(f"from {home} import {own} as {GENERATED}{name}")
        lines += [f"from {atomics.__name__} import {name} as {GENERATED}{name}" for name in sorted(self.block_atomics)]
        if self.accumulators:
            lines.append(f"from {atomics.__name__} import accumulate as {ACCUMULATE}")
        if self.of_warps:
            lines.append(f"from {warps.__name__} import ALONE")
            for name in sorted(self.of_warps):
                lines.append(f"from {warps.__name__} import {name} as {TOGETHER}{name}")
                lines.append(f"{ALONE}{name} = ALONE[{name!r}]")
        lines += [f"{name} = stack_array({shape!r}, {dtype!r})" for (shape, dtype), name in self.stack_arrays.items()]
        lines += [f"{name} = view({dtype!r})" for dtype, name in self.views.items()]
        lines += [f"{', '.join(names)} = slot_accessors({kind!r})" for kind, names in self.kinds.items()]
        return lines

    def of_warp(self, path: str) -> str:
        """Return the name of a warp function, and record its imports."""
        name = path.removeprefix(MET)
        self.of_warps.add(name)
        return name

    def visit_IntrinsicName(self, node: IntrinsicName) -> ast.expr:
        """Replace an index by a variable and record the import of a function."""
        if node.path == "warpsize":
            return int32(ast.Constant(WARP))
        if node.path == "laneid":
            return int32(lane())
        if node.path in INDICES:
            return int32(load(node.id)) if self.depends_on_int32 else load(node.id)
        self.intrinsics.add(node.path)
        return load(node.id)

    def visit_FunctionName(self, node: FunctionName) -> ast.expr:
        """Replace a device function by its name in the generated module."""
        return load(node.id)

    def visit_SharedName(self, node: SharedName) -> ast.expr:
        """Replace a shared array by a variable."""
        return load(node.id)

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        """Replace any exception by ``AssertionError``, which :mod:`warpdrive.backends.cpu.assertions` handles."""
        assert node.exc is not None
        return at(node, ast.Raise(ast.Call(load("AssertionError"), [node.exc], [])))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Allocate local arrays on the stack, and pass the hidden parameters to device functions."""
        if isinstance(node.func, IntrinsicName):
            if node.func.path == "local.array":
                shape, dtype = (argument.value for argument in node.args if isinstance(argument, ast.Constant))
                return ast.Call(load(self.stack_array(shape, dtype)), [], [])
            if node.func.path in ("grid", "gridsize"):
                return position(node, node.func.path)
            array = getattr(node.args[0], "id", "") if node.func.path == "atomic.add" else ""
            if array in self.accumulators:
                arguments = [*map(self.visit, node.args), load(self.accumulators[array])]
                return at(node, ast.Call(load(ACCUMULATE), arguments, []))
            if node.func.path in atomics.IN_SHARED_MEMORY and getattr(node.args[0], "id", "") in self.shared:
                name = atomics.IN_SHARED_MEMORY[node.func.path]
                self.block_atomics.add(name)
                return at(node, ast.Call(load(GENERATED + name), [self.visit(argument) for argument in node.args], []))
            if node.func.path.startswith(MET):
                name = self.of_warp(node.func.path)
                return at(node, ast.Call(load(ALONE + name), [self.visit(node.args[1])], []))
        if isinstance(node.func, FunctionName):
            function = node.func.function
            depth = [ast.parse(self.depth, mode="eval").body] if function.is_recursive else []
            node.args = with_one_star([*node.args, *map(load, hidden_parameters(function)), *depth])
        self.generic_visit(node)
        return node
