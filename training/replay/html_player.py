"""HTML player of images: one file without network access, with buttons, a slider and keys."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

TEMPLATE = Path(__file__).with_name("player.html")


def player_page(
    pictures: Sequence[bytes], size: tuple[int, int], milliseconds: Sequence[float], title: str = "replay"
) -> str:
    """Return the page.

    Args:
        pictures: PNG files.
        size: width and height of the pictures in pixels.
        milliseconds: duration of each picture.
        title: title of the page, and alternative text of the pictures.

    Returns:
        HTML that needs no other files.
    """
    sources = [f"data:image/png;base64,{base64.b64encode(picture).decode('ascii')}" for picture in pictures]
    page = TEMPLATE.read_text(encoding="utf-8")
    values = {
        "title": escape(title),
        "width": str(size[0]),
        "height": str(size[1]),
        "milliseconds": json.dumps([round(duration) for duration in milliseconds]),
        "first": sources[0],
        "frames": json.dumps(sources, separators=(",\n", ":")),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: values[place[1]], page)  # once: a title is not looked into
