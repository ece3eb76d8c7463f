"""float16 on GPUs: PTX instructions in place of numba-cuda's calls of CUDA C++, which NVRTC would have to compile.

The instructions have an explicit rounding: ptxas contracts no products and sums, so that results have the bits of the
CPU backend. Elementary functions are computed in float32 and rounded. The types remain those of numba-cuda.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cuda
from numba.cuda import fp16, libdevice, types
from numba.cuda.core.imputils import Registry
from numba.cuda.descriptor import cuda_target

from warpdrive.kernels.libraries import FUNCTIONS, name_and_rounding

Code = Callable[[Any, Any, Any, Any], Any]
"""``(context, builder, signature, arguments) -> value``: code generator with numba's calling convention."""

_HALF = types.float16
_NAN, _ZERO, _ONE, _INFINITY = np.float16(np.nan), np.float16(0.0), np.float16(1.0), np.float16(np.inf)
_KINDS = {
    **{"e": ("f16", "h"), "f": ("f32", "f"), "d": ("f64", "d"), "b": ("s8", "c"), "B": ("u8", "c")},
    **{
        "h": ("s16", "h"),
        "H": ("u16", "h"),
        "i": ("s32", "r"),
        "I": ("u32", "r"),
        "q": ("s64", "l"),
        "Q": ("u64", "l"),
    },
}
"""Suffix of instructions and letter of registers in PTX, by NumPy's type character."""
_MODES = {"rn": "rn", "rd": "rm", "ru": "rp", "rz": "rz"}
_registry = Registry("float16 in PTX")


def _instruction(text: str, registers: str) -> Code:
    """Return the code generator of a PTX instruction, given the letters of the registers of its result and operands."""
    constraints = f"={','.join(registers)}"

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(context.get_value_type(signature.return_type), [arg.type for arg in args])
        names = ", ".join(f"${place}" for place in range(len(args) + 1))
        return builder.call(ir.InlineAsm(kind, f"{text} {names};", constraints), args)

    return code


def _python(function: Callable[..., Any]) -> Code:
    """Return the code generator of a Python function that numba-cuda compiles."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.compile_internal(builder, function, signature, args)

    return code


def _compared(sign: str, *, of_nan: bool = False) -> Code:
    """Return the code generator of a comparison, which is ``of_nan`` if an operand is NaN."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = [context.cast(builder, arg, _HALF, types.float32) for arg in args]
        return (builder.fcmp_unordered if of_nan else builder.fcmp_ordered)(sign, *wide)

    return code


def _masked(name: str, mask: int) -> Code:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, name)(args[0], ir.Constant(args[0].type, mask))

    return code


@_registry.lower(bool, _HALF)  # type: ignore[untyped-decorator]
def _is_true(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.icmp_unsigned("!=", builder.shl(args[0], ir.Constant(args[0].type, 1)), ir.Constant(args[0].type, 0))


@_registry.lower_constant(_HALF)  # type: ignore[untyped-decorator]
def _constant(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return ir.Constant(ir.IntType(16), int(np.float16(value).view(np.uint16)))


def _same_bits(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return args[0]


@cuda.jit(device=True)
def _maximum(a, b):  # type: ignore[no-untyped-def]
    """Return the larger number; the other one if one is NaN."""
    if a != a:
        return _NAN if b != b else b
    if b != b or a > b:
        return a
    return b if a < b or a != _ZERO else a + b  # 0.0 is larger than -0.0


@cuda.jit(device=True)
def _saturated(a):  # type: ignore[no-untyped-def]
    """Return the nearest number between 0 and 1; 0 for NaN."""
    return _ONE if a > _ONE else a if a > _ZERO else _ZERO


def _of_float32(function: Callable[[Any], Any]) -> Code:
    return _python(lambda a: np.float16(function(np.float32(a))))


_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_CODES: dict[str, Code] = {
    **{f"h{name}": _instruction(f"{name}.rn.f16", "hhh") for name in ("add", "sub", "mul")},
    "hdiv": _python(lambda a, b: np.float16(np.float32(a) / np.float32(b))),
    "hneg": _masked("xor", 0x8000),
    "habs": _masked("and_", 0x7FFF),
    "hadd_sat": _python(lambda a, b: _saturated(a + b)),
    "hsub_sat": _python(lambda a, b: _saturated(a - b)),
    "hmul_sat": _python(lambda a, b: _saturated(a * b)),
    "hfma": _instruction("fma.rn.f16", "hhhh"),
    "hfma_sat": _python(lambda a, b, c: _saturated(fp16.hfma(a, b, c))),
    "hmax": _python(lambda a, b: _maximum(a, b)),
    "hmin": _python(lambda a, b: -_maximum(-a, -b)),
    "hmax_nan": _python(lambda a, b: _NAN if a != a or b != b else _maximum(a, b)),
    "hmin_nan": _python(lambda a, b: _NAN if a != a or b != b else -_maximum(-a, -b)),
    "hisnan": _python(lambda a: a != a),
    "hisinf": _python(lambda a: np.int32(1 if a == _INFINITY else -1 if a == -_INFINITY else 0)),
    **{f"h{name}": _compared(sign) for name, sign in _SIGNS.items()},
    **{f"h{name}u": _compared(sign, of_nan=True) for name, sign in _SIGNS.items()},
    **{name: _instruction(f"cvt.{mode}i.f16.f16", "hh") for name, mode in (("hrint", "rn"), ("hfloor", "rm"))},
    **{name: _instruction(f"cvt.{mode}i.f16.f16", "hh") for name, mode in (("hceil", "rp"), ("htrunc", "rz"))},
    "hsin": _of_float32(math.sin),
    "hcos": _of_float32(math.cos),
    "htanh": _of_float32(math.tanh),
    "htanh_approx": _of_float32(math.tanh),
    "hexp": _of_float32(math.exp),
    "hexp2": _of_float32(libdevice.exp2f),
    "hexp10": _of_float32(libdevice.exp10f),
    "hlog": _of_float32(math.log),
    "hlog2": _of_float32(math.log2),
    "hlog10": _of_float32(math.log10),
    "hsqrt": _of_float32(math.sqrt),
    "hrsqrt": _python(lambda a: np.float16(np.float32(1.0) / math.sqrt(np.float32(a)))),
    "hrcp": _python(lambda a: np.float16(np.float32(1.0) / np.float32(a))),
}


def _rectified(a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c``, or 0 if that is negative."""
    value = fp16.hfma(a, b, c)
    return _NAN if value != value else value if value > _ZERO else _ZERO


_CODES["hfma_relu"] = _python(_rectified)


def _code(name: str, result: str, arguments: str) -> Code:
    """Return the code generator of a function of ``cuda.fp16``.

    Args:
        name: Name of the function.
        result: Type character of the result.
        arguments: Type characters of the arguments.

    Returns:
        The code generator.
    """
    plain, mode = name_and_rounding(name)
    if plain in _CODES:
        return _CODES[plain]
    if "_as_" in name:
        return _same_bits
    (target, register), (source, operand) = _KINDS[result], _KINDS[arguments]
    exact = "" if plain == "half2float" else f".{_MODES[mode]}{'i' if arguments == 'e' else ''}"
    return _instruction(f"cvt{exact}.{target}.{source}", register + operand)


_OPERATORS = {
    **dict.fromkeys((operator.add, operator.iadd), "hadd"),
    **dict.fromkeys((operator.sub, operator.isub), "hsub"),
    **dict.fromkeys((operator.mul, operator.imul), "hmul"),
    **dict.fromkeys((operator.truediv, operator.itruediv), "hdiv"),
    **{getattr(operator, name): f"h{name}" for name in _SIGNS},
    operator.ne: "hneu",
}


def _number_type(kind: str) -> Any:
    return getattr(types, "boolean" if kind == "?" else np.dtype(kind).name)


for _path, (_result, _arguments) in FUNCTIONS.items():
    _library, _, _name = _path.partition(".")
    if _library == "fp16" and hasattr(fp16, _name):
        _registry.lower(getattr(fp16, _name), *map(_number_type, _arguments))(_code(_name, _result, _arguments))
for _function, _name in _OPERATORS.items():
    _registry.lower(_function, _HALF, _HALF)(_CODES[_name])
for _function, _name in ((operator.neg, "hneg"), (abs, "habs"), (operator.abs, "habs")):
    _registry.lower(_function, _HALF)(_CODES[_name])
_registry.lower(operator.pos, _HALF)(_same_bits)
cuda_target.target_context.refresh()  # installs its own registries first: it writes to the first one
cuda_target.target_context.install_registry(_registry)
