"""Outlines of shapes and lines of trails in pixels, the same for all outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.scene import fields
from warpdrive.scene.scene import Shapes, View

Points = list[tuple[float, float]]

_ARC = 10.0  # degrees between the points of an arc
SHADES, OPACITY = 4, 0.55
"""Number of shades of a trail, and opacity of the latest one."""
BEHIND = -1000
"""Layer of objects other than agents, behind agents. Shapes of negative layers are behind trails as well."""
LONGEST_PART = 0.5
"""Fraction of the view from which on a part of a trail is a jump, as at the border of a torus, and left out."""


def visible(shapes: Shapes) -> Shapes:
    """Return the shapes that are drawn, those in front last."""
    found: Shapes = shapes[shapes[:, fields.KIND] != fields.NOTHING]
    found = found[np.argsort(found[:, fields.LAYER], kind="stable")]
    return found


def behind_and_in_front(shapes: Shapes) -> tuple[Shapes, Shapes]:
    """Return the shapes that are drawn before trails, and those drawn after them."""
    shown = visible(shapes)
    behind = shown[:, fields.LAYER] < 0
    return shown[behind], shown[~behind]


def outline(kind: int, x: float, y: float, a: float, b: float, shape: npt.NDArray[Any]) -> Points:
    """Return the corners of a rectangle, triangle or sector.

    Args:
        kind: The kind of the shape.
        x: The position of its centre, to the right.
        y: The position of its centre, downwards.
        a: Half of its width.
        b: Half of its height.
        shape: All numbers of the shape.
    """
    angle = float(shape[fields.ANGLE])
    if kind == fields.SECTOR:
        opening = float(shape[fields.HEIGHT])
        count = max(2, math.ceil(math.degrees(opening) / _ARC) + 1)
        angles = [angle - 0.5 * opening + opening * n / (count - 1) for n in range(count)]
        return [(x, y), *((x + a * math.cos(t), y - a * math.sin(t)) for t in angles)]
    cosine, sine = math.cos(angle), math.sin(angle)
    corners = [(-a, -b), (a, -b), (a, b), (-a, b)]
    if kind == fields.TRIANGLE:
        corners = [(a, 0.0), (-a, 0.7 * b), (-0.55 * a, 0.0), (-a, -0.7 * b)]
    return [(x + u * cosine - v * sine, y - u * sine - v * cosine) for u, v in corners]


def trail_lines(
    shapes: Shapes, earlier: Sequence[Shapes], view: View, pixels: Callable[[npt.NDArray[Any]], Points]
) -> Iterator[tuple[int, float, Points]]:
    """Yield the colour, opacity and points of lines through earlier positions, the older the fainter.

    Args:
        shapes: The shapes of a state.
        earlier: Those of agents in the earlier states of the episode, the latest last.
        view: The part of the world that is shown.
        pixels: A function from points ``[n, 2]`` of the world to those of the picture.
    """
    if len(earlier) == 0:
        return
    shapes = shapes[: len(earlier[0])]  # those of agents
    chosen = np.flatnonzero((shapes[:, fields.KIND] != fields.NOTHING) & (shapes[:, fields.TRAIL] > 0))
    if not len(chosen):
        return
    longest = int(shapes[chosen, fields.TRAIL].max())
    path = np.stack([*(state[chosen] for state in earlier[-longest:]), shapes[chosen]])
    points = path[..., [fields.X, fields.Y]].astype(np.float64)
    limit = LONGEST_PART * min(view[1] - view[0], view[3] - view[2])
    moved = np.hypot(*np.moveaxis(np.diff(points, axis=0), -1, 0))
    there = path[..., fields.KIND] != fields.NOTHING
    age = np.arange(len(moved), 0, -1)[:, None]
    drawn = there[1:] & there[:-1] & (moved < limit) & (age <= shapes[chosen, fields.TRAIL])
    steps = len(points)
    in_pixels = pixels(np.moveaxis(points, 1, 0).reshape(-1, 2))
    lines = [in_pixels[start : start + steps] for start in range(0, len(in_pixels), steps)]
    colours = shapes[chosen, fields.COLOUR].astype(int).tolist()
    for shade in range(SHADES):
        first, last = (round(len(moved) * part / SHADES) for part in (shade, shade + 1))
        opacity = OPACITY * (shade + 1) / SHADES
        whole, some = drawn[first:last].all(0).tolist(), drawn[first:last].any(0).tolist()
        for index, colour in enumerate(colours):
            if whole[index]:
                yield colour, opacity, lines[index][first : last + 1]
            elif some[index]:
                for part in np.flatnonzero(drawn[first:last, index]).tolist():
                    yield colour, opacity, lines[index][first + part : first + part + 2]
