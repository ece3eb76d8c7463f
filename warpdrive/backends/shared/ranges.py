"""Indexing of ranges in compiled code, for any numba target."""

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
