"""float16 for generated CPU code: numba has the type on the CPU, but neither its values nor its arithmetic.

A value is its 16 bits. It is converted by integer operations that LLVM vectorises on every processor. As on a GPU, each
operation rounds its result to the nearest float16, to even if halfway. Operations are computed in float32: its 24 bits
are twice the 11 of float16 and two more, so rounding a sum, product, quotient or square root of float16 twice equals
rounding it once (Figueroa, "When is double rounding innocuous?", 1995).

Types are those of numba.cuda: an operand of another type is converted to float16 if that is exact for all its values
(int8, booleans), or else the operation is one on float32 or float64. A conversion to an integer rounds to the nearest,
to even if halfway, and saturates.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.boxing import box_float, unbox_float
from numba.core.datamodel import PrimitiveModel, register_default
from numba.core.pythonapi import NativeValue, _boxers, _unboxers
from numba.core.registry import cpu_target
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, Registry as TypingRegistry, Signature, signature
from numba.cpython import mathimpl

from warpdrive.backends.host.mathematics import call_intrinsic, replacement

_HALF = types.float16
_WORD, _INT, _FLOAT, _DOUBLE = ir.IntType(16), ir.IntType(32), ir.FloatType(), ir.DoubleType()

ARITHMETIC = {
    **dict.fromkeys((operator.add, operator.iadd), "fadd"),
    **dict.fromkeys((operator.sub, operator.isub), "fsub"),
    **dict.fromkeys((operator.mul, operator.imul), "fmul"),
    **dict.fromkeys((operator.truediv, operator.itruediv), "fdiv"),
}
COMPARISONS = {
    **{operator.eq: "==", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">="},
    operator.ne: "!=",
}
FUNCTIONS = tuple(
    getattr(math, name)
    for name in ("sin", "cos", "tanh", "exp", "exp2", "log", "log2", "log10", "sqrt", "fabs", "ceil", "floor", "trunc")
    if hasattr(math, name)
)
"""Functions of ``math`` that return a float16 for one; the others return a float32."""

_types, _code = TypingRegistry(), mathimpl.registry
"""Registries of the CPU alone: numba-cuda has its own implementation, and reads those that all targets share."""
_BEFORE_OTHERS = {"target": "cpu"}
"""Metadata of signatures that numba tries before those of any target, which convert float16 to float32."""


@register_default(types.Float)
class _FloatModel(PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: types.Float) -> None:
        values = {_HALF: _WORD, types.float32: _FLOAT, types.float64: _DOUBLE}
        super().__init__(manager, kind, values[kind])


def _int(number: int) -> ir.Constant:
    return ir.Constant(_INT, number)


def to_float32(builder: Any, bits: Any) -> Any:
    """Return the float32 of the bits of a float16."""
    word = builder.zext(bits, _INT)
    magnitude = builder.shl(builder.and_(word, _int(0x7FFF)), _int(13))
    # the exponent is too small by 112, also that of a subnormal number, which the product normalises
    scaled = builder.bitcast(builder.fmul(builder.bitcast(magnitude, _FLOAT), ir.Constant(_FLOAT, 2.0**112)), _INT)
    is_finite = builder.icmp_unsigned("<", magnitude, _int(0x7C00 << 13))
    found = builder.select(is_finite, scaled, builder.or_(magnitude, _int(0xFF << 23)))
    return builder.bitcast(builder.or_(found, builder.shl(builder.and_(word, _int(0x8000)), _int(16))), _FLOAT)


def from_float32(builder: Any, value: Any) -> Any:
    """Return the bits of the float16 nearest to a float32."""
    word = builder.bitcast(value, _INT)
    magnitude = builder.and_(word, _int(0x7FFFFFFF))
    # the bias of the exponent changes from 127 to 15; half a unit is added, less if the number is then even
    odd = builder.and_(builder.lshr(magnitude, _int(13)), _int(1))
    normal = builder.lshr(builder.add(builder.add(magnitude, _int(0xFFF - (112 << 23))), odd), _int(13))
    # a sum with 0.5 rounds to multiples of 2**-24
    sum_with_half = builder.fadd(builder.bitcast(magnitude, _FLOAT), ir.Constant(_FLOAT, 0.5))
    subnormal = builder.sub(builder.bitcast(sum_with_half, _INT), _int(126 << 23))
    is_nan = builder.icmp_unsigned(">", magnitude, _int(0xFF << 23))
    large = builder.select(is_nan, _int(0x7E00), _int(0x7C00))
    found = builder.select(builder.icmp_unsigned("<", magnitude, _int(113 << 23)), subnormal, normal)
    found = builder.select(builder.icmp_unsigned(">=", magnitude, _int(143 << 23)), large, found)
    sign = builder.and_(builder.lshr(word, _int(16)), _int(0x8000))
    return builder.trunc(builder.or_(found, sign), _WORD)


def from_float64(builder: Any, value: Any) -> Any:
    """Return the bits of the float16 nearest to a float64.

    The intermediate float32 is truncated, with its last bit set if it is inexact, so that it is on the same side of a
    halfway point as the value.
    """
    nearest = builder.fptrunc(value, _FLOAT)
    back = builder.fpext(nearest, _DOUBLE)
    magnitude = call_intrinsic(builder, "llvm.fabs", [value])
    is_larger = builder.fcmp_ordered(">", call_intrinsic(builder, "llvm.fabs", [back]), magnitude)
    is_inexact = builder.fcmp_ordered("!=", back, value)
    bits = builder.sub(builder.bitcast(nearest, _INT), builder.zext(is_larger, _INT))
    bits = builder.or_(bits, builder.zext(is_inexact, _INT))
    return from_float32(builder, builder.bitcast(bits, _FLOAT))


@_code.lower_constant(_HALF)  # type: ignore[untyped-decorator]
def _constant(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return ir.Constant(_WORD, int(np.float16(value).view(np.uint16)))


@_code.lower_cast(_HALF, types.Float)  # type: ignore[untyped-decorator]
def _to_float(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
    return context.cast(builder, to_float32(builder, value), types.float32, target)


@_code.lower_cast(types.Float, _HALF)  # type: ignore[untyped-decorator]
def _from_float(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
    return (from_float32 if source == types.float32 else from_float64)(builder, value)


@_code.lower_cast(types.Integer, _HALF)  # type: ignore[untyped-decorator]
@_code.lower_cast(types.IntegerLiteral, _HALF)  # type: ignore[untyped-decorator]
def _from_integer(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
    exact = types.float32 if source.bitwidth <= 16 else types.float64  # integers inexact in float64 are infinite
    return context.cast(builder, context.cast(builder, value, source, exact), exact, target)


@_code.lower_cast(_HALF, types.Integer)  # type: ignore[untyped-decorator]
def _to_integer(context: Any, builder: Any, source: Any, target: Any, value: Any) -> Any:
    return saturated(builder, call_intrinsic(builder, "llvm.rint", [to_float32(builder, value)]), target)


def saturated(builder: Any, value: Any, target: types.Integer) -> Any:
    """Convert a whole float to an integer as PTX does: saturate; NaN becomes 0, or 2**63 for 64 bits of a float32.

    For a float64, NaN becomes the bits of the smallest integer.
    """
    kind = ir.IntType(target.bitwidth)
    name = "llvm.fptosi.sat" if target.signed else "llvm.fptoui.sat"
    function = builder.module.declare_intrinsic(name, [kind, value.type], ir.FunctionType(kind, [value.type]))
    found = builder.call(function, [value])
    if target.bitwidth < 64 and value.type == _FLOAT:
        return found
    is_nan = builder.fcmp_unordered("uno", value, value)
    return builder.select(is_nan, ir.Constant(kind, 1 << (target.bitwidth - 1)), found)


def _declare(function: Any, result: types.Type, count: int, code: Callable[[Any, Any], Any]) -> None:
    """Register an operation on float16 in addition to those on other types.

    Args:
        function: The operator or function.
        result: Type of the result.
        count: Number of operands.
        code: Code generator ``(builder, operands) -> value``.
    """

    class Template(AbstractTemplate):  # type: ignore[misc]
        key, metadata = function, _BEFORE_OTHERS

        def generic(self, args: tuple[Any, ...], kws: Any) -> Signature | None:
            if _HALF not in args or len(args) != count:
                return None
            kinds = [self.context.can_convert(kind, _HALF) for kind in args]
            fits = all(kind in (Conversion.exact, Conversion.promote, Conversion.safe) for kind in kinds)
            return signature(result, *[_HALF] * count) if fits else None

    def lowered(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return code(builder, args)

    _types.register_global(function, types.Function(Template))
    _code.lower(function, *[_HALF] * count)(lowered)


def _computed(name: str) -> Callable[[Any, Any], Any]:
    def code(builder: Any, args: Any) -> Any:
        return from_float32(builder, getattr(builder, name)(*(to_float32(builder, arg) for arg in args)))

    return code


def _compared(sign: str) -> Callable[[Any, Any], Any]:
    def code(builder: Any, args: Any) -> Any:
        compare = builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered
        return compare(sign, *(to_float32(builder, arg) for arg in args))

    return code


def _magnitude(builder: Any, args: Any) -> Any:
    return builder.and_(args[0], ir.Constant(_WORD, 0x7FFF))


for _function, _name in ARITHMETIC.items():
    _declare(_function, _HALF, 2, _computed(_name))
for _function, _name in COMPARISONS.items():
    _declare(_function, types.boolean, 2, _compared(_name))
_declare(operator.neg, _HALF, 1, lambda builder, args: builder.xor(args[0], ir.Constant(_WORD, 0x8000)))
_declare(operator.pos, _HALF, 1, lambda builder, args: args[0])
_declare(abs, _HALF, 1, _magnitude)
_declare(float, _HALF, 1, lambda builder, args: args[0])
_types.register_global(np.float16, types.NumberClass(_HALF))


@_code.lower(bool, _HALF)  # type: ignore[untyped-decorator]
def _is_true(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.icmp_unsigned("!=", _magnitude(builder, args), ir.Constant(_WORD, 0))


def _declare_function(function: Any) -> None:
    """Register a function of ``math``, computed in float32."""

    def lowered(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = context.get_function(function, types.float32(types.float32))
        context.add_linking_libs(getattr(found, "libs", ()))
        return from_float32(builder, found(builder, [to_float32(builder, args[0])]))

    class Template(AbstractTemplate):  # type: ignore[misc]
        key, metadata = function, _BEFORE_OTHERS

        def generic(self, args: tuple[Any, ...], kws: Any) -> Signature | None:
            return signature(_HALF, _HALF) if args == (_HALF,) else None

    _types.register_global(function, types.Function(Template))
    _code.lower(function, _HALF)(lowered)


for _function in FUNCTIONS:
    _declare_function(replacement(_function) or _function)


def _boxed(kind: Any, value: Any, c: Any) -> Any:
    if kind != _HALF:
        return box_float(kind, value, c)
    return c.pyapi.float_from_double(c.builder.fpext(to_float32(c.builder, value), _DOUBLE))


def _unboxed(kind: Any, value: Any, c: Any) -> Any:
    if kind != _HALF:
        return unbox_float(kind, value, c)
    found = unbox_float(types.float64, value, c)
    return NativeValue(from_float64(c.builder, found.value), is_error=found.is_error)


_boxers.functions[types.Float], _unboxers.functions[types.Float] = _boxed, _unboxed
cpu_target.typing_context.install_registry(_types)
