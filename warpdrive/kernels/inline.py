"""Inlining of device functions that contain barriers, so that all barriers of a kernel are in one body.

Calls are inlined in Python's order of evaluation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

from warpdrive.kernels.control_flow import changing_names, structurize
from warpdrive.kernels.errors import refuse
from warpdrive.kernels.hoisting import Hoister
from warpdrive.kernels.language import AXES, BARRIER, MET, POSITIONS, SHUFFLES, VOTES, WARP_BARRIER, WARP_FUNCTIONS
from warpdrive.kernels.resolve import Function
from warpdrive.kernels.syntax import (
    GENERATED,
    HERE,
    SENT,
    TALLY,
    FunctionName,
    IntrinsicName,
    assign,
    at,
    contains_barrier,
    copy_tree,
    is_barrier,
    is_debug_call,
    load,
    negate,
    position,
    stored_names,
    walk,
)
from warpdrive.kernels.versions import Naming, name_versions, with_separate_names


def inline(function: Function, naming: Naming = with_separate_names) -> list[ast.stmt]:
    """Return the body of a kernel with callees that contain barriers inlined, and with structured control flow.

    Local variables of inlined functions are renamed to avoid collisions.

    Args:
        function: The kernel.
        naming: Decides which versions of a variable share a name, see :data:`warpdrive.kernels.versions.Naming`.

    Returns:
        The statements of the body.

    Raises:
        KernelError: If a function with a barrier is called where that is not supported, or the kernel returns a value.
    """
    for node in walk(function.body):
        if isinstance(node, ast.Return) and node.value is not None:
            refuse(node, "a kernel returns nothing: it writes its results into arrays")
    assigned = stored_names(function.body)
    changed = [name for name in function.parameters if name in assigned]
    names = {name: load(f"{GENERATED}own_{name}") for name in changed}
    copies = [at(function.body[0], assign(f"{GENERATED}own_{name}", load(name))) for name in changed]
    inliner = _Inliner(naming)
    statements = inliner.expand(function, names)
    absent = [at(function.body[0], assign(name, ast.Constant(False))) for name in inliner.participations]
    return [*copies, *absent, *statements]


class _BarrierCall(ast.Call):
    """Call of a function that contains a barrier; used for type checking only."""

    func: FunctionName


class _Inliner(Hoister):
    def __init__(self, naming: Naming) -> None:
        super().__init__("value")
        self.naming = naming
        self.copies = 0
        self.participations: list[str] = []

    def expand(
        self, function: Function, names: Mapping[str, ast.expr], own: str = "", result: ast.expr | None = None
    ) -> list[ast.stmt]:
        """Return the body of ``function`` with its names replaced.

        Args:
            function: The function to inline.
            names: The replacement of each name.
            own: The prefix of further versions of the function's variables.
            result: The assignment target for return values, if any.

        Returns:
            The statements of the body.
        """

        def naming(versions: Sequence[str]) -> Sequence[int]:
            return self.naming([getattr(names.get(version), "id", own + version) for version in versions])

        body = name_versions(function.body, function.parameters, naming)
        changing = changing_names(function.body) | (stored_names(body) - stored_names(function.body))
        names = {name: load(own + name) for name in stored_names(body)} | dict(names)
        body = structurize(body, changing, str(self.copies), result)
        body = [_Renamer(names).visit(statement) for statement in body]
        return self.block(_split_tuples(body))

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [new for statement in statements for new in self.statement(statement)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        if not contains_barrier([node]) or is_barrier(node):
            return [node]
        before: list[ast.stmt] = []
        if isinstance(node, ast.If):
            node.test = self.expression(node.test, before)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return [*before, node]
        if isinstance(node, ast.While):
            node.body = self.block(node.body)
            return [node]
        if isinstance(node, ast.Expr) and _calls_barrier(node.value):
            return self.call(node.value, None)
        if isinstance(node, ast.AugAssign):
            node = _without_augmentation(node)
        if isinstance(node, ast.Expr) or (isinstance(node, ast.Assign) and not contains_barrier(node.targets)):
            node.value = self.expression(node.value, before)
            return [*before, node]
        refuse(node, "a function with a barrier cannot be called here: call it in a statement of its own")

    def is_hoisted(self, nodes: Iterable[ast.AST]) -> bool:
        return contains_barrier(nodes)

    def hoisted(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr | None:
        if _calls_barrier(node):
            node.args = self.expressions(node.args, before)
            return self.result_of(node, before)
        if isinstance(node, ast.Call) and isinstance(node.func, IntrinsicName):
            if node.func.path in VOTES:
                return self.vote(node, node.func.path, before)
            if node.func.path in WARP_FUNCTIONS:
                return self.exchange(node, node.func.path, before)
            if is_barrier(ast.Expr(node)):
                refuse(node, f"cuda.{node.func.path}() is a statement: it has no value")
        return None

    def vote(self, node: ast.Call, path: str, before: list[ast.stmt]) -> ast.expr:
        """Lower a barrier vote: each thread adds to a counter of the block, which all threads read after a barrier."""
        (condition,) = self.expressions(node.args, before)
        value = self.name_for_value()
        tally = f"{TALLY}{self.values}"
        counted = negate(condition) if path == "syncthreads_and" else condition
        found: dict[str, ast.expr] = {
            "syncthreads_count": load(tally),
            "syncthreads_and": _one_if(ast.Compare(load(tally), [ast.Eq()], [ast.Constant(0)])),
            "syncthreads_or": _one_if(ast.Compare(load(tally), [ast.NotEq()], [ast.Constant(0)])),
        }
        statements = [
            assign(tally, ast.Constant(0)),
            ast.AugAssign(ast.Name(tally, ast.Store()), ast.Add(), _one_if(counted)),
            ast.Expr(ast.Call(IntrinsicName.of(BARRIER, node), [], [])),
            assign(value, found[path]),
        ]
        before += [at(node, statement) for statement in statements]
        return at(node, load(value))

    def exchange(self, node: ast.Call, path: str, before: list[ast.stmt]) -> ast.expr:
        """Lower a warp function: each thread sets variables that the other threads read after a synchronisation.

        In all functions but shuffles only the threads that reach the call take part.
        """
        arguments = self.expressions(node.args, before)
        value = self.name_for_value()
        sent, here = f"{SENT}{self.values}", f"{HERE}{self.values}"
        mask, sending, *further = arguments or [ast.Constant(-1), ast.Constant(True)]
        found = ast.Call(IntrinsicName.of(MET + path, node), [mask, load(sent), *further], [])
        statements: list[ast.stmt] = [
            assign(sent, sending),
            ast.Expr(ast.Call(IntrinsicName.of(WARP_BARRIER, node), [], [])),
            assign(value, found),
        ]
        if path not in SHUFFLES:
            self.participations.append(here)
            found.keywords.append(ast.keyword("here", load(here)))
            statements.insert(1, assign(here, ast.Constant(True)))
            statements.append(ast.Expr(ast.Call(IntrinsicName.of(WARP_BARRIER, node), [], [])))
            statements.append(assign(here, ast.Constant(False)))
        before += [at(node, statement) for statement in statements]
        return at(node, load(value))

    def result_of(self, node: _BarrierCall, before: list[ast.stmt]) -> ast.expr:
        """Append the statements of a call to ``before`` and return the expression of its result."""
        function = node.func.function
        results = [child.value for child in walk(function.body) if isinstance(child, ast.Return) and child.value]
        if not results:
            refuse(node, f"'{function.source.name}' does not return a value")
        name = f"{GENERATED}result_{self.copies + 1}"
        lengths = {_length(value) for value in results}
        length = lengths.pop() if len(lengths) == 1 else None
        # scalars can be kept across a barrier, tuples cannot
        names = [name] if length is None else [f"{name}_{index}" for index in range(length)]
        targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names]
        before.extend(self.call(node, targets[0] if length is None else ast.Tuple(targets, ast.Store())))
        loads: list[ast.expr] = [load(name) for name in names]
        return at(node, loads[0] if length is None else ast.Tuple(loads, ast.Load()))

    def call(self, node: _BarrierCall, result: ast.expr | None) -> list[ast.stmt]:
        """Return the statements of an inlined call."""
        function = node.func.function
        if function.is_recursive:
            refuse(node, f"'{function.source.name}' calls itself and contains a barrier: write a loop")
        self.copies += 1
        own = f"{GENERATED}{self.copies}_"
        assigned = stored_names(function.body)
        names: dict[str, ast.expr] = {name: load(own + name) for name in assigned}
        before: list[ast.stmt] = []
        arguments = self.expressions(node.args, before)
        for parameter, argument in zip(function.parameters, arguments, strict=True):
            if isinstance(argument, (ast.Name, ast.Constant)) and parameter not in assigned:
                names[parameter] = argument
            else:
                names[parameter] = load(own + parameter)
                before.append(at(node, assign(own + parameter, argument)))
        return [*before, *self.expand(function, names, own, result)]


def _length(value: ast.expr) -> int | None:
    """Return the length of a displayed tuple, or None for any other value."""
    is_plain = isinstance(value, ast.Tuple) and not any(isinstance(part, ast.Starred) for part in value.elts)
    return len(value.elts) if is_plain else None  # type: ignore[attr-defined]


def _calls_barrier(node: ast.expr) -> TypeGuard[_BarrierCall]:
    return isinstance(node, ast.Call) and isinstance(node.func, FunctionName) and node.func.function.has_barrier


def _one_if(condition: ast.expr) -> ast.expr:
    return ast.IfExp(condition, ast.Constant(1), ast.Constant(0))


def _without_augmentation(node: ast.AugAssign) -> ast.Assign:
    """Rewrite ``x += f()`` as ``x = x + f()``, which also reads ``x`` before the call."""
    target = node.target
    if any(isinstance(child, ast.Call) and not is_debug_call(child) for child in ast.walk(target)):
        refuse(node, "a function with a barrier cannot be called here: call it in a statement of its own")
    value = copy_tree(target)
    value.ctx = ast.Load()
    return at(node, ast.Assign([target], at(node, ast.BinOp(value, node.op, node.value))))


class _Renamer(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, ast.expr]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.names:
            return node
        new = copy_tree(self.names[node.id])
        if isinstance(node.ctx, ast.Store):
            assert isinstance(new, ast.Name)
            new.ctx = ast.Store()
        return at(node, new)


def _split_tuples(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Split top-level ``a, b = x, y`` and ``i, j = cuda.grid(2)`` into assignments where that is equivalent."""
    split: list[ast.stmt] = []
    for node in statements:
        values = _elements(node.value) if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if (
            values is not None
            and isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and len(node.targets[0].elts) == len(values)
            and all(isinstance(target, ast.Name) for target in node.targets[0].elts)
            and not stored_names(node.targets) & {n.id for n in walk(values) if isinstance(n, ast.Name)}
        ):
            pairs = zip(node.targets[0].elts, values, strict=True)
            split += [at(node, ast.Assign([target], value)) for target, value in pairs]
        else:
            split.append(node)
    return split


def _elements(value: ast.expr) -> Sequence[ast.expr] | None:
    """Return the elements of a tuple, or of a thread's position along each axis."""
    if isinstance(value, ast.Tuple):
        return value.elts
    if isinstance(value, ast.Call) and isinstance(value.func, IntrinsicName) and value.func.path in POSITIONS:
        rank = value.args[0].value if len(value.args) == 1 and isinstance(value.args[0], ast.Constant) else 1
        if isinstance(rank, int) and 1 < rank <= len(AXES):
            return [position(value, axis) for axis in AXES[:rank]]
    return None
