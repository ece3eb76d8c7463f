"""Schedules of coefficients.

Schedules are evaluated once per rollout and update, in ``Algorithm.begin``. What may be captured as a CUDA graph holds
the values in tensors: actors of rollouts (``EpsilonGreedy.epsilon``) and gradient steps (``StaticStep``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

Schedule = float | Sequence[Sequence[float]] | Mapping[str, Any]
"""Number; or pairs of environment steps and values, interpolated linearly and constant outside; or
``{"schedule": "linear" or "cosine", "start": ..., "end": ..., "steps": ...}``: from start to end within ``steps``.
"""


def value_at(schedule: Schedule, env_steps: int) -> float:
    """Return a coefficient's value after ``env_steps`` environment steps."""
    if isinstance(schedule, int | float):
        return float(schedule)
    if isinstance(schedule, Mapping):
        start, end = float(schedule["start"]), float(schedule["end"])
        done = min(env_steps / float(schedule["steps"]), 1.0)
        if schedule["schedule"] == "cosine":  # without restarts: Loshchilov & Hutter 2017, arXiv:1608.03983, equation 5
            done = 0.5 * (1.0 - math.cos(math.pi * done))
        return float(start + (end - start) * done)
    for (begin, from_value), (end, to_value) in pairwise(schedule):
        if env_steps < end:
            return from_value + (to_value - from_value) * max(0.0, env_steps - begin) / (end - begin)
    return schedule[-1][1]
