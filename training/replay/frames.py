"""Frames of films: the replicas of a recording side by side, with captions.

Replicas whose episode has ended keep their last picture until the longest has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from warpdrive.figures import Frame, png_address
from warpdrive.scene import fields
from warpdrive.scene.artist import Artist
from warpdrive.scene.colours import LIGHT, Palette
from warpdrive.scene.vector import svg_of
from warpdrive.training.replay.film import Film
from warpdrive.training.replay.montage import FONT_SIZE, GAP, LINE, Panel, columns_for, fits_in_bold, side_by_side

WIDTH = 960
"""Default maximum width of a frame with several replicas, in pixels."""


class Frames:
    """Frames of a film.

    Args:
        film: The film.
        width: The width of a frame in pixels; None: that of a picture, for several side by side at most :data:`WIDTH`.
        palette: The colours of scenes.
    """

    def __init__(self, film: Film, width: int | None = None, palette: Palette = LIGHT) -> None:
        self.film, self._palette = film, palette
        self._artist = Artist(film.env, palette=palette)
        self._drawn: dict[int, tuple[int, Frame]] = {}  # last picture of each replica, and its step
        natural_height, natural_width = self._picture(0, 0).shape[:2]
        self._drawn.clear()
        count = len(film.lengths)
        self.columns = columns_for(count, natural_width, natural_height)
        gaps = (self.columns - 1) * GAP
        scale = 1.0
        if width is not None:
            scale = (width - gaps) / (self.columns * natural_width)
        elif count > 1:
            scale = min(1.0, (WIDTH - gaps) / (self.columns * natural_width))
        self._artist = Artist(film.env, scale, palette)
        # An ending that does not fit behind the step has a separate line, from the first frame on.
        self._endings_apart = False
        longest = [self._lines(index, length)[0] for index, length in enumerate(film.lengths)]
        self._endings_apart = not all(fits_in_bold(line, round(scale * natural_width)) for line in longest)

    def frame(self, step: int) -> Frame:
        """Return the frame after ``step`` steps; a replica whose episode has ended keeps its last picture."""
        panels = [
            Panel(self._picture(index, step), self._lines(index, step)) for index in range(len(self.film.lengths))
        ]
        return side_by_side(panels, self.columns)

    def svg(self, step: int) -> str:
        """Return the frame after ``step`` steps as an SVG file, in which scenes are vectors and figures are pixels."""
        background, ink = self._palette[fields.PAPER], self._palette[fields.INK]
        words = [self._lines(index, step) for index in range(len(self.film.lengths))]
        pictures = [self._svg_of(index, min(step, length)) for index, length in enumerate(self.film.lengths)]
        wide, high = max(size[0] for _, size in pictures), max(size[1] for _, size in pictures)
        high += LINE * max(map(len, words)) + LINE / 2
        columns = self.columns
        width, height = columns * (wide + GAP) + GAP, -(-len(words) // columns) * (high + GAP) + GAP
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" font-family="DejaVu Sans, sans-serif" font-size="{FONT_SIZE}">',
            f'<rect width="{width:g}" height="{height:g}" fill="{background}"/>',
        ]
        for index, ((picture, size), lines) in enumerate(zip(pictures, words, strict=True)):
            row, column = divmod(index, columns)
            left, top = GAP + column * (wide + GAP), GAP + row * (high + GAP)
            parts.append(f'<g transform="translate({left:g} {top:g})">{picture}')
            for number, line in enumerate(lines):
                weight = ' font-weight="bold"' if number == 0 else ""
                y = size[1] + (number + 1) * LINE
                parts.append(f'<text y="{y:g}" fill="{ink}"{weight}>{escape(line)}</text>')
            parts.append("</g>")
        return "\n".join([*parts, "</svg>", ""])

    def _svg_of(self, index: int, step: int) -> tuple[str, tuple[float, float]]:
        """Return the picture of a replica as an element, and its width and height."""
        picture = self._picture(index, step)
        height, width = picture.shape[:2]
        if not self.film.has_scenes:
            return f'<image width="{width}" height="{height}" href="{png_address(picture)}"/>', (width, height)
        scene = self.film.scene(index, step)
        low_x, high_x, low_y, high_y = scene.view
        size = width, width * (high_y - low_y) / (high_x - low_x)
        return svg_of(scene, self.film.earlier(index, step), width, self._palette), size

    def _picture(self, index: int, step: int) -> Frame:
        step = min(step, self.film.lengths[index])
        if self._drawn.get(index, (-1,))[0] != step:
            self._drawn[index] = step, self.film.picture(index, step, self._artist)
        return self._drawn[index][1]

    def _lines(self, index: int, step: int) -> Sequence[str]:
        caption = self.film.caption(index, step)
        if self._endings_apart:
            return [caption.step, caption.returns, caption.ending]
        return [f"{caption.step}: {caption.ending}" if caption.ending else caption.step, caption.returns]
