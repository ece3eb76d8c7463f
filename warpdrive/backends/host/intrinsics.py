"""Intrinsics of generated CPU code: stack arrays, argument loading, atomic words and memory fences."""

from __future__ import annotations

import operator
from functools import cache, reduce
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from warpdrive.backends.shared.ranges import range_item_of, shape_item_of
from warpdrive.kernels.dtypes import dtype_of

_STACK_ALIGNMENT = 64
"""Alignment in bytes: a cache line, which suits vectors of any width and dtypes of any size."""

range_item, shape_item = range_item_of(intrinsic), shape_item_of(intrinsic)


@cache
def stack_array(shape: tuple[int, ...], dtype: str) -> Any:
    """Return a function, for use in compiled code, that returns an uninitialised C-ordered array on the stack.

    The array lives until the function that contains it returns; each call site has one array.
    """
    element = numba.from_dtype(dtype_of(dtype))
    array_type = types.Array(element, len(shape), "C")
    length = reduce(operator.mul, shape)

    @intrinsic  # type: ignore[untyped-decorator]
    def allocate(typingctx: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data_type = context.get_data_type(element)
            data = cgutils.alloca_once(builder, data_type, size=context.get_constant(types.intp, length))
            data.align = _STACK_ALIGNMENT
            return _array_of(context, builder, array_type, shape, data)

        return array_type(), codegen

    return allocate


def array_at(shape: tuple[int, ...], dtype: str, offset: int) -> Any:
    """Return a function, for use in compiled code, that returns the C-ordered array at an address plus ``offset``.

    Args:
        shape: Shape of the array.
        dtype: Dtype of its elements.
        offset: Distance in bytes from the address that the function is called with.

    Returns:
        A numba intrinsic ``(address) -> array``.
    """
    array_type = types.Array(numba.from_dtype(dtype_of(dtype)), len(shape), "C")

    @intrinsic  # type: ignore[untyped-decorator]
    def find(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place = builder.add(args[0], context.get_constant(types.intp, offset))
            data = builder.inttoptr(place, context.get_data_type(array_type.dtype).as_pointer())
            return _array_of(context, builder, array_type, shape, data)

        return array_type(types.intp), codegen

    return find


def _array_of(context: Any, builder: Any, array_type: types.Array, shape: tuple[int, ...], data: Any) -> Any:
    """Return the C-ordered array of that shape whose elements begin at ``data``."""
    size = context.get_abi_sizeof(context.get_data_type(array_type.dtype))
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


@cache
def view(dtype: str) -> Any:
    """Return a function, for use in compiled code, that views an array of bytes as a 1-D array of ``dtype``."""
    element = numba.from_dtype(dtype_of(dtype))
    array_type = types.Array(element, 1, "C")

    @intrinsic  # type: ignore[untyped-decorator]
    def see(typingctx: Any, memory: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            base = make_array(signature.args[0])(context, builder, args[0])
            size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(element)))
            array = make_array(array_type)(context, builder)
            populate_array(
                array,
                data=builder.bitcast(base.data, context.get_data_type(element).as_pointer()),
                shape=cgutils.pack_array(builder, [builder.udiv(base.nitems, size)]),
                strides=cgutils.pack_array(builder, [size]),
                itemsize=size,
                meminfo=None,
            )
            return array._getvalue()

        return array_type(memory), codegen

    return see


@cache
def number_loader(dtype: str) -> Any:
    """Return a function, for use in compiled code, that loads a scalar from a table; see :func:`array_loader`."""
    element = numba.from_dtype(dtype_of(dtype))

    @intrinsic  # type: ignore[untyped-decorator]
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place = builder.load(_word_at(builder, args[0]))
            data = builder.inttoptr(place, context.get_data_type(element).as_pointer())
            return context.unpack_value(builder, element, data)

        return element(types.intp), codegen

    return load


@cache
def array_loader(dtype: str, rank: int, layout: str, readonly: bool, extents: tuple[int | None, ...]) -> Any:
    """Return a function, for use in compiled code, that builds an array from its words in a table.

    Args:
        dtype: Dtype of the elements.
        rank: Number of dimensions.
        layout: ``"C"``, ``"F"`` or ``"A"``, as in numba's array types.
        readonly: If True, the array cannot be written.
        extents: Constant length of each dimension, or None for one that is read from the table.

    Returns:
        A numba intrinsic that takes the address of the words (the array's address, its shape, and its strides in
        bytes) and returns the array.
    """
    element = numba.from_dtype(dtype_of(dtype))
    array_type = types.Array(element, rank, layout, readonly=readonly)

    @intrinsic  # type: ignore[untyped-decorator]
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = ir.IntType(64)
            base = builder.inttoptr(args[0], word.as_pointer())
            words = [builder.load(cgutils.gep(builder, base, place)) for place in range(1 + 2 * rank)]
            for axis, length in enumerate(extents):
                baked = None if length is None else context.get_constant(types.intp, length)
                words[1 + axis] = baked or _as_length(builder, words[1 + axis])
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


@cache
def known_array(extents: tuple[int | None, ...]) -> Any:
    """Return a function, for use in compiled code, that returns an array with its properties declared to LLVM.

    Args:
        extents: Constant length of each dimension, or None for one that is not constant.

    Returns:
        A numba intrinsic ``(array, owner)``: the array, C-ordered, with the address of ``owner``.
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def known(typingctx: Any, array: Any, owner: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind, owner_kind = signature.args
            seen = make_array(kind)(context, builder, args[0])
            data = make_array(owner_kind)(context, builder, args[1]).data
            lengths = [
                _as_length(builder, length) if extent is None else context.get_constant(types.intp, extent)
                for extent, length in zip(extents, cgutils.unpack_tuple(builder, seen.shape), strict=True)
            ]
            strides = [context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))]
            for length in reversed(lengths[1:]):
                strides.insert(0, builder.mul(strides[0], length))
            seen.data = builder.bitcast(data, seen.data.type)
            seen.shape = cgutils.pack_array(builder, lengths)
            seen.strides = cgutils.pack_array(builder, strides)
            return seen._getvalue()

        return array(array, owner), codegen

    return known


def _as_length(builder: Any, value: Any) -> Any:
    return builder.and_(value, ir.Constant(value.type, (1 << 48) - 1))


@intrinsic  # type: ignore[untyped-decorator]
def call_entry(typingctx: Any, function: Any, table: Any, part: Any, parts: Any) -> Any:
    """Call the machine code at an address with a table of arguments, to run one part of a launch.

    Args:
        typingctx: Typing context of numba.
        function: Address (intp) of the machine code.
        table: Address (intp) of the table of arguments.
        part: Index (intp) of the part.
        parts: Number (intp) of parts of the launch.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word, word, word])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp, types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def not_negative(typingctx: Any, value: Any) -> Any:
    """Return an integer declared to LLVM as non-negative, so that indexing needs no wraparound check."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _as_length(builder, args[0])

    return types.intp(types.intp), codegen


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def not_constant(typingctx: Any, value: Any) -> Any:
    """Return a positive constant of at most 16 bits, hidden from LLVM except for its power-of-two divisors.

    A loop with this bound is not unrolled but vectorised, without a remainder loop if none is needed.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = args[0].type
        power = (value.literal_value & -value.literal_value).bit_length() - 1
        odd = ir.Constant(word, value.literal_value >> power)
        hidden = builder.asm(ir.FunctionType(word, [word]), "", "=r,0", [odd], side_effect=False)
        hidden = builder.or_(builder.and_(hidden, ir.Constant(word, (1 << 16) - 1)), ir.Constant(word, 1))
        return builder.shl(hidden, ir.Constant(word, power))

    return (types.intp(value), codegen) if isinstance(value, types.IntegerLiteral) else None


@intrinsic  # type: ignore[untyped-decorator]
def fetch_add(typingctx: Any, address: Any, value: Any) -> Any:
    """Atomically add to the word at an address (sequentially consistent); return the old value.

    Args:
        typingctx: Typing context of numba.
        address: Address (intp) of the word.
        value: The summand (intp).

    Returns:
        The old value (intp).
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _word_at(builder, args[0]), args[1], "seq_cst")

    return types.intp(types.intp, types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def atomic_load(typingctx: Any, address: Any) -> Any:
    """Return the word at an address (atomic, sequentially consistent)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_word_at(builder, args[0]), "seq_cst", 8)

    return types.intp(types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def atomic_store(typingctx: Any, address: Any, value: Any) -> Any:
    """Store a word at an address (atomic, sequentially consistent).

    Args:
        typingctx: Typing context of numba.
        address: Address (intp) of the word.
        value: The new value (intp).
    """

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
    """Store a word at an address that no other thread uses.

    Args:
        typingctx: Typing context of numba.
        address: Address (intp) of the word.
        value: The new value (intp).
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], _word_at(builder, args[0]))
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), codegen


def _word_at(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, ir.IntType(64).as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def threadfence(typingctx: Any) -> Any:
    """Order the memory accesses of a thread before and after the fence, as seen by threads of other blocks."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


threadfence_system = threadfence


@numba.njit  # type: ignore[untyped-decorator]
def threadfence_block() -> None:
    """Do nothing: one core runs the threads of a block, so their memory accesses are already ordered."""
