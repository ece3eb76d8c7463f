"""Coefficients that change while a run trains."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Schedule = float | Sequence[Sequence[float]]
"""A number, or pairs of environment steps and values: linear between two of them, constant before and after."""


def value_at(schedule: Schedule, env_steps: int) -> float:
    """Return a coefficient's value after ``env_steps`` environment steps."""
    if isinstance(schedule, int | float):
        return float(schedule)
    for (begin, from_value), (end, to_value) in pairwise(schedule):
        if env_steps < end:
            return from_value + (to_value - from_value) * max(0.0, env_steps - begin) / (end - begin)
    return schedule[-1][1]
