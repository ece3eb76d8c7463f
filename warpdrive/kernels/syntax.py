"""Syntax trees of kernel functions: the nodes that resolved trees have besides Python's own, and how to handle them."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from warpdrive.kernels.language import BARRIER, BARRIERS, WARP_BARRIER

Node = TypeVar("Node")

GENERATED = "wd__"
"""What every name begins with that the library adds to a kernel; no author's name may."""

TALLY = f"{GENERATED}tally_"
"""What the names of a block's own counters begin with: threads add to one, and all read it after a barrier."""

RANGE, LEN = f"{GENERATED}builtins_range", f"{GENERATED}builtins_len"
"""The names of Python's ``range`` and ``len``, which an author's variable may hide under their own names."""

RANGE_ITEM = f"{GENERATED}range_item"
"""The name of ``range_item(range, place)``, the item of a range at a place, of the type that a loop variable has."""


class Callee(Protocol):
    """What a :class:`FunctionName` stands for."""

    name: str

    @property
    def has_barrier(self) -> bool:
        """Whether a barrier stands in the function or in one that it calls."""


class IntrinsicName(ast.Name):
    """A name that stands for something of ``numba.cuda``; ``path`` says what, such as ``atomic.add``."""

    _fields = ast.Name._fields
    path: str

    @staticmethod
    def of(path: str, place: ast.AST) -> IntrinsicName:
        """Make the name for the intrinsic ``path``, at the place of another node."""
        name = IntrinsicName(id=GENERATED + path.replace(".", "_"), ctx=ast.Load())
        name.path = path
        return at(place, name)


class SharedName(ast.Name):
    """A name that stands for an array in shared memory: one for each place that declares one."""


class FunctionName(ast.Name):
    """A name that stands for another resolved function."""

    _fields = ast.Name._fields
    function: Any  # warpdrive.kernels.resolve.Function, which is made of these nodes

    @staticmethod
    def of(function: Callee, place: ast.AST) -> FunctionName:
        """Make the name for ``function``, at the place of another node."""
        name = FunctionName(id=function.name, ctx=ast.Load())
        name.function = function
        return at(place, name)


def at(place: ast.AST, node: Node) -> Node:
    """Give a new node, and what is new below it, the place of another; return it."""
    assert isinstance(node, ast.AST)
    for child in ast.walk(node):
        if not hasattr(child, "file"):
            child.lineno = getattr(place, "lineno", 0)  # type: ignore[attr-defined]
            child.col_offset = getattr(place, "col_offset", 0)  # type: ignore[attr-defined]
            child.file = getattr(place, "file", "<unknown>")  # type: ignore[attr-defined]
    return node


def copy_tree(node: Node) -> Node:
    """Copy a tree, or a list of trees. What is no tree (a resolved function, a file's name) is shared."""
    if isinstance(node, list):
        return [copy_tree(child) for child in node]  # type: ignore[return-value]
    if not isinstance(node, ast.AST):
        return node
    copy = type(node).__new__(type(node))
    for name, value in vars(node).items():
        if name in node._fields and isinstance(value, (ast.AST, list)):
            value = copy_tree(value)
        elif isinstance(value, ast.AST):
            continue  # the parent: libraries that print tracebacks leave it on what all trees share, such as Load()
        setattr(copy, name, value)
    return copy


def walk(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Go through every node at and below the given ones, but for what says whether a name is read or written."""
    for statement in statements:
        waiting = deque([statement])
        while waiting:
            node = waiting.popleft()
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, list):
                    waiting.extend([child for child in value if isinstance(child, ast.AST)])
                elif isinstance(value, ast.AST) and name != "ctx":
                    waiting.append(value)
            yield node


def is_barrier(statement: ast.AST) -> bool:
    """Whether a statement is a barrier, of a block or of a warp: that of a warp lets its threads see no less."""
    return isinstance(statement, ast.Expr) and _calls(statement.value, (BARRIER, WARP_BARRIER))


def contains_barrier(nodes: Iterable[ast.AST]) -> bool:
    """Whether a barrier stands at or below the nodes, or in a function that is called there."""
    return any(
        _calls(node, BARRIERS) or (isinstance(node, FunctionName) and node.function.has_barrier) for node in walk(nodes)
    )


def _calls(node: ast.AST, paths: Collection[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, IntrinsicName) and node.func.path in paths


def stored_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that are assigned at or below the nodes."""
    return {node.id for node in walk(nodes) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def loaded_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that are read at or below the nodes."""
    return {node.id for node in walk(nodes) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def load(name: str) -> ast.Name:
    """Return the expression ``name``."""
    return ast.Name(name, ast.Load())


def assign(name: str, value: ast.expr) -> ast.Assign:
    """Return the statement ``name = value``."""
    return ast.Assign([ast.Name(name, ast.Store())], value)


def negate(value: ast.expr) -> ast.expr:
    """Return the expression ``not value``."""
    return ast.UnaryOp(ast.Not(), value)


def both(first: ast.expr | None, second: ast.expr) -> ast.expr:
    """Return the expression ``first and second``, or ``second`` alone where there is no first."""
    return second if first is None else ast.BoolOp(ast.And(), [first, second])
