"""Flattening of nested tuples among the arguments of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Nesting = tuple[Any, tuple[Any, ...]] | None
"""Type of a tuple and nesting of each of its items; None for a value that is not a tuple."""


def nesting_of(value: Any) -> Nesting:
    """Return the nesting of tuples in an argument."""
    return (type(value), tuple(map(nesting_of, value))) if isinstance(value, tuple) else None


def flattened(values: Sequence[Any], nestings: Sequence[Nesting]) -> list[Any] | None:
    """Return the leaves of the values in order, or None if the values do not nest like ``nestings``."""
    flat: list[Any] = []
    for value, nesting in zip(values, nestings, strict=True):
        if nesting is None:
            flat.append(value)
            continue
        kind, items = nesting
        if type(value) is not kind or len(value) != len(items):
            return None
        inner = flattened(value, items)
        if inner is None:
            return None
        flat += inner
    return flat
