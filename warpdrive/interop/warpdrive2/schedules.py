"""Numbers that change over training."""

from __future__ import annotations

from typing import Any

import numpy as np


class ParamScheduler:
    """Number that is constant or piecewise linear.

    Args:
        schedule: A number, or ``[[timestep, value], ...]`` with increasing timesteps. Values are interpolated linearly
            between them, and constant before the first and after the last.

    Raises:
        ValueError: If it is neither, or the timesteps decrease.
    """

    def __init__(self, schedule: Any) -> None:
        self.type = "constant" if isinstance(schedule, int | float) else "piecewise_linear"
        points = [(0, schedule)] if self.type == "constant" else schedule
        if not _is_of_pairs(points):
            raise ValueError(f"the schedule is {schedule!r}, expected a number or [[timestep, value], ...]")
        self.schedule = schedule
        self._times, self._values = zip(*points, strict=True)
        if list(self._times) != sorted(self._times):
            raise ValueError(f"the schedule is {schedule!r}, expected increasing timesteps")

    def get_param_value(self, timestep: float) -> float:
        """Return the value at a timestep."""
        assert timestep >= 0, f"the timestep is {timestep}, expected 0 or more"
        return float(np.interp(timestep, self._times, self._values))


def _is_of_pairs(points: Any) -> bool:
    """Return True for a list of one or more pairs."""
    if not isinstance(points, list | tuple) or not points:
        return False
    return all(isinstance(point, list | tuple) and len(point) == 2 for point in points)
