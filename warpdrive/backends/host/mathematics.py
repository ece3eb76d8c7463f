"""Mathematical functions that numba lacks on the CPU, or whose types or results differ from those on a GPU.

They follow the GPU: ``floor``, ``ceil`` and ``trunc`` return floats, a power with an int32 exponent has the type of its
base, and ``min`` and ``max`` of two floats return the one that is not NaN.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed, lower_builtin
from numba.core.typing.templates import AbstractTemplate, Signature, infer_global, signature

from warpdrive.backends.host.scalars import FLOATS, Code, declare
from warpdrive.backends.host.subroutines import call_subroutine

REPLACED = frozenset({"ceil", "floor", "trunc", "fmod", "modf", "remainder", "pow", "frexp", "ldexp"})
"""Functions of ``math`` that this module replaces, under the same name."""
EXTREMES = {"min": "llvm.minnum", "max": "llvm.maxnum"}
"""Builtin functions that this module replaces, with the LLVM intrinsic for two floats."""
REPLACEMENTS = [*(("math", name) for name in sorted(REPLACED)), *(("builtins", name) for name in (*EXTREMES, "round"))]
"""``(module, name)`` of all replaced functions."""


def ceil(x: Any) -> Any:
    """Return the smallest integer not less than ``x``, as a float."""


def floor(x: Any) -> Any:
    """Return the largest integer not greater than ``x``, as a float."""


def trunc(x: Any) -> Any:
    """Return ``x`` rounded towards zero, as a float."""


def fmod(x: Any, y: Any) -> Any:
    """Return the remainder of ``x / y`` with the quotient rounded towards zero; it has the sign of ``x``."""


def remainder(x: Any, y: Any) -> Any:
    """Return the IEEE 754 remainder: the difference between ``x`` and the closest multiple of ``y``."""


def modf(x: Any) -> Any:
    """Return the fractional and the integral part of ``x``, both with its sign."""


def pow(x: Any, y: Any) -> Any:
    """Return ``x`` to the power of ``y``."""


def frexp(x: Any) -> Any:
    """Return ``m`` and ``e`` (int32) such that ``x`` is ``m * 2**e``, with ``m`` between 0.5 and 1."""


def ldexp(x: Any, i: Any) -> Any:
    """Return ``x * 2**i``."""


def min(*args: Any) -> Any:
    """Return the minimum; of two floats the other one if one is NaN."""


def max(*args: Any) -> Any:
    """Return the maximum; of two floats the other one if one is NaN."""


def round(*args: Any) -> Any:
    """Return a rounded number; a float32 with digits is computed in float64, as on a GPU."""


def replacement(function: Any) -> Any:
    """Return this module's replacement of a function of ``math``, or None if there is none."""
    is_ours = getattr(function, "__module__", None) == "math" and function.__name__ in REPLACED
    return globals()[function.__name__] if is_ours else None


def _of_floats(count: int) -> list[Signature]:
    return [signature(kind, *[kind] * count) for kind in FLOATS]


def call_intrinsic(builder: Any, name: str, args: Any) -> Any:
    """Return the value of an LLVM intrinsic of floats of one type."""
    kind = args[0].type
    function = builder.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, [kind] * len(args)))
    return builder.call(function, args)


def _instruction(name: str) -> Code:
    """Return the code generator of an LLVM intrinsic on floats; integer arguments are converted first."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.return_type
        return call_intrinsic(builder, name, [context.cast(builder, args[0], signature.args[0], kind)])

    return code


def _as_on_the_cpu(function: Any) -> Code:
    """Return the code generator that numba has for the same signature."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_function(function, signature)(builder, args)

    return code


def _fmod(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.frem(*args)


def _remainder(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    name = "remainder" if signature.return_type == types.float64 else "remainderf"  # of the C library
    kind = args[0].type
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind, kind]), name)
    return builder.call(function, args)


def _modf(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    (x,) = args
    whole = call_intrinsic(builder, "llvm.trunc", [x])
    is_infinite = builder.fcmp_ordered("==", call_intrinsic(builder, "llvm.fabs", [x]), ir.Constant(x.type, math.inf))
    rest = builder.select(is_infinite, ir.Constant(x.type, 0.0), builder.fsub(x, whole))
    fraction = call_intrinsic(builder, "llvm.copysign", [rest, x])
    tuple_type = signature.return_type
    return impl_ret_borrowed(context, builder, tuple_type, context.make_tuple(builder, tuple_type, [fraction, whole]))


def _pow(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind = signature.return_type
    exponent = context.cast(builder, args[1], signature.args[1], kind)
    return context.get_function(math.pow, kind(kind, kind))(builder, [args[0], exponent])


_WITH_INTEGERS = [signature(types.float64, types.int64), signature(types.float64, types.uint64), *_of_floats(1)]
declare(ceil, _WITH_INTEGERS, _instruction("llvm.ceil"))
declare(floor, _WITH_INTEGERS, _instruction("llvm.floor"))
declare(trunc, _WITH_INTEGERS, _instruction("llvm.trunc"))
declare(fmod, _of_floats(2), _fmod)
declare(remainder, _of_floats(2), _remainder)
declare(modf, [signature(types.UniTuple(kind, 2), kind) for kind in reversed(FLOATS)], _modf)
declare(pow, [*_of_floats(2), *(signature(kind, kind, types.int32) for kind in FLOATS)], _pow)
declare(frexp, [signature(types.Tuple((kind, types.int32)), kind) for kind in FLOATS], _as_on_the_cpu(math.frexp))
declare(ldexp, [signature(kind, kind, types.int32) for kind in FLOATS], _as_on_the_cpu(math.ldexp))


def _declare_builtin(function: Any, applies: Callable[[Any], bool], special: Code) -> None:
    """Register a builtin function with numba's types and code, except for arguments of some types.

    Args:
        function: The function of this module that replaces the builtin one of the same name.
        applies: Returns True for the types of arguments with another code.
        special: The code generator for these.
    """
    original = getattr(builtins, function.__name__)

    class Template(AbstractTemplate):  # type: ignore[misc]
        key = function

        def generic(self, args: tuple[Any, ...], kws: Any) -> Signature:
            found: Signature = self.context.resolve_value_type(original).get_call_type(self.context, args, kws)
            return signature(found.return_type, *args) if applies(args) else found

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if applies(signature.args):
            return special(context, builder, signature, args)
        numbas = context.get_function(context.typing_context.resolve_value_type(original), signature)
        context.add_linking_libs(getattr(numbas, "libs", ()))
        return numbas(builder, args)

    infer_global(function)(Template)
    lower_builtin(function, types.VarArg(types.Any))(code)


def _extreme(operation: str) -> Code:
    """Return the code generator of the minimum or maximum of two floats."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = types.float32 if signature.return_type == types.float16 else signature.return_type
        found = call_intrinsic(
            builder, operation, [context.cast(builder, *pair, kind) for pair in zip(args, signature.args, strict=True)]
        )
        return context.cast(builder, found, kind, signature.return_type)

    return code


def _are_two_floats(kinds: Any) -> bool:
    return len(kinds) == 2 and all(isinstance(kind, types.Float) for kind in kinds)


def _is_float32_with_digits(kinds: Any) -> bool:
    return len(kinds) == 2 and kinds[0] == types.float32 and isinstance(kinds[1], types.Integer)


def _rounded(x, digits):  # type: ignore[no-untyped-def]
    """Return a float32 rounded to decimal digits, computed in float64."""
    scale = 10.0 ** abs(digits)
    scaled = x * scale if digits >= 0 else x / scale
    if not math.isfinite(scaled):
        return x
    whole = np.rint(scaled)
    return np.float32(whole / scale if digits >= 0 else whole * scale)


def _round_float32(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return call_subroutine(context, builder, _rounded, signature, args)


_declare_builtin(min, _are_two_floats, _extreme(EXTREMES["min"]))
_declare_builtin(max, _are_two_floats, _extreme(EXTREMES["max"]))
_declare_builtin(round, _is_float32_with_digits, _round_float32)
