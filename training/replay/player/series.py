"""Series of numbers in a few bytes: rounded, as differences of successive steps, deflated.

``series.js`` reads them.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

Series = float | dict[str, Any]
"""A number that never changes, or the description of an array ``[steps, columns]``."""
_MOST = 2**53
"""Integers up to this size are exact in JavaScript."""


def series(values: npt.NDArray[Any], resolution: float | None = None) -> Series:
    """Return the JSON form of numbers.

    Args:
        values: ``[steps, ...]``; NaN and infinities become NaN.
        resolution: The difference that rounding may make is half of it; None: none for integers, and for others a
            fraction ``2**-17`` of their range.
    """
    table = np.ascontiguousarray(values.reshape(len(values), -1))
    if table.dtype.kind in "bui" and int(np.abs(table, dtype=np.float64).max(initial=0)) < _MOST:
        numbers, low, scale, missing = table.astype(np.int64), 0.0, 1.0, None
    else:
        numbers, low, scale, missing = _rounded(table.astype(np.float64), resolution)
    if missing is None and numbers.size and (numbers == numbers.flat[0]).all():
        return float(low + scale * numbers.flat[0])
    order, planes = min(((order, _planes(numbers, order)) for order in range(min(3, len(numbers)))), key=_entropy)
    data = zlib.compress(planes.tobytes(), 6)
    text = base64.b64encode(data).decode("ascii")
    found = {"size": list(table.shape), "low": low, "scale": scale, "order": order, "planes": len(planes), "data": text}
    return found if missing is None else {**found, "missing": missing}


def size_of(written: Series) -> int:
    """Return about how many bytes a series takes on the page."""
    return len(written["data"]) + 120 if isinstance(written, dict) else 20


def _rounded(
    table: npt.NDArray[np.float64], resolution: float | None
) -> tuple[npt.NDArray[np.int64], float, float, int | None]:
    """Return integers, the value of zero, the value of a difference of one, and the integer of missing values."""
    finite = np.isfinite(table)
    low, high = (float(end(table[finite])) if finite.any() else 0.0 for end in (np.min, np.max))
    scale = (high - low) / 2**16 if resolution is None else resolution
    if not scale or not np.isfinite(scale):
        scale = 1.0
    numbers = np.rint((np.where(finite, table, low) - low) / scale).astype(np.int64)
    if finite.all():
        return numbers, low, scale, None
    return np.where(finite, numbers, -1), low, scale, -1


def _planes(numbers: npt.NDArray[np.int64], order: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of differences of the given order along the steps, ``[bytes of each, columns * steps]``."""
    differences = numbers
    for _ in range(order):
        differences = np.diff(differences, axis=0, prepend=0)
    codes = ((differences << 1) ^ (differences >> 63)).T.reshape(-1).astype("<u8")  # small numbers of either sign
    planes = max(1, -(-int(codes.max(initial=0)).bit_length() // 8))
    return np.ascontiguousarray(codes.view(np.uint8).reshape(-1, 8)[:, :planes].T)


def _entropy(candidate: tuple[int, npt.NDArray[np.uint8]]) -> float:
    """Return the bits of bytes that a code for single bytes takes."""
    bits = 0.0
    for plane in candidate[1]:
        counts = np.bincount(plane)
        counts = counts[counts > 0]
        bits += float((counts * np.log2(len(plane) / counts)).sum())
    return bits
