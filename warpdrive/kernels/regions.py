"""Splitting of a kernel's body at its barriers into regions.

A region is a sequence of statements that each thread of a block can run from start to end without synchronisation.
Assignments, loops and conditions that are uniform across the block (see :mod:`warpdrive.kernels.uniform`) are
executed once per block, between regions. A barrier under a divergent condition turns the condition into a guard: a
per-thread variable computed in the preceding region, under which the guarded statements of each region are executed.
A divergent loop around a barrier iterates as long as any thread is in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from warpdrive.kernels.syntax import (
    AGREED,
    GENERATED,
    assign,
    at,
    conjunction,
    contains_barrier,
    is_barrier,
    is_grid_barrier,
    load,
    loaded_names,
    negate,
    stored_names,
)
from warpdrive.kernels.uniform import Uniform


@dataclass
class Region:
    """Statements without a barrier, executed by each thread."""

    statements: list[ast.stmt] = field(default_factory=list)


@dataclass
class Once:
    """An assignment executed once per block."""

    statement: ast.stmt


@dataclass
class UniformBranch:
    """A branch whose condition is uniform across the block."""

    test: ast.expr
    body: list[Part]
    orelse: list[Part]


@dataclass
class UniformLoop:
    """A loop whose condition is uniform across the block."""

    test: ast.expr
    body: list[Part]


@dataclass
class Loop:
    """A divergent loop around barriers.

    Attributes:
        going: The name of the guard: True while the thread is in the loop.
        advance: The region that updates the guard before each iteration.
        body: The parts of the loop's body.
    """

    going: str
    advance: Region
    body: list[Part]


@dataclass
class GridBarrier:
    """A barrier of all threads of all blocks."""


Part = Region | Once | UniformBranch | UniformLoop | Loop | GridBarrier


def split(body: list[ast.stmt], uniform: Uniform) -> list[Part]:
    """Split an inlined body into parts, in order; consecutive regions are separated by barriers."""
    return _Splitter(uniform).sequence(body, None)


def all_parts(parts: list[Part]) -> Iterator[Part]:
    """Iterate over all parts, nested ones included, in source order."""
    for part in parts:
        yield part
        if isinstance(part, Loop):
            yield part.advance
        if isinstance(part, (UniformBranch, UniformLoop, Loop)):
            yield from all_parts(part.body)
        if isinstance(part, UniformBranch):
            yield from all_parts(part.orelse)


def regions_of(parts: list[Part]) -> list[Region]:
    """Return all regions, nested ones included."""
    return [part for part in all_parts(parts) if isinstance(part, Region)]


class _Splitter:
    def __init__(self, uniform: Uniform) -> None:
        self.uniform = uniform
        self.numbers = count(1)

    def sequence(self, body: list[ast.stmt], guard: str | None) -> list[Part]:
        to = _Sequence()
        self.add(body, guard, to)
        return to.parts

    def add(self, body: list[ast.stmt], guard: str | None, to: _Sequence) -> None:
        for node in body:
            if is_grid_barrier(node):
                to.part(GridBarrier())
            elif is_barrier(node):
                to.barrier()
            elif self.uniform.is_once(node):
                to.once(node)
            elif not contains_barrier([node]):
                to.statement(node, guard)
            else:
                assert isinstance(node, (ast.If, ast.While))
                if self.uniform.agrees(node.test):
                    to.part(self.together(node, guard))
                elif isinstance(node, ast.If):
                    self.branch(node, guard, to)
                else:
                    self.loop(node, guard, to)

    def together(self, node: ast.If | ast.While, guard: str | None) -> Part:
        body = self.sequence(node.body, guard)
        if isinstance(node, ast.While):
            return UniformLoop(node.test, body)
        return UniformBranch(node.test, body, self.sequence(node.orelse, guard))

    def branch(self, node: ast.If, guard: str | None, to: _Sequence) -> None:
        taken = f"{GENERATED}guard_{next(self.numbers)}"
        outer = load(guard) if guard else None
        test = node.test if _is_bool(node.test) else ast.Compare(node.test, [ast.NotEq()], [ast.Constant(0)])
        to.statement(at(node, assign(taken, conjunction(outer, test))), None)
        otherwise = f"{GENERATED}guard_{next(self.numbers)}"
        if node.orelse:
            to.statement(at(node, assign(otherwise, conjunction(outer, negate(load(taken))))), None)
        self.add(node.body, taken, to)
        self.add(node.orelse, otherwise, to)

    def loop(self, node: ast.While, guard: str | None, to: _Sequence) -> None:
        going = f"{GENERATED}guard_{next(self.numbers)}"
        to.statement(at(node, assign(going, load(guard) if guard else ast.Constant(True))), None)
        test = node.test if _is_bool(node.test) else ast.Compare(node.test, [ast.NotEq()], [ast.Constant(0)])
        advance = Region([at(node, assign(going, conjunction(load(going), test)))])
        to.part(Loop(going, advance, self.sequence(node.body, going)))


class _Sequence:
    def __init__(self) -> None:
        self.parts: list[Part] = []
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

    def once(self, node: ast.stmt) -> None:
        """Insert an assignment before the open region if that changes nothing, otherwise after it.

        The region must not read its target, and must not write the values that it reads: only conditions of fused
        kernels read memory.
        """
        region = self.parts[-1] if self.is_open else None
        (name,) = stored_names([node])
        if isinstance(region, Region) and name not in loaded_names(region.statements) and not name.startswith(AGREED):
            self.parts.insert(-1, Once(node))
        else:
            self.part(Once(node))

    def part(self, part: Part) -> None:
        self.parts.append(part)
        self.is_open = False


def _is_bool(test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp):
        return all(_is_bool(value) for value in test.values)
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    return isinstance(test, ast.Compare) or (isinstance(test, ast.Constant) and isinstance(test.value, bool))
