"""Items of ranges and of shapes in compiled code, for any numba target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def range_item_of(intrinsic: Callable[[Any], Any]) -> Any:
    """Return ``range_item(range, place)`` for the target of the given ``intrinsic`` decorator.

    The item has the range's dtype, like a loop variable, and wraps around on overflow.
    """

    def range_item(typingctx: Any, items: Any, place: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            start, _, step = (builder.extract_value(args[0], index) for index in range(3))
            number = context.cast(builder, args[1], signature.args[1], signature.return_type)
            return builder.add(start, builder.mul(step, number))

        return items.dtype(items, place), codegen

    return intrinsic(range_item)


def shape_item_of(intrinsic: Callable[[Any], Any]) -> Any:
    """Return ``shape_item(shape, place)`` for the target of the given ``intrinsic`` decorator.

    It is the tuple of indices at a place, the last index changing fastest, as in ``np.ndindex``.
    """

    def shape_item(typingctx: Any, shape: Any, place: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            rest = args[1]
            item = context.get_constant_undef(signature.return_type)
            for axis in reversed(range(len(shape))):
                length = context.cast(builder, builder.extract_value(args[0], axis), shape[axis], place)
                item = builder.insert_value(item, builder.urem(rest, length), axis)
                rest = builder.udiv(rest, length)
            return item

        return type(shape).from_types((place,) * len(shape))(shape, place), codegen

    return intrinsic(shape_item)
