"""Functions of ``numba.cuda.fp16`` for generated CPU code, with the types and results of a GPU.

A function of this module is named after its dotted name, such as ``fp16_hadd``. Those of one operation are rounded
correctly; the elementary functions are computed in float32, or float64, and rounded to float16.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.typing.templates import signature as signature_of

from warpdrive.backends.host import half, rounding
from warpdrive.backends.host.mathematics import call_intrinsic
from warpdrive.backends.host.scalars import Code, library_functions
from warpdrive.backends.host.subroutines import call_subroutine, jitable
from warpdrive.kernels.libraries import FUNCTIONS, name_and_rounding

_NAN = np.float16(np.nan)
_ZERO, _ONE, _INFINITY = np.float16(0.0), np.float16(1.0), np.float16(np.inf)
_WHOLE = {"rn": "llvm.rint", "rd": "llvm.floor", "ru": "llvm.ceil", "rz": "llvm.trunc"}
_TOWARD = {"rd": rounding.DOWN, "ru": rounding.UP, "rz": rounding.TO_ZERO}


def _python(function: Callable[..., Any]) -> Code:
    """Return the code generator of a Python function that numba compiles."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return call_subroutine(context, builder, function, signature, args)

    return code


def _in_float64(function: Callable[..., Any]) -> Code:
    """Return the code generator of a Python function of float64, whose result is rounded to float16."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = [context.cast(builder, arg, kind, types.float64) for arg, kind in zip(args, signature.args, strict=True)]
        found = call_subroutine(
            context, builder, function, signature_of(types.float64, *[types.float64] * len(args)), wide
        )
        return half.from_float64(builder, found)

    return code


def _whole(mode: str) -> Code:
    """Return the code generator of a rounding to an integer, or to a whole float16."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = call_intrinsic(builder, _WHOLE[mode], [half.to_float32(builder, args[0])])
        if signature.return_type == types.float16:
            return half.from_float32(builder, found)
        return half.saturated(builder, found, signature.return_type)

    return code


def _of_number(mode: str) -> Code:
    """Return the code generator of a conversion to float16."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = context.cast(builder, args[0], signature.args[0], types.float64)
        nearest = half.from_float64(builder, value)
        return nearest if mode == "rn" else _directed(builder, nearest, value, _TOWARD[mode])

    return code


def _directed(builder: Any, nearest: Any, value: Any, toward: int) -> Any:
    """Return the bits of the float16 next to the nearest one, if that is on the wrong side of a float64.

    Args:
        builder: Builder of instructions.
        nearest: Bits of the nearest float16.
        value: The float64.
        toward: Direction to round to.

    Returns:
        The bits of the rounded float16.
    """
    number, zero = builder.fpext(half.to_float32(builder, nearest), value.type), ir.Constant(value.type, 0.0)
    one = ir.Constant(nearest.type, 1)
    if toward == rounding.TO_ZERO:
        sizes = [call_intrinsic(builder, "llvm.fabs", [float64]) for float64 in (number, value)]
        return builder.sub(nearest, builder.zext(builder.fcmp_ordered(">", *sizes), nearest.type))
    wrong = ">" if toward == rounding.DOWN else "<"
    beside_zero = ir.Constant(nearest.type, 0x8001 if toward == rounding.DOWN else 1)
    is_smaller = builder.fcmp_ordered(wrong, number, zero)
    stepped = builder.select(is_smaller, builder.sub(nearest, one), builder.add(nearest, one))
    stepped = builder.select(builder.fcmp_ordered("==", number, zero), beside_zero, stepped)
    return builder.select(builder.fcmp_ordered(wrong, number, value), stepped, nearest)


def _same_bits(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return args[0]


@jitable
def _maximum(a, b):  # type: ignore[no-untyped-def]
    """Return the larger number; the other one if one is NaN."""
    if a != a:
        return _NAN if b != b else b
    if b != b or a > b:
        return a
    return b if a < b or a != _ZERO else a + b  # 0.0 is larger than -0.0


@jitable
def _maximum_or_nan(a, b):  # type: ignore[no-untyped-def]
    return _NAN if a != a or b != b else _maximum(a, b)


@jitable
def _saturated(a):  # type: ignore[no-untyped-def]
    """Return the nearest number between 0 and 1; 0 for NaN."""
    return _ONE if a > _ONE else a if a > _ZERO else _ZERO


@jitable
def _rectified(a):  # type: ignore[no-untyped-def]
    """Return the number, or 0 if it is negative."""
    return _NAN if a != a else a if a > _ZERO else _ZERO


def _then(code: Code, function: Callable[[Any], Any]) -> Code:
    """Return a code generator of float16 whose result a Python function changes."""

    def changed(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = code(context, builder, signature, args)
        return call_subroutine(context, builder, function, signature_of(types.float16, types.float16), [found])

    return changed


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "hadd": lambda a, b: a + b,
    "hsub": lambda a, b: a - b,
    "hmul": lambda a, b: a * b,
    "hdiv": lambda a, b: a / b,
    "hneg": lambda a: -a,
    "habs": lambda a: abs(a),
    "hmax": lambda a, b: _maximum(a, b),
    "hmin": lambda a, b: -_maximum(-a, -b),
    "hmax_nan": lambda a, b: _maximum_or_nan(a, b),
    "hmin_nan": lambda a, b: -_maximum_or_nan(-a, -b),
    "hadd_sat": lambda a, b: _saturated(a + b),
    "hsub_sat": lambda a, b: _saturated(a - b),
    "hmul_sat": lambda a, b: _saturated(a * b),
    "hsqrt": lambda a: math.sqrt(a),
    "hsin": lambda a: math.sin(a),
    "hcos": lambda a: math.cos(a),
    "hexp": lambda a: math.exp(a),
    "hlog": lambda a: math.log(a),
    "hlog2": lambda a: math.log2(a),
    "hlog10": lambda a: math.log10(a),
    "htanh": lambda a: math.tanh(a),
    "htanh_approx": lambda a: math.tanh(a),
    "hrcp": lambda a: _ONE / a,
    "hisnan": lambda a: a != a,
    "hisinf": lambda a: np.int32(1 if a == _INFINITY else -1 if a == -_INFINITY else 0),
    "heq": lambda a, b: a == b,
    "hne": lambda a, b: a < b or a > b,
    "hlt": lambda a, b: a < b,
    "hle": lambda a, b: a <= b,
    "hgt": lambda a, b: a > b,
    "hge": lambda a, b: a >= b,
    "hequ": lambda a, b: not (a < b or a > b),
    "hneu": lambda a, b: a != b,
    "hltu": lambda a, b: not a >= b,
    "hleu": lambda a, b: not a > b,
    "hgtu": lambda a, b: not a <= b,
    "hgeu": lambda a, b: not a < b,
}


_FMA = _in_float64(lambda a, b, c: a * b + c)  # the product is exact; rounding the sum twice equals rounding it once
_CODES: dict[str, Code] = {
    **{name: _python(function) for name, function in _OPERATIONS.items()},
    **{"hfma": _FMA, "hfma_sat": _then(_FMA, _saturated), "hfma_relu": _then(_FMA, _rectified)},
    **{"hrint": _whole("rn"), "hfloor": _whole("rd"), "hceil": _whole("ru"), "htrunc": _whole("rz")},
    "hrsqrt": _in_float64(lambda a: 1.0 / math.sqrt(a)),
    "hexp2": _in_float64(lambda a: np.exp2(a)),
    "hexp10": _in_float64(lambda a: 10.0**a),
    "half2float": _python(lambda a: np.float32(a)),
}


def _code(name: str) -> Code:
    """Return the code generator of the function with a name, such as ``__hadd_rn`` or ``__half2int_rd``."""
    plain, mode = name_and_rounding(name)
    if plain in _CODES:
        return _CODES[plain]
    if "_as_" in name:
        return _same_bits
    return _of_number(mode) if plain.endswith("2half") else _whole(mode)


_NAMES = [path.removeprefix("fp16.") for path in FUNCTIONS if path.startswith("fp16.")]
globals().update(library_functions("fp16", {name: _code(name) for name in _NAMES}))
