"""Replace what stands for CUDA in a kernel by what stands for it on the CPU."""

from __future__ import annotations

import ast
from typing import Any

from warpdrive.backends.cpu import atomics, intrinsics, mathematics, scalars
from warpdrive.backends.module_writer import header_of, hidden_parameters, int32, lane, position
from warpdrive.kernels.language import ATOMIC_DTYPES, INDICES, SCALARS, WARP
from warpdrive.kernels.resolve import Table
from warpdrive.kernels.syntax import GENERATED, RANGE_ITEM, FunctionName, IntrinsicName, SharedName, at, load


class CpuAdapter(ast.NodeTransformer):
    """Replaces what stands for CUDA by what stands for it in generated code, and notes what that code then needs.

    Args:
        minds_width: whether indices must have the 32 bits that they have on a GPU. That matters to few functions, and
            without it the code is easier to vectorise.
    """

    def __init__(self, minds_width: bool = False) -> None:
        self.minds_width = minds_width
        self.intrinsics: set[str] = set()
        self.stack_arrays: dict[tuple[Any, Any], str] = {}
        self.views: dict[str, str] = {}
        self.kinds: dict[bytes, tuple[str, str]] = {}

    def stack_array(self, shape: Any, dtype: Any) -> str:
        """Return the name of the function that makes an uninitialised array of this kind on the stack."""
        return self.stack_arrays.setdefault((shape, dtype), f"{GENERATED}array_{len(self.stack_arrays)}")

    def view(self, dtype: str) -> str:
        """Return the name of the function that sees an array of bytes as one of ``dtype``."""
        return self.views.setdefault(dtype, f"{GENERATED}view_{len(self.views)}")

    def accessors(self, kind: bytes) -> tuple[str, str]:
        """Return the names of the functions that get and put a value of a pickled type from and into its slot."""
        number = len(self.kinds)
        return self.kinds.setdefault(kind, (f"{GENERATED}get_{number}", f"{GENERATED}put_{number}"))

    def header(self, table: Table, imports: str) -> list[str]:
        """Return the lines that a module begins with: what the kernel names, and what was noted."""
        lines = header_of(table, dict.fromkeys(mathematics.REPLACEMENTS, mathematics.__name__))
        lines.append("from numba import cfunc, njit")
        lines.append("from warpdrive.backends.cpu.compiler import EntryCompiler, FunctionCompiler")
        lines.append(
            "from warpdrive.backends.cpu.intrinsics import array_loader, not_constant, not_negative, number_loader"
        )
        lines.append(f"from warpdrive.backends.cpu.intrinsics import range_item as {RANGE_ITEM}, stack_array, view")
        lines.append("from warpdrive.backends.cpu.slots import slot_accessors")
        lines += imports.splitlines()
        for path in sorted(self.intrinsics):
            name = path.replace(".", "_")
            module = atomics if path in ATOMIC_DTYPES else scalars if path in SCALARS else intrinsics
            lines.append(f"from {module.__name__} import {name} as {GENERATED}{name}")
        lines += [f"{name} = stack_array({shape!r}, {dtype!r})" for (shape, dtype), name in self.stack_arrays.items()]
        lines += [f"{name} = view({dtype!r})" for dtype, name in self.views.items()]
        lines += [f"{', '.join(names)} = slot_accessors({kind!r})" for kind, names in self.kinds.items()]
        return lines

    def visit_IntrinsicName(self, node: IntrinsicName) -> ast.expr:
        """Indices are variables; functions are imported."""
        if node.path == "warpsize":
            return int32(ast.Constant(WARP))
        if node.path == "laneid":
            return int32(lane())
        if node.path in INDICES:
            return int32(load(node.id)) if self.minds_width else load(node.id)
        self.intrinsics.add(node.path)
        return load(node.id)

    def visit_FunctionName(self, node: FunctionName) -> ast.expr:
        """Device functions have their names in the generated module."""
        return load(node.id)

    def visit_SharedName(self, node: SharedName) -> ast.expr:
        """Shared arrays are variables."""
        return load(node.id)

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        """Raise what :mod:`warpdrive.backends.cpu.assertions` looks for, whatever the author raises."""
        assert node.exc is not None
        return at(node, ast.Raise(ast.Call(load("AssertionError"), [node.exc], [])))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Arrays are taken from the stack, and device functions get what their threads know."""
        if isinstance(node.func, IntrinsicName):
            if node.func.path == "local.array":
                shape, dtype = (argument.value for argument in node.args if isinstance(argument, ast.Constant))
                return ast.Call(load(self.stack_array(shape, dtype)), [], [])
            if node.func.path in ("grid", "gridsize"):
                return position(node, node.func.path)
        if isinstance(node.func, FunctionName):
            node.args = [*node.args, *map(load, hidden_parameters(node.func.function))]
        self.generic_visit(node)
        return node
