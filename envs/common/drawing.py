"""Polygons of sceneries."""

from __future__ import annotations

import numpy as np

from warpdrive import draw
from warpdrive.scene.scene import Polygon

_CORNERS = 48
"""Number of corners of the polygon that represents a disc."""


def stroke(x: float, y: float, to_x: float, to_y: float, width: float, colour: int) -> Polygon:
    """Return a straight line from (x, y) to (to_x, to_y)."""
    return Polygon(np.array([[x, y], [to_x, to_y]], np.float32), -1, colour, width)


def box(low_x: float, high_x: float, low_y: float, high_y: float, colour: int) -> Polygon:
    """Return an upright rectangle."""
    corners = [[low_x, low_y], [high_x, low_y], [high_x, high_y], [low_x, high_y]]
    return Polygon(np.array(corners, np.float32), colour)


def disc(x: float, y: float, radius: float, colour: int, edge: int = -1, line: float = 0.0) -> Polygon:
    """Return a disc, or a ring if ``colour`` is -1; ``edge`` and ``line`` are colour and width of the outline."""
    angles = np.arange(_CORNERS + 2) * 2 * np.pi / _CORNERS  # beyond a full turn, which closes the outline
    points = np.stack([x + radius * np.cos(angles), y + radius * np.sin(angles)], axis=1)
    return Polygon(points.astype(np.float32), colour, edge, line)


def grid(low: float, high: float, stride: int, width: float) -> list[Polygon]:
    """Return the lines between the cells of a square map, ``stride`` cells apart."""
    places = np.arange(low + stride, high, stride)
    across = [stroke(low, place, high, place, width, draw.PAPER) for place in places]
    return [*across, *(stroke(place, low, place, high, width, draw.PAPER) for place in places)]
