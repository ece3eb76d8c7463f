"""Pages that draw scenes in the browser: their common parts, and scenes as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from warpdrive.figures import png_address
from warpdrive.scene import fields
from warpdrive.scene.colours import DARK, LIGHT
from warpdrive.scene.scene import Scene

_KINDS = ("CIRCLE", "RECTANGLE", "TRIANGLE", "SECTOR", "SEGMENT", "NUMBER")
_SHARED = Path(__file__).with_suffix("")


def page(body: Path, scripts: Sequence[Path], title: str, data: Mapping[str, Any]) -> str:
    """Return a page that needs no other files and no network.

    Args:
        body: The file of its content; a style sheet beside it has the same name.
        scripts: Its scripts, which follow the shared one.
        title: Its title, ``{{title}}`` in its content.
        data: The value of ``data`` in the scripts, in addition to the constants of drawings.

    Returns:
        HTML.
    """
    text = json.dumps({**data, **_drawing_constants()}, separators=(",", ":"), allow_nan=False)
    parts = {
        "title": escape(title),
        "style": _joined([_SHARED.with_suffix(".css"), body.with_suffix(".css")]),
        "script": _joined([_SHARED.with_suffix(".js"), *scripts]),
        "data": text.replace("<", "\\u003c"),  # neither "</script>" nor "<!--<script>" of a name is one of the page
    }
    html = _joined([_SHARED.with_suffix(".html")]).replace("{{body}}", _joined([body]).rstrip())
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], html)  # one pass: titles are taken literally


def _joined(paths: Sequence[Path]) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def _drawing_constants() -> dict[str, Any]:
    """Return the palettes, and the fields and kinds of shapes."""
    return {
        "palettes": {"light": LIGHT, "dark": DARK},
        "colourNames": LIGHT._fields,
        "fields": fields.FIELDS,
        "kinds": {name: getattr(fields, name) for name in _KINDS},
    }


def described_scenery(scene: Scene) -> dict[str, Any]:
    """Return the background that a page draws, as JSON."""
    return {
        "view": [float(end) for end in scene.view],
        "caption": scene.caption,
        "images": [
            {"place": [float(end) for end in image.place], "source": png_address(image.pixels)}
            for image in scene.images
        ],
        "polygons": [
            {
                "points": [float(f"{number:.6g}") for number in np.asarray(polygon.points).reshape(-1)],
                "colour": int(polygon.colour),
                "edge": int(polygon.edge),
                "line": float(polygon.line),
            }
            for polygon in scene.polygons
        ],
        "texts": [
            {"x": float(text.x), "y": float(text.y), "text": text.text, "size": float(text.size), "colour": text.colour}
            for text in scene.texts
        ],
    }


def framed(page: str, title: str) -> str:
    """Return a page in an iframe, which isolates its names and styles, for a notebook."""
    sandbox = 'sandbox="allow-scripts" allow="fullscreen" style="width: 100%; height: 640px; border: 0"'
    return f'<iframe srcdoc="{escape(page)}" {sandbox} title="{escape(title)}"></iframe>'
