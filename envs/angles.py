"""Angles on the device, float32 in radians."""

from __future__ import annotations

import math

import numpy as np

import warpdrive as wd

HALF, FULL_TURN, PER_TURN = np.float32(0.5), np.float32(2 * math.pi), np.float32(1 / (2 * math.pi))


@wd.device_function
def wrapped(angle):
    """Return the angle from -pi to pi in the same direction; one that is there already stays as it is."""
    turns = angle * PER_TURN
    nearest = np.int32(turns + (HALF if turns >= 0 else -HALF))
    return angle - np.float32(nearest) * FULL_TURN
