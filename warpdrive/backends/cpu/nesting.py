"""Tuples among the arguments of a launch: how they nest, and what is in them one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Nesting = tuple[Any, tuple[Any, ...]] | None
"""The type of a tuple and the nesting of each item; None for what is no tuple."""


def nesting_of(value: Any) -> Nesting:
    """Return how tuples nest in an argument."""
    return (type(value), tuple(map(nesting_of, value))) if isinstance(value, tuple) else None


def flattened(values: Sequence[Any], nestings: Sequence[Nesting]) -> list[Any] | None:
    """Return what is in the values one after the other, or None if they do not nest as ``nestings`` says."""
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
