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


@cache
def blend(front: str, back: str, opacity: float) -> RGB:
    """Return the colour that ``front`` of the given opacity has on ``back``."""
    pairs = [(int(front[place : place + 2], 16), int(back[place : place + 2], 16)) for place in (1, 3, 5)]
    red, green, blue = (round(opacity * f + (1.0 - opacity) * b) for f, b in pairs)
    return red, green, blue
