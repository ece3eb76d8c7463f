"""Scenes as JSON for pages that draw them in the browser, and such pages within notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from warpdrive.figures import png_address
from warpdrive.scene import fields
from warpdrive.scene.colours import DARK, LIGHT
from warpdrive.scene.scene import Scene

_KINDS = ("CIRCLE", "RECTANGLE", "TRIANGLE", "SECTOR", "SEGMENT")


def drawing_constants() -> dict[str, Any]:
    """Return the palettes, and the fields and kinds of shapes."""
    return {
        "palettes": {"light": LIGHT, "dark": DARK},
        "colourNames": LIGHT._fields,
        "fields": fields.FIELDS,
        "kinds": {name: getattr(fields, name) for name in _KINDS},
    }


def described_scenery(scene: Scene) -> dict[str, Any]:
    """Return what a page draws behind the agents, as JSON has it."""
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
