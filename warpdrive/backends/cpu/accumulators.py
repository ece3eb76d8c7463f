"""Privatization of arrays to which a kernel only adds atomically: each part of a launch adds a private copy at its end.

Otherwise, threads on several cores that count in the same array, as in a histogram, would exchange its cache lines, and
each addition would lock one.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from warpdrive.backends.shared.arguments import ArgumentKind
from warpdrive.kernels.language import ATOMIC_DTYPES
from warpdrive.kernels.syntax import IntrinsicName

ROOM = 16384
"""Maximum size in bytes of a copy, which is on the stack."""

UPDATES = 4
"""Minimum number of threads per element for which a copy pays off: it is cleared and added once per part."""


def accumulators(body: Sequence[ast.stmt], kinds: Mapping[str, ArgumentKind]) -> set[str]:
    """Return the parameters that are only added to, by ``cuda.atomic.add`` without a use of the old value.

    None are returned if there are tuples, which may have arrays with the same memory.

    Args:
        body: The statements of the kernel.
        kinds: The kinds of its parameters, by name.
    """
    if any(kind.parts is not None for kind in kinds.values()):
        return set()
    uses = _Uses()
    for statement in body:
        uses.visit(statement)
    return {name for name in uses.added - uses.used if name in kinds and _fits(kinds[name])}


def _fits(kind: ArgumentKind) -> bool:
    return bool(kind.rank) and kind.layout == "C" and not kind.readonly and kind.dtype in ATOMIC_DTYPES["atomic.add"]


class _Uses(ast.NodeVisitor):
    """Names of the arrays that statements add to, and of all other values that they use."""

    def __init__(self) -> None:
        self.added: set[str] = set()
        self.used: set[str] = set()

    def visit_Expr(self, node: ast.Expr) -> None:
        array = added_array(node)
        if array is None:
            self.generic_visit(node)
        else:
            self.added.add(array)
            assert isinstance(node.value, ast.Call)
            for argument in node.value.args[1:]:
                self.visit(argument)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr not in ("shape", "size", "ndim"):
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self.used.add(node.id)


def added_array(node: ast.Expr) -> str | None:
    """Return the name of the array of a statement ``cuda.atomic.add(array, index, value)``, or None for any other."""
    call = node.value
    if not (isinstance(call, ast.Call) and isinstance(call.func, IntrinsicName) and call.func.path == "atomic.add"):
        return None
    return call.args[0].id if len(call.args) == 3 and isinstance(call.args[0], ast.Name) else None


@intrinsic  # type: ignore[untyped-decorator]
def share_memory(typingctx: Any, array: Any, other: Any) -> Any:
    """Return True if the memory extents of two arrays overlap."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pairs = zip(signature.args, args, strict=True)
        (begin, end), (other_begin, other_end) = (_extent(context, builder, kind, value) for kind, value in pairs)
        is_before = builder.icmp_unsigned("<=", end, other_begin)
        return builder.not_(builder.or_(is_before, builder.icmp_unsigned("<=", other_end, begin)))

    return types.boolean(array, other), codegen


def _extent(context: Any, builder: Any, kind: Any, value: Any) -> tuple[Any, Any]:
    """Return the address of an array's first byte, and that after its last."""
    made = make_array(kind)(context, builder, value)
    begin = builder.ptrtoint(made.data, made.itemsize.type)
    end = builder.add(begin, made.itemsize)
    zero = ir.Constant(begin.type, 0)
    lengths, strides = (cgutils.unpack_tuple(builder, axes, kind.ndim) for axes in (made.shape, made.strides))
    for length, stride in zip(lengths, strides, strict=True):
        way = builder.mul(builder.sub(length, ir.Constant(begin.type, 1)), stride)
        is_back = builder.icmp_signed("<", way, zero)
        begin = builder.add(begin, builder.select(is_back, way, zero))
        end = builder.add(end, builder.select(is_back, zero, way))
    return begin, end


@intrinsic  # type: ignore[untyped-decorator]
def own_accumulator(typingctx: Any, array: Any, threads: Any, is_shared: Any) -> Any:
    """Return a zeroed accumulator on the stack for an array, or the array itself.

    Args:
        typingctx: Typing context of numba.
        array: The array, which gets an accumulator if it is small enough for the number of threads.
        threads: The number (intp) of threads that add.
        is_shared: True (boolean) if another argument overlaps it, through which the kernel may read the sums; it then
            gets none.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made = make_array(array)(context, builder, args[0])
        word = made.nitems.type
        size = builder.mul(made.nitems, made.itemsize)
        fits = builder.icmp_unsigned("<=", size, ir.Constant(word, ROOM))
        pays = builder.icmp_signed(">=", args[1], builder.mul(made.nitems, ir.Constant(word, UPDATES)))
        room = cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(64), ROOM // 8))
        is_own = builder.and_(builder.and_(fits, pays), builder.not_(args[2]))
        with builder.if_then(is_own):
            cgutils.memset(builder, room, size, 0)
        made.data = builder.select(is_own, builder.bitcast(room, made.data.type), made.data)
        return made._getvalue()

    return array(array, types.intp, types.boolean), codegen


@intrinsic  # type: ignore[untyped-decorator]
def is_own(typingctx: Any, accumulator: Any, array: Any) -> Any:
    """Return True if an accumulator is a copy of the array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        own, original = (make_array(array)(context, builder, value).data for value in args)
        return builder.icmp_unsigned("!=", own, original)

    return types.boolean(accumulator, array), codegen


@intrinsic  # type: ignore[untyped-decorator]
def add_accumulator(typingctx: Any, accumulator: Any, array: Any) -> Any:
    """Add the elements of a copy to those of the array, atomically."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        own, target = (make_array(array)(context, builder, value) for value in args)
        is_float = isinstance(array.dtype, types.Float)
        with cgutils.for_range(builder, own.nitems) as loop:
            value = builder.load(builder.gep(own.data, [loop.index]))
            zero = ir.Constant(value.type, 0)
            differs = builder.fcmp_unordered if is_float else builder.icmp_signed
            with builder.if_then(differs("!=", value, zero)):
                builder.atomic_rmw(
                    "fadd" if is_float else "add", builder.gep(target.data, [loop.index]), value, "acq_rel"
                )
        return context.get_dummy_value()

    return types.void(accumulator, array), codegen
