"""Angles on the device, float32 in radians."""

from __future__ import annotations

import math

import numpy as np

import warpdrive as wd

HALF, PER_TURN = np.float32(0.5), np.float32(1 / (2 * math.pi))
# A full turn in two parts: the first has so few digits that its products with small integers are exact in float32.
TURN_HIGH = np.float32(6.28125)
TURN_LOW = np.float32(2 * math.pi - 6.28125)


@wd.device_function
def wrapped(angle):
    """Return an angle wrapped to the range from -pi to pi; angles within the range are unchanged."""
    turns = angle * PER_TURN
    nearest = np.float32(np.int32(turns + (HALF if turns >= 0 else -HALF)))
    return (angle - nearest * TURN_HIGH) - nearest * TURN_LOW
