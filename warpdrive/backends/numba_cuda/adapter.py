"""Rewriting of CUDA constructs in a kernel's syntax tree into numba.cuda's, with indices as variables."""

from __future__ import annotations

import ast
from typing import Any

from warpdrive.backends.shared.module_writer import header_of, hidden_parameters, int32, lane, position
from warpdrive.kernels.language import INDICES, MET
from warpdrive.kernels.libraries import FUNCTIONS
from warpdrive.kernels.resolve import Table
from warpdrive.kernels.syntax import GENERATED, FunctionName, IntrinsicName, SharedName, at, load, with_one_star

CUDA = f"{GENERATED}cuda"
_MATHEMATICS = "warpdrive.backends.numba_cuda.mathematics"
_FUNCTIONS = {("math", name): _MATHEMATICS for name in ("sin", "cos", "tan")} | {
    ("numpy", name): _MATHEMATICS for name in ("sin", "cos", "tan", "absolute", "sign", "sqrt", "exp", "floor", "ceil")
}
"""Functions replaced on a GPU: numba.cuda computes them in float64, or lacks NumPy's."""


class CudaAdapter(ast.NodeTransformer):
    """AST transformer that replaces CUDA constructs by numba.cuda's, and records the dtypes of new arrays.

    Indices are 32-bit variables, since a thread of the GPU need not be the author's thread of the same number.
    """

    def __init__(self) -> None:
        self.dtypes: dict[str, str] = {}
        self.libraries: set[str] = set()

    def array(self, space: str, shape: Any, dtype: Any) -> ast.expr:
        """Return the expression of a new array in ``"shared"`` or ``"local"`` memory.

        Args:
            space: ``"shared"`` or ``"local"``.
            shape: Shape of the array.
            dtype: Dtype of its elements.

        Returns:
            The expression.
        """
        name = self.dtypes.setdefault(dtype, f"{GENERATED}dtype_{len(self.dtypes)}")
        return ast.Call(_cuda(f"{space}.array"), [ast.parse(repr(shape), mode="eval").body, load(name)], [])

    def header(self, table: Table) -> list[str]:
        """Return the first lines of a generated module."""
        lines = header_of(table, _FUNCTIONS)
        lines += [f"from numba import cuda as {CUDA}, from_dtype"]
        lines += [f"from numba.cuda import {name} as {GENERATED}{name}" for name in sorted(self.libraries)]
        lines += [f"{name} = from_dtype(dtype_of({dtype!r}))" for dtype, name in self.dtypes.items()]
        return lines

    def visit_IntrinsicName(self, node: IntrinsicName) -> ast.expr:
        """Replace an index by a variable, and any other intrinsic by numba.cuda's."""
        if node.path == "laneid":
            return int32(lane())
        if node.path in FUNCTIONS:
            library, name = node.path.split(".")
            self.libraries.add(library)
            return ast.Attribute(load(f"{GENERATED}{library}"), name, ast.Load())
        return load(node.id) if node.path in INDICES else _cuda(node.path.removeprefix(MET))

    def visit_FunctionName(self, node: FunctionName) -> ast.expr:
        """Replace a device function by its name in the generated module."""
        return load(node.id)

    def visit_SharedName(self, node: SharedName) -> ast.expr:
        """Replace a shared array by a variable."""
        return load(node.id)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """Remove an assertion: there are no exceptions on a GPU, as with numba.cuda outside of its debug mode."""
        return at(node, ast.Pass())

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        """Remove a raise statement: there are no exceptions on a GPU."""
        return at(node, ast.Pass())

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Allocate local arrays, and pass the hidden parameters to device functions."""
        if isinstance(node.func, IntrinsicName):
            if node.func.path == "local.array":
                shape, dtype = (argument.value for argument in node.args if isinstance(argument, ast.Constant))
                return self.array("local", shape, dtype)
            if node.func.path in ("grid", "gridsize"):
                return position(node, node.func.path)
            if node.func.path == f"{MET}activemask":
                return ast.Call(_cuda("activemask"), [], [])
            node.keywords = [] if node.func.path.startswith(MET) else node.keywords
        if isinstance(node.func, FunctionName):
            if node.func.function.is_recursive:  # numba compiles another version for the type of a literal
                node.args = [_not_literal(argument) for argument in node.args]
            node.args = with_one_star([*node.args, *map(load, hidden_parameters(node.func.function))])
        self.generic_visit(node)
        return node


def _not_literal(node: ast.expr) -> ast.expr:
    is_integer = isinstance(node, ast.Constant) and type(node.value) is int
    return ast.Call(ast.parse("np.int64", mode="eval").body, [node], []) if is_integer else node


def _cuda(path: str) -> ast.expr:
    return ast.parse(f"{CUDA}.{path}", mode="eval").body
