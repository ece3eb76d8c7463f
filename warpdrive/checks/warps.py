"""Results of the functions of a warp in the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warpdrive.kernels.language import SHUFFLES, WARP


def warp_result(path: str, given: Mapping[int, Sequence[Any]], lane: int, arguments: Sequence[Any]) -> Any:
    """Return the result of a warp function for one of the threads that have met.

    Args:
        path: Name of the function.
        given: Arguments of the participating threads, by lane.
        lane: Lane of the thread.
        arguments: Arguments of the thread.

    Returns:
        The result; the value of a lane that does not take part, which is undefined on a GPU, is the thread's own.
    """
    if path in SHUFFLES:
        other = _source(path, lane, int(arguments[2]) % WARP)
        return given.get(other, arguments)[1]
    if path == "activemask":
        return np.uint32(_bits(given))
    values = {number: sent[1] for number, sent in given.items() if int(arguments[0]) >> number & 1}
    if path.startswith("match"):
        same = [number for number, value in values.items() if _key(value) == _key(arguments[1])]
        if path == "match_any_sync":
            return np.int32(np.uint32(_bits(same)))
        agree = len(same) == len(values)
        return np.int32(np.uint32(_bits(same) if agree else 0)), agree
    true = [number for number, value in values.items() if value]
    results = {
        "all_sync": len(true) == len(values),
        "any_sync": bool(true),
        "eq_sync": len(true) in (0, len(values)),
        "ballot_sync": np.int32(np.uint32(_bits(true))),
    }
    return results[path]


def _source(path: str, lane: int, operand: int) -> int:
    """Return the lane from which a shuffle reads: the own one beyond the first or the last."""
    sources = {
        "shfl_sync": operand,
        "shfl_up_sync": lane - operand,
        "shfl_down_sync": lane + operand,
        "shfl_xor_sync": lane ^ operand,
    }
    return sources[path] if 0 <= sources[path] < WARP else lane


def _key(value: Any) -> Any:
    return np.asarray(value).tobytes()


def _bits(lanes: Any) -> int:
    return sum(1 << lane for lane in lanes)
