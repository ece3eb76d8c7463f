"""Splitting of a kernel's body for launches with one thread per block.

Blocks are independent, so that many of them may run a statement before any runs the next. LLVM then finds short loops
over replicas that it can vectorise.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from warpdrive.kernels.regions import Part, Region
from warpdrive.kernels.resolve import Function, Table
from warpdrive.kernels.syntax import (
    FunctionName,
    IntrinsicName,
    copy_tree,
    is_barrier,
    loaded_names,
    stored_names,
    walk,
)
from warpdrive.kernels.variables import exposed_names, needed, recomputable


def stretches(
    body: list[ast.stmt],
    parameters: Collection[str],
    arrays: Collection[str],
    table: Table,
    functions: Collection[Function],
) -> list[list[ast.stmt]]:
    """Return the body in pieces, each of which can be run for many blocks before the next piece starts.

    The body is split outside of all conditions and loops, at barriers and at calls of device functions, wherever no
    variable is live, except variables that each piece can recompute. If blocks may affect each other, by atomic
    operations, or print, it is split at barriers only. A kernel with arrays in shared memory is one piece: they live as
    long as their block.

    Args:
        body: The inlined body.
        parameters: The names of the kernel's parameters.
        arrays: The names of the parameters that are arrays.
        table: The constants and shared arrays of the kernel.
        functions: The functions that the body calls.

    Returns:
        The statements of each piece, in order.
    """
    if table.shared:
        return [body]
    recomputed = recomputable(body, parameters, arrays, table)
    pieces: list[list[ast.stmt]] = [[]]
    in_order = any(_is_seen_by_others(node) for part in (body, *(f.body for f in functions)) for node in walk(part))
    for place, statement in enumerate(body):
        may_split = is_barrier(statement) or (not in_order and any(map(_is_call, body[max(place - 1, 0) : place + 1])))
        if pieces[-1] and may_split and not _crossing(body, place) - recomputed.keys():
            pieces.append([])
        if not is_barrier(statement):
            pieces[-1].append(statement)
    for piece in pieces[1:]:
        piece[:0] = copy_tree(list(needed(recomputed, piece)))
    return [piece for piece in pieces if piece]


def first_calls(parts: list[Part], kept: Collection[str], functions: Collection[Function]) -> list[ast.stmt]:
    """Return the calls that begin a kernel of several threads and may be run for many blocks before what follows.

    These are the statements before the first barrier, if they are calls of device functions only, which affect neither
    other blocks nor later variables.

    Args:
        parts: The regions of the kernel and the control flow between them.
        kept: The names of the variables that are kept between regions.
        functions: The functions that the kernel calls.

    Returns:
        The statements, maybe none.
    """
    first = parts[0].statements if parts and isinstance(parts[0], Region) else []
    called = [f.body for f in functions]
    if any(_is_seen_by_others(node) for part in (first, *called) for node in walk(part)):
        return []
    return first if all(map(_is_call, first)) and not loaded_names(first) & set(kept) else []


def _is_call(statement: ast.stmt) -> bool:
    """Return True for a call of a device function whose result, if any, is not used."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, FunctionName)


def _is_seen_by_others(node: ast.AST) -> bool:
    """Return True for names of atomic operations and of ``print``, whose order over blocks is kept."""
    if isinstance(node, IntrinsicName):
        return node.path.startswith("atomic.")
    return isinstance(node, ast.Name) and node.id.endswith("print")


def _crossing(body: list[ast.stmt], place: int) -> set[str]:
    """Return the live variables at a statement: assigned before it, and possibly read from there on."""
    return stored_names(body[:place]) & exposed_names(body[place:])
