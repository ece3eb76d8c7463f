"""Structured control flow for functions that contain barriers.

All threads of a block meet at a barrier, so no thread may jump over one alone. After this pass no ``return``,
``break`` or ``continue`` jumps over a barrier: each sets a flag, and the statements it would have skipped are nested
under ``if not flag``. ``for`` loops around barriers become counting ``while`` loops. Loops without a barrier keep
their own ``break`` and ``continue``.

The flags are ordinary boolean variables, introduced before regions are cut: the mechanism that stores live variables
per thread between regions then supports all three statements.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TypeGuard

from warpdrive.kernels.errors import refuse
from warpdrive.kernels.syntax import (
    GENERATED,
    LEN,
    RANGE,
    RANGE_ITEM,
    SHAPE_ITEM,
    FunctionName,
    SharedName,
    assign,
    at,
    conjunction,
    contains_barrier,
    copy_tree,
    load,
    loaded_names,
    negate,
    stored_names,
    walk,
)


def structurize(
    body: list[ast.stmt], changing: Collection[str], unique: str, result: ast.expr | None = None
) -> list[ast.stmt]:
    """Replace the jumps over barriers in the body of a function by flags, in place, and return the body.

    Args:
        body: The statements of the body.
        changing: The names that are reassigned, see :func:`changing_names`.
        unique: The suffix of the flags' names.
        result: The assignment target of return values, if any.

    Returns:
        The statements.

    Raises:
        KernelError: If a loop around a barrier iterates over anything but a range, an array or a tuple, or has a
            barrier in its condition and a ``break`` or ``continue`` in its ``else``.
    """
    return _Structurizer(unique, result, changing).run(body)


def changing_names(body: list[ast.stmt]) -> set[str]:
    """Return the assigned names, except those of arrays in shared memory that are assigned once."""
    declarations = [
        node
        for node in walk(body)
        if isinstance(node, ast.Assign) and isinstance(node.value, SharedName) and isinstance(node.targets[0], ast.Name)
    ]
    declared = stored_names(declarations)
    stores = [node.id for node in walk(body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return {name for name in stores if name not in declared or stores.count(name) > 1}


@dataclass
class _Flags:
    """The names of the flags for ``break`` and ``continue`` of the enclosing loop with barriers."""

    broken: str
    continued: str


class _Structurizer:
    def __init__(self, unique: str, result: ast.expr | None, changing: Collection[str]) -> None:
        self.unique, self.result, self.changing = unique, result, changing
        self.returned = f"{GENERATED}returned_{unique}"
        self.loops = 0

    def run(self, body: list[ast.stmt]) -> list[ast.stmt]:
        statements = self.block(body, None)
        if self.returned in loaded_names(statements):
            return [at(body[0], assign(self.returned, ast.Constant(False))), *statements]
        return _without_assignments_to(self.returned, statements)

    def block(self, statements: list[ast.stmt], flags: _Flags | None) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for index, statement in enumerate(statements):
            rest = statements[index + 1 :]
            if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
                return [*done, *self.jump(statement, flags)]
            if not jumps_out_of(statement):
                done += self.statement(statement, flags)
            elif isinstance(statement, ast.If) and _always_jumps(statement.body):
                return [*done, *self.branch(statement, flags, [], rest)]
            elif isinstance(statement, ast.If) and _always_jumps(statement.orelse):
                return [*done, *self.branch(statement, flags, rest, [])]
            else:
                still_here = self.still_here(statement, flags)
                done += self.statement(statement, flags)
                remainder = self.block(rest, flags)
                if remainder:
                    done.append(at(statement, ast.If(still_here, remainder, [])))
                return done
        return done

    def branch(
        self, node: ast.If, flags: _Flags | None, after_body: list[ast.stmt], after_orelse: list[ast.stmt]
    ) -> list[ast.stmt]:
        body = self.block([*node.body, *after_body], flags)
        orelse = self.block([*node.orelse, *after_orelse], flags)
        return [at(node, ast.If(node.test, body or [ast.Pass()], orelse))]

    def statement(self, node: ast.stmt, flags: _Flags | None) -> list[ast.stmt]:
        if isinstance(node, ast.If) and (contains_barrier([node]) or jumps_out_of(node)):
            return self.branch(node, flags, [], [])
        if isinstance(node, (ast.For, ast.While)):
            if contains_barrier([node]):
                return self.loop_with_barrier(node, flags)
            if jumps_out_of(node):
                return [self.loop_without_barrier(node, flags)]
        return [node]

    def loop_without_barrier(self, node: ast.For | ast.While, flags: _Flags | None) -> ast.stmt:
        """Turn ``return`` inside a loop into a flag and ``break``; the caller guards the statements that follow."""
        node.body = self._leave_by_break(node.body)
        node.orelse = self.block(node.orelse, flags)
        return node

    def _leave_by_break(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for statement in statements:
            if isinstance(statement, ast.Return):
                return [*done, *self.jump(statement, None), at(statement, ast.Break())]
            if isinstance(statement, ast.If):
                statement.body = self._leave_by_break(statement.body)
                statement.orelse = self._leave_by_break(statement.orelse)
            done.append(statement)
            if isinstance(statement, (ast.For, ast.While)) and any(
                isinstance(child, ast.Return) for child in ast.walk(statement)
            ):
                statement.body = self._leave_by_break(statement.body)
                statement.orelse = self._leave_by_break(statement.orelse)
                done.append(at(statement, ast.If(load(self.returned), [ast.Break()], [])))
        return done

    def loop_with_barrier(self, node: ast.For | ast.While, outer: _Flags | None) -> list[ast.stmt]:
        if isinstance(node, ast.While) and contains_barrier([node.test]):
            if _jumps_among(node.orelse) - {"return"}:
                refuse(
                    node,
                    "'break' and 'continue' are not supported in the 'else' of a loop whose condition has a barrier: "
                    "set a variable and test it after the loop",
                )
            leave = at(node.test, ast.If(negate(node.test), [*node.orelse, at(node, ast.Break())], []))
            node = at(node, ast.While(ast.Constant(True), [leave, *node.body], []))
        orelse = self.block(node.orelse, outer)
        self.loops += 1
        unique = f"{self.unique}_{self.loops}"
        flags = _Flags(f"{GENERATED}broken_{unique}", f"{GENERATED}continued_{unique}")
        jumps = [child for child in walk(node.body) if isinstance(child, (ast.Break, ast.Continue, ast.Return))]
        before: list[ast.stmt] = []
        test: ast.expr
        first: list[ast.stmt] = []
        if isinstance(node, ast.For):
            before, test, first = self.counting(node, unique)
        else:
            test = node.test
        body = self.block(node.body, flags)
        if any(isinstance(jump, ast.Continue) for jump in jumps):
            first.append(assign(flags.continued, ast.Constant(False)))
        if any(isinstance(jump, ast.Return) for jump in jumps):
            test = conjunction(negate(load(self.returned)), test)
        if any(isinstance(jump, ast.Break) for jump in jumps):
            before.append(assign(flags.broken, ast.Constant(False)))
            test = conjunction(negate(load(flags.broken)), test)
        loop = ast.While(test, [*first, *body], [])
        for kind, flag in ((ast.Break, flags.broken), (ast.Return, self.returned)):
            if orelse and any(isinstance(jump, kind) for jump in jumps):
                orelse = [ast.If(negate(load(flag)), orelse, [])]
        return [at(node, statement) for statement in (*before, loop, *orelse)]

    def counting(self, node: ast.For, unique: str) -> tuple[list[ast.stmt], ast.expr, list[ast.stmt]]:
        """Return the statements before, the test, and the first body statements of a ``for`` lowered to ``while``."""
        following, end, stride = (f"{GENERATED}{part}_{unique}" for part in ("following", "end", "stride"))
        before: list[ast.stmt] = []
        over = node.iter
        if _is_range(over) and all(map(_is_integer, over.args)):
            bounds = [ast.Constant(0)] * (len(over.args) == 1) + over.args
            start, stop, step = [*bounds, ast.Constant(1)][:3]
            item: ast.expr = load(following)
        else:
            start, step = ast.Constant(0), ast.Constant(1)
            stop, item_at = self.sequence(over, before, (f"{unique}_{number}" for number in count()))
            item = item_at(load(following))
        before += [assign(following, start), assign(end, stop), assign(stride, step)]
        upward = ast.Compare(load(following), [ast.Lt()], [load(end)])
        downward = ast.Compare(load(following), [ast.Gt()], [load(end)])
        is_upward = isinstance(step, ast.Constant) and isinstance(step.value, int) and step.value > 0
        test: ast.expr = (
            upward
            if is_upward
            else ast.IfExp(ast.Compare(load(stride), [ast.Gt()], [ast.Constant(0)]), upward, downward)
        )
        first: list[ast.stmt] = [
            ast.Assign([copy_tree(node.target)], item),
            ast.Assign([ast.Name(following, ast.Store())], ast.BinOp(load(following), ast.Add(), load(stride))),
        ]
        return before, test, first

    def is_invariant(self, node: ast.expr) -> bool:
        """Return True for an integer literal, or a variable that is never reassigned."""
        return _is_integer(node) or (isinstance(node, ast.Name) and node.id not in self.changing)

    def sequence(
        self, over: ast.expr, before: list[ast.stmt], names: Iterator[str]
    ) -> tuple[ast.expr, Callable[[ast.expr], ast.expr]]:
        """Return the length of a loop's iterable, and the function that returns the item at an index.

        The items of a range have a type, int32, int64 or uint64, that follows from its bounds.

        Args:
            over: The expression after ``in``, or a part of it.
            before: Statements before the loop, to which the evaluation of ``over`` is added.
            names: The numbers of new variables.
        """
        called = over.func if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) else None
        function = called.id.removeprefix(GENERATED) if called else ""
        given: list[ast.expr] = over.args if isinstance(over, ast.Call) else []
        if _is_range(over):
            over.args = [self.fixed(argument, before, names) for argument in given]
            return _length(over), lambda place: ast.Call(load(RANGE_ITEM), [copy_tree(over), place], [])
        if function == "builtins_enumerate" and 1 <= len(given) <= 2:
            length, item = self.sequence(given[0], before, names)
            first = [self.fixed(argument, before, names) for argument in given[1:]]

            def numbered(place: ast.expr) -> ast.expr:
                number = ast.BinOp(copy_tree(first[0]), ast.Add(), place) if first else place
                return ast.Tuple([number, item(place)], ast.Load())

            return length, numbered
        if function == "builtins_zip" and given:
            lengths, items = zip(*(self.sequence(argument, before, names) for argument in given), strict=True)
            shortest, *others = (self.fixed(length, before, names) for length in lengths)
            for length in others:
                is_shorter = ast.Compare(copy_tree(length), [ast.Lt()], [copy_tree(shortest)])
                shortest = self.fixed(ast.IfExp(is_shorter, length, shortest), before, names)
            return shortest, lambda place: ast.Tuple([item(copy_tree(place)) for item in items], ast.Load())
        if function == "builtins_reversed" and len(given) == 1:
            length, item = self.sequence(given[0], before, names)
            last = self.fixed(ast.BinOp(length, ast.Sub(), ast.Constant(1)), before, names)
            return length, lambda place: item(ast.BinOp(copy_tree(last), ast.Sub(), place))
        if function == "numpy_ndindex" and given:
            return self.indices(given[0] if len(given) == 1 else ast.Tuple(given, ast.Load()), before, names)
        if function == "numpy_ndenumerate" and len(given) == 1:
            array = self.fixed(given[0], before, names)
            length, indices = self.indices(ast.Attribute(array, "shape", ast.Load()), before, names)
            flat = ast.Attribute(array, "flat", ast.Load())
            return length, lambda place: ast.Tuple([indices(copy_tree(place)), _item(flat, place)], ast.Load())
        if isinstance(over, ast.Attribute) and over.attr == "flat":
            over.value = self.fixed(over.value, before, names)
            return ast.Attribute(copy_tree(over.value), "size", ast.Load()), lambda place: _item(over, place)
        if function and not isinstance(called, FunctionName):
            name = function.removeprefix("builtins_").replace("_", ".")
            refuse(
                over,
                f"a loop that contains a barrier cannot iterate over {name}(...): iterate over a range and index the "
                "elements",
            )
        sequence = self.fixed(over, before, names)
        return _length(sequence), lambda place: _item(sequence, place)

    def indices(
        self, shape: ast.expr, before: list[ast.stmt], names: Iterator[str]
    ) -> tuple[ast.expr, Callable[[ast.expr], ast.expr]]:
        """Return the number of indices of arrays of a shape, and the function that returns one by its position."""
        if isinstance(shape, ast.Tuple):
            shape = ast.Tuple([self.fixed(length, before, names) for length in shape.elts], ast.Load())
            length: ast.expr = shape.elts[0]
            for further in shape.elts[1:]:
                length = ast.BinOp(copy_tree(length), ast.Mult(), copy_tree(further))
        elif isinstance(shape, ast.Attribute) and shape.attr == "shape":
            length = ast.Attribute(copy_tree(shape.value), "size", ast.Load())
        else:
            refuse(
                shape,
                "np.ndindex of a variable, in a loop that contains a barrier: give it the shape of an array, or "
                "numbers",
            )
        return length, lambda place: ast.Call(load(SHAPE_ITEM), [copy_tree(shape), place], [])

    def fixed(self, node: ast.expr, before: list[ast.stmt], names: Iterator[str]) -> ast.expr:
        """Return an expression for the value of another before the loop, without side effects."""
        if self.is_invariant(node):
            return node
        name = f"{GENERATED}items_{next(names)}"
        before.append(at(node, assign(name, node)))
        return load(name)

    def jump(self, node: ast.stmt, flags: _Flags | None) -> list[ast.stmt]:
        if isinstance(node, ast.Return):
            statements: list[ast.stmt] = []
            if node.value is not None and self.result is not None:
                statements.append(at(node, ast.Assign([copy_tree(self.result)], node.value)))
            return [*statements, at(node, assign(self.returned, ast.Constant(True)))]
        assert flags is not None
        flag = flags.broken if isinstance(node, ast.Break) else flags.continued
        return [at(node, assign(flag, ast.Constant(True)))]

    def still_here(self, statement: ast.stmt, flags: _Flags | None) -> ast.expr:
        tests = []
        for kind in sorted(jumps_out_of(statement)):
            if kind == "return":
                tests.append(negate(load(self.returned)))
            elif flags is not None:
                tests.append(negate(load(flags.broken if kind == "break" else flags.continued)))
        return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)


def _item(items: ast.expr, place: ast.expr) -> ast.expr:
    return ast.Subscript(copy_tree(items), place, ast.Load())


def _length(items: ast.expr) -> ast.expr:
    return ast.Call(load(LEN), [copy_tree(items)], [])


def _is_range(node: ast.expr) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == RANGE and 1 <= len(node.args) <= 3


def _is_integer(node: ast.expr) -> bool:
    """Return True for an integer literal, which is an int64."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int


def _without_assignments_to(name: str, statements: list[ast.stmt]) -> list[ast.stmt]:
    class Remover(ast.NodeTransformer):
        def visit_Assign(self, node: ast.Assign) -> ast.stmt:
            return at(node, ast.Pass()) if stored_names(node.targets) == {name} else node

    return [Remover().visit(statement) for statement in statements]


def jumps_out_of(node: ast.stmt) -> set[str]:
    """Return the jumps that leave a statement: ``return``, and ``break`` or ``continue`` of an enclosing loop."""
    if isinstance(node, ast.Return):
        return {"return"}
    if isinstance(node, ast.Break):
        return {"break"}
    if isinstance(node, ast.Continue):
        return {"continue"}
    if isinstance(node, (ast.For, ast.While)):
        return (_jumps_among(node.body) & {"return"}) | _jumps_among(node.orelse)
    return _jumps_among([*node.body, *node.orelse]) if isinstance(node, ast.If) else set()


def _jumps_among(statements: list[ast.stmt]) -> set[str]:
    return {jump for statement in statements for jump in jumps_out_of(statement)}


def _always_jumps(statements: list[ast.stmt]) -> bool:
    for statement in statements:
        if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
            return True
        if isinstance(statement, ast.If) and _always_jumps(statement.body) and _always_jumps(statement.orelse):
            return True
    return False
