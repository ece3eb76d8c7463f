"""Splitting of a kernel's body for launches with one thread per block.

Blocks are independent, so that many of them may run the code up to a barrier outside of all conditions before any
continues. LLVM then finds short loops over replicas that it can vectorise; this reduces the time of cartpole's whole
step by a third.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from warpdrive.kernels.resolve import Table
from warpdrive.kernels.syntax import copy_tree, is_barrier, stored_names
from warpdrive.kernels.variables import exposed_names, needed, recomputable


def stretches(
    body: list[ast.stmt], parameters: Collection[str], arrays: Collection[str], table: Table
) -> list[list[ast.stmt]]:
    """Return the body in pieces, each of which can be run for many blocks before the next piece starts.

    The body is split at barriers outside of all conditions and loops across which no variable is live, except variables
    that each piece can recompute. A kernel with arrays in shared memory is one piece: they live as long as their block.

    Args:
        body: The inlined body.
        parameters: The names of the kernel's parameters.
        arrays: The names of the parameters that are arrays.
        table: The constants and shared arrays of the kernel.

    Returns:
        The statements of each piece, in order.
    """
    if table.shared:
        return [body]
    recomputed = recomputable(body, parameters, arrays, table)
    pieces: list[list[ast.stmt]] = [[]]
    for place, statement in enumerate(body):
        if is_barrier(statement) and pieces[-1] and not _crossing(body, place) - recomputed.keys():
            pieces.append([])
        else:
            pieces[-1].append(statement)
    for piece in pieces[1:]:
        piece[:0] = copy_tree(list(needed(recomputed, piece)))
    return pieces


def _crossing(body: list[ast.stmt], place: int) -> set[str]:
    """Return the live variables at a statement: assigned before it, and possibly read from there on."""
    return stored_names(body[:place]) & exposed_names(body[place:])
