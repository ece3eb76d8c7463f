"""Execution orders of blocks and threads, and detection of results that depend on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from warpdrive.checks.advice import ORDER, ORDER_OF_RACES
from warpdrive.checks.findings import Finding, Report
from warpdrive.checks.memory import Array, Block

_TOLERANCE = {2: 1e-2, 4: 1e-4, 8: 1e-10}
"""Largest difference due to rounding, relative to the largest number in the array, by bytes of a number."""


Order = Callable[[int], Iterable[int]]
"""Function that returns the order in which a number of blocks or threads run."""


def forwards(count: int) -> Iterable[int]:
    """Return the order from the first to the last."""
    return range(count)


def backwards(count: int) -> Iterable[int]:
    """Return the order from the last to the first."""
    return reversed(range(count))


def shuffled(seed: int) -> Order:
    """Return a random order, drawn anew for each block, reproducible for a seed."""
    rng = np.random.default_rng(seed)
    return lambda count: [int(number) for number in rng.permutation(count)]


def others() -> dict[str, Order]:
    """Return the orders that are compared with :func:`forwards`, by name."""
    return {"from the last to the first": backwards, "in a random order": shuffled(1), "in another one": shuffled(2)}


def compare(expected: Mapping[str, Block], found: Mapping[str, Any], order: str, report: Report) -> None:
    """Report the arrays whose contents after an order differ from those after :func:`forwards`.

    Differences of floats that rounding in another order of summation can cause are ignored.

    Args:
        expected: Arrays after :func:`forwards`, by name.
        found: Arrays after the other order, by name.
        order: Name of the other order.
        report: Report that findings are added to.
    """
    writers = {address: line for block in expected.values() for address, line in block.writers.items()}
    compared: set[int] = set()
    for name, block in expected.items():
        differ = _differences(block.array, found[name])
        places = [tuple(map(int, place)) for place in np.argwhere(differ)]
        addresses = {_address(block.array, place) for place in places}
        if not places or addresses <= compared:  # another name for memory that was already reported
            continue
        compared |= addresses
        first = places[0]
        address = _address(block.array, first)
        line = writers.get(address)
        report.add(
            Finding(
                "order",
                name,
                first,
                (),
                (),
                () if line is None else (f"{line[0].co_filename}:{line[1]}",),
                f"'{block.element_at(address)}' is {block.array[first]} if blocks and threads run from the first to "
                f"the last, and {found[name][first]} if they run {order}"
                + (f"; {len(places)} elements differ" if len(places) > 1 else ""),
                ORDER_OF_RACES if report.races else ORDER,
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
