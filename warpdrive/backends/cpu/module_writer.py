"""Write the text of a generated module, and note for each line where the author wrote what it does."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpdrive.backends.cpu import atomics, intrinsics, mathematics, scalars
from warpdrive.kernels.classes import AuthorsClass
from warpdrive.kernels.dtypes import dtype_text
from warpdrive.kernels.errors import refuse
from warpdrive.kernels.language import ATOMIC_DTYPES, DIMENSIONS, INDICES, SCALARS, WARP
from warpdrive.kernels.resolve import Function, Table
from warpdrive.kernels.syntax import (
    GENERATED,
    LEN,
    RANGE,
    FunctionName,
    IntrinsicName,
    SharedName,
    at,
    copy_tree,
    load,
    walk,
)

AXES = "xyz"
_LANE = "(({threadIdx_z} * {blockDim_y} + {threadIdx_y}) * {blockDim_x} + {threadIdx_x}) % " + str(WARP)


@dataclass(frozen=True)
class GeneratedModule:
    """The text of a module, and for each of its lines the author's file and line it came from (or None)."""

    text: str
    origins: tuple[tuple[str, int] | None, ...]


def index_name(path: str) -> str:
    """Return the variable of generated code that holds ``threadIdx.x`` and the like."""
    return GENERATED + path.replace(".", "_")


def hidden_parameters(function: Function) -> list[str]:
    """Return what a device function needs from its caller besides its arguments: indices and shared arrays."""
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


_INDEX_NAMES = {path.replace(".", "_"): index_name(path) for path in INDICES}


class _Adapter(ast.NodeTransformer):
    """Replaces what stands for CUDA by what stands for it in generated code."""

    def __init__(self, writer: ModuleWriter) -> None:
        self.writer = writer

    def visit_IntrinsicName(self, node: IntrinsicName) -> ast.expr:
        if node.path == "warpsize":
            return _int32(ast.Constant(WARP))
        if node.path == "laneid":
            return _int32(_expression(_LANE.format(**_INDEX_NAMES)))
        if node.path in INDICES:
            return _int32(load(node.id)) if self.writer.minds_width else load(node.id)
        self.writer.intrinsics.add(node.path)
        return load(node.id)

    def visit_FunctionName(self, node: FunctionName) -> ast.expr:
        return load(node.id)

    def visit_SharedName(self, node: SharedName) -> ast.expr:
        return load(node.id)

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        """Raise what :mod:`warpdrive.backends.cpu.assertions` looks for, whatever the author raises."""
        assert node.exc is not None
        return at(node, ast.Raise(ast.Call(load("AssertionError"), [node.exc], [])))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, IntrinsicName):
            if node.func.path == "local.array":
                shape, dtype = (argument.value for argument in node.args if isinstance(argument, ast.Constant))
                return ast.Call(load(self.writer.stack_array(shape, dtype)), [], [])
            if node.func.path in ("grid", "gridsize"):
                return _position(node, node.func.path)
        if isinstance(node.func, FunctionName):
            node.args = [*node.args, *map(load, hidden_parameters(node.func.function))]
        self.generic_visit(node)
        return node


def _position(node: ast.Call, kind: str) -> ast.expr:
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


def _int32(value: ast.expr) -> ast.expr:
    """Return the expression for a value of the type that it has on a GPU."""
    return ast.Call(load(f"{GENERATED}int32"), [value], [])


class ModuleWriter:
    """Collects the lines of a module and where each came from.

    Args:
        minds_width: whether indices must have the 32 bits that they have on a GPU. That matters to few functions, and
            without it the code is easier to vectorise.
    """

    def __init__(self, minds_width: bool = False) -> None:
        self.minds_width = minds_width
        self.lines: list[str] = []
        self.origins: list[tuple[str, int] | None] = []
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

    def adapt(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Return copies of statements in which what stands for CUDA is replaced by generated code."""
        return [_Adapter(self).visit(copy_tree(statement)) for statement in statements]

    def adapt_expression(self, expression: ast.expr) -> ast.expr:
        """Return the same of an expression."""
        (statement,) = self.adapt([ast.Expr(expression)])
        assert isinstance(statement, ast.Expr)
        return statement.value

    def line(self, text: str, origin: tuple[str, int] | None = None) -> None:
        """Write a line; ``origin`` is the author's file and line behind it."""
        self.lines.append(text)
        self.origins.append(origin)

    def text(self, text: str) -> None:
        """Write lines that no author wrote."""
        for line in text.splitlines():
            self.line(line)

    def function(self, decorator: str, name: str, parameters: Sequence[str], body: list[ast.stmt]) -> None:
        """Write a function, noting for each line the place of the statement it holds."""
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

    def module(self, table: Table, imports: str) -> GeneratedModule:
        """Return what was written, after the imports and constants that it needs."""
        header = [*_header_text(table).splitlines(), *imports.splitlines()]
        for path in sorted(self.intrinsics):
            name = path.replace(".", "_")
            module = atomics if path in ATOMIC_DTYPES else scalars if path in SCALARS else intrinsics
            header.append(f"from {module.__name__} import {name} as {GENERATED}{name}")
        for (shape, dtype), name in self.stack_arrays.items():
            header.append(f"{name} = stack_array({shape!r}, {dtype!r})")
        for dtype, name in self.views.items():
            header.append(f"{name} = view({dtype!r})")
        for kind, names in self.kinds.items():
            header.append(f"{', '.join(names)} = slot_accessors({kind!r})")
        return GeneratedModule(
            "\n".join([*header, "", *self.lines]) + "\n", (*[None] * (len(header) + 1), *self.origins)
        )


def _statements(nodes: Sequence[ast.AST]) -> list[ast.stmt]:
    return [node for node in walk(nodes) if isinstance(node, ast.stmt)]


def _header_text(table: Table) -> str:
    lines = [
        "import numpy as np",
        "from numba import cfunc, njit",
        f"from builtins import len as {LEN}, range as {RANGE}",
        f"from numpy import int32 as {GENERATED}int32",
        "from warpdrive.kernels.classes import authors_class",
        "from warpdrive.kernels.dtypes import dtype_of",
    ]
    lines.append("from warpdrive.backends.cpu.intrinsics import argument_loader, not_negative, stack_array, view")
    lines.append("from warpdrive.backends.cpu.slots import slot_accessors")
    for alias, (module, name) in table.imports.items():
        if module == "math" and name in mathematics.REPLACED:
            module = mathematics.__name__
        lines.append(f"from {module} import {name} as {alias}")
    for alias, described in table.classes.items():
        lines.append(f"{alias} = authors_class{(described.base, described.name, described.members)!r}")
    for name, value in table.constants.items():
        lines.append(f"{name} = {_constant_text(value)}")
    return "\n".join(lines)


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
