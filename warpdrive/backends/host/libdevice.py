"""Functions of ``numba.cuda.libdevice`` for generated CPU code, with the types of numba.cuda.

A function of this module is named after its dotted name, such as ``libdevice_sinf``. Functions of integers, conversions
and those with a rounding mode are exact; others are those of the C library, or are within the errors that CUDA
documents. The ``fast_`` functions are the accurate ones. Those of float32 that are not an operation of the processor
are computed in float64.
"""

from __future__ import annotations

import ctypes
import math
import operator
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import signature as signature_of

from warpdrive.backends.host import half, mathematics, rounding, scalars, special
from warpdrive.backends.host.scalars import Code, ffs_code, fma, library_functions, operation
from warpdrive.backends.host.subroutines import call_subroutine
from warpdrive.kernels.libraries import FUNCTIONS

_MODES = {"rn": None, "rd": rounding.DOWN, "ru": rounding.UP, "rz": rounding.TO_ZERO}


def _python(function: Callable[..., Any], wide: bool = False) -> Code:
    """Return the code generator of a Python function that numba compiles; if ``wide``, for float64 arguments only."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = [types.float64 if wide and isinstance(kind, types.Float) else kind for kind in signature.args]
        args = [context.cast(builder, *given) for given in zip(args, signature.args, kinds, strict=True)]
        return call_subroutine(context, builder, function, signature_of(signature.return_type, *kinds), args)

    return code


def _intrinsic(name: str) -> Code:
    """Return the code generator of an LLVM intrinsic of floats."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return mathematics.call_intrinsic(builder, name, args)

    return code


def _bits(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.bitcast(args[0], context.get_value_type(signature.return_type))


def _whole(name: str, *, signed: bool = True) -> Code:
    """Return the code generator of a conversion to an integer, rounded by an LLVM intrinsic."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = types.Integer.from_bitwidth(signature.return_type.bitwidth, signed)
        return half.saturated(builder, mathematics.call_intrinsic(builder, name, args), target)

    return code


def _wide_product(extend: str, shift: str) -> Code:
    """Return the code generator of the upper half of a product."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        width = args[0].type.width
        wide = ir.IntType(2 * width)
        product = builder.mul(*(getattr(builder, extend)(arg, wide) for arg in args))
        return builder.trunc(getattr(builder, shift)(product, ir.Constant(wide, width)), args[0].type)

    return code


def _mean(extend: str, rounded: int) -> Code:
    """Return the code generator of the mean of two integers, rounded down or, if ``rounded`` is 1, up."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(64)
        total = builder.add(*(getattr(builder, extend)(arg, wide) for arg in args))
        total = builder.add(total, ir.Constant(wide, rounded))
        return builder.trunc(builder.ashr(total, ir.Constant(wide, 1)), args[0].type)

    return code


def _extreme(sign: str, *, signed: bool) -> Code:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select((builder.icmp_signed if signed else builder.icmp_unsigned)(sign, *args), *args)

    return code


def _product_of_24(*, signed: bool) -> Code:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        shift = builder.ashr if signed else builder.lshr
        eight = ir.Constant(args[0].type, 8)
        return builder.mul(*(shift(builder.shl(arg, eight), eight) for arg in args))

    return code


def _difference(*, signed: bool) -> Code:
    """Return the code generator of ``abs(x - y) + z``."""
    smaller, larger = _extreme("<", signed=signed), _extreme(">", signed=signed)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        low, high = (choose(context, builder, signature, args[:2]) for choose in (smaller, larger))
        return builder.add(builder.sub(high, low), args[2])

    return code


def _byte_perm(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    wide = ir.IntType(64)
    low, high, selector = (builder.zext(arg, wide) for arg in args)
    source = builder.or_(low, builder.shl(high, ir.Constant(wide, 32)))
    found: Any = ir.Constant(wide, 0)
    for place in range(4):
        number = builder.and_(builder.lshr(selector, ir.Constant(wide, 4 * place)), ir.Constant(wide, 7))
        byte = builder.and_(builder.lshr(source, builder.mul(number, ir.Constant(wide, 8))), ir.Constant(wide, 255))
        found = builder.or_(found, builder.shl(byte, ir.Constant(wide, 8 * place)))
    return builder.trunc(found, ir.IntType(32))


def _half_of_word(shift: int) -> Code:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = builder.bitcast(args[0], ir.IntType(64))
        return builder.trunc(builder.lshr(word, ir.Constant(word.type, shift)), ir.IntType(32))

    return code


def _joined(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    high, low = (builder.zext(arg, ir.IntType(64)) for arg in args)
    return builder.bitcast(builder.or_(builder.shl(high, ir.Constant(high.type, 32)), low), ir.DoubleType())


def _narrow(code: Code) -> Code:
    """Return a code generator of integers whose result is converted to 32 bits."""

    def narrowed(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = code(context, builder, signature, args)
        return found if found.type.width == 32 else builder.trunc(found, ir.IntType(32))

    return narrowed


def _flag(test: Callable[[Any], bool]) -> Code:
    return _python(lambda x: np.int32(test(x)))


def _of_c_library(name: str) -> Code:
    """Return the code generator of a function of the C library of float64, and of int32."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = [types.float64 if isinstance(kind, types.Float) else kind for kind in signature.args]
        args = [context.cast(builder, *given) for given in zip(args, signature.args, kinds, strict=True)]
        kind = ir.FunctionType(ir.DoubleType(), [arg.type for arg in args])
        found = builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)
        return context.cast(builder, found, types.float64, signature.return_type)

    return code


def _rounded(function: Any, count: int, toward: int) -> Callable[..., Any]:
    """Return a function of ``count`` arguments that is rounded in a direction."""
    forms: tuple[Callable[..., Any], ...] = (
        lambda x: function(x, toward),
        lambda x, y: function(x, y, toward),
        lambda x, y, z: function(x, y, z, toward),
    )
    return forms[count - 1]


_ARITHMETIC: dict[str, tuple[Any, Any, Callable[..., Any]]] = {
    "add": (rounding.add_32, rounding.add_64, operator.add),
    "sub": (rounding.subtract_32, None, operator.sub),
    "mul": (rounding.multiply_32, rounding.multiply_64, operator.mul),
    "div": (rounding.divide_32, rounding.divide_64, operator.truediv),
    "sqrt": (rounding.sqrt_32, rounding.sqrt_64, math.sqrt),
    "fma": (rounding.fma_32, rounding.fma_64, fma),
}
"""Operations with a rounding mode: the functions of float32 and float64, and the one that rounds to the nearest."""


def _nearest(function: Any, count: int) -> Callable[..., Any]:
    """Return a Python function of ``count`` arguments that calls one of Python or NumPy."""
    forms: tuple[Callable[..., Any], ...] = (
        lambda x: function(x),
        lambda x, y: function(x, y),
        lambda x, y, z: function(x, y, z),
    )
    is_stub = getattr(function, "__module__", "") in (mathematics.__name__, scalars.__name__)
    return function if isinstance(function, FunctionType) and not is_stub else forms[count - 1]


def _with_modes() -> dict[str, Code]:
    """Return the code generators of the functions with a rounding mode, by name."""
    codes: dict[str, Code] = {}
    for mode, toward in _MODES.items():
        for name, (of_float32, of_float64, nearest) in _ARITHMETIC.items():
            count = {"sqrt": 1, "fma": 3}.get(name, 2)
            names = (f"fmaf_{mode}", f"fma_{mode}") if name == "fma" else (f"f{name}_{mode}", f"d{name}_{mode}")
            for full, function in zip(names, (of_float32, of_float64), strict=True):
                if function is not None:
                    chosen = _nearest(nearest, count) if toward is None else _rounded(function, count, toward)
                    codes[full] = _python(chosen)
        codes[f"frcp_{mode}"] = _python(_reciprocal(rounding.divide_32, np.float32(1.0), toward))
        codes[f"drcp_{mode}"] = _python(_reciprocal(rounding.divide_64, np.float64(1.0), toward))
        codes[f"double2float_{mode}"] = _python(
            (lambda x: np.float32(x)) if toward is None else _rounded(rounding.float32_of, 1, toward)
        )
        for source, convert in {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}.items():
            codes[f"{source}2float_{mode}"] = _python(_of_integer(convert, np.float32, rounding.integer_32, toward))
            codes[f"{source}2double_{mode}"] = _python(_of_integer(convert, np.float64, rounding.integer_64, toward))
            for float_name in ("float", "double"):
                codes[f"{float_name}2{source}_{mode}"] = _whole(_WHOLE[mode], signed=not source.startswith("u"))
    return codes


_WHOLE = {"rn": "llvm.rint", "rd": "llvm.floor", "ru": "llvm.ceil", "rz": "llvm.trunc"}


def _reciprocal(divide: Any, one: Any, toward: int | None) -> Callable[[Any], Any]:
    return (lambda x: one / x) if toward is None else (lambda x: divide(one, x, toward))


def _of_integer(convert: Any, to_float: Any, rounded: Any, toward: int | None) -> Callable[[Any], Any]:
    """Return the conversion of an integer, whose bits are those of the type ``convert``, to a float."""
    if toward is None:
        return lambda x: to_float(convert(x))
    is_signed = np.issubdtype(convert, np.signedinteger)
    wide = np.int64 if is_signed else np.uint64
    bits, mask, unit = wide(32), wide(2**32 - 1), 2.0**32

    def conversion(x):  # type: ignore[no-untyped-def]
        number = wide(convert(x))
        high, low = np.float64(number >> bits) * unit, np.float64(number & mask)
        return rounded(to_float(number), high, low, toward)

    return conversion


def _saturate(x):  # type: ignore[no-untyped-def]
    return x if 0.0 < x < 1.0 else 1.0 if x >= 1.0 else 0.0


def _positive_difference(x, y):  # type: ignore[no-untyped-def]
    return x - y if not x <= y else 0.0


def _sincos(x):  # type: ignore[no-untyped-def]
    return math.sin(x), math.cos(x)


_SAME = ("sin", "cos", "tan", "exp", "log", "sqrt", "atan2", "log2", "log10")
"""Functions of ``math`` that are computed in float32 for float32."""
_WIDE = {
    **{name: getattr(math, name) for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh")},
    **{name: getattr(math, name) for name in ("tanh", "erf", "erfc", "expm1", "log1p", "lgamma", "hypot", "pow")},
    **{name: getattr(special, name) for name in ("rsqrt", "cbrt", "rcbrt", "sincospi", "erfcx", "erfinv", "erfcinv")},
    **{name: getattr(special, name) for name in ("normcdf", "normcdfinv")},
    "tgamma": math.gamma,
    "exp2": np.exp2,
    "exp10": lambda x: 10.0**x,
    "sinpi": lambda x: special.sincospi(x)[0],
    "cospi": lambda x: special.sincospi(x)[1],
    "powi": lambda x, n: math.pow(x, float(n)),
}
"""Functions that are computed in float64 for float32 as well."""
_EXACT: dict[str, Callable[..., Any]] = {
    **{name: getattr(mathematics, name) for name in ("fmod", "remainder", "modf", "frexp", "ldexp")},
    "scalbn": mathematics.ldexp,
    "nextafter": np.nextafter,
    "remquo": special.remquo,
    "logb": special.logb,
    "fdim": _positive_difference,
    "sincos": _sincos,
}
_BESSEL = ("j0", "j1", "jn", "y0", "y1", "yn")
"""Functions of the C library, whose names begin with an underscore on Windows."""
if sys.platform == "win32":
    for _name in _BESSEL:
        llvm.add_symbol(_name, ctypes.cast(getattr(ctypes.cdll.ucrtbase, f"_{_name}"), ctypes.c_void_p).value)
_INTRINSICS = {
    **{name: f"llvm.{name}" for name in ("fabs", "floor", "ceil", "trunc", "rint", "round", "copysign", "fma")},
    **{"nearbyint": "llvm.rint", "fmax": "llvm.maxnum", "fmin": "llvm.minnum"},
}


def _codes() -> dict[str, Code]:
    """Return the code generator of each function."""
    of_both: dict[str, Code] = {}
    for name in _SAME:
        function = getattr(math, name)
        of_both[name] = _python(_nearest(function, 2 if name == "atan2" else 1))
    for name, function in _EXACT.items():
        of_both[name] = _python(_nearest(function, len(FUNCTIONS[f"libdevice.{name}"].arguments)))
    of_both |= {name: _intrinsic(intrinsic) for name, intrinsic in _INTRINSICS.items()}
    codes = {name + suffix: code for name, code in of_both.items() for suffix in ("", "f")}
    for name, function in _WIDE.items():
        code = _python(_nearest(function, len(FUNCTIONS[f"libdevice.{name}"].arguments)), wide=True)
        codes |= {name: code, f"{name}f": code}
    for name in _BESSEL:
        codes |= {name: _of_c_library(name), f"{name}f": _of_c_library(name)}
    for name in ("sinf", "cosf", "tanf", "expf", "logf", "log2f", "log10f", "exp10f", "powf", "sincosf"):
        codes[f"fast_{name}"] = codes[name]
    for suffix in ("", "ll"):
        codes |= {f"popc{suffix}": _narrow(operation("ctpop")), f"clz{suffix}": _narrow(operation("ctlz", 0))}
        codes |= {f"brev{suffix}": operation("bitreverse"), f"ffs{suffix}": ffs_code}
    for name, test in {"isnan": math.isnan, "isinf": math.isinf}.items():
        codes |= {f"{name}d": _flag(test), f"{name}f": _flag(test)}
    codes |= {"isfinited": _flag(math.isfinite), "finitef": _flag(math.isfinite)}
    for suffix, signed in (("", True), ("u", False)):
        codes |= {f"{suffix}{p}max": _extreme(">", signed=signed) for p in ("", "ll")}
        codes |= {f"{suffix}{p}min": _extreme("<", signed=signed) for p in ("", "ll")}
        codes[f"{suffix}sad"] = _difference(signed=signed)
        codes[f"{suffix}mul24"] = _product_of_24(signed=signed)
        extend, shift = ("sext", "ashr") if signed else ("zext", "lshr")
        codes |= dict.fromkeys((f"{suffix}mulhi", f"{suffix}mul64hi"), _wide_product(extend, shift))
        codes |= {f"{suffix}hadd": _mean(extend, 0), f"{'ur' if suffix else 'r'}hadd": _mean(extend, 1)}
    return {
        **codes,
        **_with_modes(),
        **dict.fromkeys(("float_as_int", "int_as_float", "double_as_longlong", "longlong_as_double"), _bits),
        **dict.fromkeys(("abs", "llabs"), _python(lambda x: abs(x))),
        **dict.fromkeys(("llrint", "llrintf"), _whole("llvm.rint")),
        **dict.fromkeys(("llround", "llroundf"), _whole("llvm.round")),
        **dict.fromkeys(("ilogb", "ilogbf"), _python(special.ilogb)),
        **dict.fromkeys(("signbitd", "signbitf"), _python(lambda x: np.int32(math.copysign(1.0, x) < 0))),
        "byte_perm": _byte_perm,
        "double2hiint": _half_of_word(32),
        "double2loint": _half_of_word(0),
        "hiloint2double": _joined,
        "half2float": lambda context, builder, signature, args: half.to_float32(builder, args[0]),
        "float2half_rn": lambda context, builder, signature, args: half.from_float32(builder, args[0]),
        "frsqrt_rn": _python(rounding.rsqrt_32),
        "saturatef": _python(_saturate),
        "fast_fdividef": _python(lambda x, y: x / y),
    }


globals().update(library_functions("libdevice", _codes()))
