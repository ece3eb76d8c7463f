"""Functions as values within a function: inner ``def`` and ``lambda``, and variables and tuples that hold functions.

Each use of such a name is replaced by its value, so that every call names its function; a name with several possible
functions at one place is an error. Modules, types and ``cuda.threadIdx`` in variables are treated alike. Variables that
an inner function captures become further parameters of it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from types import ModuleType

from warpdrive.kernels.errors import refuse
from warpdrive.kernels.name_lookup import LITERALS, LOCAL, is_function_or_type, look_up
from warpdrive.kernels.plain_statements import with_plain_statements
from warpdrive.kernels.source import Closure, FunctionFacts, FunctionSource
from warpdrive.kernels.syntax import (
    GENERATED,
    assign,
    at,
    copy_tree,
    is_bare_call,
    load,
    stored_names,
    walk,
    walk_scope,
)

_SEVERAL = ast.Constant("several")
"""Value of a variable that may be one of several functions."""
_NUMBER = ast.Constant("number")
"""Value of a variable that is not a function."""

_Values = dict[str, ast.expr]
"""Values of variables: the expression of a function or of a tuple with functions, or one of the two sentinels above."""


def explicit(source: FunctionSource) -> FunctionSource:
    """Return a function in which no variable holds a function, and which has no inner functions.

    The syntax tree for the same functions is always the same object.

    Args:
        source: The function.

    Returns:
        The function, or an equivalent one.

    Raises:
        KernelError: If a variable is used that may hold one function or another, or a tuple that holds functions is
            used other than with constant indices; if an inner function is decorated, calls itself, or has parameters
            other than plain named ones.
    """
    facts = source.facts
    if facts.is_explicit:
        return source
    sizes = {text: size for text, node in facts.assigned_names.items() if (size := _size(node, source)) is not None}
    if not sizes and not facts.has_inner_functions:
        return source
    outcomes = {text: outcome for text, node in facts.tests.items() if (outcome := _outcome(node, source)) is not None}
    key = (*sizes.items(), *outcomes.items())
    if key not in facts.explicit:
        tree = copy_tree(source.tree)
        tree.body = _Scope({**sizes, **outcomes}, tree, {}, count()).block(tree.body)
        facts.explicit[key] = FunctionFacts(tree, is_explicit=True)
    found = facts.explicit[key]
    return FunctionSource(found.tree, source.file, source.namespace, found, source.defaults)


def _size(node: ast.expr, source: FunctionSource) -> int | None:
    """Return the length of a global tuple of functions, 0 for a function, type or module, None for anything else."""
    value = look_up(node, source, source.facts.local_names)
    if isinstance(value, tuple):
        return len(value) if any(map(is_function_or_type, value)) else None
    return 0 if is_function_or_type(value) or isinstance(value, ModuleType) else None


def _outcome(test: ast.expr, source: FunctionSource) -> bool | None:
    """Return the outcome of a condition on numbers and strings of the module, or None if it has other parts."""
    names = {node.id: source.namespace.get(node.id, LOCAL) for node in walk([test]) if isinstance(node, ast.Name)}
    if not all(value is None or isinstance(value, (*LITERALS, str)) for value in names.values()):
        return None
    return bool(eval(compile(ast.fix_missing_locations(ast.Expression(copy_tree(test))), "", "eval"), {}, names))


class _Scope(ast.NodeTransformer):
    """Rewriting of the body of one function.

    Args:
        sizes: The global names of functions and of tuples of functions, with the lengths of the tuples, see ``_size``,
            and conditions with their outcomes.
        tree: The function.
        values: Values of the variables of enclosing functions.
        numbers: The numbers of new variables.
    """

    def __init__(
        self, sizes: Mapping[str, int], tree: ast.FunctionDef, values: _Values, numbers: Iterator[int]
    ) -> None:
        self.sizes, self.values, self.numbers = sizes, values, numbers
        facts = FunctionFacts(tree)
        self.local_names, self.once = facts.local_names | values.keys(), facts.assigned_once
        self.defined_once = _defined_once(tree.body) | values.keys()
        self.before: list[ast.stmt] = []
        self.breaks: list[list[_Values]] = []
        self.is_reached = True

    def block(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        return [new for node in statements for new in self.statement(node)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """Return the statements that replace one."""
        if isinstance(node, ast.FunctionDef):
            if node.decorator_list:
                refuse(node, f"the inner function '{node.name}' is decorated: define it outside, or without decorator")
            self.values[node.name] = self.function(node, node.name, node.args, node.body)
            return [*self.statements_before(), at(node, ast.Pass())]
        if isinstance(node, ast.If):
            return self.branch(node)
        if isinstance(node, (ast.For, ast.While)):
            return self.loop(node)
        if isinstance(node, ast.Assign):
            node.value = self.visit(node.value)
            are_names = all(isinstance(target, (ast.Name, ast.Tuple, ast.List)) for target in node.targets)
            if are_names and self.holds_functions(node.value):
                return self.assignment(node)
            node.targets = [self.visit(target) for target in node.targets]
        else:
            self.generic_visit(node)
            if isinstance(node, ast.Expr) and self.holds_functions(node.value):
                return [at(node, ast.Pass())]
        self.values |= dict.fromkeys(stored_names([node]), _NUMBER)
        if isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
            if isinstance(node, ast.Break) and self.breaks:
                self.breaks[-1].append(self.values)
            self.is_reached = False
        return [*self.statements_before(), node]

    def statements_before(self) -> list[ast.stmt]:
        before, self.before = self.before, []
        return before

    def branch(self, node: ast.If) -> list[ast.stmt]:
        if _text(node.test) in self.sizes:
            return self.block(node.body if self.sizes[_text(node.test)] else node.orelse)
        node.test = self.visit(node.test)
        before, values, is_reached = self.statements_before(), self.values, self.is_reached
        ways = []
        for name in ("body", "orelse"):
            self.values, self.is_reached = dict(values), is_reached
            setattr(node, name, self.block(getattr(node, name)))
            ways += [self.values] * self.is_reached
        self.values, self.is_reached = _merged(ways or [self.values]), bool(ways)
        return [*before, node]

    def loop(self, node: ast.For | ast.While) -> list[ast.stmt]:
        if isinstance(node, ast.For):
            node.iter = self.visit(node.iter)
            if self.holds_functions(node.iter):
                refuse(node, f"{_IN_A_TUPLE}: call them one after the other")
        before = self.statements_before()
        changing = stored_names(node.body) | _defined_names(node.body)
        for name in changing & self.values.keys():
            if self.values[name] is not _NUMBER:
                self.values[name] = _SEVERAL
        first = dict(self.values)
        if isinstance(node, ast.For):
            self.values |= dict.fromkeys(stored_names([node.target]), _NUMBER)
        else:
            node.test = self.visit(node.test)
            if self.before:
                refuse(
                    node.test,
                    "a lambda with a default argument, in the condition of a while loop: define it before the loop",
                )
        self.breaks.append([])
        node.body = self.block(node.body)
        ways = [first, *([self.values] if self.is_reached else [])]
        self.values, self.is_reached = _merged(ways), True
        node.orelse = self.block(node.orelse)
        self.values = _merged([*([self.values] if self.is_reached else []), *self.breaks.pop()] or [first])
        self.is_reached = True
        return [*before, node]

    def assignment(self, node: ast.Assign) -> list[ast.stmt]:
        """Record the values of the targets of an assignment; numbers in tuples are assigned to separate variables."""
        value = self.fixed(node.value)
        assigned = [new for target in node.targets for new in self.assigned(target, value)]
        return [*self.statements_before(), *assigned, at(node, ast.Pass())]

    def assigned(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        if isinstance(target, ast.Name):
            is_function = self.holds_functions(value)
            self.values[target.id] = value if is_function else _NUMBER
            return [] if is_function else [at(target, ast.Assign([target], copy_tree(value)))]
        parts = self.elements(value)
        if not isinstance(target, (ast.Tuple, ast.List)) or parts is None or len(parts) != len(target.elts):
            refuse(target, f"{_IN_A_TUPLE}: assign each of its elements to a variable")
        return [new for inner, part in zip(target.elts, parts, strict=True) for new in self.assigned(inner, part)]

    def fixed(self, value: ast.expr) -> ast.expr:
        """Return an expression with functions whose other parts are variables that never change."""
        if isinstance(value, ast.Tuple):
            return at(value, ast.Tuple([self.fixed(part) for part in value.elts], ast.Load()))
        is_global = isinstance(value, ast.Name) and self.is_global(value.id)
        if is_global or self.holds_functions(value) or isinstance(value, ast.Constant):
            return value
        name = f"{GENERATED}fixed_{next(self.numbers)}"
        self.before.append(at(value, assign(name, value)))
        return at(value, load(name))

    def elements(self, value: ast.expr) -> list[ast.expr] | None:
        """Return the elements of a tuple that holds functions, or None."""
        if isinstance(value, ast.Tuple):
            return value.elts
        size = self.sizes.get(_text(value), 0)
        return [at(value, ast.Subscript(copy_tree(value), ast.Constant(k), ast.Load())) for k in range(size)] or None

    def holds_functions(self, node: ast.expr) -> bool:
        """Return True if an expression, after rewriting, is a function, or a tuple with functions."""
        if isinstance(node, ast.Tuple):
            return any(map(self.holds_functions, node.elts))
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self.sizes.get(_text(node.value), 0) > 0
        return isinstance(getattr(node, "value", None), Closure) or _text(node) in self.sizes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.values.get(node.id, _NUMBER)
        if not isinstance(node.ctx, ast.Load) or value is _NUMBER:
            return node
        if value is _SEVERAL:
            refuse(node, f"'{node.id}' may hold one function or another here: call each of them in its branch")
        return at(node, copy_tree(value))

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        outcome = self.sizes.get(_text(node.test))
        if outcome is None:
            return self.generic_visit(node)  # type: ignore[return-value]
        return self.visit(node.body if outcome else node.orelse)  # type: ignore[no-any-return]

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        returned = at(node, ast.Return(node.body))
        return self.function(node, "lambda_function", node.args, [returned])

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        elements = self.elements(node.value) if self.holds_functions(node.value) else None
        if elements is None:
            return node
        index = _integer(node.slice)
        if index is None or not -len(elements) <= index < len(elements):
            refuse(node, f"{_IN_A_TUPLE}: index it with a constant")
        return at(node, copy_tree(elements[index]))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        called = getattr(node.func, "value", None)
        node.args = [self.escaping(argument) for argument in node.args]
        for word in node.keywords:
            word.value = self.escaping(word.value)
        if isinstance(called, Closure):
            is_starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            named = called.facts.parameters[: called.count if is_starred else len(node.args)]
            given = {*named, *(word.arg for word in node.keywords)}
            added = {name: value for name, value in called.given.items() if name not in given}
            node.keywords += [
                ast.keyword(name, self.escaping(self.visit(copy_tree(value)))) for name, value in added.items()
            ]
        return at(node, node)

    def function(self, node: ast.AST, name: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.expr:
        """Return the expression of an inner function."""
        if arguments.vararg or arguments.kwarg or arguments.posonlyargs or arguments.kwonlyargs:
            refuse(node, "an inner function has parameters with '*': name each of them")
        defaults = [self.fixed(self.visit(default)) for default in arguments.defaults]
        parameters = [argument.arg for argument in arguments.args]
        own_count = len(parameters)
        given = dict(zip(parameters[own_count - len(defaults) :], defaults, strict=True))
        body = with_plain_statements(copy_tree(body))
        tree = at(node, _definition(name, parameters, body))
        own = FunctionFacts(tree).local_names
        values: _Values = {}
        for captured in sorted(_free_names(body, own) & self.local_names):
            value = self.values.get(captured, _NUMBER)
            if captured == name and captured not in self.values:
                refuse(node, f"the inner function '{name}' calls itself: define it outside of the kernel")
            if value is _NUMBER:
                parameters.append(captured)
                given[captured] = at(node, load(captured))
            elif captured not in self.defined_once:
                values[captured] = _SEVERAL
            else:
                values[captured] = self.passed_on(value, parameters, given)
        tree = at(node, _definition(name, parameters, body))
        sizes = {text: size for text, size in self.sizes.items() if text.split(".")[0] not in own}
        tree.body = _Scope(sizes, tree, values, self.numbers).block(tree.body)
        facts = FunctionFacts(tree, is_explicit=True)
        return _function(node, Closure(facts, own_count, given))

    def escaping(self, node: ast.expr) -> ast.expr:
        """Return an argument of a call; in an inner function, captured constants become local variables."""
        if isinstance(node, ast.Tuple):
            node.elts = [self.escaping(element) for element in node.elts]
        closure = getattr(node, "value", None)
        if not isinstance(closure, Closure) or not closure.given:
            return node
        own: list[ast.stmt] = []
        for name, given in closure.given.items():
            value = self.once.get(given.id, given) if isinstance(given, ast.Name) else given
            if not isinstance(value, ast.Constant) and not (isinstance(value, ast.Name) and self.is_global(value.id)):
                refuse(node, f"an inner function that reads '{name}' is passed on: it may only read constants")
            own.append(at(value, assign(name, copy_tree(value))))
        tree = closure.facts.tree
        parameters = [name for name in closure.facts.parameters if name not in closure.given]
        tree = at(node, _definition(tree.name, parameters, [*own, *copy_tree(tree.body)]))
        return _function(node, Closure(FunctionFacts(tree, is_explicit=True), len(parameters), {}))

    def is_global(self, name: str) -> bool:
        return name not in self.local_names and not name.startswith(GENERATED)

    def passed_on(self, value: ast.expr, parameters: list[str], given: dict[str, ast.expr]) -> ast.expr:
        """Return an expression of a function for use in an inner one, whose further parameters are added."""
        if isinstance(value, ast.Tuple):
            parts = [self.passed_on(part, parameters, given) for part in value.elts]
            return at(value, ast.Tuple(parts, ast.Load()))
        closure = getattr(value, "value", None)
        if isinstance(closure, Closure):
            inner = {name: self.passed_on(part, parameters, given) for name, part in closure.given.items()}
            return _function(value, Closure(closure.facts, closure.count, inner))
        if isinstance(value, ast.Name) and not self.is_global(value.id):
            name = f"{GENERATED}passed_{next(self.numbers)}"
            parameters.append(name)
            given[name] = value
            return at(value, load(name))
        return value


_IN_A_TUPLE = "functions are in this tuple"


def _definition(name: str, parameters: Sequence[str], body: list[ast.stmt]) -> ast.FunctionDef:
    arguments = ast.arguments([], [ast.arg(parameter) for parameter in parameters], None, [], [], None, [])
    return ast.FunctionDef(name, arguments, body, [], None)


def _function(place: ast.AST, closure: Closure) -> ast.expr:
    return at(place, ast.Constant(closure))  # type: ignore[arg-type]


def _merged(ways: Sequence[_Values]) -> _Values:
    """Return the values of variables where several paths join; on some of them a variable may be unassigned."""
    merged = dict(ways[0])
    for values in ways[1:]:
        for name, value in values.items():
            known = merged.setdefault(name, value)
            if known is not value and ast.dump(known) != ast.dump(value):
                merged[name] = _SEVERAL
    return merged


def _defined_once(body: list[ast.stmt]) -> set[str]:
    """Return the names that are defined by one assignment or one ``def``."""
    nodes = [*walk_scope(body)]
    stores = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    counts = Counter([*stores, *(node.name for node in nodes if isinstance(node, ast.FunctionDef))])
    return {name for name, times in counts.items() if times == 1}


def _defined_names(body: list[ast.stmt]) -> set[str]:
    return {node.name for node in walk_scope(body) if isinstance(node, ast.FunctionDef)}


def _free_names(body: list[ast.stmt], own: Iterable[str]) -> set[str]:
    """Return the names that a function reads and does not define, with those of its inner functions."""
    found: set[str] = set()
    for node in walk_scope(body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.Lambda)):
            inner: list[ast.stmt] = node.body if isinstance(node, ast.FunctionDef) else [ast.Expr(node.body)]
            names = [argument.arg for argument in node.args.args]
            found |= _free_names(inner, FunctionFacts(_definition("inner", names, inner)).local_names)
    return found - set(own)


def _text(node: ast.expr) -> str:
    is_dotted = isinstance(node, (ast.Name, ast.Attribute, ast.Compare, ast.UnaryOp)) or is_bare_call(node)
    return ast.unparse(node) if is_dotted else ""


def _integer(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int) else None
