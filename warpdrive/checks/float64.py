"""Detection of unnecessary float64 computations, which a GPU runs at a fraction of its speed.

The origin of float64 is reported: a literal, an integer, an argument. Computations that follow from it are not reported
again, nor are those required by float64 arrays; there are no findings unless there are other float arrays. Comparisons
with a literal that float32 represents exactly compile to float32 comparisons, and those of integers with a literal to
integer comparisons. Integers are int64 in nearly all of numba's arithmetic: of them only arrays are reported.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import ir
from numba.core.errors import NumbaError

from warpdrive.checks import advice
from warpdrive.checks.findings import Finding, Report
from warpdrive.checks.helpers import HELPERS
from warpdrive.checks.inference import StandIn, TypedFunction, infer, typed_argument
from warpdrive.kernels.source import FunctionSource

_DOUBLE = (types.float64, types.complex128)
_SINGLE = (types.float16, types.float32, types.complex64)
_COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
_OPERATIONS = ("binop", "inplace_binop", "unary", "call")
_PASSED_ON = ("cast", "phi", "build_tuple", "exhaust_iter", "static_getitem", "getitem", "pair_first")


@dataclass(frozen=True)
class _Cause:
    """Origin of a float64 number; without ``text``, it is either required (``is_needed``) or reported elsewhere."""

    text: str = ""
    place: str = ""
    is_needed: bool = False
    what_to_do: str = advice.FLOAT64


_NEEDED, _COMPUTED = _Cause(is_needed=True), _Cause()
Causes = frozenset[_Cause]


def check_types(source: FunctionSource, arguments: Mapping[str, Any], report: Report) -> bool:
    """Report the float64 computations of a kernel.

    Args:
        source: The kernel.
        arguments: Argument of each parameter, by name.
        report: Report that findings are added to.

    Returns:
        True if the types could be inferred.
    """
    try:
        kinds = {name: typed_argument(value) for name, value in arguments.items()}
        function = infer(source, tuple(kinds.values()))
    except (NumbaError, KeyError) as error:
        first = next((line.strip() for line in str(error).splitlines()[1:] if line.strip()), str(error))
        report.note(f"{source.file}:{source.tree.lineno}: float64 is not checked: types cannot be inferred ({first})")
        return False
    arrays = [kind.dtype for kind in kinds.values() if isinstance(kind, types.Array)]
    given = {part for kind in arrays for part in _numbers_in(kind)}
    causes = {
        name: frozenset({_Cause(f"argument '{name}'", f"{source.file}:{source.tree.lineno}")})
        for name, kind in kinds.items()
        if kind in _DOUBLE
    }
    _Reader(report, given).body(function, causes).report_findings()
    return True


class _Reader:
    """Traversal of functions from callers to callees, each once per combination of argument origins."""

    def __init__(self, report: Report, given: set[Any]) -> None:
        self.report, self.given = report, given
        self.is_double = bool(given & set(_DOUBLE)) and not given & set(_SINGLE)
        self.bodies: dict[Any, _Body] = {}
        self.lines_of: dict[_Cause, tuple[str, ...]] = {}

    def body(self, function: TypedFunction, arguments: Mapping[str, Causes]) -> _Body:
        """Return the analysis of a function whose ``arguments`` are float64 for the given reasons."""
        key = (id(function), frozenset(arguments.items()))
        if key not in self.bodies:
            self.bodies[key] = _Body(self, function, arguments)
        return self.bodies[key]


class _Body:
    def __init__(self, reader: _Reader, function: TypedFunction, arguments: Mapping[str, Causes]) -> None:
        self.reader, self.function, self.arguments = reader, function, arguments
        self.definitions = function.definitions
        self.variables: dict[str, Causes] = {}
        self.is_reported = False
        self._trace()

    def _trace(self) -> None:
        """Compute the origins of all float64 variables as a fixed point, as those in loops depend on each other."""
        doubles = [name for name in self.definitions if _is_double(self.function.types.get(name))]
        before = None
        while before != self.variables:
            before = dict(self.variables)
            for name in doubles:
                self.variables[name] = frozenset().union(*map(self.causes, self.definitions[name]))

    @property
    def returned(self) -> Causes:
        """Origins of a float64 return value."""
        returns = (s.value for block in self.function.code.blocks.values() for s in block.find_insts(ir.Return))
        return frozenset[_Cause]().union(*map(self.causes, returns))

    def report_findings(self) -> None:
        """Report the findings in the function and its callees, once."""
        if self.is_reported:
            return
        self.is_reported = True
        for _, block in sorted(self.function.code.blocks.items()):
            for statement in block.body:
                value = getattr(statement, "value", None)
                if isinstance(value, ir.Expr) and value.op in _OPERATIONS:
                    self.operation(value)

    def operation(self, node: Any) -> None:
        """Report an operation that introduces float64."""
        signature = self.function.signatures.get(node)
        if signature is None or self.is_sign_of_constant(node):
            return
        if node.op == "call":
            stand_in = self.stand_in(node)
            if stand_in is not None and stand_in.path in ("local.array", "shared.array"):
                self.array(node, stand_in, signature.return_type.dtype)
            if stand_in is not None and stand_in.source is not None:
                callee = self.callee(node, stand_in)
                if callee is not None:
                    callee.report_findings()
                return
        if self.reader.is_double:
            return
        is_binary = node.op in ("binop", "inplace_binop")
        if signature.return_type not in _DOUBLE and not (is_binary and set(signature.args) & set(_DOUBLE)):
            return
        operands = _operands(node)
        causes = frozenset[_Cause]().union(*(self.causes(operand) for operand in operands))
        if _NEEDED in causes or self.is_exact_comparison(node, operands):
            return
        explained = [cause for cause in causes if cause.text]
        if not explained and not causes:
            explained = [_Cause(self.text(node, operands), what_to_do=self.what_to_do(node, operands))]
        for cause in explained:
            self.find(node, cause)

    def callee(self, node: Any, stand_in: StandIn) -> _Body | None:
        """Return the analysis of a device function for a call; None if it is not reached."""
        assert stand_in.source is not None
        function = stand_in.typed.get(tuple(self.function.signatures[node].args))
        if function is None:
            return None
        given = dict(zip(stand_in.source.parameters, node.args, strict=False)) | dict(node.kws)
        causes = {name: found for name, operand in given.items() if (found := self.causes(operand))}
        for name, value in stand_in.source.defaults.items():
            if name not in given and isinstance(value, float):
                causes[name] = frozenset({_Cause(repr(value), _place(stand_in.source.file, stand_in.source.tree))})
        return self.reader.body(function, causes)

    def array(self, node: Any, stand_in: StandIn, dtype: Any) -> None:
        if dtype in (*_DOUBLE, types.int64, types.uint64) and dtype not in self.reader.given:
            kind = stand_in.path.partition(".")[0]
            message = f"a {kind} array of {dtype} takes twice the memory of one half as wide"
            self.add((_place_of(node),), str(dtype), message, advice.WIDE_ARRAY)

    def causes(self, node: Any) -> Causes:
        """Return the origins of a float64 value; empty if it is not float64."""
        if isinstance(node, ir.Var):
            return self.variables.get(node.name, frozenset())
        if isinstance(node, ir.Arg):
            return self.arguments.get(node.name, frozenset({_NEEDED}))
        if isinstance(node, (ir.Const, ir.Global, ir.FreeVar)):
            if isinstance(node.value, (float, complex)):
                is_named = not isinstance(node, ir.Const)
                text = f"{node.name} ({node.value!r})" if is_named else repr(node.value)
                return frozenset({_Cause(text, _place_of(node))})
            return frozenset({_NEEDED})
        return self.causes_of_expression(node)

    def causes_of_expression(self, node: Any) -> Causes:
        if self.is_of_a_module(node):
            module = self.function.types[node.value.name].pymod.__name__
            return frozenset({_Cause(f"{module}.{node.attr}", _place_of(node))})
        if node.op in ("getitem", "static_getitem", "getattr") and not isinstance(
            self.function.types[node.value.name], types.BaseTuple
        ):
            return frozenset({_NEEDED})
        if node.op in _PASSED_ON or self.is_sign_of_constant(node):
            return frozenset[_Cause]().union(*map(self.causes, _operands(node)))
        if node.op == "call":
            stand_in = self.stand_in(node)
            if stand_in is not None and stand_in.source is not None:
                callee = self.callee(node, stand_in)
                return (callee and callee.returned) or frozenset({_COMPUTED})
        causes = frozenset[_Cause]().union(*map(self.causes, _operands(node)))
        return frozenset({_NEEDED if _NEEDED in causes else _COMPUTED})

    def stand_in(self, node: Any) -> StandIn | None:
        value = self.constant(node.func)
        return value if isinstance(value, StandIn) else None

    def is_sign_of_constant(self, node: Any) -> bool:
        """Return True if a node is a constant's sign, as in ``-math.inf``, which is not computed at run time."""
        if node.op != "unary":
            return False
        (found, *others) = self.definitions[node.value.name]
        return not others and (isinstance(found, (ir.Const, ir.Global, ir.FreeVar)) or self.is_of_a_module(found))

    def is_of_a_module(self, node: Any) -> bool:
        """Return True if a node is a module attribute, such as ``math.inf``."""
        is_attribute = isinstance(node, ir.Expr) and node.op == "getattr"
        return is_attribute and isinstance(self.function.types[node.value.name], types.Module)

    def is_exact_comparison(self, node: Any, operands: list[Any]) -> bool:
        if node.op != "binop" or node.fn not in _COMPARISONS:
            return False
        kinds = self.kinds(operands)
        numbers = [number for operand in operands if (number := self.literal(operand)) is not None]
        is_of_integers = all(isinstance(kind, types.Integer) for kind in kinds)  # unsigned ones with signed ones
        is_of_singles = types.float32 in kinds
        return any(is_of_integers or (is_of_singles and float(np.float32(n)) == float(n)) for n in numbers)

    def literal(self, operand: Any) -> float | None:
        value = self.constant(operand)
        return value if isinstance(value, (int, float)) else None

    def constant(self, variable: Any) -> Any:
        """Return the constant value of a variable, if the source or its namespace defines it; else None."""
        (found, *others) = self.definitions.get(variable.name, [None])
        return found.value if isinstance(found, (ir.Const, ir.Global, ir.FreeVar)) and not others else None

    def text(self, node: Any, operands: list[Any]) -> str:
        """Return the text at fault for an operation that converts other numbers to float64."""
        called = self.called(node) if node.op == "call" else ""
        numbers = [number for operand in operands if (number := self.literal(operand)) is not None]
        if numbers and called not in ("float", "float64"):
            return repr(numbers[0])
        if called:
            return f"{called}({numbers[0] if numbers else '...'})"
        kinds = list(map(str, self.kinds(operands)))
        sign = numba.core.utils.OPERATORS_TO_BUILTINS.get(node.fn if node.op == "binop" else node.immutable_fn, "with")
        return f" {sign} ".join(kinds)

    def what_to_do(self, node: Any, operands: list[Any]) -> str:
        """Return advice about an operation that converts other numbers to float64."""
        kinds = self.kinds(operands)
        are_integers = [isinstance(kind, (types.Integer, types.Boolean)) for kind in kinds]
        if node.op == "call":
            is_conversion = self.called(node) in ("float", "float64")
            return advice.FUNCTION_OF_INTEGERS if any(are_integers) and not is_conversion else advice.FLOAT64
        if all(are_integers):
            return advice.QUOTIENT_OF_INTEGERS
        return advice.INTEGER_WITH_FLOAT32 if any(are_integers) else advice.FLOAT64

    def kinds(self, operands: list[Any]) -> list[Any]:
        return [types.unliteral(self.function.types[operand.name]) for operand in operands]

    def called(self, node: Any) -> str:
        """Return the name of the called function."""
        (found, *_) = self.definitions[node.func.name]
        is_attribute = isinstance(found, ir.Expr) and found.op == "getattr"
        return str(found.attr if is_attribute else getattr(self.constant(node.func), "__name__", ""))

    def find(self, node: Any, cause: _Cause) -> None:
        """Report an origin; one in another line is reported once, with the first line that uses it."""
        lines: tuple[str, ...] = (_place_of(node),)
        if cause.place not in ("", _place_of(node)):
            lines = self.reader.lines_of.setdefault(cause, (*lines, cause.place))
        self.add(lines, cause.text, f"computes in float64 because of {cause.text}", cause.what_to_do)

    def add(self, lines: tuple[str, ...], text: str, message: str, what_to_do: str) -> None:
        """Add a finding, unless it is in a library function, which the user cannot change.

        Args:
            lines: ``file:line`` of the operation and its origin.
            text: Source text at fault.
            message: Description of the finding.
            what_to_do: Advice.
        """
        if self.function.source.file not in HELPERS:
            self.reader.report.add(Finding("float64", text, (), (), (), lines, message, what_to_do))


def _numbers_in(kind: Any) -> set[Any]:
    """Return the types of the numbers in an element: one, or those of a record's fields."""
    if isinstance(kind, types.Record):
        return {part for field in kind.fields.values() for part in _numbers_in(field.type)}
    return _numbers_in(kind.dtype) if isinstance(kind, types.NestedArray) else {kind}


def _operands(node: Any) -> list[Any]:
    if node.op == "call":
        return [*node.args, *(value for _, value in node.kws)]
    parts: Iterable[Any] = node.items if node.op == "build_tuple" else node.list_vars()
    if node.op == "phi":
        parts = node.incoming_values
    return [part for part in parts if isinstance(part, ir.Var)]


def _is_double(kind: Any) -> bool:
    if isinstance(kind, types.BaseTuple):
        return any(map(_is_double, kind))
    return kind in _DOUBLE


def _place_of(node: Any) -> str:
    return f"{node.loc.filename}:{node.loc.line}"


def _place(file: str, tree: Any) -> str:
    return f"{file}:{tree.lineno}"
