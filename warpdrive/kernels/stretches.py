"""Cut a kernel's body where blocks of one thread may take turns."""

from __future__ import annotations

import ast
from collections.abc import Collection

from warpdrive.kernels.resolve import Table
from warpdrive.kernels.syntax import copy_tree, is_barrier, stored_names
from warpdrive.kernels.variables import exposed_names, needed, recomputable


def stretches(
    body: list[ast.stmt], parameters: Collection[str], arrays: Collection[str], table: Table
) -> list[list[ast.stmt]]:
    """Return the body in pieces, each of which can be done for many blocks before the next is begun.

    It is cut at barriers outside of all conditions and loops that no variable crosses, but for those that each piece
    can compute anew. ``parameters`` and ``arrays`` are those of :func:`warpdrive.kernels.variables.place_variables`.
    An array in shared memory is its block's from beginning to end, so then there is one piece.
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
    """Return the names that are assigned before a place and may be read after it."""
    return stored_names(body[:place]) & exposed_names(body[place:])
