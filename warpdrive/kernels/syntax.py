"""Syntax trees of kernel functions: additional node types of resolved trees, and helpers for transformations."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from functools import reduce
from typing import Any, Protocol, TypeGuard, TypeVar

from warpdrive.kernels.language import BARRIER, GRID_BARRIER, SYNC_POINTS, WARP_BARRIER

Node = TypeVar("Node")

GENERATED = "wd__"
"""Prefix of generated names in a kernel; the names in user code cannot begin with it."""

TALLY = f"{GENERATED}tally_"
"""Prefix of the names of per-block counters of votes."""

AGREED = f"{GENERATED}agreed_"
"""Prefix of the names of variables of fused kernels that have the same value in all threads of a block."""

SENT, HERE = f"{GENERATED}sent_", f"{GENERATED}here_"
"""Prefixes of the names of variables that other threads of a warp read: the sent value, and a flag of participation."""

DEBUG = "debug."
"""Prefix of the dotted names of the functions that check operations of kernels (see ``debug_checks.py``)."""

RANGE, LEN, PRINT = (f"{GENERATED}builtins_{name}" for name in ("range", "len", "print"))
"""Aliases of Python's ``range``, ``len`` and ``print``, which the user's variables may shadow."""

RANGE_ITEM = f"{GENERATED}range_item"
"""Name of ``range_item(range, place)``: the item of a range at an index, with the type of the loop variable."""

SHAPE_ITEM = f"{GENERATED}shape_item"
"""Name of ``shape_item(shape, place)``: the tuple of indices at a place, the last one changing fastest."""

ITEMS = {name: name.removeprefix(GENERATED) for name in (RANGE_ITEM, SHAPE_ITEM)}
"""Names of the functions that loops around barriers need, with their names in the modules of intrinsics."""


class Callee(Protocol):
    """The function of a :class:`FunctionName`."""

    name: str

    @property
    def has_barrier(self) -> bool:
        """True if the function or one of its callees contains a barrier."""


class IntrinsicName(ast.Name):
    """A name that refers to a member of ``numba.cuda``, with the dotted name ``path``, such as ``atomic.add``."""

    _fields = ast.Name._fields
    path: str

    @staticmethod
    def of(path: str, place: ast.AST) -> IntrinsicName:
        """Create the name for the intrinsic ``path``, at the source location of another node."""
        name = IntrinsicName(id=GENERATED + path.replace(".", "_"), ctx=ast.Load())
        name.path = path
        return at(place, name)


class SharedName(ast.Name):
    """A name that refers to an array in shared memory; each declaration has its own."""


class FunctionName(ast.Name):
    """A name that refers to another resolved function."""

    _fields = ast.Name._fields
    function: Any  # a warpdrive.kernels.resolve.Function, which imports this module

    @staticmethod
    def of(function: Callee, place: ast.AST) -> FunctionName:
        """Create the name for ``function``, at the source location of another node."""
        name = FunctionName(id=function.name, ctx=ast.Load())
        name.function = function
        return at(place, name)


def at(place: ast.AST, node: Node) -> Node:
    """Assign the source location of ``place`` to a node and its new descendants, and return the node."""
    assert isinstance(node, ast.AST)
    for child in ast.walk(node):
        if not hasattr(child, "file"):
            child.lineno = getattr(place, "lineno", 0)  # type: ignore[attr-defined]
            child.col_offset = getattr(place, "col_offset", 0)  # type: ignore[attr-defined]
            child.end_lineno = getattr(place, "end_lineno", None) or child.lineno  # type: ignore[attr-defined]
            child.end_col_offset = getattr(place, "end_col_offset", None)  # type: ignore[attr-defined]
            child.file = getattr(place, "file", "<unknown>")  # type: ignore[attr-defined]
    return node


def copy_tree(node: Node) -> Node:
    """Copy a tree, or a list of trees. Attributes that are no trees (resolved functions, file names) are shared."""
    if isinstance(node, list):
        return [copy_tree(child) for child in node]  # type: ignore[return-value]
    if not isinstance(node, ast.AST):
        return node
    copy = type(node).__new__(type(node))
    for name, value in vars(node).items():
        if name in node._fields and isinstance(value, (ast.AST, list)):
            value = copy_tree(value)
        elif isinstance(value, ast.AST):
            continue  # parent links, left by traceback libraries on shared nodes such as Load()
        setattr(copy, name, value)
    return copy


def walk(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Iterate over the nodes and all their descendants, except expression contexts."""
    for statement in statements:
        waiting = deque([statement])
        while waiting:
            node = waiting.popleft()
            for name in _TREE_FIELDS[type(node)]:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    waiting.extend([child for child in value if isinstance(child, ast.AST)])
                elif isinstance(value, ast.AST):
                    waiting.append(value)
            yield node


def walk_scope(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Iterate as :func:`walk` does, but not over the bodies of inner functions."""
    waiting = deque(statements)
    while waiting:
        node = waiting.popleft()
        yield node
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            waiting.extend([*node.args.defaults, *getattr(node, "decorator_list", [])])
        else:
            waiting.extend(ast.iter_child_nodes(node))


class _TreeFields(dict[type[ast.AST], tuple[str, ...]]):
    """Fields of each node type that may hold nodes other than expression contexts."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        leaf = issubclass(kind, (ast.Name, ast.Constant))
        self[kind] = () if leaf else tuple(name for name in kind._fields if name not in ("ctx", "id", "attr", "arg"))
        return self[kind]


_TREE_FIELDS = _TreeFields()


def is_barrier(statement: ast.AST) -> bool:
    """Return True for a barrier statement, of a block, of a warp or of the grid."""
    return isinstance(statement, ast.Expr) and _calls(statement.value, (BARRIER, WARP_BARRIER, GRID_BARRIER))


def is_grid_barrier(statement: ast.AST) -> bool:
    """Return True for a barrier statement of the grid."""
    return isinstance(statement, ast.Expr) and _calls(statement.value, (GRID_BARRIER,))


def is_bare_call(node: ast.AST) -> TypeGuard[ast.Call]:
    """Return True for a call of a dotted name without arguments."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute))
    return is_call and not node.args and not node.keywords  # type: ignore[attr-defined]


def synchronizes(nodes: Iterable[ast.AST]) -> bool:
    """Return True if threads synchronise in the nodes or their descendants; functions called there do not count."""
    return any(_calls(node, SYNC_POINTS) for node in walk(nodes))


def contains_barrier(nodes: Iterable[ast.AST]) -> bool:
    """Return True if threads synchronise in the nodes or their descendants, or in a function called there."""
    return any(
        _calls(node, SYNC_POINTS) or (isinstance(node, FunctionName) and node.function.has_barrier)
        for node in walk(nodes)
    )


def is_debug_call(node: ast.AST) -> bool:
    """Return True for a call of a check added by ``cuda.jit(debug=True)``."""
    return isinstance(node, ast.Call) and isinstance(node.func, IntrinsicName) and node.func.path.startswith(DEBUG)


def _calls(node: ast.AST, paths: Collection[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, IntrinsicName) and node.func.path in paths


def stored_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names assigned in the nodes or their descendants."""
    return {node.id for node in walk(nodes) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def loaded_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names read in the nodes or their descendants."""
    return {node.id for node in walk(nodes) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def load(name: str) -> ast.Name:
    """Return the expression ``name``."""
    return ast.Name(name, ast.Load())


def assign(name: str, value: ast.expr) -> ast.Assign:
    """Return the statement ``name = value``."""
    return ast.Assign([ast.Name(name, ast.Store())], value)


def with_one_star(elements: list[ast.expr]) -> list[ast.expr]:
    """Return elements or arguments with at most one ``*``, as numba needs them: ``*(t + (x,))`` for ``*t, x``."""
    if not any(isinstance(element, ast.Starred) for element in elements):
        return elements
    parts: list[ast.expr] = []
    for element in elements:
        if isinstance(element, ast.Starred):
            parts.append(element.value)
        elif parts and isinstance(parts[-1], ast.Tuple):
            parts[-1] = ast.Tuple([*parts[-1].elts, element], ast.Load())
        else:
            parts.append(ast.Tuple([element], ast.Load()))
    return [ast.Starred(reduce(lambda left, right: ast.BinOp(left, ast.Add(), right), parts), ast.Load())]


def negate(value: ast.expr) -> ast.expr:
    """Return the expression ``not value``."""
    return ast.UnaryOp(ast.Not(), value)


def conjunction(first: ast.expr | None, second: ast.expr) -> ast.expr:
    """Return the expression ``first and second``, or just ``second`` if ``first`` is None."""
    return second if first is None else ast.BoolOp(ast.And(), [first, second])


def position(node: ast.Call, axis: str) -> ast.expr:
    """Return the component of a call of ``cuda.grid`` or ``cuda.gridsize`` along an axis."""
    assert isinstance(node.func, IntrinsicName)
    first = "blockIdx" if node.func.path == "grid" else "gridDim"
    indices = [IntrinsicName.of(f"{dimension}.{axis}", node) for dimension in (first, "blockDim", "threadIdx")]
    product = at(node, ast.BinOp(indices[0], ast.Mult(), indices[1]))
    return product if node.func.path == "gridsize" else at(node, ast.BinOp(product, ast.Add(), indices[2]))
