"""Replace what stands for CUDA in a kernel by numba.cuda's own, and the author's indices by variables."""

from __future__ import annotations

import ast
from typing import Any

from warpdrive.backends.module_writer import header_of, hidden_parameters, int32, lane, position
from warpdrive.kernels.language import INDICES
from warpdrive.kernels.resolve import Table
from warpdrive.kernels.syntax import GENERATED, FunctionName, IntrinsicName, SharedName, at, load

CUDA = f"{GENERATED}cuda"
_MATHEMATICS = "warpdrive.backends.numba_cuda.mathematics"
_FUNCTIONS = {("math", name): _MATHEMATICS for name in ("sin", "cos", "tan")} | {
    ("numpy", name): _MATHEMATICS for name in ("sin", "cos", "tan", "absolute", "sign", "sqrt", "exp", "floor", "ceil")
}
"""Functions that are others on a GPU: numba.cuda's compute in float64, or it has none of NumPy's."""


class CudaAdapter(ast.NodeTransformer):
    """Replaces what stands for CUDA by numba.cuda's own, and notes the dtypes of arrays that are made.

    Indices are variables of 32 bits, since a thread of the GPU need not be the author's thread of the same number.
    """

    def __init__(self) -> None:
        self.dtypes: dict[str, str] = {}

    def array(self, space: str, shape: Any, dtype: Any) -> ast.expr:
        """Return the expression of a new array in ``"shared"`` or ``"local"`` memory."""
        name = self.dtypes.setdefault(dtype, f"{GENERATED}dtype_{len(self.dtypes)}")
        return ast.Call(_cuda(f"{space}.array"), [ast.parse(repr(shape), mode="eval").body, load(name)], [])

    def header(self, table: Table) -> list[str]:
        """Return the lines that a module begins with."""
        lines = header_of(table, _FUNCTIONS)
        lines += [f"from numba import cuda as {CUDA}, from_dtype"]
        lines += [f"{name} = from_dtype(dtype_of({dtype!r}))" for dtype, name in self.dtypes.items()]
        return lines

    def visit_IntrinsicName(self, node: IntrinsicName) -> ast.expr:
        """Indices are variables; all else is numba.cuda's."""
        if node.path == "laneid":
            return int32(lane())
        return load(node.id) if node.path in INDICES else _cuda(node.path)

    def visit_FunctionName(self, node: FunctionName) -> ast.expr:
        """Device functions have their names in the generated module."""
        return load(node.id)

    def visit_SharedName(self, node: SharedName) -> ast.expr:
        """Shared arrays are variables."""
        return load(node.id)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """A GPU raises nothing, as with numba.cuda outside of its debug mode."""
        return at(node, ast.Pass())

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        """The same."""
        return at(node, ast.Pass())

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Device functions get what their threads know."""
        if isinstance(node.func, IntrinsicName):
            if node.func.path == "local.array":
                shape, dtype = (argument.value for argument in node.args if isinstance(argument, ast.Constant))
                return self.array("local", shape, dtype)
            if node.func.path in ("grid", "gridsize"):
                return position(node, node.func.path)
        if isinstance(node.func, FunctionName):
            node.args = [*node.args, *map(load, hidden_parameters(node.func.function))]
        self.generic_visit(node)
        return node


def _cuda(path: str) -> ast.expr:
    return ast.parse(f"{CUDA}.{path}", mode="eval").body
