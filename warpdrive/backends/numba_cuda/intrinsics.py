"""Intrinsics of generated GPU code: construction of arrays, items of ranges."""

from __future__ import annotations

from typing import Any

from numba import from_dtype, types
from numba.cuda import cgutils
from numba.cuda.extending import intrinsic
from numba.cuda.np.arrayobj import make_array, populate_array

from warpdrive.backends.shared.ranges import range_item_of, shape_item_of
from warpdrive.kernels.dtypes import dtype_of

range_item, shape_item = range_item_of(intrinsic), shape_item_of(intrinsic)


def array_at(dtype: str, rank: int, layout: str, readonly: bool, extents: tuple[int | None, ...]) -> Any:
    """Return a function, for use in GPU code, that builds an array from words.

    Args:
        dtype: Dtype of the elements.
        rank: Number of dimensions.
        layout: ``"C"``, ``"F"`` or ``"A"``, as in numba's array types.
        readonly: If True, the array cannot be written.
        extents: Constant length of each axis, or None for one among the words.

    Returns:
        A numba intrinsic that takes a tuple of integers: the array's address, the length of each axis whose extent is
        None, and, unless the array is C-contiguous, the strides of all axes in bytes.
    """
    element = from_dtype(dtype_of(dtype))
    array_type = types.Array(element, rank, layout, readonly=readonly)

    @intrinsic  # type: ignore[untyped-decorator]
    def make(typingctx: Any, words: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            given = iter([builder.extract_value(args[0], place) for place in range(signature.args[0].count)])
            data_type = context.get_data_type(element)
            size = context.get_abi_sizeof(data_type)
            address = next(given)
            shape = [next(given) if n is None else context.get_constant(types.intp, n) for n in extents]
            if layout == "C":
                step = context.get_constant(types.intp, size)
                strides: list[Any] = []
                for length in reversed(shape):
                    strides.insert(0, step)
                    step = builder.mul(step, length)
            else:
                strides = list(given)
            word = context.get_value_type(types.intp)
            array = make_array(array_type)(context, builder)
            populate_array(
                array,
                data=builder.inttoptr(address, data_type.as_pointer()),
                shape=cgutils.pack_array(builder, shape, word),
                strides=cgutils.pack_array(builder, strides, word),
                itemsize=context.get_constant(types.intp, size),
                meminfo=None,
            )
            return array._getvalue()

        return array_type(words), codegen

    return make
