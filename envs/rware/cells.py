"""Bits of the cells of a warehouse."""

from __future__ import annotations

import warpdrive as wd

SHELF, REQUESTED, SHELVES = 1, 2, 3
"""Bits of a cell that is occupied by a shelf; the mask of both."""
ROBOT, LOADED, ROBOTS, ROBOT_BIT = 1, 5, 15, 2
"""Robots without and with a shelf, to which the heading is added; the mask; the first bit."""
GOAL, OUTSIDE = 64, 128


@wd.device_function
def robot_code(heading, loaded):
    """Return the bits of a cell with a robot."""
    return ((LOADED if loaded else ROBOT) + heading) << ROBOT_BIT
