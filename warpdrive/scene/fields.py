"""Numbers of a shape, and names of kinds and colours, which need neither numba nor PyTorch."""

from __future__ import annotations

FIELDS = ("kind", "x", "y", "width", "height", "angle", "colour", "opacity", "edge", "line", "layer", "trail")
"""Numbers of a shape.

``width`` and ``height`` are the diameters of a circle, the sides of a rectangle, the base and height of a triangle, the
diameter and opening angle of a sector, the extent of a line in x and y, and the height of the digits of a number.
``edge`` is the colour of the outline, -1 for none; ``line`` the width of a line, the value of a number, or 0. Higher
layers are in front. ``trail`` is the number of earlier positions that a fading line connects.
"""
KIND, X, Y, WIDTH, HEIGHT, ANGLE, COLOUR, OPACITY, EDGE, LINE, LAYER, TRAIL = range(len(FIELDS))
OUTSIDE, NOTHING, CIRCLE, RECTANGLE, TRIANGLE, SECTOR, SEGMENT, NUMBER = range(-1, 7)
"""Kinds. ``OUTSIDE`` marks the first shape of an agent that drew one outside of the array, see ``warpdrive.draw``."""

BLUE, RED, YELLOW, GREEN, PURPLE, SKY, ORANGE, GREY, INK, PAPER, GROUND = range(11)
"""Colours, which differ for colour-blind eyes as well, see ``warpdrive.scene.colours`` for their values."""
