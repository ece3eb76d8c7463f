"""Colours of scenes: a palette for colour-blind eyes, on light and on dark ground."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

RGB = tuple[int, int, int]


class Palette(NamedTuple):
    """Colours as ``#rrggbb``, in the order of the constants of :mod:`warpdrive.draw`.

    The first eight follow Okabe and Ito, Color Universal Design (2008), adjusted in lightness to each ground.
    """

    blue: str
    red: str
    yellow: str
    green: str
    purple: str
    sky: str
    orange: str
    grey: str
    ink: str
    paper: str
    ground: str


LIGHT = Palette(
    blue="#0072b2",
    red="#c8442c",
    yellow="#e0b000",
    green="#009e73",
    purple="#b0609a",
    sky="#56b4e9",
    orange="#e69f00",
    grey="#a9a59a",
    ink="#2f2e2a",
    paper="#fbfaf6",
    ground="#f1efe8",
)
DARK = Palette(
    blue="#4aa8e0",
    red="#f0745c",
    yellow="#f0d24a",
    green="#2fc79a",
    purple="#d594c4",
    sky="#8fd0f5",
    orange="#f5b83d",
    grey="#7d7a72",
    ink="#e8e6df",
    paper="#1c1b19",
    ground="#262522",
)


def rgb(colour: str) -> RGB:
    """Return the numbers, 0 to 255, of a colour ``#rrggbb``."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


@cache
def blend(front: str, back: str, opacity: float) -> RGB:
    """Return the colour that ``front`` of the given opacity has on ``back``."""
    pairs = zip(rgb(front), rgb(back), strict=True)
    red, green, blue = (round(opacity * f + (1.0 - opacity) * b) for f, b in pairs)
    return red, green, blue
