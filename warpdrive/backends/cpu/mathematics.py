"""Functions of ``math`` that numba lacks on a CPU or types differently there than on a GPU: as they are on a GPU.

There, ``floor``, ``ceil`` and ``trunc`` give floats, and a power with an exponent of int32 has the type of its base.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import Signature, signature

from warpdrive.backends.cpu.scalars import FLOATS, Code, declare

REPLACED = frozenset({"ceil", "floor", "trunc", "fmod", "modf", "remainder", "pow", "frexp", "ldexp"})
"""What this module has in the place of ``math``'s, under the same name."""


def ceil(x: Any) -> Any:
    """Return the smallest whole number that is not below ``x``, as a float."""


def floor(x: Any) -> Any:
    """Return the largest whole number that is not above ``x``, as a float."""


def trunc(x: Any) -> Any:
    """Return ``x`` without its fraction, as a float."""


def fmod(x: Any, y: Any) -> Any:
    """Return what remains of ``x``, with its sign, when ``y`` is taken away as often as it fits."""


def remainder(x: Any, y: Any) -> Any:
    """Return the difference between ``x`` and the closest multiple of ``y``."""


def modf(x: Any) -> Any:
    """Return the fraction and the whole part of ``x``, both with its sign."""


def pow(x: Any, y: Any) -> Any:
    """Return ``x`` to the power of ``y``."""


def frexp(x: Any) -> Any:
    """Return ``m`` and ``e`` (int32) such that ``x`` is ``m * 2**e``, with ``m`` between 0.5 and 1."""


def ldexp(x: Any, i: Any) -> Any:
    """Return ``x * 2**i``."""


def replacement(function: Any) -> Any:
    """Return what stands here in the place of a function of ``math``, or None if nothing does."""
    is_ours = getattr(function, "__module__", None) == "math" and function.__name__ in REPLACED
    return globals()[function.__name__] if is_ours else None


def _of_floats(count: int) -> list[Signature]:
    return [signature(kind, *[kind] * count) for kind in FLOATS]


def _call(builder: Any, name: str, args: Any) -> Any:
    kind = args[0].type
    function = builder.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, [kind] * len(args)))
    return builder.call(function, args)


def _instruction(name: str) -> Code:
    """Return the code that is an operation of LLVM's on floats; integers are converted first."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.return_type
        return _call(builder, name, [context.cast(builder, args[0], signature.args[0], kind)])

    return code


def _as_on_the_cpu(function: Any) -> Code:
    """Return the code that numba has for the same signature."""

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
    whole = _call(builder, "llvm.trunc", [x])
    is_infinite = builder.fcmp_ordered("==", _call(builder, "llvm.fabs", [x]), ir.Constant(x.type, math.inf))
    rest = builder.select(is_infinite, ir.Constant(x.type, 0.0), builder.fsub(x, whole))
    fraction = _call(builder, "llvm.copysign", [rest, x])
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
