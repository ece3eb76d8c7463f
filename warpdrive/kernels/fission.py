"""Splitting of a kernel's body for launches with one thread per block.

Blocks are independent, so that many of them may run a statement before any runs the next. LLVM then finds short loops
over replicas that it can vectorise.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from warpdrive.kernels.regions import Once, Part, Region, UniformBranch, UniformLoop, all_parts
from warpdrive.kernels.resolve import Function, Table
from warpdrive.kernels.syntax import (
    AGREED,
    PRINT,
    FunctionName,
    IntrinsicName,
    copy_tree,
    is_barrier,
    loaded_names,
    stored_names,
    walk,
)
from warpdrive.kernels.variables import Variables, exposed_names, needed, recomputable


def pieces_of(
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


def groups(
    parts: list[Part], variables: Variables, shared: Collection[str], functions: Collection[Function]
) -> list[list[Part]]:
    """Return the parts of a kernel of several threads in groups, each of which can be run for many blocks in turn.

    Parts under a condition of a fused kernel are a group, so that code for the end of an episode does not prevent LLVM
    from vectorising the code of each step over replicas. Between groups no variable is live, except variables that each
    group can recompute, and no array in shared memory is used in two groups. If blocks may affect each other, by atomic
    operations, or print, there is one group.

    Args:
        parts: The regions of the kernel and the control flow between them.
        variables: The variables that live in more than one region.
        shared: The names of the arrays in shared memory.
        functions: The functions that the kernel calls.

    Returns:
        The parts of each group, in order.
    """
    bodies = [*map(_statements, parts), *(f.body for f in functions)]
    if any(_is_seen_by_others(node) for body in bodies for node in walk(body)):
        return [parts]
    found: list[list[Part]] = [[]]
    for place, part in enumerate(parts):
        is_edge = _is_condition(part) or (place > 0 and isinstance(parts[place - 1], UniformBranch))
        if found[-1] and is_edge and not _shared_names(parts[:place], parts[place:], variables, shared):
            found.append([])
        found[-1].append(part)
    for group in found[1:]:
        again = needed(
            {**variables.once, **variables.recomputed}, [node for part in group for node in _statements(part)]
        )
        group[:0] = [Once(copy_tree(node)) for node in again if node in variables.once.values()]
    return found


def _is_condition(part: Part) -> bool:
    return isinstance(part, Once) and any(name.startswith(AGREED) for name in stored_names([part.statement]))


def _shared_names(before: list[Part], after: list[Part], variables: Variables, shared: Collection[str]) -> set[str]:
    """Return the variables assigned in one list of parts and read in another, and the shared arrays used in both."""
    first, last = ([node for part in parts for node in _statements(part)] for parts in (before, after))
    arrays = [loaded_names([*statements, *needed(variables.recomputed, statements)]) for statements in (first, last)]
    return (stored_names(first) - variables.once.keys()) & loaded_names(last) | arrays[0] & arrays[1] & set(shared)


def _statements(part: Part) -> list[ast.stmt]:
    """Return all statements of a part, and expressions for its conditions."""
    found: list[ast.stmt] = []
    for inner in all_parts([part]):
        if isinstance(inner, Region):
            found += inner.statements
        elif isinstance(inner, Once):
            found.append(inner.statement)
        elif isinstance(inner, (UniformBranch, UniformLoop)):
            found.append(ast.Expr(inner.test))
    return found


def first_calls(parts: list[Part], kept: Collection[str], functions: Collection[Function]) -> list[ast.stmt]:
    """Return the calls that begin a kernel of several threads and may be run for many blocks before the rest.

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
    """Return True for names of atomic operations and of ``print``, whose order across blocks is observable."""
    if isinstance(node, IntrinsicName):
        return node.path.startswith("atomic.")
    return isinstance(node, ast.Name) and node.id == PRINT


def _crossing(body: list[ast.stmt], place: int) -> set[str]:
    """Return the live variables at a statement: assigned before it, and possibly read from there on."""
    return stored_names(body[:place]) & exposed_names(body[place:])
