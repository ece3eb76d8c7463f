"""Report results that change when blocks and threads run in another order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from warpdrive.checks.findings import Finding, Report
from warpdrive.checks.memory import Array, Block

_TOLERANCE = {2: 1e-2, 4: 1e-4, 8: 1e-10}
"""By bytes of a number: the difference, relative to the largest number in the array, that rounding alone can make."""


def compare(forwards: Mapping[str, Block], backwards: Mapping[str, Any], report: Report) -> None:
    """Report the arrays that one order left with other contents than the other did.

    Floating-point sums differ by their rounding, whatever the order: such differences are none.
    """
    compared: set[int] = set()
    for name, block in forwards.items():
        differ = _differences(block.array, backwards[name])
        places = [tuple(map(int, place)) for place in np.argwhere(differ)]
        addresses = {_address(block.array, place) for place in places}
        if not places or addresses <= compared:  # another name for memory that was told of
            continue
        compared |= addresses
        first = places[0]
        line = block.writers.get(_address(block.array, first))
        report.add(
            Finding(
                "order",
                name,
                first,
                (),
                (),
                () if line is None else (f"{line[0].co_filename}:{line[1]}",),
                f"'{name}[{', '.join(map(str, first))}]' is {block.array[first]} if blocks and threads run from the "
                f"first to the last, and {backwards[name][first]} if from the last to the first"
                + (f"; {len(places)} elements differ" if len(places) > 1 else ""),
            )
        )


def _differences(first: Array, second: Array) -> Array:
    if first.dtype.names is not None:
        fields = [_differences(first[name], second[name]) for name in first.dtype.names]
        return np.asarray(np.any([field.reshape(*first.shape, -1).any(axis=-1) for field in fields], axis=0))
    if first.dtype.kind not in "fc" or first.size == 0:
        return np.asarray(first != second)
    finite = np.abs(first[np.isfinite(first)].astype(np.complex128))
    tolerance = _TOLERANCE.get(first.real.dtype.itemsize, 1e-10) * finite.max(initial=0.0)
    return np.asarray(~np.isclose(first, second, rtol=0.0, atol=tolerance, equal_nan=True))


def _address(array: Array, place: tuple[int, ...]) -> int:
    return int(array.ctypes.data + sum(i * stride for i, stride in zip(place, array.strides, strict=True)))
