"""Arithmetic of compiled kernels: replacements of Python's operators and functions for the checks.

An operation on integers has 64 bits in numba, unsigned if both are (for a shift: if the left one is). It wraps on
overflow, where Python's integers grow, and returns infinity or NaN where Python raises. NumPy scalars of 64 bits behave
the same.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from numba.np.numpy_support import as_dtype

from warpdrive.backends.host.half import FUNCTIONS
from warpdrive.checks import advice

Undefined = Callable[[str, str], None]
"""Callback ``(what, what_to_do)`` for computations with an undefined result."""


def _ignore(what: str, what_to_do: str) -> None:
    """Ignore an undefined result."""


_SHIFTS = (ast.LShift, ast.RShift)
_DIVISIONS = (ast.FloorDiv, ast.Mod)
_FLOATS = frozenset((np.float32, np.float64))
_SCALARS = _FLOATS | {np.int64}


def operation(kind: type[ast.operator], undefined: Undefined = _ignore) -> Callable[[Any, Any], Any]:
    """Return the function of a binary operator, such as ``ast.Add``, with the arithmetic of compiled kernels."""
    compute = _OF_PYTHON[kind]
    is_defined = _IS_DEFINED.get(kind)

    def operate(left: Any, right: Any) -> Any:
        if type(left) is type(right) and type(left) in _FLOATS:  # fast path: no conversion needed
            return compute(left, right)
        left, right = of_half(kind, left, right) if np.float16 in (type(left), type(right)) else (left, right)
        left, right = number(left), number(right)
        if kind is ast.Pow and type(left) is np.float32 and _is_integer(right):
            right = np.float32(right)  # the only operation with an integer that stays in float32
        if _is_integer(left) and _is_integer(right):
            if kind is ast.Div:
                return np.float64(left) / np.float64(right)
            if not type(left) is type(right) is np.int64:
                decisive = (left,) if kind in _SHIFTS else (left, right)
                unsigned = all(isinstance(value, np.unsignedinteger) for value in decisive)
                left, right = (cast(value, np.uint64 if unsigned else np.int64) for value in (left, right))
            if is_defined is not None and not is_defined(right):
                undefined(f"{left} {_SIGNS[kind]} {right} of integers", _ADVICE[kind])
            if kind is ast.Pow and right < 0:
                return left ** (right % 2) if left in (1, -1) else left * 0
        return compute(left, right)

    return operate


def of_half(kind: type[ast.operator], left: Any, right: Any) -> tuple[Any, Any]:
    """Return the operands of an operation on float16 as the types in which numba computes it.

    Args:
        kind: The operator.
        left: Left operand.
        right: Right operand.

    Returns:
        Both operands.
    """
    others = {type(operand) for operand in (left, right)} - {np.float16, np.int8, np.bool_, bool}
    if not others:
        compute = np.float16 if kind in (ast.Add, ast.Sub, ast.Mult, ast.Div) else np.float32
        return compute(left), compute(right)
    if others <= {np.uint8, np.int16}:
        return np.float32(left), np.float32(right)
    if others <= {np.float32}:
        return left, right
    return np.float64(left), np.float64(right)


_OF_PYTHON: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}
_SIGNS = {ast.FloorDiv: "//", ast.Mod: "%", ast.LShift: "<<", ast.RShift: ">>", ast.Pow: "**"}
_ADVICE = {
    **dict.fromkeys(_DIVISIONS, advice.DIVISOR),
    **dict.fromkeys(_SHIFTS, advice.SHIFT),
    ast.Pow: advice.NEGATIVE_POWER,
}
_IS_DEFINED: dict[type[ast.operator], Callable[[Any], bool]] = {
    **dict.fromkeys(_DIVISIONS, lambda right: right != 0),
    **dict.fromkeys(_SHIFTS, lambda right: 0 <= right < 64),
    ast.Pow: lambda right: right >= 0,
}
"""Predicates of the right operand for which an integer operation is defined."""


def inverted(value: Any) -> Any:
    """Return ``~value``; for a boolean, ``not value``."""
    return not value if isinstance(value, (bool, np.bool_)) else ~value


def _is_integer(value: Any) -> bool:
    return isinstance(value, np.integer) and not isinstance(value, np.timedelta64)


def number(value: Any) -> Any:
    """Return a Python number as the NumPy scalar that numba treats it as; other values unchanged."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, (bool, np.bool_)):
        return np.int64(value)
    if isinstance(value, int):  # a literal from 2**63 on is unsigned
        return np.uint64(value) if 2**63 <= value < 2**64 else np.int64((value + 2**63) % 2**64 - 2**63)
    return np.float64(value) if type(value) is float else value


def cast(value: Any, dtype: Any, undefined: Undefined = _ignore) -> Any:
    """Convert a number as a device does: integers wrap, and values out of range become an arbitrary integer.

    Args:
        value: The number.
        dtype: Dtype to convert to.
        undefined: Callback for a conversion with an undefined result.

    Returns:
        A NumPy scalar of ``dtype``.
    """
    value, kind = number(value), np.dtype(dtype)
    if kind.kind in "iu" and isinstance(value, np.floating):
        limits = np.iinfo(kind)
        if isinstance(value, np.float16):  # rounded to the nearest, and saturated
            no_number = 0 if kind.itemsize < 8 else 1 << 63
            whole = no_number if np.isnan(value) else max(limits.min, min(limits.max, round(_finite(value))))
            return np.asarray(whole, np.uint64 if whole > limits.max else kind).astype(kind)[()]
        if not (np.isfinite(value) and limits.min <= int(value) <= limits.max):
            undefined(f"the conversion of {value} to {kind}", advice.CONVERSION)
    return np.asarray(value).astype(kind)[()]


def _finite(value: np.float16) -> float:
    """Return a float16 as a Python float, with a large number for an infinity."""
    return float(np.clip(np.float64(value), -(2.0**64), 2.0**64))


def stand_in(value: Any, undefined: Undefined = _ignore) -> Any:
    """Return the replacement of a called function, or None if Python's own behaves the same."""
    if isinstance(value, numba.types.Number | numba.types.Boolean):
        value = as_dtype(value).type
    if isinstance(value, type) and issubclass(value, np.generic):
        return lambda number=0: cast(number, value, undefined)
    if value is float:
        return lambda number=0: number if isinstance(number, np.floating) else cast(number, np.float64, undefined)
    if value is int:
        return lambda number=0: number if _is_integer(number) else cast(number, np.int64, undefined)
    if any(value is function for function in _WHOLE):
        return lambda x: _WHOLE[value](x if isinstance(x, np.floating) else np.float64(x))
    if any(value is function for function in (min, max)):
        return lambda *given: value(*given) if len(given) != 2 else value(_without_nan(given))
    if value is pow:
        return operation(ast.Pow, undefined)
    if value is divmod:
        parts = [operation(kind, undefined) for kind in _DIVISIONS]
        return lambda left, right: tuple(part(left, right) for part in parts)
    if getattr(value, "__module__", None) == "_operator" and value in _OF_PYTHON.values():
        return operation(next(kind for kind, function in _OF_PYTHON.items() if function is value), undefined)
    if isinstance(value, np.ufunc):
        return lambda *given: _of_ufunc(value, given)
    if getattr(value, "__module__", None) == "math":
        return _without_exceptions(value)
    return None


def _of_ufunc(function: np.ufunc, given: tuple[Any, ...]) -> Any:
    """Return the result of a function of NumPy: literals have 64 bits, and integers of 8 bits become float32."""
    given = tuple(number(value) if type(value) in (int, builtins.float) else value for value in given)
    result = function(*given)
    return function(*map(np.float32, given)) if isinstance(result, np.float16) else result


def _without_nan(pair: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the operands of ``min`` or ``max``: of two floats, NaN does not count, as in C; others are compared."""
    are_floats = all(isinstance(value, (builtins.float, np.floating)) for value in pair)
    return (are_floats and tuple(value for value in pair if value == value)) or pair


_WHOLE: dict[Any, Callable[..., Any]] = {math.floor: np.floor, math.ceil: np.ceil, math.trunc: np.trunc}
"""Functions that return floats, by those of Python that return integers."""


@cache
def _without_exceptions(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of ``math``: it returns NaN or infinity where Python raises, and float32 for float32."""

    def call(*arguments: Any) -> Any:
        arguments = tuple(map(number, arguments))
        try:
            if function is math.pow:  # Python raises at poles
                result = builtins.float(np.float64(arguments[0]) ** np.float64(arguments[1]))
            else:
                result = function(*(int(v) if isinstance(v, np.integer) else v for v in arguments))
        except ValueError:
            result = _at_a_pole(function, arguments)
        except OverflowError:
            result = math.copysign(math.inf, arguments[0]) if function is math.sinh else math.inf
        is_of_the_first = function is math.ldexp or isinstance(arguments[-1], np.int32)  # an exponent
        decisive = arguments[:1] if is_of_the_first else arguments
        kinds = {type(argument) for argument in decisive}
        kind = np.float32 if kinds <= {np.float16, np.float32} else np.float64
        kind = np.float16 if kinds == {np.float16} and function in FUNCTIONS else kind
        if isinstance(result, tuple):
            return tuple(kind(part) if isinstance(part, builtins.float) else part for part in result)
        return kind(result) if isinstance(result, builtins.float) else result

    return call


def _at_a_pole(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    if arguments[0] == 0 and function in (math.log, math.log2, math.log10):
        return -math.inf
    if function is math.log1p and arguments[0] == -1:
        return -math.inf
    return math.nan
