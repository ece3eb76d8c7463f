"""Reader of the series of player pages, written from their description, beside the one in JavaScript."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np


def numbers_of(series: Any, steps: int = 1, columns: int = 1) -> Any:
    """Return ``[steps, columns]`` float64; the sizes are those of a series that is a single number."""
    if isinstance(series, (int, float)):
        return np.full((steps, columns), float(series))
    steps, columns = series["size"]
    planes = np.frombuffer(zlib.decompress(base64.b64decode(series["data"])), np.uint8)
    codes = sum(plane.astype(object) * 256**n for n, plane in enumerate(planes.reshape(series["planes"], -1)))
    numbers = np.array([code // 2 if code % 2 == 0 else -(code + 1) // 2 for code in codes], object)
    numbers = numbers.reshape(columns, steps).T
    for _ in range(series["order"]):
        numbers = np.cumsum(numbers, axis=0)
    values = series["low"] + series["scale"] * numbers.astype(float)
    return np.where(numbers == series.get("missing"), np.nan, values)
