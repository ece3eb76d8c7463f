"""Scene: images, polygons, shapes and texts of one state, in world coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpdrive.scene import fields

Shapes = npt.NDArray[np.float32]
View = tuple[float, float, float, float]
"""Visible part of the world: minimum x, maximum x, minimum y, maximum y."""


@dataclass(frozen=True)
class Polygon:
    """Polygon, or an open line if it has no fill.

    Attributes:
        points: ``[n, 2]``.
        colour: The colour of the fill; -1 for none.
        edge: The colour of the outline; -1 for none.
        line: The width of the outline, in the unit of the world.
    """

    points: npt.NDArray[np.float32]
    colour: int = fields.GREY
    edge: int = -1
    line: float = 0.0


@dataclass(frozen=True)
class Text:
    """Text, centred at a point; ``size`` is its height in the unit of the world."""

    x: float
    y: float
    text: str
    size: float
    colour: int = fields.INK


@dataclass(frozen=True)
class Image:
    """Pixels ``[height, width, 3]`` uint8 that fill a rectangle: lowest x, highest x, lowest y, highest y."""

    pixels: npt.NDArray[np.uint8]
    place: View


@dataclass(frozen=True)
class Scene:
    """Picture of one state: images, in front of them polygons, shapes, then texts.

    Attributes:
        view: The part of the world that is shown.
        shapes: ``[n, len(fields.FIELDS)]`` float32, see :mod:`warpdrive.draw`.
        polygons: Polygons.
        texts: Texts.
        images: Images.
        caption: Text below the picture.
    """

    view: View
    shapes: Shapes = field(default_factory=lambda: np.zeros((0, len(fields.FIELDS)), np.float32))
    polygons: Sequence[Polygon] = ()
    texts: Sequence[Text] = ()
    images: Sequence[Image] = ()
    caption: str = ""
