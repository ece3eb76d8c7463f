"""What of ``numba.cuda`` generated CPU code calls: per-thread arrays on the stack, and atomic operations."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from warpdrive.kernels.dtypes import dtype_of


def stack_array(shape: tuple[int, ...], dtype: str) -> Any:
    """Return a function, for use in compiled code, that gives an uninitialised C-ordered array on the stack.

    The array lives as long as the call of the function that contains it; one call site has one array.
    """
    element = numba.from_dtype(np.dtype(dtype))
    array_type = types.Array(element, len(shape), "C")
    length = reduce(operator.mul, shape)

    @intrinsic  # type: ignore[untyped-decorator]
    def allocate(typingctx: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data_type = context.get_data_type(element)
            data = cgutils.alloca_once(builder, data_type, size=context.get_constant(types.intp, length))
            size = context.get_abi_sizeof(data_type)
            strides = [size * reduce(operator.mul, shape[axis + 1 :], 1) for axis in range(len(shape))]
            array = make_array(array_type)(context, builder)
            populate_array(
                array,
                data=data,
                shape=cgutils.pack_array(builder, [context.get_constant(types.intp, n) for n in shape]),
                strides=cgutils.pack_array(builder, [context.get_constant(types.intp, n) for n in strides]),
                itemsize=context.get_constant(types.intp, size),
                meminfo=None,
            )
            return array._getvalue()

        return array_type(), codegen

    return allocate


def argument_loader(dtype: str, rank: int, layout: str, readonly: bool) -> Any:
    """Return a function, for use in compiled code, that makes an array of what a table says.

    It takes the address of the words: the array's address, its shape, and its strides in bytes.
    """
    element = numba.from_dtype(dtype_of(dtype))
    array_type = types.Array(element, rank, layout, readonly=readonly)

    @intrinsic  # type: ignore[untyped-decorator]
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = ir.IntType(64)
            base = builder.inttoptr(args[0], word.as_pointer())
            words = [builder.load(cgutils.gep(builder, base, place)) for place in range(1 + 2 * rank)]
            data_type = context.get_data_type(element)
            array = make_array(array_type)(context, builder)
            populate_array(
                array,
                data=builder.inttoptr(words[0], data_type.as_pointer()),
                shape=cgutils.pack_array(builder, words[1 : 1 + rank])
                if rank
                else cgutils.pack_array(builder, [], word),
                strides=cgutils.pack_array(builder, words[1 + rank :])
                if rank
                else cgutils.pack_array(builder, [], word),
                itemsize=context.get_constant(types.intp, context.get_abi_sizeof(data_type)),
                meminfo=None,
            )
            return array._getvalue()

        return array_type(types.intp), codegen

    return load


@intrinsic  # type: ignore[untyped-decorator]
def call_entry(typingctx: Any, function: Any, table: Any, part: Any, parts: Any) -> Any:
    """Call the machine code at an address with a table of arguments, to run one part of a launch."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word, word, word])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp, types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def not_negative(typingctx: Any, value: Any) -> Any:
    """Return an integer, and promise that it is not negative: as an index it need not be checked for that."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.assume(builder.icmp_signed(">=", args[0], ir.Constant(args[0].type, 0)))
        return args[0]

    return types.intp(types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def fetch_add(typingctx: Any, address: Any, value: Any) -> Any:
    """Add to the word at an address, seen by all threads in one order; return what it was."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _word_at(builder, args[0]), args[1], "seq_cst")

    return types.intp(types.intp, types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def atomic_load(typingctx: Any, address: Any) -> Any:
    """Return the word at an address, seen by all threads in one order."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_word_at(builder, args[0]), "seq_cst", 8)

    return types.intp(types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def atomic_store(typingctx: Any, address: Any, value: Any) -> Any:
    """Store a word at an address, seen by all threads in one order."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[1], _word_at(builder, args[0]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def load_word(typingctx: Any, address: Any) -> Any:
    """Return the word at an address that no other thread writes to."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_word_at(builder, args[0]))

    return types.intp(types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def store_word(typingctx: Any, address: Any, value: Any) -> Any:
    """Store a word at an address that no other thread uses."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], _word_at(builder, args[0]))
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), codegen


def _word_at(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, ir.IntType(64).as_pointer())


def _pointer(context: Any, builder: Any, array_type: Any, index_type: Any, array: Any, index: Any) -> Any:
    """Return the address of an element; negative indices count from the end, as everywhere in numba."""
    is_tuple = isinstance(index_type, types.BaseTuple)
    indices = cgutils.unpack_tuple(builder, index) if is_tuple else [index]
    kinds = list(index_type) if is_tuple else [index_type]
    indices = [context.cast(builder, value, kind, types.intp) for value, kind in zip(indices, kinds, strict=True)]
    structure = make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, structure, indices, wraparound=True)


def _operation(name: str, combine: Any) -> Any:
    """Make the intrinsic ``name(array, index, value) -> old value``.

    ``combine(builder, number_type, old, value)`` gives the new value; the element is exchanged in a loop of
    compare-and-swap until no other thread came between.
    """

    def typing(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
        _check(name, array, index)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array_type, index_type, _ = signature.args
            number_type = array_type.dtype
            address = _pointer(context, builder, array_type, index_type, args[0], args[1])
            word = ir.IntType(number_type.bitwidth)
            address = builder.bitcast(address, word.as_pointer())
            first = builder.load_atomic(address, "monotonic", number_type.bitwidth // 8)
            start = builder.block
            again = builder.append_basic_block(f"{name}.again")
            done = builder.append_basic_block(f"{name}.done")
            builder.branch(again)
            builder.position_at_end(again)
            old = builder.phi(word)
            old.add_incoming(first, start)
            data_type = context.get_value_type(number_type)
            new = combine(builder, number_type, builder.bitcast(old, data_type), args[2])
            result = builder.cmpxchg(address, old, builder.bitcast(new, word), "monotonic", "monotonic")
            old.add_incoming(builder.extract_value(result, 0), builder.block)
            builder.cbranch(builder.extract_value(result, 1), done, again)
            builder.position_at_end(done)
            return builder.bitcast(old, data_type)

        return array.dtype(array, index, array.dtype), codegen

    typing.__name__ = name
    return intrinsic(typing)


def _check(name: str, array: Any, index: Any) -> None:
    if not isinstance(array, types.Array) or not isinstance(array.dtype, (types.Integer, types.Float)):
        raise TypingError(f"cuda.{name.replace('_', '.')} works on an array of integers or floats, found {array}")
    given = len(index) if isinstance(index, types.BaseTuple) else 1
    if given != array.ndim:
        raise TypingError(f"cuda.{name.replace('_', '.')} needs {array.ndim} indices for {array}, found {given}")


def _add(builder: Any, kind: Any, old: Any, value: Any) -> Any:
    return builder.fadd(old, value) if isinstance(kind, types.Float) else builder.add(old, value)


def _sub(builder: Any, kind: Any, old: Any, value: Any) -> Any:
    return builder.fsub(old, value) if isinstance(kind, types.Float) else builder.sub(old, value)


def _exch(builder: Any, kind: Any, old: Any, value: Any) -> Any:
    return value


def _greater(builder: Any, kind: Any, left: Any, right: Any) -> Any:
    if isinstance(kind, types.Float):
        return builder.fcmp_ordered(">", left, right)
    return (builder.icmp_signed if kind.signed else builder.icmp_unsigned)(">", left, right)


def _max(builder: Any, kind: Any, old: Any, value: Any) -> Any:
    return builder.select(_greater(builder, kind, value, old), value, old)


def _min(builder: Any, kind: Any, old: Any, value: Any) -> Any:
    return builder.select(_greater(builder, kind, old, value), value, old)


atomic_add = _operation("atomic_add", _add)
atomic_sub = _operation("atomic_sub", _sub)
atomic_max = _operation("atomic_max", _max)
atomic_min = _operation("atomic_min", _min)
atomic_exch = _operation("atomic_exch", _exch)


@intrinsic  # type: ignore[untyped-decorator]
def atomic_cas(typingctx: Any, array: Any, index: Any, expected: Any, value: Any) -> Any:
    """Put ``value`` into an element if it holds ``expected``; return what it held."""
    _check("atomic_cas", array, index)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array_type, index_type = signature.args[:2]
        address = _pointer(context, builder, array_type, index_type, args[0], args[1])
        word = ir.IntType(array_type.dtype.bitwidth)
        data_type = context.get_value_type(array_type.dtype)
        old = builder.cmpxchg(
            builder.bitcast(address, word.as_pointer()),
            builder.bitcast(args[2], word),
            builder.bitcast(args[3], word),
            "monotonic",
            "monotonic",
        )
        return builder.bitcast(builder.extract_value(old, 0), data_type)

    return array.dtype(array, index, array.dtype, array.dtype), codegen


@numba.njit  # type: ignore[untyped-decorator]
def threadfence() -> None:
    """Order memory accesses between threads: nothing to do, as one core runs all threads of a block in turn."""


threadfence_block = threadfence_system = threadfence
