"""Lowering of a kernel function to regions between barriers: the passes of the front end in order.

read source -> resolve names -> name versions of variables, structurize control flow and inline -> name local arrays
-> run strided loops in rounds (on the CPU) -> find uniform values -> split into regions -> place variables
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from warpdrive.kernels.classes import AuthorsClass
from warpdrive.kernels.errors import refuse
from warpdrive.kernels.fission import pieces_of
from warpdrive.kernels.inline import inline
from warpdrive.kernels.language import GRID_BARRIER
from warpdrive.kernels.local_arrays import name_local_arrays
from warpdrive.kernels.regions import Once, Part, all_parts, split
from warpdrive.kernels.resolve import Function, Table, recursion_fault, resolve
from warpdrive.kernels.rounds import in_rounds
from warpdrive.kernels.source import FunctionSource
from warpdrive.kernels.syntax import TALLY, IntrinsicName, at, copy_tree, is_barrier, stored_names, walk
from warpdrive.kernels.uniform import find_uniform
from warpdrive.kernels.variables import Variables, place_variables, recomputable
from warpdrive.kernels.versions import Naming, with_separate_names


@dataclass(frozen=True)
class ResolvedKernel:
    """A kernel after name resolution; its compiled form depends on nothing else."""

    function: Function
    table: Table

    @property
    def grid_barrier(self) -> ast.AST | None:
        """The first barrier of the grid, or None if there is none."""
        functions = [*self.function.callees(), self.function]
        named = (node for f in functions for node in walk(f.body) if isinstance(node, IntrinsicName))
        return next((node for node in named if node.path == GRID_BARRIER), None)

    def check_fusible(self) -> None:
        """Raise :class:`KernelError` if the kernel cannot be part of an environment: it has a barrier of the grid."""
        node = self.grid_barrier
        if node is not None:
            refuse(
                node,
                "cuda.cg.this_grid().sync() cannot be used in an environment: its blocks are replicas, which are "
                "independent of each other; cuda.syncthreads() is the barrier of the agents of one",
            )

    def content(self) -> str:
        """Return the content for the cache key: equal for kernels that compile to the same code."""
        functions = [*self.function.callees(), self.function]
        parts = [f"{f.name}({f.parameters}): {[ast.dump(statement) for statement in f.body]}" for f in functions]
        table = self.table
        constants = {name: _content_of(value) for name, value in table.constants.items()}
        return "\n".join([*parts, repr(constants), repr(table.imports), repr(table.classes), repr(table.shared)])


@dataclass(frozen=True)
class LoweredKernel:
    """A kernel split into regions.

    Attributes:
        parameters: The names of the kernel's parameters.
        arrays: The names of the parameters that are arrays.
        body: The inlined body from which everything else was derived.
        parts: The regions and the control flow between them.
        variables: The storage of variables that live in more than one region.
        device_functions: The callees without barriers, which are not inlined.
        table: Constants, imports, classes, shared arrays and exception messages.
    """

    parameters: list[str]
    arrays: Collection[str]
    body: list[ast.stmt]
    parts: list[Part]
    variables: Variables
    device_functions: list[Function]
    table: Table

    @property
    def block_variables(self) -> list[str]:
        """The names of the variables that are computed once per block."""
        once = (part.statement for part in all_parts(self.parts) if isinstance(part, Once))
        return sorted(name for name in stored_names(once) if not name.startswith(TALLY))

    @property
    def pieces(self) -> list[list[ast.stmt]]:
        """The pieces of the kernel for launches with one thread per block."""
        return pieces_of(self.body, self.parameters, self.arrays, self.table, self.device_functions)


def without_faults(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a copy of a body without raise and assert statements, for type inference."""

    class Remover(ast.NodeTransformer):
        def visit_Assert(self, node: ast.Assert) -> ast.stmt:
            return at(node, ast.Expr(node.test))

        def visit_Raise(self, node: ast.Raise) -> ast.stmt:
            return at(node, ast.Pass())

    return [Remover().visit(statement) for statement in copy_tree(body)]


def without_barriers(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a copy of a body with each barrier replaced by ``pass``."""

    class Remover(ast.NodeTransformer):
        def visit_Expr(self, node: ast.Expr) -> ast.stmt:
            return at(node, ast.Pass()) if is_barrier(node) else node

    return [Remover().visit(statement) for statement in copy_tree(body)]


def resolve_kernel(source: FunctionSource, baked: Mapping[str, Any]) -> ResolvedKernel:
    """Resolve the names of a kernel; ``baked`` maps parameters known at compile time to their values."""
    if source.facts.rest:
        refuse(
            source.tree,
            f"a kernel cannot have the parameter *{source.facts.rest}: it takes a fixed number of arguments",
        )
    table = Table()
    kernel = resolve(source, baked, table)
    if kernel.is_recursive:
        refuse(source.tree, f"kernel '{source.name}' calls itself: move what repeats to a device function")
    for function in kernel.callees():
        if function.is_recursive:
            table.faults.append(recursion_fault(function))
    return ResolvedKernel(kernel, table)


def lower(
    kernel: ResolvedKernel, arrays: Collection[str], naming: Naming = with_separate_names, on_cpu: bool = False
) -> LoweredKernel:
    """Split a kernel into regions.

    Args:
        kernel: The resolved kernel.
        arrays: The names of the parameters that are arrays.
        naming: Decides which versions of a variable share a name; by default none do.
        on_cpu: If True, all threads run an iteration of a strided loop before any runs the next, and conditions of
            fused kernels are evaluated once per block.

    Returns:
        The lowered kernel.

    Raises:
        KernelError: If a function with a barrier is called where that is not supported, or the kernel returns a value.
    """
    body = name_local_arrays(inline(kernel.function, naming))
    parameters = kernel.function.parameters
    own = copy_tree(body)
    uniform = find_uniform(own, parameters, arrays, kernel.table, on_cpu)
    if on_cpu:
        known = recomputable(own, parameters, arrays, kernel.table)
        own = in_rounds(own, uniform, known)
        uniform = find_uniform(own, parameters, arrays, kernel.table, on_cpu)
    parts = split(own, uniform)
    variables = place_variables(parts, parameters, arrays, kernel.table)
    device_functions = [f for f in kernel.function.callees() if not f.has_barrier]
    return LoweredKernel(parameters, arrays, body, parts, variables, device_functions, kernel.table)


def _content_of(value: Any) -> Any:
    """Return a value whose ``repr`` identifies a constant; NumPy abbreviates that of a large array."""
    if isinstance(value, tuple):
        return (AuthorsClass.of(type(value)), *map(_content_of, value))
    return (type(value).__name__, *(getattr(value, name, None) for name in ("dtype", "shape")), _bytes(value))


def _bytes(value: Any) -> Any:
    return value.tobytes() if hasattr(value, "tobytes") else repr(value)
