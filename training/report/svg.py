"""Figures of matplotlib as inline SVG, with the colours and fonts of the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from itertools import count
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warpdrive.training.plots.figure import COLOURS

_SIZE = (4.6, 2.5)
"""Size in inches; it is scaled to the width of its place."""
_STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "warpdrive", "text.parse_math": False}
_INK, _GRID = "#010203", "#dddddd"
_VARIABLES = {_INK: "currentColor", "#000000": "currentColor", _GRID: "var(--line)"}
_VARIABLES |= {colour.lower(): f"var(--c{number})" for number, colour in enumerate(COLOURS[:-1])}


def variable_of(colour: str) -> str:
    """Return the variable of the page that stands for a colour."""
    return _VARIABLES[colour.lower()]


class Plots:
    """Plots of one page."""

    def __init__(self) -> None:
        self._number = count()

    def svg(self, draw: Callable[[Axes], object], x_label: str, title: str) -> str:
        """Return a plot as SVG.

        Args:
            draw: draws on the axes.
            x_label: label of the x axis.
            title: description for screen readers.

        Returns:
            An ``svg`` element. Its colours are variables of the page: ``--c0`` and following, ``--line``.
        """
        with matplotlib.rc_context(_STYLE):
            figure = Figure(figsize=_SIZE)
            axes = figure.add_axes((0.12, 0.185, 0.86, 0.785))
            draw(axes)
            axes.set_title("", loc="left")  # title and unit are text of the page
            axes.set_ylabel("")
            axes.set_xlabel(x_label, fontsize=9)
            axes.tick_params(labelsize=8, colors=_INK)
            axes.xaxis.label.set_color(_INK)
            for spine in axes.spines.values():
                spine.set_color(_INK)
            axes.patch.set_visible(False)
            figure.patch.set_visible(False)
            written = io.StringIO()
            figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
        return self._inline(written.getvalue(), title)

    def _inline(self, text: str, title: str) -> str:
        text = text[text.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        text = re.sub(r"#[0-9a-f]{6}\b", lambda colour: _VARIABLES.get(colour[0], colour[0]), text)
        prefix = f"p{next(self._number)}-"  # ids are unique within the page
        text = re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\g<1>{prefix}", text)
        text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
        text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
        return text.replace("<svg", f'<svg role="img" aria-label="{title}"', 1)
