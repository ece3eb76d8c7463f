"""Split the body of a kernel at its barriers into regions.

A region is what every thread of a block may run from start to end without waiting for the others. Where a barrier
stands under a condition, the condition becomes a variable of the thread (a guard), computed in the region before,
and what it guards stands in each region under ``if guard``. Where a barrier stands in a loop, the loop goes round as
long as any thread is in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from warpdrive.kernels.syntax import GENERATED, assign, at, both, contains_barrier, is_barrier, load, negate


@dataclass
class Region:
    """Statements without a barrier among them."""

    statements: list[ast.stmt] = field(default_factory=list)


@dataclass
class Loop:
    """A loop with barriers in it. ``advance`` ends with the variable ``going``: whether the thread goes round again."""

    going: str
    advance: Region
    body: list[Region | Loop]


def split(body: list[ast.stmt]) -> list[Region | Loop]:
    """Return the regions of a straightened, inlined body, in order; a barrier stands between any two."""
    return _Splitter().sequence(body, None)


def regions_of(parts: list[Region | Loop]) -> Iterator[Region]:
    """Go through all regions, also those in loops, in the order of their text."""
    for part in parts:
        if isinstance(part, Region):
            yield part
        else:
            yield part.advance
            yield from regions_of(part.body)


class _Splitter:
    def __init__(self) -> None:
        self.numbers = count(1)

    def sequence(self, body: list[ast.stmt], guard: str | None) -> list[Region | Loop]:
        to = _Sequence()
        self.add(body, guard, to)
        return to.parts

    def add(self, body: list[ast.stmt], guard: str | None, to: _Sequence) -> None:
        for node in body:
            if is_barrier(node):
                to.barrier()
            elif not contains_barrier([node]):
                to.statement(node, guard)
            elif isinstance(node, ast.If):
                self.branch(node, guard, to)
            else:
                assert isinstance(node, ast.While)
                self.loop(node, guard, to)

    def branch(self, node: ast.If, guard: str | None, to: _Sequence) -> None:
        taken = f"{GENERATED}guard_{next(self.numbers)}"
        outer = load(guard) if guard else None
        test = node.test if _is_bool(node.test) else ast.Compare(node.test, [ast.NotEq()], [ast.Constant(0)])
        to.statement(at(node, assign(taken, both(outer, test))), None)
        otherwise = f"{GENERATED}guard_{next(self.numbers)}"
        if node.orelse:
            to.statement(at(node, assign(otherwise, both(outer, negate(load(taken))))), None)
        self.add(node.body, taken, to)
        self.add(node.orelse, otherwise, to)

    def loop(self, node: ast.While, guard: str | None, to: _Sequence) -> None:
        going = f"{GENERATED}guard_{next(self.numbers)}"
        to.statement(at(node, assign(going, load(guard) if guard else ast.Constant(True))), None)
        test = node.test if _is_bool(node.test) else ast.Compare(node.test, [ast.NotEq()], [ast.Constant(0)])
        advance = Region([at(node, assign(going, both(load(going), test)))])
        to.loop(Loop(going, advance, self.sequence(node.body, going)))


class _Sequence:
    def __init__(self) -> None:
        self.parts: list[Region | Loop] = []
        self.is_open = False
        self.guard: str | None = None

    def barrier(self) -> None:
        self.is_open = False

    def statement(self, node: ast.stmt, guard: str | None) -> None:
        if not self.is_open:
            self.parts.append(Region())
            self.is_open, self.guard = True, None
        region = self.parts[-1]
        assert isinstance(region, Region)
        if guard is None:
            region.statements.append(node)
        elif self.guard == guard and isinstance(region.statements[-1], ast.If):
            region.statements[-1].body.append(node)
        else:
            region.statements.append(at(node, ast.If(load(guard), [node], [])))
        self.guard = guard

    def loop(self, loop: Loop) -> None:
        self.parts.append(loop)
        self.is_open = False


def _is_bool(test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp):
        return all(_is_bool(value) for value in test.values)
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    return isinstance(test, ast.Compare) or (isinstance(test, ast.Constant) and isinstance(test.value, bool))
