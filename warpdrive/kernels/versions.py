"""Give each assignment of a variable a name of its own (static single assignment), as numba does to infer types.

A variable of the author's may be an integer first and a float later, and what is computed from it in between is
computed with integers. Where two assignments of a variable may reach the same place, a version of its own stands for
both, and each way there ends with a copy. What changes control flow afterwards (flags, guards) then makes no version
reachable from where it was not, and what is kept across a barrier has the type of one version.

The versions are those of Braun et al., "Simple and Efficient Construction of Static Single Assignment Form" (2013),
section 2, with the merges that nothing reads left out. Python's bytecode has the test of a ``while`` twice, before the
loop and at its end, and so it has here: the first reads what was there before the loop. A loop that numba will see as
the author wrote it, with no barrier in it and no jump out of it, is left to numba: within it a variable has one name.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import count

from warpdrive.kernels.structure import jumps_out_of
from warpdrive.kernels.syntax import GENERATED, assign, at, contains_barrier, copy_tree, load, stored_names, walk
from warpdrive.kernels.variables import exposed_names

Naming = Callable[[Sequence[str]], Sequence[int]]
"""Of the versions of one variable, by their names: for each the place of the version whose name it takes."""


TESTS_TWICE = [step.argval for step in dis.get_instructions(compile("while x: y", "", "exec"))].count("x") > 1
"""Whether this Python's bytecode has the test of a ``while`` twice, so that numba gives each types of its own."""


def apart(versions: Sequence[str]) -> Sequence[int]:
    """Let each version have its own name."""
    return range(len(versions))


def name_versions(body: list[ast.stmt], parameters: Collection[str], naming: Naming) -> list[ast.stmt]:
    """Return a copy of a function's body in which versions of its variables have names of their own.

    The first version of a variable (a parameter's: what the caller gave) keeps its name.
    """
    copy = copy_tree(body)
    stores = [node.id for node in walk(copy) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names = {name for name in stores if name in parameters or stores.count(name) > 1}
    return _Versions(names, naming).run(copy, names & set(parameters)) if names else copy


@dataclass(frozen=True)
class _Place:
    """Where one way to a merge ends: before or after a statement of a block, or at the block's end."""

    block: list[ast.stmt]
    near: ast.stmt
    is_end: bool = False
    is_after: bool = False

    def insert(self, statement: ast.stmt) -> None:
        end = len(self.block)
        index = end if self.is_end else next(i for i in range(end) if self.block[i] is self.near) + self.is_after
        self.block.insert(index, at(self.near, statement))


@dataclass(eq=False)
class _Version:
    """A version of a variable: what one assignment gives it or, where there are ``ways``, one of several versions.

    One that ``is_copy`` has one way to it, and is not that version itself.
    """

    variable: str
    ways: list[tuple[_Version | None, _Place]] = field(default_factory=list)
    is_copy: bool = False
    stands_for: _Version | None = None
    name: str = ""

    def itself(self) -> _Version:
        """Return the version that this one is: a merge of one version with nothing else is that version."""
        return self if self.stands_for is None else self.stands_for.itself()


_Values = dict[str, _Version]
"""The version that each variable has at some place; variables that nothing was assigned to yet are absent."""


@dataclass
class _Jumps:
    """The jumps of a loop: what variables are there, and where."""

    breaks: list[tuple[_Values, _Place]] = field(default_factory=list)
    continues: list[tuple[_Values, _Place]] = field(default_factory=list)


@dataclass
class _Tests:
    """The two tests of a ``while``, and the places where they are done: before the loop and at its body's end."""

    node: ast.While
    later: ast.expr
    before: _Place
    end: _Place

    def write(self, outcome: str) -> None:
        """Have the tests done at these places, and the loop read their ``outcome``."""
        for place, test in ((self.before, self.node.test), (self.end, self.later)):
            place.insert(assign(outcome, ast.IfExp(test, ast.Constant(True), ast.Constant(False))))
        self.node.test = at(self.node, load(outcome))


class _Versions:
    def __init__(self, names: Collection[str], naming: Naming) -> None:
        self.names, self.naming = names, naming
        self.versions: list[_Version] = []
        self.reads: list[tuple[ast.Name, _Version]] = []
        self.writes: list[tuple[ast.Name, _Version]] = []
        self.augmented: dict[int, tuple[_Version | None, _Version]] = {}
        self.loops: list[_Jumps] = []
        self.tests: list[_Tests] = []
        self.untouched: dict[_Version, tuple[_Version, tuple[_Version, _Place]]] = {}

    def run(self, body: list[ast.stmt], parameters: Collection[str]) -> list[ast.stmt]:
        self.block(body, {name: self.version(name) for name in parameters})
        merges = [version for version in self.versions if version.ways and not version.is_copy]
        while any([_is_trivial(merge) for merge in merges]):  # each look may make others trivial
            pass
        needed = {version.itself() for _, version in (*self.reads, *self.writes)}
        needed |= {read.itself() for read, _ in self.augmented.values() if read is not None}
        waiting = list(needed)
        while waiting:
            version = waiting.pop()
            if version in self.untouched:
                inside, entry = self.untouched[version]
                inside.ways.append(entry)
                waiting.append(inside)
            ways = {way.itself() for way, _ in version.ways if way is not None}
            waiting += ways - needed
            needed |= ways
        self.choose_names([version for version in self.versions if version in needed or not version.ways])
        for node, version in (*self.reads, *self.writes):
            node.id = version.itself().name
        for merge in (version for version in self.versions if version in needed):
            for way, place in merge.ways:
                if way is not None and way.itself().name != merge.name and not _is_empty(way.itself()):
                    place.insert(assign(merge.name, load(way.itself().name)))
        different = [tests for tests in self.tests if ast.dump(tests.node.test) != ast.dump(tests.later)]
        for number, tests in enumerate(different):
            tests.write(f"{GENERATED}test_{number}")
        changed = {
            key: (read.itself().name, written)
            for key, (read, written) in self.augmented.items()
            if read is not None and read.itself().name != written.name
        }
        return [new for statement in body for new in _as_list(_Augmentations(changed).visit(statement))]

    def choose_names(self, versions: list[_Version]) -> None:
        of_variable: dict[str, list[_Version]] = {}
        for version in versions:
            version.name = version.variable
            if version.stands_for is None and not _is_empty(version):
                of_variable.setdefault(version.variable, []).append(version)
        for variable, own in of_variable.items():
            names = [variable, *(f"{GENERATED}v{number}_{variable}" for number in range(1, len(own)))]
            for version, place in zip(own, self.naming(names), strict=True):
                version.name = names[place]

    def version(self, name: str, *ways: tuple[_Version | None, _Place], is_copy: bool = False) -> _Version:
        self.versions.append(_Version(name, [*ways], is_copy))
        return self.versions[-1]

    def block(self, statements: list[ast.stmt], values: _Values | None) -> _Values | None:
        """Follow the statements; return the versions after them, or None where their end is never reached."""
        for statement in statements:
            if values is None:
                break
            values = self.statement(statement, statements, values)
        return values

    def statement(self, node: ast.stmt, block: list[ast.stmt], values: _Values) -> _Values | None:
        if isinstance(node, ast.If):
            self.read(node.test, values)
            taken = self.block(node.body, dict(values)), _Place(node.body, node, is_end=True)
            not_taken = self.block(node.orelse, dict(values)), _Place(node.orelse, node, is_end=True)
            return self.merged([taken, not_taken])
        if isinstance(node, (ast.For, ast.While)):
            if not contains_barrier([node]) and not jumps_out_of(node):
                return self.left_alone(node, block, values)
            return self.loop(node, _Place(block, node), values)
        if isinstance(node, (ast.Break, ast.Continue)):
            jumps = self.loops[-1]
            (jumps.breaks if isinstance(node, ast.Break) else jumps.continues).append((values, _Place(block, node)))
            return None
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id in self.names:
            self.read(node.value, values)
            read, written = values.get(node.target.id), self.version(node.target.id)
            self.augmented[id(node)] = read, written
            self.writes.append((node.target, written))
            values[node.target.id] = written
            return values
        if isinstance(node, ast.Assign):
            self.read(node.value, values)
            for target in node.targets:
                self.write(target, values)
            return values
        self.read(node, values)
        return None if isinstance(node, (ast.Return, ast.Raise)) else values

    def left_alone(self, node: ast.For | ast.While, block: list[ast.stmt], values: _Values) -> _Values:
        """Give each variable that changes in a loop one name within it.

        It begins with what was there before where the loop, or what follows, may read that.
        """
        changing = stored_names([node]) & set(self.names)
        exposed = exposed_names([node])
        inside, after = dict(values), dict(values)
        for name in sorted(changing):
            inside[name] = own = self.version(name, is_copy=True)
            after[name] = self.version(name, (own, _Place(block, node, is_after=True)), is_copy=True)
            before = values.get(name)
            if before is not None and name in exposed:
                own.ways.append((before, _Place(block, node)))
            elif before is not None:
                self.untouched[after[name]] = own, (before, _Place(block, node))
        self.read(node, inside)
        stores = (child for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store))
        self.writes += [(child, inside[child.id]) for child in stores if child.id in changing]
        return after

    def loop(self, node: ast.For | ast.While, before: _Place, values: _Values) -> _Values | None:
        changing = stored_names([node]) & set(self.names)
        if isinstance(node, ast.For):
            self.read(node.iter, values)
        heads = {name: self.version(name, (values.get(name), before)) for name in sorted(changing)}
        earlier, values = values, values | heads
        inside = dict(values)
        if isinstance(node, ast.For):
            self.write(node.target, inside)
        jumps = _Jumps()
        self.loops.append(jumps)
        end = self.block(node.body, inside)
        if isinstance(node, ast.While):
            self.test(node, before, earlier, end, values)
        self.loops.pop()
        rounds = [*jumps.continues, *([] if end is None else [(end, _Place(node.body, node, is_end=True))])]
        for name, head in heads.items():
            head.ways += [(found.get(name), place) for found, place in rounds]
        is_endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        after = None if is_endless else self.block(node.orelse, dict(values))
        return self.merged([(after, _Place(node.orelse, node, is_end=True)), *jumps.breaks])

    def test(self, node: ast.While, before: _Place, earlier: _Values, end: _Values | None, heads: _Values) -> None:
        """Follow what the test of a loop reads: first what was there before, then what is there at the body's end.

        Without that end or with a ``continue``, which leads to the first test, both read what any round may leave; so
        does a test with a barrier, which stays one place where threads meet.
        """
        jumps = self.loops[-1]
        if end is None or jumps.continues or not TESTS_TWICE or contains_barrier([node.test]):
            self.read(node.test, heads)
        elif not isinstance(node.test, ast.Constant):
            later = copy_tree(node.test)
            self.tests.append(_Tests(node, later, before, _Place(node.body, node, is_end=True)))
            self.read(node.test, earlier)
            self.read(later, end)

    def merged(self, ways: Sequence[tuple[_Values | None, _Place]]) -> _Values | None:
        """Return the versions where several ways meet."""
        reached = [(values, place) for values, place in ways if values is not None]
        if len(reached) < 2:
            return reached[0][0] if reached else None
        merged: _Values = {}
        for name in sorted(set().union(*(values for values, _ in reached))):
            found = [(values.get(name), place) for values, place in reached]
            first = found[0][0]
            is_one = first is not None and all(version is first for version, _ in found)
            merged[name] = first if is_one and first is not None else self.version(name, *found)
        return merged

    def read(self, node: ast.AST, values: _Values) -> None:
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load) and child.id in values:
                self.reads.append((child, values[child.id]))

    def write(self, target: ast.expr, values: _Values) -> None:
        """Follow what a target reads and writes, from left to right."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self.write(element, values)
        elif isinstance(target, ast.Name):
            if target.id in self.names:
                values[target.id] = self.version(target.id)
                self.writes.append((target, values[target.id]))
        else:
            self.read(target, values)


def _is_trivial(merge: _Version) -> bool:
    """Whether a merge has been found to merge one version with nothing else, and now stands for it."""
    others = {version.itself() for version, _ in merge.ways if version is not None} - {merge}
    if merge.stands_for is not None or len(others) > 1:
        return False
    if others:
        (merge.stands_for,) = others
    return bool(others)


def _is_empty(version: _Version) -> bool:
    """Whether a version is a merge of none: nothing was assigned, whichever way a thread came."""
    return (
        bool(version.ways)
        and not version.is_copy
        and not {way.itself() for way, _ in version.ways if way is not None} - {version}
    )


class _Augmentations(ast.NodeTransformer):
    """Writes ``x += y`` for versions with names of their own: ``z = x; z += y; w = z``."""

    def __init__(self, changed: dict[int, tuple[str, _Version]]) -> None:
        self.changed = changed
        self.numbers = count(1)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt | list[ast.stmt]:
        if id(node) not in self.changed:
            return node
        read, written = self.changed[id(node)]
        if contains_barrier([node.value]):
            return at(node, assign(written.name, at(node, ast.BinOp(load(read), node.op, node.value))))
        between = f"{GENERATED}a{next(self.numbers)}_{written.variable}"
        node.target = at(node, ast.Name(between, ast.Store()))
        return [at(node, assign(between, load(read))), node, at(node, assign(written.name, load(between)))]


def _as_list(found: ast.stmt | list[ast.stmt]) -> list[ast.stmt]:
    return found if isinstance(found, list) else [found]
