"""Composite images of several replicas side by side, with captions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from warpdrive.figures import Frame

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
        lines: captions below it, the first line in bold type.
    """

    picture: Frame
    lines: Sequence[str]


def columns_for(count: int, width: int, height: int) -> int:
    """Return the best number of columns for ``count`` pictures: close to the preferred ratio, with few gaps.

    Args:
        count: number of pictures.
        width: width of each in pixels.
        height: height of each in pixels.

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
    return bool(_font(FONT_SIZE, bold=True).getlength(line) <= width - 2 * round(MARGIN * width))


def side_by_side(panels: Sequence[Panel], columns: int) -> Frame:
    """Compose the panels row by row, with an even width and height in pixels, as video codecs require.

    Smaller pictures are padded with their own background colour.
    """
    lines = max(len(panel.lines) for panel in panels)
    height = max(panel.picture.shape[0] for panel in panels)
    width = max(panel.picture.shape[1] for panel in panels)
    words = lines * LINE + LINE // 2 if lines else 0
    cells = [_cell(panel, width, height, words) for panel in panels]
    rows = -(-len(cells) // columns)
    background = _background(panels[0].picture)
    whole = np.empty((rows * (height + words + GAP) - GAP, columns * (width + GAP) - GAP, 3), np.uint8)
    whole[:] = background
    for index, cell in enumerate(cells):
        row, column = divmod(index, columns)
        whole[row * (height + words + GAP) :, column * (width + GAP) :][: len(cell), :width] = cell
    odd = [(0, whole.shape[axis] % 2) for axis in (0, 1)]
    return np.pad(whole, [*odd, (0, 0)], mode="edge")


def _cell(panel: Panel, width: int, height: int, words: int) -> Frame:
    from PIL import Image, ImageDraw

    background = _background(panel.picture)
    cell = np.empty((height + words, width, 3), np.uint8)
    cell[:] = background
    cell[: panel.picture.shape[0], : panel.picture.shape[1]] = panel.picture
    if not words:
        return cell
    image = Image.fromarray(cell)
    pen = ImageDraw.Draw(image)
    margin = round(MARGIN * width)
    ink = DARK if sum(background) > 3 * 128 else LIGHT
    for number, line in enumerate(panel.lines):
        font = _fitting_font(line, width - 2 * margin, bold=number == 0)
        pen.text((margin, height + number * LINE + LINE // 2), line, fill=ink, font=font, anchor="lm")
    return np.asarray(image)


def _background(picture: Frame) -> tuple[int, int, int]:
    red, green, blue = picture[-1, 0].tolist()
    return red, green, blue


def _fitting_font(line: str, width: int, bold: bool) -> Any:
    """Return the largest font, of at least readable size, in which a line is no longer than ``width``."""
    for size in range(FONT_SIZE, SMALLEST_FONT, -1):
        font = _font(size, bold)
        if font.getlength(line) <= width:
            return font
    return _font(SMALLEST_FONT, bold)


@cache
def _font(size: int, bold: bool) -> Any:
    import matplotlib
    from PIL import ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"  # the font of the pictures themselves
    return ImageFont.truetype(str(folder / ("DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf")), size)
