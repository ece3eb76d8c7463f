"""Functions of the checks of ``cuda.jit(debug=True)``: see :mod:`warpdrive.kernels.debug_checks`.

A failed check passes the source location, the position of the thread and the values of the message to the host, and
ends the thread by an exception, which cannot carry them in compiled code.
"""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

_WORDS = 10
"""Words of a note: the number of the fault, ``threadIdx``, ``blockIdx``, and three values."""

NOTES: list[tuple[int, ...]] = []
"""Notes of the threads that have failed."""

_POSITION = "tx, ty, tz, bx, by, bz"
_RAISE = "raise AssertionError('0')"


def _note(*words: int) -> None:
    NOTES.append(words)


_callback = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * _WORDS)(_note)  # takes the GIL
binding.add_symbol("wd_note_fault", ctypes.cast(_callback, ctypes.c_void_p).value)


@intrinsic  # type: ignore[untyped-decorator]
def note(
    typingctx: Any, code: Any, tx: Any, ty: Any, tz: Any, bx: Any, by: Any, bz: Any, first: Any, second: Any, third: Any
) -> Any:
    """Append integers to :data:`NOTES`.

    Args:
        typingctx: Typing context of numba.
        code: Number of the fault.
        tx: ``threadIdx.x``.
        ty: ``threadIdx.y``.
        tz: ``threadIdx.z``.
        bx: ``blockIdx.x``.
        by: ``blockIdx.y``.
        bz: ``blockIdx.z``.
        first: Value of the message.
        second: Value of the message.
        third: Value of the message.
    """
    words = (code, tx, ty, tz, bx, by, bz, first, second, third)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [word] * _WORDS), "wd_note_fault"
        )
        given = zip(args, signature.args, strict=True)
        builder.call(function, [context.cast(builder, value, kind, types.int64) for value, kind in given])
        return context.get_dummy_value()

    return types.void(*words), codegen


def _defined(parameters: str, lines: list[str]) -> Any:
    """Return the function ``check(parameters, code, position)`` with these lines."""
    namespace: dict[str, Any] = {"note": note}
    body = "\n".join(f"    {line}" for line in lines)
    exec(f"def check({parameters}, code, {_POSITION}):\n{body}\n", namespace)
    return namespace["check"]


def _bounds(index: str, axis: str, size: str) -> list[str]:
    return [
        f"if {index} < -{size} or {index} >= {size}:",
        f"    note(code, {_POSITION}, {index}, {axis}, {size})",
        f"    {_RAISE}",
    ]


def _checks_of(array: Any, index: Any, axis: str) -> list[str]:
    """Return the lines that check an index of one type in an array or tuple; none if it is no number."""
    if isinstance(array, types.BaseTuple) and isinstance(index, types.Integer):
        return _bounds("index", "0", "len(array)")
    if not isinstance(array, types.Array):
        return []
    if isinstance(index, types.Integer):
        return _bounds("index", axis, f"array.shape[{axis}]")
    if isinstance(index, types.BaseTuple):
        parts = [place for place, kind in enumerate(index.types) if isinstance(kind, types.Integer)]
        if all(isinstance(kind, (types.Integer, types.SliceType)) for kind in index.types):
            return [line for p in parts for line in _bounds(f"index[{p}]", str(p), f"array.shape[{p}]")]
    return []


def debug_index(array: Any, index: Any, axis: Any, code: Any, *position: Any) -> Any:
    """Return an index of an array or tuple, after checking its bounds."""


def debug_item(array: Any, index: Any, code: Any, *position: Any) -> Any:
    """Return an array or tuple, after checking the bounds of a constant index."""


def debug_divisor(value: Any, code: Any, *position: Any) -> Any:
    """Return a number, after checking that it is not 0."""


def debug_fault(code: Any, *position: Any) -> Any:
    """Note the position of a thread that raises an exception."""


@overload(debug_index)
def _index(array, index, axis, code, tx, ty, tz, bx, by, bz):  # type: ignore[no-untyped-def]
    axis_text = str(axis.literal_value) if isinstance(axis, types.IntegerLiteral) else "axis"
    return _defined("array, index, axis", [*_checks_of(array, index, axis_text), "return index"])


@overload(debug_item)
def _item(array, index, code, tx, ty, tz, bx, by, bz):  # type: ignore[no-untyped-def]
    lines = _checks_of(array, index, "0") if isinstance(array, types.Array) else []  # numba checks constants in tuples
    return _defined("array, index", [*lines, "return array"])


@overload(debug_divisor)
def _divisor(value, code, tx, ty, tz, bx, by, bz):  # type: ignore[no-untyped-def]
    lines = ["if value == 0:", f"    note(code, {_POSITION}, 0, 0, 0)", f"    {_RAISE}"]
    return _defined("value", [*lines * isinstance(value, types.Number), "return value"])


@overload(debug_fault)
def _fault(code, tx, ty, tz, bx, by, bz):  # type: ignore[no-untyped-def]
    namespace: dict[str, Any] = {"note": note}
    exec(f"def fault(code, {_POSITION}):\n    note(code, {_POSITION}, 0, 0, 0)\n", namespace)
    return namespace["fault"]
