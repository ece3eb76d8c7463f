"""Static single assignment form of a kernel's variables, with which numba infers types.

A variable in user code may hold an integer first and a float later; values computed from it in between are computed
with integers. Where several assignments of a variable reach the same place, a merge (phi) version is introduced, and
each incoming path ends with a copy. The control flow added by later passes (flags, guards) then makes no version
reachable where it was not before, and a value kept across a barrier has the type of a single version.

The construction follows Braun et al., "Simple and Efficient Construction of Static Single Assignment Form" (2013),
section 2; merges that are never read are omitted. Python's bytecode duplicates the test of a ``while``, before the
loop and at its end, and so does this pass: the first copy reads the versions before the loop. Loops that numba
compiles as written, without barriers or jumps out of them, are left to numba: a variable has one name within them.

Later on, versions of one type share a variable, so that a kernel whose variables do not change type is compiled as its
author wrote it. Loops over a ``range`` around barriers count positions, while their items (``range_item``) have the
type that numba infers for them.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from warpdrive.kernels.control_flow import jumps_out_of
from warpdrive.kernels.syntax import GENERATED, assign, at, contains_barrier, copy_tree, load, stored_names, walk
from warpdrive.kernels.variables import exposed_names

Naming = Callable[[Sequence[str]], Sequence[int]]
"""Function of the names of a variable's versions; returns for each the index of the version whose name it takes."""


TESTS_TWICE = [step.argval for step in dis.get_instructions(compile("while x: y", "", "exec"))].count("x") > 1
"""True if Python's bytecode has the test of a ``while`` twice, so that numba infers types for each separately."""


def with_separate_names(versions: Sequence[str]) -> Sequence[int]:
    """Assign each version a separate name."""
    return range(len(versions))


def name_versions(body: list[ast.stmt], parameters: Collection[str], naming: Naming) -> list[ast.stmt]:
    """Return a copy of a function's body in which versions of its variables have different names.

    The first version of a variable (for a parameter: the argument) keeps its name.

    Args:
        body: The statements of the function.
        parameters: The names of its parameters.
        naming: Decides which versions of a variable share a name.

    Returns:
        The statements of the copy.
    """
    copy = copy_tree(body)
    stores = [node.id for node in walk(copy) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names = {name for name in stores if name in parameters or stores.count(name) > 1}
    return _Versions(names, naming).run(copy, names & set(parameters)) if names else copy


_numbers = count()


@dataclass(frozen=True)
class _Place:
    """The end of an incoming path of a merge: before or after a statement of a block, or at the end of the block.

    Numbers of places and of versions increase in the order of the text.
    """

    block: list[ast.stmt]
    near: ast.stmt
    is_end: bool = False
    is_after: bool = False
    number: int = field(default_factory=_numbers.__next__)

    def insert(self, statement: ast.stmt) -> None:
        end = len(self.block)
        index = end if self.is_end else next(i for i in range(end) if self.block[i] is self.near) + self.is_after
        self.block.insert(index, at(self.near, statement))


@dataclass(eq=False)
class _Version:
    """A version of a variable: the result of an assignment or, if there are ``ways``, a merge of versions.

    If ``is_copy`` is True, it has one incoming path and remains a version of its own.
    """

    variable: str
    ways: list[tuple[_Version | None, _Place]] = field(default_factory=list)
    is_copy: bool = False
    stands_for: _Version | None = None
    name: str = ""
    number: int = field(default_factory=_numbers.__next__)

    @property
    def first(self) -> int:
        """The number of the first place in the text where the version is assigned."""
        copies = [place.number for way, place in self.ways if way is not None]
        return min(copies, default=self.number) if self.ways and not self.is_copy else self.number

    def itself(self) -> _Version:
        """Return the version that this one resolves to: a merge of one version with itself is that version."""
        return self if self.stands_for is None else self.stands_for.itself()


_Values = dict[str, _Version]
"""The current version of each variable; variables without an assignment so far are absent."""


@dataclass
class _Jumps:
    """The jumps of a loop: the current versions and the place of each."""

    breaks: list[tuple[_Values, _Place]] = field(default_factory=list)
    continues: list[tuple[_Values, _Place]] = field(default_factory=list)


@dataclass
class _Tests:
    """The two copies of the test of a ``while`` and their places: before the loop and at the end of its body."""

    node: ast.While
    later: ast.expr
    before: _Place
    end: _Place

    def write(self, outcome: str) -> None:
        """Insert assignments of the tests to the variable ``outcome``, which becomes the loop's condition."""
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
        while any([_is_trivial(merge) for merge in merges]):  # each pass may make further merges trivial
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
            ways = {source for source, _ in _sources(version)}
            waiting += ways - needed
            needed |= ways
        merges = [version for version in self.versions if version in needed and version.ways]
        _join_unassigned(merges)
        self.choose_names([version for version in self.versions if version in needed or not version.ways])
        for node, version in (*self.reads, *self.writes):
            node.id = version.itself().name
        for merge in merges:
            name = merge.itself().name
            for way, place in merge.ways:
                if way is not None and way.itself().name != name and not _is_empty(way.itself()):
                    place.insert(assign(name, load(way.itself().name)))
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
        """Process the statements; return the versions after them, or None if their end is unreachable."""
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
                return self.merge_in_loop(node, block, values)
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

    def merge_in_loop(self, node: ast.For | ast.While, block: list[ast.stmt], values: _Values) -> _Values:
        """Give each variable that is assigned in a loop one name within it.

        It is initialised with the previous version if the loop, or the code after it, may read that.
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
        """Process the reads of a loop's test with the versions before it, then with those at the end of the body.

        If that end is unreachable, or there is a ``continue``, both use the merged versions. So does a test with a
        barrier, which must remain a single barrier.
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
        """Return the merged versions of several incoming paths."""
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
        """Process the reads and writes of an assignment target, from left to right."""
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
    """Resolve a merge of a single version to that version; return True if that changed anything."""
    others = {source for source, _ in _sources(merge)} - {merge}
    if merge.stands_for is not None or len(others) > 1:
        return False
    if others:
        (merge.stands_for,) = others
    return bool(others)


def _join_unassigned(merges: Sequence[_Version]) -> None:
    """Unify merges with versions that would be copied to them before their first assignment in the text.

    Such a copy comes from an earlier iteration of a loop around it; numba refuses it in the first.
    """
    first = {version: version.first for merge in merges for version in (merge, *dict(_sources(merge)))}
    for merge in merges:
        for source, place in _sources(merge):
            target = merge.itself()
            if source is not target and not _is_empty(source) and first[source] > place.number:
                target.stands_for = source
                first[source] = min(first[source], first[target])


def _sources(merge: _Version) -> Iterator[tuple[_Version, _Place]]:
    """Yield the versions that are copied to a merge, as they resolve now, and where."""
    return ((way.itself(), place) for way, place in merge.ways if way is not None)


def _is_empty(version: _Version) -> bool:
    """Return True for a merge without versions: the variable is unassigned on every path."""
    return bool(version.ways) and not version.is_copy and not {source for source, _ in _sources(version)} - {version}


class _Augmentations(ast.NodeTransformer):
    """Rewrites ``x += y`` for versions with different names as ``z = x; z += y; w = z``."""

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
