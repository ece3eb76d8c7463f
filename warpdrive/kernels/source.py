"""Source code of kernel functions: the syntax tree and the namespace of the free names.

Every node keeps the author's file and line.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import linecache
import sys
import tokenize
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from warpdrive.kernels.errors import KernelError, refuse
from warpdrive.kernels.executed_text import lines_of
from warpdrive.kernels.language import Intrinsic
from warpdrive.kernels.plain_statements import with_plain_statements
from warpdrive.kernels.syntax import GENERATED, is_bare_call, stored_names, walk, walk_scope


class FunctionFacts:
    """Properties of a function that follow from its syntax tree alone, computed on first use.

    Args:
        tree: The syntax tree of the ``def`` statement, which must not be modified afterwards.
        is_explicit: If True, the function has no inner functions, and no variable holds a function.
    """

    def __init__(self, tree: ast.FunctionDef, is_explicit: bool = False) -> None:
        self.tree, self.is_explicit = tree, is_explicit
        self.bound: dict[tuple[tuple[str, Any], ...], tuple[FunctionFacts, Any]] = {}
        self.explicit: dict[tuple[tuple[str, int], ...], FunctionFacts] = {}

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, in order; the last one may be that of a tuple, see ``rest``."""
        return (*(argument.arg for argument in self.tree.args.args), *filter(None, [self.rest]))

    @cached_property
    def rest(self) -> str | None:
        """The name of the parameter for the tuple of further arguments, as in ``def f(x, *rest)``."""
        return self.tree.args.vararg.arg if self.tree.args.vararg else None

    @cached_property
    def stored_names(self) -> frozenset[str]:
        """The names that are assigned, except in inner functions."""
        nodes = walk_scope(self.tree.body)
        return frozenset(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))

    @cached_property
    def local_names(self) -> frozenset[str]:
        """The names of parameters, variables, and inner definitions and imports."""
        nodes = [*walk_scope(self.tree.body)]
        defined = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        imported = {(node.asname or node.name).split(".")[0] for node in nodes if isinstance(node, ast.alias)}
        return frozenset({*self.parameters, *defined, *imported, *self.stored_names})

    @cached_property
    def has_inner_functions(self) -> bool:
        """True if there are inner functions."""
        return any(isinstance(node, (ast.FunctionDef, ast.Lambda)) for node in walk_scope(self.tree.body))

    @cached_property
    def bound_names(self) -> frozenset[str]:
        """The names of parameters and variables, also of inner functions."""
        nodes = [*walk([self.tree])]
        bound = {node.arg for node in nodes if isinstance(node, ast.arg)} | stored_names(nodes)
        return frozenset(bound | {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))})

    @cached_property
    def tests(self) -> dict[str, ast.expr]:
        """The conditions, by their text, that depend on names of the module and constants only."""
        tests = [node.test for node in walk([self.tree]) if isinstance(node, (ast.If, ast.IfExp))]
        plain = (ast.Name, ast.Constant, ast.Compare, ast.UnaryOp, ast.cmpop, ast.unaryop, ast.Load)
        return {
            ast.unparse(test): test
            for test in tests
            if all(
                isinstance(node, plain) and getattr(node, "id", "") not in self.bound_names for node in ast.walk(test)
            )
        }

    @cached_property
    def assigned_names(self) -> dict[str, ast.expr]:
        """The dotted names of the module that are assigned to variables, also in tuples, by their text."""
        nodes = [node for node in walk([self.tree]) if isinstance(node, (ast.Assign, ast.Expr, ast.For))]
        values = [node.iter if isinstance(node, ast.For) else node.value for node in nodes]
        names = [part for value in values for part in _dotted_parts(value)]
        return {
            text: node
            for node in names
            if (text := ast.unparse(node)).removesuffix("()").split(".")[0] not in self.bound_names
        }

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """The calls in the function."""
        return tuple(node for node in walk(self.tree.body) if isinstance(node, ast.Call))

    @cached_property
    def assigned_once(self) -> dict[str, ast.expr]:
        """The values of variables that are assigned in one place, by name."""
        body = self.tree.body
        stores = Counter(n.id for n in walk(body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        assignments = [node for node in walk(body) if isinstance(node, ast.Assign) and len(node.targets) == 1]
        values = {node.targets[0].id: node.value for node in assignments if isinstance(node.targets[0], ast.Name)}
        return {name: value for name, value in values.items() if stores[name] == 1 and name not in self.parameters}


def _dotted_parts(node: ast.expr) -> list[ast.expr]:
    """Return the dotted names that an expression is, or has as its elements."""
    if isinstance(node, ast.Tuple):
        return [part for element in node.elts for part in _dotted_parts(element)]
    if is_bare_call(node):
        return [node]
    if isinstance(node, ast.IfExp):
        return _dotted_parts(node.body) + _dotted_parts(node.orelse)
    owner = node
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return (
        [node] if isinstance(owner, ast.Name) else _dotted_parts(node.value) if isinstance(node, ast.Subscript) else []
    )


@dataclass(frozen=True)
class Closure:
    """An inner function, as the value of a constant in a syntax tree.

    Attributes:
        facts: The function, with the variables that it captures as its last parameters.
        count: The number of its own parameters.
        given: Expressions of the enclosing function for arguments that a call does not name: captured variables and
            defaults.
    """

    facts: FunctionFacts
    count: int
    given: Mapping[str, ast.expr]

    def source(self, outer: FunctionSource) -> FunctionSource:
        """Return the source of the function, which is defined in another."""
        return FunctionSource(self.facts.tree, outer.file, outer.namespace, self.facts)


@dataclass(frozen=True)
class FunctionSource:
    """The source of one function as written by the user.

    Every node of ``tree`` has the attributes ``file`` and ``lineno``, so that error messages refer to the user's line
    after any transformation of the tree.

    Attributes:
        tree: The syntax tree of the ``def`` statement, without decorators.
        file: The file name in error messages.
        namespace: The values of the free names: closure, globals and builtins.
        facts: Properties that follow from the tree.
        defaults: The default values of parameters.
        is_inlined: If False, the CPU backend never inlines it.
    """

    tree: ast.FunctionDef
    file: str
    namespace: Mapping[str, Any]
    facts: FunctionFacts = field(repr=False, compare=False)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    is_inlined: bool = True

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.tree.name

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, in order."""
        return self.facts.parameters

    def bind(self, values: Mapping[str, Any]) -> FunctionSource:
        """Return the function with free names in place of some parameters, which it never assigns.

        The syntax tree for the same values is always the same object.
        """
        if not values:
            return self
        key = tuple((name, _identity_of(values[name])) for name in sorted(values))
        if key not in self.facts.bound:
            tree = copy.copy(self.tree)
            tree.args = copy.copy(tree.args)
            tree.args.args = [argument for argument in tree.args.args if argument.arg not in values]
            tree.args.vararg = None if self.facts.rest in values else tree.args.vararg
            self.facts.bound[key] = FunctionFacts(tree), tuple(values.values())  # an id lasts as long as its object
        facts, _ = self.facts.bound[key]
        defaults = {name: value for name, value in self.defaults.items() if name not in values}
        return FunctionSource(facts.tree, self.file, {**self.namespace, **values}, facts, defaults, self.is_inlined)


def read_function(function: FunctionType) -> FunctionSource:
    """Return the source of a Python function.

    The syntax tree of a function is always the same object, while its namespace and defaults are read on each call.
    Raises :class:`KernelError` if the source cannot be found, or is no plain ``def``.
    """
    if function not in _read:
        _read[function] = _read_text(function)
    return replace(_read[function], namespace=_namespace_of(function), defaults=_defaults_of(function))


def _identity_of(value: Any) -> str | int:
    """Return the identity of a bound value; for an intrinsic, a new object at each lookup, its dotted name."""
    return value.path if isinstance(value, Intrinsic) else id(value)


_read: WeakKeyDictionary[FunctionType, FunctionSource] = WeakKeyDictionary()


def _read_text(function: FunctionType) -> FunctionSource:
    file = inspect.getsourcefile(function) or function.__code__.co_filename
    try:
        if function.__name__ == "<lambda>":
            return _read_lambda(function, _cell_of(file) or file)
        kept = lines_of(function)
        first = function.__code__.co_firstlineno
        lines, first_line = inspect.getsourcelines(function) if kept is None else (kept, first)
    except (OSError, TypeError, SyntaxError, IndexError, tokenize.TokenError):
        raise _unreadable(function, file) from None
    cell = _cell_of(file)
    if cell is not None:  # tracebacks, debuggers and messages look it up by label
        whole = linecache.getlines(file)
        linecache.cache[cell] = len("".join(whole)), None, whole, cell
    source = parse_function("".join(lines), cell or file, first_line, {}, otherwise=_unreadable(function, file))
    if not _is_read_from(function, source):  # the file holds other text by now
        raise _unreadable(function, file)
    return source


def _is_read_from(function: FunctionType, source: FunctionSource) -> bool:
    """Return True if the name and the parameters of a source match those of the function."""
    code = function.__code__
    names = [(source.name, code.co_name), *zip(source.parameters, code.co_varnames, strict=False)]
    is_same = all(own.endswith(read) for read, own in names)  # within a class, Python mangles __parameter
    return is_same and len(source.tree.args.args) == code.co_argcount


def _unreadable(function: FunctionType, file: str) -> KernelError:
    """Return the error for a function whose source Python does not keep, or whose file holds other text."""
    what = f"the source of kernel function '{function.__name__}' cannot be read ({file}): "
    where = "write the function into a file and import it, or use IPython or a notebook"
    if file.startswith("<stdin>"):
        later = "" if sys.version_info >= (3, 13) else "; from Python 3.13 on the prompt keeps it"
        return KernelError(
            f"{what}Python does not keep source entered at its prompt or on standard input: {where}{later}"
        )
    if file.startswith("<"):
        return KernelError(f"{what}Python does not keep source run by exec or python -c: {where}")
    return KernelError(f"{what}the file does not exist, or differs from the imported one: {where}")


def _read_lambda(function: FunctionType, file: str) -> FunctionSource:
    """Read a lambda as the equivalent ``def``."""
    lines, _ = inspect.findsource(function)
    first_line = function.__code__.co_firstlineno
    found = [
        node
        for node in ast.walk(ast.parse("".join(lines)))
        if isinstance(node, ast.Lambda) and node.lineno == first_line and _is_of(node, function)
    ]
    if len(found) != 1:
        raise KernelError(f"{file}:{first_line}: the lambdas on this line cannot be distinguished: use a 'def'")
    parameters, value = ast.unparse(found[0].args), ast.unparse(found[0].body)
    source = parse_function(f"def lambda_function({parameters}):\n    return {value}", file, first_line, {})
    for node in ast.walk(source.tree):
        if hasattr(node, "lineno"):
            node.lineno = node.end_lineno = first_line  # type: ignore[attr-defined]
    return source


def _is_of(node: ast.Lambda, function: FunctionType) -> bool:
    """Return True if the code of a lambda expression matches that of the function."""
    (code,) = (c for c in compile(ast.Expression(node), "<lambda>", "eval").co_consts if isinstance(c, CodeType))
    own = function.__code__
    if own.co_freevars:  # these are globals in ``code``
        names = {*code.co_names, *code.co_freevars}, {*own.co_names, *own.co_freevars}
        return (code.co_varnames, code.co_consts, names[0]) == (own.co_varnames, own.co_consts, names[1])
    return (code.co_varnames, code.co_consts, code.co_names, code.co_code) == (
        own.co_varnames,
        own.co_consts,
        own.co_names,
        own.co_code,
    )


def _cell_of(file: str) -> str | None:
    """Return IPython's label of the notebook cell with the given file name, or None if it is no cell."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython else None
    cell = shell.compile.format_code_name(file) if hasattr(shell, "compile") else None
    return " ".join(cell) if cell else None


def parse_function(
    text: str,
    file: str,
    first_line: int,
    namespace: Mapping[str, Any],
    otherwise: KernelError | None = None,
    is_generated: bool = False,
) -> FunctionSource:
    """Parse the text of one ``def`` statement.

    Args:
        text: The text, possibly indented.
        file: The file name in error messages.
        first_line: The line number of the statement in ``file``, from 1.
        namespace: The values of the free names.
        otherwise: The error raised if the text does not parse to a function.
        is_generated: If True, it may contain names that are reserved for the library.

    Returns:
        The source.

    Raises:
        KernelError: If the text is no plain ``def``, has parameters other than plain named ones, or reserved names.
    """
    is_indented = text[:1].isspace()
    try:
        (tree,) = ast.parse("if True:\n" + text if is_indented else text).body
        if is_indented:
            (tree,) = tree.body  # type: ignore[attr-defined]
    except (SyntaxError, ValueError):
        tree = None
    if not isinstance(tree, ast.FunctionDef):
        if otherwise is not None and not isinstance(tree, ast.AsyncFunctionDef):
            raise otherwise
        raise KernelError(f"{file}:{first_line}: a kernel function is a plain 'def', not async or a lambda")
    ast.increment_lineno(tree, first_line - 1 - is_indented)
    for node in ast.walk(tree):
        node.file = file  # type: ignore[attr-defined]
        if not is_generated and str(getattr(node, "id", getattr(node, "arg", ""))).startswith(GENERATED):
            refuse(node, f"names that begin with '{GENERATED}' are reserved for the library")
    arguments = tree.args
    if arguments.kwarg or arguments.kwonlyargs:
        raise KernelError(
            f"{file}:{tree.lineno}: '{tree.name}' has keyword-only parameters: a kernel function has plain named ones"
        )
    arguments.args, arguments.posonlyargs = [*arguments.posonlyargs, *arguments.args], []
    tree.decorator_list = []
    tree.body = with_plain_statements(tree.body)
    return FunctionSource(tree, file, namespace, FunctionFacts(tree))


def _namespace_of(function: FunctionType) -> dict[str, Any]:
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = {name: cell.cell_contents for name, cell in cells.items() if _is_filled(cell)}
    return {**vars(builtins), **function.__globals__, **closure}


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  (an empty cell raises)
    except ValueError:
        return False
    return True


def _defaults_of(function: FunctionType) -> dict[str, Any]:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    values = function.__defaults__ or ()
    return dict(zip(names[len(names) - len(values) :], values, strict=True))
