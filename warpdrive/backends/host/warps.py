"""Warp functions on the host, evaluated after a synchronisation of the warp.

Each thread has written the value that it sends and a flag of its participation to arrays ``[threads of the block]``,
which all threads read. Threads whose flag and bit in the mask are set take part. The functions of :data:`ALONE` are for
blocks of one thread, and for type inference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from warpdrive.kernels.language import WARP

_LANES = WARP - 1


@register_jitable
def shfl_sync(sent, thread, src_lane):  # type: ignore[no-untyped-def]
    """Return the value sent by the thread of a lane, modulo the size of a warp."""
    return _sent_by(sent, thread, np.int64(src_lane) & _LANES)


@register_jitable
def shfl_up_sync(sent, thread, delta):  # type: ignore[no-untyped-def]
    """Return the value sent by the thread ``delta`` lanes below, or the thread's own value if there is none."""
    lane = (thread & _LANES) - (np.int64(delta) & _LANES)
    return sent[thread] if lane < 0 else _sent_by(sent, thread, lane)


@register_jitable
def shfl_down_sync(sent, thread, delta):  # type: ignore[no-untyped-def]
    """Return the value sent by the thread ``delta`` lanes above, or the thread's own value if there is none."""
    lane = (thread & _LANES) + (np.int64(delta) & _LANES)
    return sent[thread] if lane > _LANES else _sent_by(sent, thread, lane)


@register_jitable
def shfl_xor_sync(sent, thread, lane_mask):  # type: ignore[no-untyped-def]
    """Return the value sent by the thread whose lane differs in the bits of ``lane_mask``."""
    return _sent_by(sent, thread, ((thread & _LANES) ^ np.int64(lane_mask)) & _LANES)


@register_jitable
def _sent_by(sent, thread, lane):  # type: ignore[no-untyped-def]
    other = thread - (thread & _LANES) + lane
    return sent[other] if other < len(sent) else sent[thread]  # undefined on a GPU


@register_jitable
def _warp_of(sent, thread):  # type: ignore[no-untyped-def]
    """Return the range of the threads of a thread's warp."""
    first = thread - (thread & _LANES)
    return range(first, min(first + WARP, len(sent)))


@register_jitable
def _takes_part(here, other, mask):  # type: ignore[no-untyped-def]
    return here[other] and (np.int64(mask) >> (other & _LANES)) & 1 != 0


@register_jitable
def all_sync(sent, here, thread, mask):  # type: ignore[no-untyped-def]
    """Return True if the predicates of all threads that take part are true."""
    agree = True
    for other in _warp_of(sent, thread):
        agree = agree and (sent[other] != 0 or not _takes_part(here, other, mask))
    return agree


@register_jitable
def any_sync(sent, here, thread, mask):  # type: ignore[no-untyped-def]
    """Return True if the predicate of a thread that takes part is true."""
    return ballot_sync(sent, here, thread, mask) != 0


@register_jitable
def eq_sync(sent, here, thread, mask):  # type: ignore[no-untyped-def]
    """Return True if the predicates of the threads that take part agree."""
    return all_sync(sent, here, thread, mask) or not any_sync(sent, here, thread, mask)


@register_jitable
def ballot_sync(sent, here, thread, mask):  # type: ignore[no-untyped-def]
    """Return the bits (int32) of the lanes that take part and whose predicate is true."""
    bits = 0
    for other in _warp_of(sent, thread):
        if _takes_part(here, other, mask) and sent[other]:
            bits |= 1 << (other & _LANES)
    return np.int32(bits)


@register_jitable
def activemask(sent, here, thread, mask):  # type: ignore[no-untyped-def]
    """Return the bits (uint32) of the lanes that take part."""
    return np.uint32(ballot_sync(here, here, thread, mask))


@register_jitable
def match_any_sync(sent, here, thread, mask):  # type: ignore[no-untyped-def]
    """Return the bits (int32) of the lanes that take part and have sent the same as the thread."""
    bits = 0
    for other in _warp_of(sent, thread):
        if _takes_part(here, other, mask) and _same(sent[other], sent[thread]):
            bits |= 1 << (other & _LANES)
    return np.int32(bits)


@register_jitable
def match_all_sync(sent, here, thread, mask):  # type: ignore[no-untyped-def]
    """Return the bits (int32) of the lanes that take part, or 0, and True if all have sent the same."""
    bits = ballot_sync(here, here, thread, mask)
    agree = match_any_sync(sent, here, thread, mask) == bits
    return (bits if agree else np.int32(0)), agree


def _same(first: Any, second: Any) -> bool:
    """Return True if two numbers have the same bits."""
    raise NotImplementedError


@overload(_same)
def _compile_same(first, second):  # type: ignore[no-untyped-def]
    if first == types.float32:
        return lambda first, second: np.float32(first).view(np.int32) == np.float32(second).view(np.int32)
    if first == types.float64:
        return lambda first, second: np.float64(first).view(np.int64) == np.float64(second).view(np.int64)
    return lambda first, second: first == second


@register_jitable
def _value_alone(sent):  # type: ignore[no-untyped-def]
    return sent


@register_jitable
def _predicate_alone(sent):  # type: ignore[no-untyped-def]
    return sent != 0


@register_jitable
def _ballot_alone(sent):  # type: ignore[no-untyped-def]
    return np.int32(sent != 0)


@register_jitable
def _agreement_alone(sent):  # type: ignore[no-untyped-def]
    return True


@register_jitable
def _lane_alone(sent):  # type: ignore[no-untyped-def]
    return np.int32(1)


@register_jitable
def _match_alone(sent):  # type: ignore[no-untyped-def]
    return np.int32(1), True


@register_jitable
def _mask_alone(sent):  # type: ignore[no-untyped-def]
    return np.uint32(1)


ALONE: dict[str, Any] = {
    **dict.fromkeys(("shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync"), _value_alone),
    **dict.fromkeys(("all_sync", "any_sync"), _predicate_alone),
    "eq_sync": _agreement_alone,
    "ballot_sync": _ballot_alone,
    "match_any_sync": _lane_alone,
    "match_all_sync": _match_alone,
    "activemask": _mask_alone,
}
"""Functions ``(sent) -> value`` for a warp of one thread, by name."""
