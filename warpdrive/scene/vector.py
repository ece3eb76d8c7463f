"""Scenes as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.figures import png_address
from warpdrive.scene import fields
from warpdrive.scene.colours import LIGHT, Palette, blend
from warpdrive.scene.geometry import Points, behind_and_in_front, outline, trail_lines
from warpdrive.scene.scene import Scene, Shapes

_ROUND = 'stroke-linecap="round" stroke-linejoin="round"'
_LINE = 1.5
"""Width of a trail in pixels."""


def svg_of(scene: Scene, earlier: Sequence[Shapes] = (), width: float = 560.0, palette: Palette = LIGHT) -> str:
    """Return the picture of a scene as an ``<svg>`` element, cut at the edges of the view.

    Args:
        scene: The scene.
        earlier: The shapes of agents in the earlier states of the episode, the latest last, for trails.
        width: The width in pixels; the height follows from the view.
        palette: The colours.
    """
    return "\n".join(_Drawing(scene, width, palette).elements(earlier))


class _Drawing:
    """Elements of a scene."""

    def __init__(self, scene: Scene, width: float, palette: Palette) -> None:
        self.scene, self.width, self.palette = scene, width, palette
        low_x, high_x, low_y, high_y = scene.view
        self.scale = width / (high_x - low_x)
        self.height = round((high_y - low_y) * self.scale, 2)

    def elements(self, earlier: Sequence[Shapes]) -> Iterator[str]:
        size = f'width="{_text(self.width)}" height="{_text(self.height)}"'
        box = f"0 0 {_text(self.width)} {_text(self.height)}"
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="{box}">'
        yield f'<rect {size} fill="{self.palette[fields.GROUND]}"/>'
        for image in self.scene.images:
            low_x, high_x, low_y, high_y = image.place
            (left, top), (right, bottom) = self._points(np.array([[low_x, high_y], [high_x, low_y]]))
            yield (
                f'<image x="{_text(left)}" y="{_text(top)}" width="{_text(right - left)}" '
                f'height="{_text(bottom - top)}" preserveAspectRatio="none" style="image-rendering: pixelated" '
                f'href="{png_address(image.pixels)}"/>'
            )
        for polygon in self.scene.polygons:
            edge = polygon.edge if polygon.edge >= 0 else None
            line = max(1.0, polygon.line * self.scale)
            fill = self.palette[polygon.colour] if polygon.colour >= 0 else "none"
            yield self._path(self._points(polygon.points), fill, edge, line, closed=polygon.colour >= 0)
        behind, in_front = behind_and_in_front(self.scene.shapes)
        yield from map(self._shape, behind)
        for colour, opacity, points in trail_lines(self.scene.shapes, earlier, self.scene.view, self._points):
            yield self._line(points, self._mixed(colour, opacity), _LINE)
        yield from map(self._shape, in_front)
        for text in self.scene.texts:
            (place,) = self._points(np.array([[text.x, text.y]]))
            yield self._written(place, text.text, text.size * self.scale, self.palette[text.colour])
        yield f'<rect {size} fill="none" stroke="{self.palette[fields.INK]}"/>'
        yield "</svg>"

    def _shape(self, shape: npt.NDArray[Any]) -> str:
        kind, ((x, y),) = int(shape[fields.KIND]), self._points(shape[None, [fields.X, fields.Y]])
        a, b = (0.5 * self.scale * float(shape[field]) for field in (fields.WIDTH, fields.HEIGHT))
        fill = self._mixed(int(shape[fields.COLOUR]), float(shape[fields.OPACITY]))
        edge = int(shape[fields.EDGE]) if shape[fields.EDGE] >= 0 else None
        if kind == fields.SEGMENT:
            return self._line([(x, y), (x + 2 * a, y - 2 * b)], fill, max(1.0, float(shape[fields.LINE]) * self.scale))
        if kind == fields.CIRCLE:
            radii = f'cx="{_text(x)}" cy="{_text(y)}" rx="{_text(a)}" ry="{_text(b)}"'
            return f'<ellipse {radii} fill="{fill}"{self._stroke(edge, 1.0)}/>'
        if kind == fields.NUMBER:
            return self._written((x, y), f"{shape[fields.LINE]:.0f}", 2 * b, fill)
        return self._path(outline(kind, x, y, a, b, shape), fill, edge, 1.0, closed=True)

    def _path(self, points: Points, fill: str, edge: int | None, line: float, closed: bool) -> str:
        steps = " ".join(f"{_text(x)} {_text(y)}" for x, y in points)
        return f'<path d="M{steps}{"Z" if closed else ""}" fill="{fill}"{self._stroke(edge, line)}/>'

    def _line(self, points: Points, colour: str, width: float) -> str:
        steps = " ".join(f"{_text(x)} {_text(y)}" for x, y in points)
        return f'<path d="M{steps}" fill="none" stroke="{colour}" stroke-width="{_text(width)}" {_ROUND}/>'

    def _written(self, place: tuple[float, float], text: str, size: float, colour: str) -> str:
        x, y = map(_text, place)
        return (
            f'<text x="{x}" y="{y}" font-size="{_text(max(5.0, size))}" font-family="DejaVu Sans, sans-serif" '
            f'text-anchor="middle" dominant-baseline="central" fill="{colour}">{escape(text)}</text>'
        )

    def _stroke(self, edge: int | None, width: float) -> str:
        return "" if edge is None else f' stroke="{self.palette[edge]}" stroke-width="{_text(width)}" {_ROUND}'

    def _mixed(self, colour: int, opacity: float) -> str:
        return "#{:02x}{:02x}{:02x}".format(*blend(self.palette[colour], self.palette[fields.GROUND], opacity))

    def _points(self, points: npt.NDArray[Any]) -> Points:
        x = (points[:, 0] - self.scene.view[0]) * self.scale
        y = (self.scene.view[3] - points[:, 1]) * self.scale
        return list(zip(x.tolist(), y.tolist(), strict=True))


def _text(number: float) -> str:
    """Return a number with the visible decimals."""
    return f"{number:.2f}".rstrip("0").rstrip(".") if math.isfinite(number) else "0"
