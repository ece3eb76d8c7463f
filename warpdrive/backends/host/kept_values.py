"""Storage between regions of values whose types are no dtypes: views, tuples, records."""

from __future__ import annotations

import pickle
from typing import Any

from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from warpdrive.backends.host.vectors import VectorType

KEPT = (VectorType, types.Array, types.BaseTuple, types.Record, types.EnumMember, types.RangeType, types.NoneType)
"""Types of a fixed size whose values own no memory."""


def is_kept(kind: types.Type) -> bool:
    """Return True if a value of this type can be stored as its bytes."""
    if isinstance(kind, types.Optional):
        return is_kept(kind.type)
    if isinstance(kind, types.BaseTuple):
        return all(is_kept(part) for part in kind)
    return isinstance(kind, (types.Number, types.Boolean, types.NPDatetime, types.NPTimedelta, *KEPT))


def bytes_of(kind: types.Type) -> int:
    """Return the size in bytes of a value of this type, rounded up to a multiple of 8."""
    context = cpu_target.target_context
    return int(-(-context.get_abi_sizeof(context.get_value_type(kind)) // 8) * 8)


def slot_accessors(pickled: bytes) -> tuple[Any, Any]:
    """Return the functions ``get(slots, thread)`` and ``put(slots, thread, value)``, for use in compiled code.

    ``slots`` is a uint8 array of shape ``[threads, bytes_of(kind)]``.
    """
    kind = pickle.loads(pickled)

    @intrinsic  # type: ignore[untyped-decorator]
    def get(typingctx: Any, slots: Any, thread: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load(_address(context, builder, signature, args, kind), align=8)

        return kind(slots, types.intp), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def put(typingctx: Any, slots: Any, thread: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store(args[2], _address(context, builder, signature, args, kind), align=8)
            return context.get_dummy_value()

        return types.void(slots, types.intp, kind), codegen

    return get, put


def _address(context: Any, builder: Any, signature: Any, args: Any, kind: types.Type) -> Any:
    slots = make_array(signature.args[0])(context, builder, args[0])
    place = builder.mul(args[1], context.get_constant(types.intp, bytes_of(kind)))
    return builder.bitcast(builder.gep(slots.data, [place]), context.get_value_type(kind).as_pointer())
