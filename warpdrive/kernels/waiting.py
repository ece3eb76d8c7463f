"""Detection of loops in which a thread waits for another thread.

A loop waits if some iteration makes no progress: its conditions depend on memory that the thread itself does not
change. ``while flag[0] == 0: pass`` waits, and so does acquiring a lock with
``while cuda.atomic.cas(lock, 0, 0, 1) != 0: pass``. Loops that make progress do not wait: a binary search (each
iteration moves a bound), pointer chasing (each iteration reads another element), a compare-and-swap of the value just
read (succeeds without contention), and a queue whose head each iteration advances.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from warpdrive.kernels.language import ATOMIC_DTYPES
from warpdrive.kernels.local_arrays import is_local_array
from warpdrive.kernels.resolve import Function, Table
from warpdrive.kernels.syntax import (
    FunctionName,
    IntrinsicName,
    SharedName,
    contains_barrier,
    loaded_names,
    stored_names,
    walk,
)

ACCUMULATING = ("add", "sub", "xor", "inc", "dec")
"""Atomic operations that change the element each time they are repeated, unless the operand is 0."""
COMPARING = ("cas", "compare_and_swap")
TAKING = ("exch", *COMPARING, "or_", "max")
"""Atomic operations that can acquire a lock."""
_SHAPE = ("shape", "size", "ndim", "strides", "dtype")

Loop = ast.While | ast.For


def waiting_loops(functions: Iterable[Function], table: Table) -> list[Loop]:
    """Return the loops of a kernel in which threads may wait for other threads.

    Args:
        functions: The functions of the kernel, in the order of :meth:`Function.callees`: callees before callers.
        table: The constants of the kernel.

    Returns:
        The syntax nodes of the loops.
    """
    functions = list(functions)
    effects = {function.name: _Effects(False, function.parameters, ()) for function in functions}  # in recursion
    found = []
    for function in functions:
        scope = _Scope(set(table.constants) | _local_arrays(function.body), effects)
        effects[function.name] = _effects_of(function, scope)
        found += [loop for loop in _loops(function.body) if _Iteration(loop, scope).may_repeat]
    return found


def are_own_locks(function: Function, loops: Collection[Loop]) -> bool:
    """Return True if each waiting loop acquires a lock that the same thread releases before any barrier.

    Threads that run one after the other always find such a lock free, so they need no cooperative scheduling.
    """
    ids = {id(loop) for loop in loops}
    bodies = (function.body, *(callee.body for callee in function.callees()))
    return all(id(loop) not in ids or _releases_lock(loop, rest) for body in bodies for loop, rest in _with_rest(body))


def _with_rest(body: list[ast.stmt]) -> Iterator[tuple[Loop, list[ast.stmt]]]:
    """Iterate over all loops, each with the statements that follow it in its block."""
    for place, node in enumerate(body):
        if isinstance(node, (ast.For, ast.While)):
            yield node, body[place + 1 :]
        for inner in _blocks(node):
            yield from _with_rest(inner)


def _releases_lock(loop: Loop, rest: list[ast.stmt]) -> bool:
    taken = {
        _root(call.args[0])
        for call in _atomics([loop])
        if call.func.path.removeprefix("atomic.") in TAKING  # type: ignore[attr-defined]
    }
    conditions = _conditions(loop)
    others = {name for test in conditions for name in loaded_names([test])} - taken
    inside = [branch.body for branch in walk(loop.body) if isinstance(branch, ast.If) and _takes(branch.test, taken)]
    if not taken or any(reads_elements(test, others) for test in conditions):
        return False
    return any(_releases(block, taken) for block in ([*inside] if inside else [rest]))


def _takes(test: ast.expr, locks: Collection[str]) -> bool:
    return any(_root(call.args[0]) in locks for call in _atomics([test]))


def _releases(block: list[ast.stmt], locks: Collection[str]) -> bool:
    """Return True if a block certainly releases a lock, before any barrier or jump."""
    for node in block:
        if contains_barrier([node]):
            return False
        if isinstance(node, ast.Expr) and any(_root(call.args[0]) in locks for call in _atomics([node])):
            return True
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Subscript) and _root(target) in locks for target in targets):
            return True
        if any(isinstance(child, (ast.Return, ast.Break, ast.Continue)) for child in ast.walk(node)):
            return False
    return False


def reads_elements(node: ast.AST, names: Collection[str]) -> bool:
    """Return True if an expression reads elements of the named arrays."""
    return any(isinstance(child, ast.Subscript) and _root(child) in names for child in ast.walk(node))


@dataclass(frozen=True)
class _Effects:
    """Memory effects of a device function: True if it reads any, and the arrays that each call changes anew."""

    reads: bool
    parameters: Sequence[str]
    changes: Collection[str]


@dataclass(frozen=True)
class _Scope:
    """Context of a function: the arrays that no other thread writes, and the effects of its callees."""

    private: Collection[str]
    effects: Mapping[str, _Effects]

    def reads_memory(self, node: ast.AST) -> bool:
        """Return True if the value of an expression may depend on writes of other threads."""
        for child in ast.walk(node):
            if isinstance(child, ast.Subscript) and isinstance(child.ctx, ast.Load) and self.is_shared(child.value):
                return True
            if isinstance(child, IntrinsicName) and child.path in ATOMIC_DTYPES:
                return True
            if isinstance(child, FunctionName) and self.effects[child.function.name].reads:
                return True
        return False

    def is_shared(self, owner: ast.expr) -> bool:
        """Return True if other threads may write the elements; False for shapes, tuples and local arrays."""
        if any(isinstance(child, ast.Attribute) and child.attr in _SHAPE for child in ast.walk(owner)):
            return False
        root = _root(owner)
        return bool(root) and root not in self.private


@dataclass(frozen=True)
class _Value:
    """Abstract value of a variable within an iteration.

    Attributes:
        carried: The variables whose values from the previous iteration it depends on.
        read: True if it depends on memory.
        constant: Its value, if known.
    """

    carried: frozenset[str] = frozenset()
    read: bool = False
    constant: object = None

    def joined(self, other: _Value) -> _Value:
        same = self.constant if self.constant == other.constant else None
        return _Value(self.carried | other.carried, self.read or other.read, same)


@dataclass(frozen=True)
class _State:
    """Abstract state: the variables, and True if every path here has changed what the conditions depend on."""

    variables: Mapping[str, _Value] = field(default_factory=dict)
    advanced: bool = False

    def joined(self, other: _State | None) -> _State:
        if other is None:
            return self
        names = self.variables.keys() | other.variables.keys()
        variables = {
            name: self.variables.get(name, _Value()).joined(other.variables.get(name, _Value())) for name in names
        }
        return _State(variables, self.advanced and other.advanced)


def _join(states: Iterable[_State | None]) -> _State | None:
    joined: _State | None = None
    for state in states:
        joined = joined if state is None else state.joined(joined)
    return joined


class _Iteration:
    """Abstract interpretation of one loop iteration along all paths; tracks changes that its conditions depend on."""

    def __init__(self, loop: Loop | None, scope: _Scope, relevant: Collection[str] = ()) -> None:
        self.scope, self.relevant = scope, set(relevant)
        self.continued: list[list[_State]] = [[]]
        self.broken: list[list[_State]] = [[]]
        self.changed: set[str] = set()
        self.depends: dict[str, set[str]] = {}
        self.may_repeat = loop is not None and self._may_repeat(loop)

    def _may_repeat(self, loop: Loop) -> bool:
        conditions = _conditions(loop)
        self.relevant, expressions = _dependences(loop.body, conditions)
        if not any(self.scope.reads_memory(node) for node in expressions):
            return False
        self.depends = _dependences_of_names(loop.body)
        start = _State({name: _Value(frozenset({name})) for name in stored_names([loop])})
        if isinstance(loop, ast.While):
            start = self.evaluate(loop.test, start)
        elif stored_names([loop.target]) & self.relevant:
            return False
        ends = [state for state in (self.block(loop.body, start), *self.continued[0]) if state is not None]
        ends = [state for state in ends if not (isinstance(loop, ast.While) and _ends(loop.test, state.variables))]
        if contains_barrier([loop]):  # changes by the other threads of the block count as well
            return bool(ends) and not self.changed
        return any(not (state.advanced or self.has_rotated(state)) for state in ends)

    def has_rotated(self, state: _State) -> bool:
        """Return True if variables pass on their values of the previous iteration in a cycle, as in ``a, b = b, a``."""
        following = {name: value.carried - {name} for name, value in state.variables.items() if name in self.relevant}
        reached = {name: set(names) for name, names in following.items()}
        for _ in reached:
            reached = {n: names.union(*(following.get(m, frozenset()) for m in names)) for n, names in reached.items()}
        return any(name in names for name, names in reached.items())

    def block(self, body: Sequence[ast.stmt], state: _State | None) -> _State | None:
        for node in body:
            if state is None:
                return None
            state = self.statement(node, state)
        return state

    def statement(self, node: ast.stmt, state: _State) -> _State | None:
        if isinstance(node, ast.If):
            state = self.evaluate(node.test, state)
            return _join([self.block(node.body, state), self.block(node.orelse, state)])
        if isinstance(node, (ast.For, ast.While)):
            return self.inner_loop(node, state)
        if isinstance(node, (ast.Break, ast.Continue)):
            (self.broken if isinstance(node, ast.Break) else self.continued)[-1].append(state)
            return None
        if isinstance(node, (ast.Return, ast.Raise)):
            return None
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            return self.assignment(node, state)
        return self.evaluate(node, state)

    def inner_loop(self, node: Loop, state: _State) -> _State | None:
        """Process a nested loop; a ``while`` may have no iterations."""
        head = state
        while True:
            self.continued.append([])
            self.broken.append([])
            test = node.iter if isinstance(node, ast.For) else node.test
            begun = self.evaluate(test, head)
            if isinstance(node, ast.For):
                targets = dict.fromkeys(stored_names([node.target]), self.value(node.iter, begun.variables))
                begun = replace(begun, variables={**begun.variables, **targets})
            end = _join([self.block(node.body, begun), *self.continued.pop()])
            left = self.broken.pop()
            joined = head if end is None else replace(head.joined(end), advanced=head.advanced)
            if joined == head:
                break
            head = joined
        through = [replace(head, advanced=end.advanced)] if isinstance(node, ast.For) and end else [head]
        endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value
        after = None if endless else self.block(node.orelse, _join(through))
        return _join([after, *left])

    def assignment(self, node: ast.Assign | ast.AugAssign, state: _State) -> _State:
        state = self.evaluate(node, state)
        variables = dict(state.variables)
        value = self.value(node.value, variables)
        targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
        advanced = state.advanced
        for target in _leaves(targets):
            if isinstance(target, ast.Name):
                new = value
                if isinstance(node, ast.AugAssign):
                    new = replace(value.joined(variables.get(target.id, _Value())), constant=None)
                variables[target.id] = new
                advanced = (target.id in new.carried and self.change(target.id)) or advanced
            else:
                root = _root(target)
                again = isinstance(node, ast.AugAssign) or root in self.depends.get(root, loaded_names([node.value]))
                advanced = (again and self.change(root)) or advanced
        return _State(variables, advanced)

    def evaluate(self, node: ast.AST, state: _State) -> _State:
        """Process the memory effects of the calls in an expression or statement."""
        advanced = state.advanced
        for child in ast.walk(node):
            if not isinstance(child, ast.Call):
                continue
            if isinstance(child.func, IntrinsicName) and child.func.path in ATOMIC_DTYPES:
                if self.changes_when_repeated(child, state.variables):
                    advanced = self.change(_root(child.args[0])) or advanced
            elif isinstance(child.func, FunctionName):
                called = self.scope.effects[child.func.function.name]
                names = dict(zip(called.parameters, map(_root, child.args), strict=False))
                for name in called.changes:
                    advanced = self.change(names.get(name, name)) or advanced
        return replace(state, advanced=advanced)

    def changes_when_repeated(self, call: ast.Call, variables: Mapping[str, _Value]) -> bool:
        """Return True if repeating an atomic operation changes the element again."""
        assert isinstance(call.func, IntrinsicName)
        operation = call.func.path.removeprefix("atomic.")
        values = [self.value(argument, variables) for argument in call.args[1:]]
        if operation in ACCUMULATING:
            return not (isinstance(call.args[-1], ast.Constant) and call.args[-1].value == 0)
        return operation in COMPARING and (values[-2].read or bool(values[-2].carried))

    def change(self, root: str) -> bool:
        """Record a change of a variable or array, and return True if the loop's conditions depend on it."""
        if root in self.relevant or not self.relevant:
            self.changed.add(root)
            return True
        return False

    def value(self, node: ast.expr, variables: Mapping[str, _Value]) -> _Value:
        if isinstance(node, ast.Constant):
            return _Value(constant=node.value)
        known = [variables[name] for name in loaded_names([node]) if name in variables]
        carried = frozenset().union(*(value.carried for value in known))
        return _Value(carried, self.scope.reads_memory(node) or any(value.read for value in known))


def _effects_of(function: Function, scope: _Scope) -> _Effects:
    iteration = _Iteration(None, scope)
    iteration.depends = _dependences_of_names(function.body)
    iteration.block(function.body, _State())
    return _Effects(any(map(scope.reads_memory, function.body)), function.parameters, frozenset(iteration.changed))


def _conditions(loop: Loop) -> list[ast.expr]:
    """Return the exit conditions of a loop: its own, and those around its ``break`` and ``return``."""
    found = [loop.test] if isinstance(loop, ast.While) else []

    def look(body: list[ast.stmt], around: list[ast.expr], is_own: bool) -> None:
        for node in body:
            if isinstance(node, ast.Return) or (isinstance(node, ast.Break) and is_own):
                found.extend(around)
            elif isinstance(node, ast.If):
                look(node.body, [*around, node.test], is_own)
                look(node.orelse, [*around, node.test], is_own)
            elif isinstance(node, (ast.For, ast.While)):
                test = [node.test] if isinstance(node, ast.While) else [node.iter]
                look(node.body, [*around, *test], False)
                look(node.orelse, [*around, *test], is_own)

    look(loop.body, [], True)
    return found


def _dependences_of_names(body: list[ast.stmt]) -> dict[str, set[str]]:
    """Return the names that each name assigned in the statements depends on, by its last assignment."""
    assignments = list(_assignments(body, []))
    by_name = _by_name(assignments)
    return {name: _reached(by_name, parts)[0] for name, parts in dict(assignments).items()}


def _dependences(body: list[ast.stmt], conditions: Sequence[ast.AST]) -> tuple[set[str], list[ast.AST]]:
    """Return the names that conditions depend on through assignments in the statements, and the expressions."""
    return _reached(_by_name(_assignments(body, [])), conditions)


def _by_name(assignments: Iterable[tuple[str, list[ast.AST]]]) -> dict[str, dict[int, ast.AST]]:
    """Return for each assigned name the expressions that it depends on, by their ids."""
    found: dict[str, dict[int, ast.AST]] = {}
    for name, parts in assignments:
        found.setdefault(name, {}).update((id(node), node) for node in parts)
    return found


def _reached(
    by_name: Mapping[str, dict[int, ast.AST]], conditions: Sequence[ast.AST]
) -> tuple[set[str], list[ast.AST]]:
    """Return the names and expressions that conditions depend on."""
    expressions = {id(node): node for node in conditions}
    names = loaded_names(conditions)
    pending = list(names)
    while pending:
        new = {key: node for key, node in by_name.get(pending.pop(), {}).items() if key not in expressions}
        expressions |= new
        more = loaded_names(new.values()) - names
        names |= more
        pending += more
    return names, list(expressions.values())


def _assignments(body: list[ast.stmt], around: list[ast.AST]) -> Iterator[tuple[str, list[ast.AST]]]:
    """Iterate over assigned names and arrays, each with the expressions that the new value depends on."""
    for node in body:
        own = node.test if isinstance(node, ast.If | ast.While) else node.iter if isinstance(node, ast.For) else node
        for call in _atomics([own]):
            yield _root(call.args[0]), [*call.args[1:], *around]
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            for target in _leaves(targets):
                yield _root(target), [node.value, *around]
        elif isinstance(node, ast.If):
            yield from _assignments(node.body, [*around, node.test])
            yield from _assignments(node.orelse, [*around, node.test])
        elif isinstance(node, ast.While):
            yield from _assignments([*node.body, *node.orelse], [*around, node.test])
        elif isinstance(node, ast.For):
            for name in stored_names([node.target]):
                yield name, [node.iter, *around]
            yield from _assignments([*node.body, *node.orelse], [*around, node.iter])


def _ends(test: ast.expr, variables: Mapping[str, _Value]) -> bool:
    """Return True if a condition is certainly false, given the known constants."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_ends(value, variables) for value in test.values)
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    values = {name: variables[name].constant for name in names if name in variables}
    if any(values.get(name) is None for name in names):
        return False
    kinds = (ast.Compare, ast.UnaryOp, ast.Not, ast.Name, ast.Constant, ast.cmpop, ast.expr_context, ast.USub)
    if not all(isinstance(node, kinds) for node in ast.walk(test)):
        return False
    return not eval(ast.unparse(test), {"__builtins__": {}}, values)


def _local_arrays(body: Iterable[ast.stmt]) -> set[str]:
    assignments = (node for node in walk(body) if isinstance(node, ast.Assign) and is_local_array(node.value))
    return stored_names(target for node in assignments for target in node.targets)


def _loops(body: Iterable[ast.stmt]) -> list[Loop]:
    return [node for node in walk(body) if isinstance(node, (ast.For, ast.While))]


def _blocks(node: ast.stmt) -> list[list[ast.stmt]]:
    return [node.body, node.orelse] if isinstance(node, (ast.If, ast.For, ast.While)) else []


def _atomics(nodes: Iterable[ast.AST]) -> list[ast.Call]:
    calls = (node for node in walk(nodes) if isinstance(node, ast.Call) and isinstance(node.func, IntrinsicName))
    return [call for call in calls if call.func.path in ATOMIC_DTYPES]  # type: ignore[attr-defined]


def _leaves(targets: Iterable[ast.expr]) -> Iterator[ast.expr]:
    for target in targets:
        if isinstance(target, (ast.Tuple, ast.List)):
            yield from _leaves(target.elts)
        else:
            yield target


def _root(node: ast.expr) -> str:
    """Return the name of the array or variable that an element or attribute belongs to, or ``""``."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Starred, ast.Call)):
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute):
            return ""
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, (ast.Name, SharedName)) and not isinstance(node, IntrinsicName) else ""
