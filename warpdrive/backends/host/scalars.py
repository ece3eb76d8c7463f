"""Scalar intrinsics of ``numba.cuda`` for generated CPU code, with the same types.

Each is one or a few LLVM instructions, which are vectorised over the threads of a block.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core.errors import TypingError
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, ConcreteTemplate, Signature, infer_global, signature
from numba.extending import overload_method

from warpdrive.kernels.language import SCALARS
from warpdrive.kernels.libraries import FUNCTIONS, VECTORS

Code = Callable[[Any, Any, Any, Any], Any]
"""``(context, builder, signature, arguments) -> value``: code generator with numba's calling convention."""

FLOATS = (types.float32, types.float64)
WIDE_INTEGERS = (types.int32, types.uint32, types.int64, types.uint64)
INTEGERS = (types.int8, types.int16, types.uint8, types.uint16, *WIDE_INTEGERS)


def popc(x: Any) -> Any:
    """Count the one bits of an integer."""


def clz(x: Any) -> Any:
    """Count the leading zero bits of an integer."""


def ffs(x: Any) -> Any:
    """Return the position of the lowest one bit of an integer, counted from 1, or 0 if there is none."""


def brev(x: Any) -> Any:
    """Reverse the bits of an integer."""


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c``, rounded once."""


def cbrt(a: Any) -> Any:
    """Return the cube root."""


def selp(a: Any, b: Any, c: Any) -> Any:
    """Return ``b`` if ``a`` is true, else ``c``."""


def nanosleep(ns: Any) -> None:
    """Do nothing: one core runs the threads of a block in sequence, so no other thread could proceed meanwhile."""


def declare(function: Any, signatures: Sequence[Signature], code: Code) -> None:
    """Register the signatures and the code generator of a function with numba.

    An argument that no signature matches is converted by numba's usual rules.

    Args:
        function: The function, of this or another module.
        signatures: Its signatures, all with the same number of arguments.
        code: Its code generator.
    """
    template = type(function.__name__, (ConcreteTemplate,), {"key": function, "cases": list(signatures)})
    infer_global(function, types.Function(template))
    lower_builtin(function, *[types.Any] * len(signatures[0].args))(code)


def library_functions(library: str, codes: Mapping[str, Code]) -> dict[str, Any]:
    """Register the functions of a module of ``numba.cuda`` with numba.

    Args:
        library: ``"libdevice"`` or ``"fp16"``.
        codes: Code generator of each of its functions, by name.

    Returns:
        The functions, by names such as ``libdevice_sinf``.
    """
    functions = {}
    for path, kinds in FUNCTIONS.items():
        if path.startswith(f"{library}."):

            def function(*args: Any) -> Any:
                """Return the value of a function of the library."""

            function.__name__ = path.replace(".", "_")
            results, arguments = ([from_dtype(np.dtype(kind)) for kind in part] for part in kinds)
            result = results[0] if len(results) == 1 else types.Tuple(tuple(results))
            declare(function, [signature(result, *arguments)], codes[path.removeprefix(f"{library}.")])
            functions[function.__name__] = function
    return functions


def home_of(path: str) -> tuple[str, str] | None:
    """Return the module and the name of a function of scalars or vectors, given its dotted name in ``numba.cuda``.

    None if it is no such function.
    """
    library = path.partition(".")[0]
    if path in FUNCTIONS:
        return f"warpdrive.backends.host.{library}", path.replace(".", "_")
    if path in VECTORS:
        return "warpdrive.backends.host.vectors", path
    return (__name__, path) if path in SCALARS else None


def host_function(path: str) -> Any:
    """Return a function of scalars or vectors, given its dotted name."""
    module, name = home_of(path) or (__name__, path)
    return getattr(importlib.import_module(module), name)


def operation(name: str, *constants: int) -> Code:
    """Return the code generator of one LLVM instruction whose last operands are the bits ``constants``."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, name)(*args, *(ir.Constant(ir.IntType(1), bit) for bit in constants))

    return code


def ffs_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Emit the code of :func:`ffs`."""
    (value,) = args
    zero, one = (ir.Constant(value.type, number) for number in (0, 1))
    place = builder.add(builder.cttz(value, ir.Constant(ir.IntType(1), 1)), one)
    place = builder.select(builder.icmp_unsigned("==", value, zero), zero, place)
    return place if value.type.width == 32 else builder.trunc(place, ir.IntType(32))


def _nothing(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return context.get_dummy_value()


declare(popc, [signature(kind, kind) for kind in INTEGERS], operation("ctpop"))
declare(clz, [signature(kind, kind) for kind in INTEGERS], operation("ctlz", 0))
declare(ffs, [signature(types.uint32, kind) for kind in WIDE_INTEGERS], ffs_code)
declare(brev, [signature(kind, kind) for kind in (types.uint32, types.uint64)], operation("bitreverse"))
declare(fma, [signature(kind, kind, kind, kind) for kind in FLOATS], operation("fma"))
declare(nanosleep, [signature(types.void, types.uint32)], _nothing)


@infer_global(selp)
class _Selp(AbstractTemplate):  # type: ignore[misc]
    key = selp

    def generic(self, args: tuple[Any, ...], kws: Any) -> Signature:
        test, first, second = args
        if first != second or first not in (*FLOATS, types.int16, types.uint16, *WIDE_INTEGERS):
            raise TypingError(
                "cuda.selp chooses between two numbers of one type (integers of 16, 32 or 64 bits, float32, float64), "
                f"found {first} and {second}"
            )
        if test != types.boolean:
            raise TypingError(f"cuda.selp takes a comparison or another boolean as its first argument, found {test}")
        return signature(first, test, first, first)


@lower_builtin(selp, types.Any, types.Any, types.Any)  # type: ignore[untyped-decorator]
def _lower_selp(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.select(*args)


def _cbrt_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return context.compile_internal(builder, lambda x: np.cbrt(x), signature, args)


declare(cbrt, [signature(kind, kind) for kind in FLOATS], _cbrt_code)


@overload_method(types.Integer, "bit_count", target="cpu")
def _bit_count(i):  # type: ignore[no-untyped-def]
    return lambda i: popc(i)
