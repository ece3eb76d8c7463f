"""Scenes as pixels, drawn by Pillow at twice the size and reduced, which smooths edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.figures import Frame, font_of_size
from warpdrive.scene import fields
from warpdrive.scene.colours import LIGHT, RGB, Palette, blend, rgb
from warpdrive.scene.geometry import behind_and_in_front, outline, trail_lines
from warpdrive.scene.scene import Scene, Shapes

_OVERSAMPLING = 2
_MANY = 50
"""Number of shapes from which on trails are thin."""


class Raster:
    """Draws scenes of one view.

    Args:
        view: See ``Scene``.
        width: The width of the picture in pixels.
        palette: The colours.
        margin: The width of the frame around the view in pixels.
    """

    def __init__(
        self, view: tuple[float, float, float, float], width: int = 560, palette: Palette = LIGHT, margin: int = 14
    ) -> None:
        self.view, self.margin, self.palette = view, margin, palette
        self.colours = [rgb(colour) for colour in palette]
        low_x, high_x, low_y, high_y = view
        self._pixels = (width - 2 * margin) / (high_x - low_x) * _OVERSAMPLING
        self._empty: Any = None
        self._image: Any = None
        self.width = width
        self.height = 2 * margin + max(2, round((high_y - low_y) * self._pixels / _OVERSAMPLING))
        self.height += self.height % 2  # as video encoders require

    def frame(self, scene: Scene, earlier: Sequence[Shapes] = ()) -> Frame:
        """Return the picture of a scene, ``[height, width, 3]`` uint8.

        Args:
            scene: The scene.
            earlier: The shapes of earlier states of the episode, the latest last, for trails.
        """
        from PIL import Image, ImageDraw

        size = self.width * _OVERSAMPLING, self.height * _OVERSAMPLING
        corner = self._points(np.array([[self.view[0], self.view[3]], [self.view[1], self.view[2]]]))
        box = [*corner[0], *corner[1]]
        if self._empty is None:
            self._empty = Image.new("RGB", size, self.colours[fields.PAPER])
            ImageDraw.Draw(self._empty).rectangle(box, fill=self.colours[fields.GROUND])
            self._image = self._empty.copy()  # used again and again, as memory that is new costs more than drawing
        image = self._image
        image.paste(self._empty)
        pen = ImageDraw.Draw(image)
        for picture in scene.images:
            low_x, high_x, low_y, high_y = picture.place
            (left, top), (right, bottom) = self._points(np.array([[low_x, high_y], [high_x, low_y]]))
            extent = max(1, round(right) - round(left)), max(1, round(bottom) - round(top))
            pixels = Image.fromarray(picture.pixels).resize(extent, Image.Resampling.NEAREST)
            image.paste(pixels, (round(left), round(top)))
        for polygon in scene.polygons:
            self._polygon(pen, polygon.points, polygon.colour, polygon.edge, polygon.line)
        behind, in_front = behind_and_in_front(scene.shapes)
        self._shapes(pen, behind)
        self._trails(pen, scene.shapes, earlier)
        self._shapes(pen, in_front)
        for text in scene.texts:
            place = self._points(np.array([[text.x, text.y]]))[0]
            self._write(pen, place, text.text, text.size * self._pixels, self.colours[text.colour])
        if self._reaches_out(scene):
            self._cover_margin(pen, box, size)
        pen.rectangle(box, outline=self.colours[fields.INK], width=_OVERSAMPLING)
        return np.asarray(image.reduce(_OVERSAMPLING))

    def _points(self, points: npt.NDArray[Any]) -> list[tuple[float, float]]:
        """Return pixels of the oversampled picture for points ``[n, 2]`` of the world."""
        margin = self.margin * _OVERSAMPLING
        x = margin + (points[:, 0] - self.view[0]) * self._pixels
        y = margin + (self.view[3] - points[:, 1]) * self._pixels
        return list(zip(x.tolist(), y.tolist(), strict=True))

    def _reaches_out(self, scene: Scene) -> bool:
        """Return True if a part of the scene may be outside of the view."""
        low_x, high_x, low_y, high_y = self.view
        shapes = scene.shapes[scene.shapes[:, fields.KIND] != fields.NOTHING]
        reach = np.abs(shapes[:, [fields.WIDTH, fields.HEIGHT]]).sum(1)
        x, y = shapes[:, fields.X], shapes[:, fields.Y]
        inside = (x - reach >= low_x) & (x + reach <= high_x) & (y - reach >= low_y) & (y + reach <= high_y)
        return bool(scene.images or scene.polygons or scene.texts or not inside.all())

    def _cover_margin(self, pen: Any, box: Sequence[float], size: tuple[int, int]) -> None:
        """Cover the parts outside of the view."""
        left, top, right, bottom = box
        for covered in ((0, 0, size[0], top), (0, bottom, size[0], size[1]), (0, 0, left, size[1]), (right, 0, *size)):
            pen.rectangle(covered, fill=self.colours[fields.PAPER])

    def _polygon(self, pen: Any, points: npt.NDArray[Any], colour: int, edge: int, line: float) -> None:
        pixels = self._points(points)
        if colour >= 0:
            pen.polygon(pixels, fill=self.colours[colour])
        if edge >= 0:
            closed = [*pixels, pixels[0]] if colour >= 0 else pixels
            pen.line(closed, fill=self.colours[edge], width=max(1, round(line * self._pixels)), joint="curve")

    def _shapes(self, pen: Any, shown: Shapes) -> None:
        kinds = shown[:, fields.KIND].astype(int).tolist()
        fills = [
            self._mixed(int(colour), opacity) for colour, opacity in shown[:, [fields.COLOUR, fields.OPACITY]].tolist()
        ]
        edges = [self.colours[int(edge)] if edge >= 0 else None for edge in shown[:, fields.EDGE].tolist()]
        places = self._points(shown[:, [fields.X, fields.Y]].astype(np.float64))
        half_widths = (0.5 * self._pixels * shown[:, fields.WIDTH].astype(np.float64)).tolist()
        half_heights = (0.5 * self._pixels * shown[:, fields.HEIGHT].astype(np.float64)).tolist()
        rows = zip(kinds, fills, edges, places, half_widths, half_heights, shown, strict=True)
        for kind, fill, edge, (x, y), a, b, shape in rows:
            if kind == fields.CIRCLE:
                pen.ellipse((x - a, y - b, x + a, y + b), fill=fill, outline=edge, width=_OVERSAMPLING)
            elif kind == fields.SEGMENT:
                end = (x + 2 * a, y - 2 * b)
                width = max(1, round(float(shape[fields.LINE]) * self._pixels))
                pen.line([(x, y), end], fill=fill, width=width)
                for cap_x, cap_y in ((x, y), end):
                    pen.circle((cap_x, cap_y), 0.5 * width, fill=fill)
            elif kind == fields.NUMBER:
                self._write(pen, (x, y), f"{shape[fields.LINE]:.0f}", 2 * b, fill)
            else:
                pen.polygon(outline(kind, x, y, a, b, shape), fill=fill, outline=edge, width=_OVERSAMPLING)

    @staticmethod
    def _write(pen: Any, place: tuple[float, float], text: str, size: float, colour: RGB) -> None:
        pen.text(place, text, fill=colour, font=font_of_size(max(8, round(size))), anchor="mm")

    def _trails(self, pen: Any, shapes: Shapes, earlier: Sequence[Shapes]) -> None:
        # Lines of one pixel are drawn much quicker. They become half a pixel, and so have a stronger colour.
        width, strength = (1, 1.6) if len(shapes) > _MANY else (_OVERSAMPLING + 1, 1.0)
        for colour, opacity, line in trail_lines(shapes, earlier, self.view, self._points):
            pen.line(line, fill=self._mixed(colour, strength * opacity), width=width)

    def _mixed(self, colour: int, opacity: float) -> RGB:
        return blend(self.palette[colour], self.palette[fields.GROUND], opacity)
