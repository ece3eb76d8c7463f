"""Name resolution of a kernel function and all functions it calls.

The body of the resulting :class:`Function` is independent of the user's namespace: constants are literals or entries
of a table, members of ``numba.cuda`` are :class:`IntrinsicName` nodes, and calls of device functions refer to other
resolved functions, with all arguments positional.
"""

from __future__ import annotations

import ast
import builtins
import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np

from warpdrive.errors import nearest
from warpdrive.kernels.classes import AuthorsClass
from warpdrive.kernels.compile_time import (
    DTYPE,
    dtype_parameters,
    place_of_dtype,
    shape_parameters,
    unassigned_parameters,
    with_local_constants,
)
from warpdrive.kernels.dtypes import dtype_text
from warpdrive.kernels.errors import refuse
from warpdrive.kernels.faults import Fault
from warpdrive.kernels.function_values import explicit
from warpdrive.kernels.kernel import DeviceFunction
from warpdrive.kernels.language import (
    ARRAYS,
    BARRIER,
    BARRIERS,
    DYNAMIC,
    GRID_BARRIER,
    KEYWORDS,
    LARGEST_ARRAY,
    PARAMETERS,
    SUPPORTED,
    THIS_GRID,
    VALUES,
    VOTES,
    Intrinsic,
)
from warpdrive.kernels.name_lookup import (
    LITERALS,
    LOCAL,
    dtype_named,
    functions_among,
    give_by_position,
    importable,
    look_up,
    names_in,
    source_of,
)
from warpdrive.kernels.none_pruning import without_dead_branches
from warpdrive.kernels.source import Closure, FunctionSource
from warpdrive.kernels.syntax import (
    GENERATED,
    FunctionName,
    IntrinsicName,
    SharedName,
    at,
    copy_tree,
    stored_names,
    synchronizes,
    walk,
    with_one_star,
)
from warpdrive.kernels.unsupported import SYNTAX, message_for_bare_member, refusal_of_function, unusable, used_as_value

MAX_VERSIONS = 20
"""Maximum number of nested specialisations of a recursive function, for different constants among its arguments."""


@dataclass
class Table:
    """Symbols shared by the resolved functions of one kernel.

    Attributes:
        constants: Arrays, NumPy scalars, tuples and non-finite floats, by generated name.
        shared: Shape and dtype of each array in shared memory.
        imports: Module and name of library functions.
        faults: The exceptions that the kernel may raise; their codes are the indices.
        classes: Named tuples and enumerations.
        members: Owner, name and value of the members of modules and classes that were read.
        may_change: True if the kernel calls a plain function, whose namespace is read in each call, or has constants
            that can be written to.
    """

    constants: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, tuple[tuple[int, ...], str]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    classes: dict[str, AuthorsClass] = field(default_factory=dict)
    members: list[tuple[Any, str, Any]] = field(default_factory=list)
    may_change: bool = False
    _functions: dict[tuple[Any, ...], Function] = field(default_factory=dict)
    _in_progress: list[str] = field(default_factory=list)


@dataclass
class Function:
    """A resolved function.

    Attributes:
        name: A name that is unique within the kernel.
        parameters: The names of the parameters, without those fixed at compile time.
        body: The resolved statements.
        source: The source of the function.
    """

    name: str
    parameters: list[str]
    body: list[ast.stmt]
    source: FunctionSource

    @cached_property
    def has_barrier(self) -> bool:
        """True if the function or one of its callees contains a barrier."""
        return any(synchronizes(function.body) for function in (self, *self.callees()))

    @cached_property
    def is_recursive(self) -> bool:
        """True if the function calls itself, also through others."""
        return any(called.name == self.name for function in (self, *self.callees()) for called in function.called())

    def called(self) -> list[Function]:
        """Return the functions that the function itself calls."""
        return [node.function for node in walk(self.body) if isinstance(node, FunctionName)]

    def callees(self) -> list[Function]:
        """Return all direct and indirect callees except the function itself, callees before callers."""
        found: dict[str, Function] = {}
        begun = {self.name}

        def visit(function: Function) -> None:
            for called in function.called():
                if called.name not in begun:
                    begun.add(called.name)
                    visit(called)
                    found[called.name] = called

        visit(self)
        return list(found.values())


MAX_DEPTH = 1000
"""Maximum recursion depth of a function on the CPU, as in Python: a stack overflow would end the process.

A GPU has a stack of 1 KiB per thread by default.
"""


def recursion_fault(function: Function) -> Fault:
    """Return the fault of a recursive function whose calls are nested more than ``MAX_DEPTH`` deep."""
    source = function.source
    text = (
        f"'{source.name}' calls itself more than {MAX_DEPTH} times: check the condition that ends it, or write a loop"
    )
    return Fault(source.file, source.tree.lineno, source.name, RecursionError, text)


def resolve(source: FunctionSource, constants: Mapping[str, Any], table: Table) -> Function:
    """Resolve a function and all its callees.

    Args:
        source: The function.
        constants: The values of the parameters fixed at compile time.
        table: The symbols of the kernel, which this function adds to.

    Returns:
        The resolved function.

    Raises:
        KernelError: With file and line, for a name that is undefined or unsupported in a kernel, and for arguments that
            do not match the signature.
    """
    source = explicit(source)
    known = tuple((name, str(constants[name])) for name in sorted(constants))
    key = (source.file, source.tree.lineno, source.name, id(source.tree), known)
    if key not in table._functions:
        if table._in_progress.count(source.name) == MAX_VERSIONS:
            refuse(source.tree, f"'{source.name}' calls itself with a new shape or function each time: write a loop")
        parameters = [name for name in source.parameters if name not in constants]
        function = Function(f"{GENERATED}{source.name}_{len(table._functions)}", parameters, [], source)
        table._functions[key] = function  # registered before its body, which may call it
        table._in_progress.append(source.name)
        function.body = _Resolver(source, constants, table).resolve_body()
        table._in_progress.pop()
    return table._functions[key]


class _Resolver(ast.NodeTransformer):
    def __init__(self, source: FunctionSource, constants: Mapping[str, Any], table: Table) -> None:
        self.source, self.constants, self.table = source, constants, table
        self.local_names = source.facts.local_names

    def _look_up(self, node: ast.expr) -> Any:
        return look_up(node, self.source, self.local_names, self.table.members)

    def resolve_body(self) -> list[ast.stmt]:
        body = [copy_tree(statement) for statement in self.source.tree.body if not _is_docstring(statement)]
        resolved = [self.visit(statement) for statement in body]
        has_none = any(value is None for value in self.constants.values())
        return without_dead_branches(resolved) if has_none else resolved

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._resolved(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._resolved(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        value = self._look_up(node.func)
        callee = source_of(value)
        if callee is not None:
            self.table.may_change |= not isinstance(value, (DeviceFunction, FunctionSource))
            return self._call_of_device_function(node, callee)
        if isinstance(value, Intrinsic):
            return self._call_of_intrinsic(node, value)
        return self._call(node, self.visit(node.func))

    def _call_of_intrinsic(self, node: ast.Call, function: Intrinsic) -> ast.expr:
        path = function.path
        node.args = [argument for given in node.args for argument in self._without_star(given)]
        if path in KEYWORDS:
            give_by_position(node, path)
        if path in BARRIERS:
            return self._barrier(node, path)
        if path == THIS_GRID:
            refuse(
                node,
                "cuda.cg.this_grid() is no value: it can be assigned to a variable, passed to a function, or synced",
            )
        if path == GRID_BARRIER and (node.args or node.keywords):
            refuse(node, "sync() of a grid takes no arguments")
        if path in ARRAYS:
            return self._array(node, path)
        if path in PARAMETERS:
            _check_arguments(node, function)
        if path == "const.array_like":
            return self.visit(node.args[0])  # type: ignore[no-any-return]
        if path == "lanemask_lt":
            bit = ast.BinOp(ast.Constant(1), ast.LShift(), IntrinsicName.of("laneid", node))
            lower = ast.BinOp(bit, ast.Sub(), ast.Constant(1))
            return at(node, ast.Call(self._reference(node, np.uint32), [lower], []))
        return self._call(node, IntrinsicName.of(path, node.func) if path in SUPPORTED else self.visit(node.func))

    def _call(self, node: ast.Call, function: ast.expr) -> ast.expr:
        words = [ast.keyword(word.arg, self.visit(word.value)) for word in node.keywords]
        return at(node, ast.Call(function, with_one_star([self.visit(argument) for argument in node.args]), words))

    def _barrier(self, node: ast.Call, path: str) -> ast.expr:
        most = 0 if path == BARRIER else 1
        if node.keywords or len(node.args) > most or (path in VOTES and not node.args):
            refuse(
                node, f"cuda.{path} takes {'a condition' if path in VOTES else 'a mask' if most else 'no arguments'}"
            )
        # the mask is irrelevant where no thread of a warp can run ahead of the others
        given = node.args if path in VOTES else []
        return at(node, ast.Call(IntrinsicName.of(path, node.func), [self.visit(argument) for argument in given], []))

    def visit_For(self, node: ast.For) -> ast.AST:
        node.iter = _without_list(node.iter)
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        node.comparators = [
            _without_list(right) if isinstance(operator, (ast.In, ast.NotIn)) else right
            for operator, right in zip(node.ops, node.comparators, strict=True)
        ]
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        node.targets = [_without_list(target) for target in node.targets]
        if any(isinstance(child, ast.Starred) for target in node.targets for child in walk([target])):
            refuse(node, "a starred target of an assignment is not part of the kernel language: index the tuple")
        return self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        self.generic_visit(node)
        (whole,) = with_one_star(node.elts) if any(isinstance(part, ast.Starred) for part in node.elts) else (node,)
        return at(node, whole.value) if isinstance(whole, ast.Starred) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        value = self._look_up(node)
        return self.generic_visit(node) if value is LOCAL else self._reference(node, value)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, Closure):
            refuse(node, used_as_value(node.value.facts.tree.name))
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        parts = [str(part.value) for part in node.values if isinstance(part, ast.Constant)]
        return self.generic_visit(node) if len(parts) < len(node.values) else at(node, ast.Constant("".join(parts)))

    def visit_Return(self, node: ast.Return) -> ast.AST:
        is_none = isinstance(node.value, ast.Constant) and node.value.value is None
        return at(node, ast.Return()) if is_none else self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> ast.stmt:
        for name in set(node.names) & stored_names(self.source.tree.body):
            refuse(node, f"'{name}' is a constant of the module: a kernel cannot assign to it")
        return at(node, ast.Pass())

    def visit_Delete(self, node: ast.Delete) -> ast.stmt:
        if not all(isinstance(target, ast.Name) for target in node.targets):
            refuse(node, "del of anything but a variable is not part of the kernel language: assign another value")
        return at(node, ast.Pass())

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return at(node, ast.Pass())
        return self.visit(at(node, ast.Assign([node.target], node.value)))  # type: ignore[no-any-return]

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        """Replace an exception by its code: nothing in a kernel can catch it."""
        if node.exc is None:
            return at(node, ast.Raise(self._fault(node, RuntimeError, "No active exception to reraise")))
        called = node.exc if isinstance(node.exc, ast.Call) else None
        value = self._look_up(called.func if called else node.exc)
        given = [self._constant_of(argument) for argument in called.args] if called else []
        said = [text for text in given if text is None or isinstance(text, (str, *LITERALS))]
        if not (isinstance(value, type) and issubclass(value, BaseException)) or node.cause:
            refuse(node, "this cannot be raised: a kernel raises a new exception, such as ValueError(...)")
        if called and (called.keywords or len(said) < len(called.args)):
            refuse(
                node,
                "the message of an exception depends on the run: it must be a constant when the kernel is compiled",
            )
        return at(node, ast.Raise(self._fault(node, value, ", ".join(map(str, said)))))

    def _constant_of(self, node: ast.expr) -> Any:
        """Return the value of a constant, also one of the module."""
        return node.value if isinstance(node, ast.Constant) else self._look_up(node)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        said = ast.unparse(node.test) if node.msg is None else self._constant_of(node.msg)
        if not isinstance(said, str):
            refuse(node, "the message of an assert depends on the run: it must be a plain string")
        return at(node, ast.Assert(self.visit(node.test), self._fault(node, AssertionError, said)))

    def _fault(self, node: ast.stmt, kind: type[BaseException], said: str) -> ast.expr:
        """Register an exception and return its code, which the host translates back to its class, message and line.

        Messages are not compiled into the code: cached code would report outdated line numbers after edits elsewhere.
        """
        file, line = getattr(node, "file", ""), node.lineno
        self.table.faults.append(Fault(file, line, self.source.name, kind, said))
        return ast.Constant(str(len(self.table.faults) - 1))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if type(node) in SYNTAX:
            refuse(node, SYNTAX[type(node)])
        return super().generic_visit(node)

    def _resolved(self, node: ast.expr) -> ast.expr:
        value = self._look_up(node)
        if value is LOCAL:
            if isinstance(node, ast.Attribute):
                node.value = self.visit(node.value)
            elif isinstance(node, ast.Name) and node.id in self.constants:
                if not isinstance(node.ctx, ast.Load):
                    refuse(node, f"'{node.id}' is a constant of the environment: it cannot be assigned to")
                value = self.constants[node.id]
                if isinstance(value, (np.dtype, enum.Enum)):
                    return self._reference(node, value.type if isinstance(value, np.dtype) else value)
                return at(node, ast.Constant(value))
            return node
        if not isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
            refuse(node, f"'{ast.unparse(node)}' is a constant: a kernel cannot assign to it")
        return self._reference(node, value)

    def _reference(self, node: ast.expr, value: Any) -> ast.expr:
        if isinstance(value, Intrinsic):
            if value.path not in VALUES:
                refuse(node, message_for_bare_member(value.path))
            return IntrinsicName.of(value.path, node)
        if isinstance(value, float) and not math.isfinite(value):
            return self._constant(node, value)
        if value is None or type(value) in (*LITERALS, str):
            return at(node, ast.Constant(value))
        if isinstance(value, enum.IntEnum):
            return at(node, ast.Constant(int(value)))
        if isinstance(value, enum.Enum):
            return at(node, ast.Attribute(self._reference(node, type(value)), value.name, ast.Load()))
        if isinstance(value, (np.generic, np.ndarray)) or _is_tuple_of_constants(value):
            return self._constant(node, value)
        described = AuthorsClass.of(value)
        if described is not None:
            self.table.classes[described.alias] = described
            return at(node, ast.Name(described.alias, ast.Load()))
        imported = importable(value)
        if imported is not None:
            if why := refusal_of_function(*imported):
                refuse(node, why)
            alias = f"{GENERATED}{imported[0].replace('.', '_')}_{imported[1]}"
            self.table.imports[alias] = imported
            return at(node, ast.Name(alias, ast.Load()))
        refuse(node, unusable(ast.unparse(node), value))

    def _constant(self, node: ast.expr, value: Any) -> ast.expr:
        self.table.classes |= {named.alias: named for named in _named_tuples(value)}
        self.table.may_change |= not isinstance(value, (float, np.generic))  # arrays, and tuples that may hold some
        constants = self.table.constants
        name = next((name for name, known in constants.items() if known is value), None)
        if name is None:
            name = f"{GENERATED}constant_{len(constants)}"
            constants[name] = value
        return at(node, ast.Name(name, ast.Load()))

    def _call_of_device_function(self, node: ast.Call, callee: FunctionSource) -> ast.expr:
        node.args = [argument for given in node.args for argument in self._without_star(given)]
        if any(isinstance(argument, ast.Starred) for argument in node.args[: len(callee.tree.args.args)]):
            return self._starred_call(node, callee)
        given = self._arguments(node, callee)
        functions = functions_among(given, callee, self._look_up)
        if functions:
            self.table.may_change = True
            callee = callee.bind(functions)
            given = {name: argument for name, argument in given.items() if name not in functions}
        baked = {}
        for name in shape_parameters(callee):
            if name in given:
                baked[name] = self._compile_time(given[name], f"argument '{name}' of '{callee.name}'")
            else:
                baked[name] = callee.defaults[name]
        for name in dtype_parameters(callee):
            parameter = name.removesuffix(DTYPE)
            if parameter in given:
                wanted = given[parameter]
                is_array = name != parameter
                baked[name] = self._dtype_of(ast.Attribute(wanted, "dtype", ast.Load()) if is_array else wanted)
            else:
                baked[name] = dtype_named(callee.defaults[parameter])
            if baked[name] is None:
                refuse(node, f"the dtype of an array in '{callee.name}' is not known when the kernel is compiled")
        defaults = {name: callee.defaults[name] for name in callee.parameters if name not in given}
        values = {name: self.visit(node) for name, node in given.items() if name not in baked}
        for name in unassigned_parameters(callee) - baked.keys():
            value = values.get(name)
            if (value is None and defaults[name] is None) or (isinstance(value, ast.Constant) and value.value is None):
                baked[name] = None
        function = resolve(callee, baked, self.table)
        arguments = [
            values[name] if name in values else self._reference(node, defaults[name]) for name in function.parameters
        ]
        return at(node, ast.Call(FunctionName.of(function, node), arguments, []))

    def _without_star(self, node: ast.expr) -> list[ast.expr]:
        """Return the elements of ``*t`` if the tuple is displayed in this function; otherwise the argument itself."""
        if not isinstance(node, ast.Starred):
            return [node]
        if isinstance(node.value, ast.Tuple):
            return [element for part in node.value.elts for element in self._without_star(part)]
        length = self._length(node.value)
        if length is None:
            return [node]
        return [at(node, ast.Subscript(copy_tree(node.value), ast.Constant(k), ast.Load())) for k in range(length)]

    def _length(self, node: ast.expr) -> int | None:
        """Return the length of a tuple, or None if it is not displayed in this function."""
        shown = self.source.facts.assigned_once.get(node.id) if isinstance(node, ast.Name) else node
        if not isinstance(shown, ast.Tuple):
            return None
        lengths = [self._length(part.value) if isinstance(part, ast.Starred) else 1 for part in shown.elts]
        return None if None in lengths else sum(filter(None, lengths))

    def _starred_call(self, node: ast.Call, callee: FunctionSource) -> ast.expr:
        """Resolve a call with ``*t`` where the length of the tuple is known by type inference only."""
        function = resolve(callee, {}, self.table)
        needs = shape_parameters(callee) | dtype_parameters(callee)
        if not (node.keywords or needs or callee.facts.rest or function.has_barrier):
            return at(node, ast.Call(FunctionName.of(function, node), [self.visit(given) for given in node.args], []))
        *first, last = node.args
        if not (isinstance(last, ast.Starred) and isinstance(last.value, (ast.Name, ast.Attribute))) or node.keywords:
            what = f"'*' before an argument of '{callee.name}' cannot be expanded"
            refuse(node, f"{what}: assign the tuple to a variable, and pass it last")
        missing = range(len(callee.tree.args.args) - len(first))
        elements = [ast.Subscript(copy_tree(last.value), ast.Constant(k), ast.Load()) for k in missing]
        rest = ast.Subscript(copy_tree(last.value), ast.Slice(ast.Constant(len(missing))), ast.Load())
        further = [ast.Starred(rest, ast.Load())] * bool(callee.facts.rest)
        return self._call_of_device_function(at(node, ast.Call(node.func, [*first, *elements, *further], [])), callee)

    def _arguments(self, node: ast.Call, callee: FunctionSource) -> dict[str, ast.expr]:
        if any(word.arg is None for word in node.keywords):
            refuse(node, "arguments from a dictionary are not part of the kernel language: name each of them")
        named = len(callee.tree.args.args)
        given = dict(zip(callee.parameters, node.args[:named], strict=False))
        if callee.facts.rest:
            given[callee.facts.rest] = at(node, ast.Tuple(node.args[named:], ast.Load()))
        elif len(node.args) > named:
            refuse(node, f"'{callee.name}' takes {named} arguments, found {len(node.args)}")
        for word in node.keywords:
            assert word.arg is not None
            if word.arg not in callee.parameters:
                refuse(node, f"'{callee.name}' has no parameter '{word.arg}'.{nearest(word.arg, callee.parameters)}")
            if word.arg in given:
                refuse(node, f"'{callee.name}' is given '{word.arg}' twice")
            given[word.arg] = word.value
        for name in callee.parameters:
            if name not in given and name not in callee.defaults:
                refuse(node, f"'{callee.name}' needs an argument for its parameter '{name}'")
        return given

    def _array(self, node: ast.Call, path: str) -> ast.expr:
        arguments = dict(zip(("shape", "dtype"), node.args, strict=False))
        arguments |= {word.arg: word.value for word in node.keywords if word.arg}
        arguments.pop("alignment", None)  # arrays begin at cache lines
        if set(arguments) != {"shape", "dtype"} or len(node.args) > 3:
            refuse(node, f"cuda.{path} takes a shape and a dtype")
        shape = self._compile_time(arguments["shape"], f"the shape of cuda.{path}")
        shape = shape if isinstance(shape, tuple) else (shape,)
        is_dynamic = path == "shared.array" and shape == DYNAMIC
        if not is_dynamic and not (shape and min(shape) > 0):
            refuse(node, f"the shape of cuda.{path} is {shape}: it must consist of positive integers")
        given = arguments["dtype"]
        dtype = self._dtype_of(given)
        if dtype is None:
            refuse(node, f"'{ast.unparse(given)}' is not a dtype that device arrays support")
        size, largest = math.prod(shape) * dtype.itemsize, LARGEST_ARRAY[path]
        if size > largest:
            refuse(node, f"this cuda.{path} takes {size} bytes; no device has more than {largest} for it")
        if path == "shared.array":
            name = f"{GENERATED}shared_{len(self.table.shared)}"
            self.table.shared[name] = (shape, dtype_text(dtype))
            return at(node, SharedName(name, ast.Load()))
        return at(
            node,
            ast.Call(
                IntrinsicName.of(path, node), [ast.Constant(cast(Any, shape)), ast.Constant(dtype_text(dtype))], []
            ),
        )

    def _dtype_of(self, node: ast.expr) -> np.dtype[Any] | None:
        """Return the dtype for an expression, or None if it is not known."""
        if isinstance(node, ast.Constant):
            return dtype_named(node.value)
        known = self.constants.get(place_of_dtype(node))
        return known if isinstance(known, np.dtype) else dtype_named(self._look_up(node))

    def _compile_time(self, node: ast.expr, what: str) -> Any:
        resolved = self.visit(with_local_constants(node, self.source))
        functions = {
            alias: getattr(builtins, name)
            for alias, (module, name) in self.table.imports.items()
            if module == "builtins"
        }
        names = names_in(resolved) - self.table.constants.keys() - functions.keys()
        if names:
            unknown = sorted((names & self.local_names) or {ast.unparse(node)})[0]
            refuse(node, f"{what} must be known when the kernel is compiled: it depends on '{unknown}'")
        # only constants and builtins such as len and max are left in the tree
        try:
            value = eval(ast.unparse(resolved), {"__builtins__": {}}, {**self.table.constants, **functions})
        except Exception as error:
            refuse(node, f"{what} cannot be computed ({error}): it must consist of positive integers")
        lengths = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(length, (int, np.integer)) for length in lengths):
            refuse(node, f"{what} is {value}: it must consist of positive integers")
        return tuple(map(int, lengths)) if isinstance(value, tuple) else int(value)


def _check_arguments(node: ast.Call, function: Intrinsic) -> None:
    expected = PARAMETERS[function.path]
    if node.keywords or len(node.args) != len(expected):
        found = f"{len(node.args)}{' and keywords' if node.keywords else ''}"
        refuse(node, f"{function!r} takes {len(expected)} arguments by position ({', '.join(expected)}), found {found}")


def _without_list(node: ast.expr) -> ast.expr:
    """Return a tuple in place of a list display that is only iterated over or unpacked, as Python's compiler does."""
    return at(node, ast.Tuple(node.elts, node.ctx)) if isinstance(node, ast.List) else node


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_tuple_of_constants(value: Any) -> bool:
    """Return True if a value is a (nested) tuple of numbers, strings and arrays."""
    kinds = (*LITERALS, str, np.generic, np.ndarray)
    return isinstance(value, tuple) and all(isinstance(item, kinds) or _is_tuple_of_constants(item) for item in value)


def _named_tuples(value: Any) -> list[AuthorsClass]:
    """Return the named tuple classes in a constant."""
    if not isinstance(value, tuple):
        return []
    described = AuthorsClass.of(type(value))
    inner = [named for item in value for named in _named_tuples(item)]
    return inner if described is None else [described, *inner]
