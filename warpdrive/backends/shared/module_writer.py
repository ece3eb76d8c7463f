"""Writer of generated modules, with a map from their lines to the author's source."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpdrive.kernels.classes import AuthorsClass
from warpdrive.kernels.dtypes import dtype_text
from warpdrive.kernels.errors import refuse
from warpdrive.kernels.language import AXES, DIMENSIONS, INDICES, WARP
from warpdrive.kernels.resolve import Function, Table
from warpdrive.kernels.syntax import GENERATED, LEN, RANGE, IntrinsicName, SharedName, copy_tree, load, walk


@dataclass(frozen=True)
class GeneratedModule:
    """Text of a module, and for each of its lines the author's file and line that it came from (or None)."""

    text: str
    origins: tuple[tuple[str, int] | None, ...]


def index_name(path: str) -> str:
    """Return the variable of generated code that holds an index such as ``threadIdx.x``."""
    return GENERATED + path.replace(".", "_")


def hidden_parameters(function: Function) -> list[str]:
    """Return the implicit parameters of a device function: the indices and shared arrays that it uses."""
    used, shared = set(), set()
    for body in (function.body, *(callee.body for callee in function.callees())):
        for node in walk(body):
            if isinstance(node, IntrinsicName):
                used |= _indices_behind(node)
            if isinstance(node, SharedName):
                shared.add(node.id)
    return [*(index_name(path) for path in INDICES if path in used), *sorted(shared)]


def _indices_behind(node: IntrinsicName) -> set[str]:
    if node.path == "grid":
        return {path for path in INDICES if not path.startswith("gridDim")}
    if node.path == "laneid":
        return {path for path in INDICES if path.startswith(("threadIdx", "blockDim"))}
    if node.path == "gridsize":
        return {path for path in INDICES if path.startswith(("gridDim", "blockDim"))}
    return {node.path} & set(INDICES)


_LANE = "(({threadIdx_z} * {blockDim_y} + {threadIdx_y}) * {blockDim_x} + {threadIdx_x}) % " + str(WARP)
_INDEX_NAMES = {path.replace(".", "_"): index_name(path) for path in INDICES}


def lane() -> ast.expr:
    """Return the expression of a thread's index in its warp."""
    return _expression(_LANE.format(**_INDEX_NAMES))


def position(node: ast.Call, kind: str) -> ast.expr:
    """Return the expression of ``cuda.grid`` or ``cuda.gridsize``. Raises :class:`KernelError` for another rank."""
    rank = node.args[0].value if len(node.args) == 1 and isinstance(node.args[0], ast.Constant) else None
    if not isinstance(rank, int) or not 1 <= rank <= 3:
        refuse(node, f"cuda.{kind} takes the number of dimensions: 1, 2 or 3")
    template = "{blockIdx} * {blockDim} + {threadIdx}" if kind == "grid" else "{gridDim} * {blockDim}"
    axes = [
        template.format(**{dimension: index_name(f"{dimension}.{axis}") for dimension in DIMENSIONS})
        for axis in AXES[:rank]
    ]
    return _expression(axes[0] if rank == 1 else f"({', '.join(axes)})")


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def int32(value: ast.expr) -> ast.expr:
    """Return the expression that converts a value to int32, its type on a GPU."""
    return ast.Call(load(f"{GENERATED}int32"), [value], [])


class ModuleWriter:
    """Collector of a module's lines and their origins.

    Args:
        adapter: Transformer that replaces CUDA constructs in a tree by their equivalents in generated code.
    """

    def __init__(self, adapter: ast.NodeTransformer) -> None:
        self.adapter = adapter
        self.lines: list[str] = []
        self.origins: list[tuple[str, int] | None] = []

    def adapt(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Return copies of statements with CUDA constructs replaced by generated code."""
        return [self.adapter.visit(copy_tree(statement)) for statement in statements]

    def adapt_expression(self, expression: ast.expr) -> ast.expr:
        """Return a copy of an expression with CUDA constructs replaced by generated code."""
        (statement,) = self.adapt([ast.Expr(expression)])
        assert isinstance(statement, ast.Expr)
        return statement.value

    def line(self, text: str, origin: tuple[str, int] | None = None) -> None:
        """Write a line; ``origin`` is the author's file and line that it came from."""
        self.lines.append(text)
        self.origins.append(origin)

    def text(self, text: str) -> None:
        """Write lines without an origin."""
        for line in text.splitlines():
            self.line(line)

    def function(self, decorator: str, name: str, parameters: Sequence[str], body: list[ast.stmt]) -> None:
        """Write a function, recording for each line the origin of its statement.

        Args:
            decorator: Line before the function, or empty.
            name: Name of the function.
            parameters: Names of its parameters.
            body: Statements of its body.
        """
        arguments = ast.arguments([], [ast.arg(p) for p in parameters], None, [], [], None, [])
        node = ast.FunctionDef(name, arguments, body or [ast.Pass()], [], None)
        node.type_params = []  # type: ignore[attr-defined]
        text = ast.unparse(ast.fix_missing_locations(node)).splitlines()
        origins: list[tuple[str, int] | None] = [None] * len(text)
        for written, original in zip(_statements(ast.parse("\n".join(text)).body), _statements([node]), strict=True):
            file, line = getattr(original, "file", None), getattr(original, "lineno", None)
            origins[written.lineno - 1] = (file, line) if file and line else None
        if decorator:
            self.line(decorator)
        for line, origin in zip(text, origins, strict=True):
            self.line(line, origin)
        self.line("")

    def module(self, header: Sequence[str]) -> GeneratedModule:
        """Return the written module, with a header."""
        return GeneratedModule(
            "\n".join([*header, "", *self.lines]) + "\n", (*[None] * (len(header) + 1), *self.origins)
        )


def _statements(nodes: Sequence[ast.AST]) -> list[ast.stmt]:
    return [node for node in walk(nodes) if isinstance(node, ast.stmt)]


def header_of(table: Table, modules: Mapping[tuple[str, str], str] | None = None) -> list[str]:
    """Return the lines that import and define the names that a kernel uses of its author's module.

    ``modules`` maps ``(module, name)`` to the module to import the name from instead.
    """
    lines = [
        "import numpy as np",
        f"from builtins import len as {LEN}, range as {RANGE}",
        f"from numpy import int32 as {GENERATED}int32",
        "from warpdrive.kernels.classes import authors_class",
        "from warpdrive.kernels.dtypes import dtype_of",
    ]
    for alias, (module, name) in table.imports.items():
        lines.append(f"from {(modules or {}).get((module, name), module)} import {name} as {alias}")
    for alias, described in table.classes.items():
        lines.append(f"{alias} = authors_class{(described.base, described.name, described.members)!r}")
    for name, value in table.constants.items():
        lines.append(f"{name} = {_constant_text(value)}")
    return lines


def _constant_text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value)
        return f"np.ndarray({data.shape!r}, dtype_of({dtype_text(data.dtype)!r}), {data.tobytes()!r})"
    if isinstance(value, np.generic):
        return f"np.ndarray((), dtype_of({dtype_text(value.dtype)!r}), {value.tobytes()!r})[()]"
    if isinstance(value, tuple):
        named = AuthorsClass.of(type(value))
        items = "".join(_constant_text(item) + ", " for item in value)
        return f"({items})" if named is None else f"{named.alias}({items})"
    return f"float({str(value)!r})" if isinstance(value, float) else repr(value)
