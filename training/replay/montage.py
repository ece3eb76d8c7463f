"""Composite images of several replicas side by side, with captions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpdrive.figures import Frame, font_of_size

ASPECT = 1.6
"""Preferred ratio of width to height of a whole image."""
LINE = 22
FONT_SIZE = 15
SMALLEST_FONT = 8
MARGIN = 0.045
"""Margin to the left and right of captions, as a fraction of the width of a picture."""
GAP = 12
"""Gap between two pictures in pixels."""
DARK, LIGHT = (47, 46, 42), (240, 238, 230)


@dataclass(frozen=True)
class Panel:
    """Picture of one replica.

    Attributes:
        picture: ``[height, width, 3]`` uint8.
        lines: Captions below it, the first line in bold type.
    """

    picture: Frame
    lines: Sequence[str]


def columns_for(count: int, width: int, height: int) -> int:
    """Return the best number of columns for ``count`` pictures: close to the preferred ratio, with few gaps.

    Args:
        count: Number of pictures.
        width: Width of each in pixels.
        height: Height of each in pixels.

    Returns:
        The number of columns, from 1 to ``count``.
    """

    def badness(columns: int) -> float:
        rows = -(-count // columns)
        gaps = rows * columns - count
        return abs(math.log(columns * width / (rows * height) / ASPECT)) + 1.5 * gaps / count

    return min(range(1, count + 1), key=badness)


def fits_in_bold(line: str, width: int) -> bool:
    """Return True if a line fits below a picture of that width in bold type of the usual size."""
    return bool(font_of_size(FONT_SIZE, bold=True).getlength(line) <= width - 2 * round(MARGIN * width))


def side_by_side(panels: Sequence[Panel], columns: int) -> Frame:
    """Compose the panels row by row, with an even width and height in pixels, as video codecs require.

    Smaller pictures are padded with their own background colour.
    """
    from PIL import Image, ImageDraw

    lines = max(len(panel.lines) for panel in panels)
    height = max(panel.picture.shape[0] for panel in panels)
    width = max(panel.picture.shape[1] for panel in panels)
    words = lines * LINE + LINE // 2 if lines else 0
    rows = -(-len(panels) // columns)
    size = columns * (width + GAP) - GAP, rows * (height + words + GAP) - GAP
    whole = Image.new("RGB", (size[0] + size[0] % 2, size[1] + size[1] % 2), _background(panels[0].picture))
    pen = ImageDraw.Draw(whole)
    for index, panel in enumerate(panels):
        row, column = divmod(index, columns)
        left, top = column * (width + GAP), row * (height + words + GAP)
        background = _background(panel.picture)
        if background != _background(panels[0].picture) or panel.picture.shape[:2] != (height, width):
            pen.rectangle((left, top, left + width - 1, top + height + words - 1), fill=background)
        whole.paste(Image.fromarray(panel.picture), (left, top))
        _write(pen, panel.lines, left, top + height, width, DARK if sum(background) > 3 * 128 else LIGHT)
    return np.asarray(whole)


def _write(pen: Any, lines: Sequence[str], left: int, top: int, width: int, ink: tuple[int, int, int]) -> None:
    margin = round(MARGIN * width)
    for number, line in enumerate(lines):
        font = _fitting_font(line, width - 2 * margin, bold=number == 0)
        pen.text((left + margin, top + number * LINE + LINE // 2), line, fill=ink, font=font, anchor="lm")


def _background(picture: Frame) -> tuple[int, int, int]:
    red, green, blue = picture[-1, 0].tolist()
    return red, green, blue


def _fitting_font(line: str, width: int, bold: bool) -> Any:
    """Return the largest font, of at least readable size, in which a line is no longer than ``width``."""
    for size in range(FONT_SIZE, SMALLEST_FONT, -1):
        font = font_of_size(size, bold)
        if font.getlength(line) <= width:
            return font
    return font_of_size(SMALLEST_FONT, bold)
