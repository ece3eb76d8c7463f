"""Figures of matplotlib as inline SVG, with the colours and fonts of the page."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warpdrive.training.plots.figure import COLOURS
from warpdrive.training.plots.learning_curves import Numbers

_SIZE = (4.6, 2.5)
"""Size in inches; it is scaled to the width of its place."""
_LEFT, _BOTTOM, _RIGHT, _TOP = 40, 33, 324, 174
"""Edges of the axes in points; more on the left for long numbers."""
_POINTS_PER_INCH, _LETTER = 72, 5.2
"""Points per inch, and of a digit of the numbers at the axes."""
_STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "warpdrive", "text.parse_math": False}
_INK, _GRID = "#010203", "#dddddd"
_VARIABLES = {_INK: "currentColor", "#000000": "currentColor", _GRID: "var(--line)"}
_VARIABLES |= {colour.lower(): f"var(--c{number})" for number, colour in enumerate(COLOURS[:-1])}


def variable_of(colour: str) -> str:
    """Return the CSS variable of a colour."""
    return _VARIABLES[colour.lower()]


@dataclass(frozen=True)
class Values:
    """Values of a line that the page shows under the pointer.

    Attributes:
        label: Label of the line; "" if there is only one.
        colour: Colour in the figure.
        mean: ``[n]``, one for each place on the x axis; masked where the line has none.
        low: ``[n]``, lower end of the range, or None.
        high: ``[n]``, upper end of the range, or None.
    """

    label: str
    colour: str
    mean: Numbers
    low: Numbers | None = None
    high: Numbers | None = None

    def as_data(self) -> dict[str, object]:
        """Return the values for JSON, with five digits."""
        ranges = {} if self.low is None or self.high is None else {"low": _data(self.low), "high": _data(self.high)}
        return {"label": self.label, "colour": variable_of(self.colour), "mean": _data(self.mean), **ranges}


class Plots:
    """Plots of one page."""

    def __init__(self) -> None:
        self._number = count()

    def svg(
        self,
        draw: Callable[[Axes], object],
        x_label: str,
        title: str,
        at: Numbers,
        names: Sequence[str],
        lines: Sequence[Values],
    ) -> str:
        """Return a plot as SVG, with its values for the script of the page.

        Args:
            draw: Draws on the axes.
            x_label: Label of the x axis.
            title: Description for screen readers.
            at: ``[n]``, places on the x axis whose values can be read.
            names: Their text.
            lines: The values there.

        Returns:
            An ``svg`` element. Its colours are variables of the page: ``--c0`` and following, ``--line``.
        """
        with matplotlib.rc_context(_STYLE):
            figure = Figure(figsize=_SIZE)
            axes = figure.add_axes((0, 0, 1, 1))
            draw(axes)
            axes.set_title("", loc="left")  # title and unit are text of the page
            axes.set_ylabel("")
            axes.set_xlabel(x_label, fontsize=9)
            axes.tick_params(labelsize=8, colors=_INK)
            axes.xaxis.label.set_color(_INK)
            for spine in axes.spines.values():
                spine.set_color(_INK)
            left = max(_LEFT, 12 + _LETTER * max(len(number.get_text()) for number in axes.get_yticklabels()))
            width, height = (_POINTS_PER_INCH * inches for inches in _SIZE)
            axes.set_position((left / width, _BOTTOM / height, (_RIGHT - left) / width, (_TOP - _BOTTOM) / height))
            axes.patch.set_visible(False)
            figure.patch.set_visible(False)
            written = io.StringIO()
            figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
        values = {
            "box": [left, height - _TOP, _RIGHT, height - _BOTTOM],
            "x": axes.get_xlim(),
            "y": axes.get_ylim(),
            "at": _data(at),
            "names": list(names),
            "lines": [line.as_data() for line in lines],
        }
        return self._inline(written.getvalue(), title, json.dumps(values, separators=(",", ":"), allow_nan=False))

    def _inline(self, text: str, title: str, values: str) -> str:
        text = text[text.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        text = re.sub(r"#[0-9a-f]{6}\b", lambda colour: _VARIABLES.get(colour[0], colour[0]), text)
        text = re.sub(r"font-family: [^;]*; ", "", text)  # that of the page
        prefix = f"p{next(self._number)}-"  # ids are unique within the page
        text = re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\g<1>{prefix}", text)
        text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
        text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
        attributes = f'role="img" aria-label="{escape(title)}" data-plot="{escape(values)}"'
        return text.replace("<svg", f"<svg {attributes}", 1)


def _data(values: Numbers) -> list[float | str]:
    """Return numbers for JSON, which has neither NaN nor infinity; masked ones become ""."""
    return ["" if v is None else float(f"{v:.5g}") if math.isfinite(v) else str(v) for v in values.tolist()]
