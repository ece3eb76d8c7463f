"""Cooperative scheduling of kernels whose threads wait for each other.

Only kernels with a loop that another thread must end (see :mod:`warpdrive.kernels.waiting`) are run in this way: it
costs a switch at each barrier, uses one core, and prevents vectorisation over threads. Regions are not needed. As all
threads run on one core in a fixed order, a deadlock can be detected: no thread has made progress for a number of turns.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Collection
from dataclasses import dataclass, replace

from warpdrive.kernels.errors import place, refuse
from warpdrive.kernels.language import BARRIERS, GRID_BARRIER, WARP_FUNCTIONS
from warpdrive.kernels.lowering import ResolvedKernel
from warpdrive.kernels.resolve import Function
from warpdrive.kernels.syntax import GENERATED, IntrinsicName, assign, at, copy_tree, load, walk
from warpdrive.kernels.waiting import Loop, are_own_locks, waiting_loops

WAIT, MEET = f"{GENERATED}wait", f"{GENERATED}meet"
"""Functions called where a thread yields: ``turns = wait(site, turns)`` after each iteration of a waiting loop, and
``meet(place, vote)`` at a barrier, where ``place`` is ``8 * site + kind``. A site is the index of a wait location.
"""

KINDS = {path: kind for kind, path in enumerate((*BARRIERS, GRID_BARRIER))}
"""The index of each kind of barrier."""


@dataclass(frozen=True)
class Turns:
    """A kernel whose threads wait for each other, with calls inserted at the wait locations.

    Attributes:
        functions: The callees and, last, the kernel itself.
        sites: The description of each wait location: file, line and source text.
    """

    functions: list[Function]
    sites: list[str]


def turns_of(kernel: ResolvedKernel) -> Turns | None:
    """Return a kernel with calls at its wait locations, or None if its threads need no cooperative scheduling."""
    functions = [*kernel.function.callees(), kernel.function]
    loops = waiting_loops(functions, kernel.table)
    if not loops or are_own_locks(kernel.function, loops):
        return None
    for node in walk([statement for function in functions for statement in function.body]):
        if isinstance(node, IntrinsicName) and node.path in WARP_FUNCTIONS:
            what = f"cuda.{node.path} is not supported in a kernel whose threads wait for each other in a loop"
            refuse(node, f"{what}: wait at a barrier")
    sites: list[str] = []
    return Turns([replace(f, body=_InTurns(loops, sites).block(f.body)) for f in functions], sites)


class _InTurns(ast.NodeTransformer):
    """Inserts calls at the wait locations into a copy of a function."""

    def __init__(self, loops: Collection[Loop], sites: list[str]) -> None:
        self.loops, self.sites = {id(loop) for loop in loops}, sites

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Return a copy of the statements with calls inserted."""
        return [new for node in statements for new in self.statement(node)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        if not isinstance(node, (ast.If, ast.For, ast.While)):
            return [self.visit(copy_tree(node))]
        copied = copy_tree(node)
        for name in ("test", "iter"):
            if hasattr(copied, name):
                setattr(copied, name, self.visit(getattr(copied, name)))
        copied.body, copied.orelse = self.block(node.body), self.block(node.orelse)
        if id(node) not in self.loops:
            return [copied]
        site = self.site(node)
        turns = f"{GENERATED}turns_{site}"
        waiting = ast.Call(load(WAIT), [ast.Constant(site), load(turns)], [])
        wait = at(node, assign(turns, waiting))
        copied.body = [*_before_continue(copied.body, wait), wait]
        return [at(node, assign(turns, ast.Constant(0))), copied]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Replace a barrier by a call of ``meet``."""
        self.generic_visit(node)
        if isinstance(node.func, IntrinsicName) and node.func.path in KINDS:
            where = ast.Constant(8 * self.site(node) + KINDS[node.func.path])
            return at(node, ast.Call(load(MEET), [where, *(node.args or [ast.Constant(0)])], []))
        return node

    def site(self, node: ast.AST) -> int:
        file, line = getattr(node, "file", ""), getattr(node, "lineno", 0)
        self.sites.append(f"{place(node)}: {linecache.getline(file, line).strip()}")
        return len(self.sites) - 1


def _before_continue(body: list[ast.stmt], wait: ast.stmt) -> list[ast.stmt]:
    """Insert a copy of a statement before each ``continue`` of a loop with this body."""
    done: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.Continue):
            done.append(copy_tree(wait))
        elif isinstance(node, ast.If):
            node.body, node.orelse = _before_continue(node.body, wait), _before_continue(node.orelse, wait)
        elif isinstance(node, (ast.For, ast.While)):
            node.orelse = _before_continue(node.orelse, wait)
        done.append(node)
    return done
