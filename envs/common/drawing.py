"""Shared rendering helpers: a frame with a title, colors, fading trails, rods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

TAGGER_COLOUR = "#d1433f"
RUNNER_COLOUR = "#2a78b8"
TAGGED_COLOUR = "#f2b134"
GONE_COLOUR = "#b9b6ae"
INK = "#2f2e2a"
PAPER = "#fbfaf6"
BOARD = "#f1efe8"
GRID_LINE = "#dcd8cb"


def board(low: float, high: float, title: str, subtitle: str) -> tuple[Figure, Axes]:
    """Return a square figure (560 x 600 pixels) and its axes from ``low`` to ``high`` in both directions.

    Args:
        low: Lower limit of both axes.
        high: Upper limit of both axes.
        title: Title of the figure.
        subtitle: Second line of the title.

    Returns:
        The figure and its axes.
    """
    return _paper((low, high), (low, high), 6.0, (0.045, 0.042, 0.91, 0.85), title, subtitle)


def scene(x: tuple[float, float], y: tuple[float, float], title: str, subtitle: str) -> tuple[Figure, Axes]:
    """Return a figure 560 pixels wide and axes over ``x`` and ``y`` (low, high) with equal scales.

    The height follows from the aspect ratio; it is an even number of pixels, as video encoders require.

    Args:
        x: Limits of the horizontal axis.
        y: Limits of the vertical axis.
        title: Title of the figure.
        subtitle: Second line of the title.

    Returns:
        The figure and its axes.
    """
    width, margin, head = 5.6, 0.25, 0.7
    inner = width - 2 * margin
    high = inner * (y[1] - y[0]) / (x[1] - x[0])
    height = round(50 * (margin + high + head)) / 50
    place = (margin / width, margin / height, inner / width, high / height)
    return _paper(x, y, height, place, title, subtitle)


def _paper(
    x: tuple[float, float],
    y: tuple[float, float],
    height: float,
    place: tuple[float, float, float, float],
    title: str,
    subtitle: str,
) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5.6, height), dpi=100, facecolor=PAPER)
    FigureCanvasAgg(figure)
    axes = figure.add_axes(place)
    axes.set(xlim=x, ylim=y, xticks=[], yticks=[], facecolor=BOARD)
    for spine in axes.spines.values():
        spine.set(color=INK, linewidth=1.2)
    line = 1 - 0.36 / height
    figure.text(0.045, line, title, fontsize=13, fontweight="bold", color=INK, va="center")
    figure.text(0.955, line, subtitle, fontsize=11, color=INK, va="center", ha="right")
    return figure, axes


def rod(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str = "#c98b4b") -> None:
    """Draw a thick line with round ends, and the joint that it turns about at its start.

    Args:
        axes: The axes.
        start: Position (x, y) of the joint.
        end: Position (x, y) of the free end.
        colour: Color of the rod.
    """
    axes.plot(*zip(start, end, strict=True), color=colour, linewidth=9, solid_capstyle="round", zorder=4)
    axes.plot(*start, "o", color=PAPER, markeredgecolor=INK, markersize=7, zorder=5)


def legend(figure: Figure, entries: Sequence[tuple[str, str]]) -> None:
    """Write the (word, color) pairs below the title, each word in its color."""
    x = 0.045
    for word, colour in entries:
        figure.text(x, 0.907, f"\N{BLACK CIRCLE} {word}", fontsize=9, color=colour, va="center")
        x += 0.06 + 0.0135 * len(word)


def fading_trails(
    axes: Axes, x: npt.NDArray[np.floating], y: npt.NDArray[np.floating], colour: str, width: float
) -> None:
    """Draw paths, the older the fainter.

    Args:
        axes: The axes.
        x: ``[steps, agents]``, horizontal positions, the latest last.
        y: Vertical positions, likewise.
        colour: Color of the paths.
        width: Width of the lines, in points.
    """
    if len(x) < 2:
        return
    points = np.stack([x, y], axis=-1)
    segments = np.stack([points[:-1], points[1:]], axis=2)
    steps, agents = segments.shape[:2]
    colours = np.empty((steps, agents, 4))
    colours[..., :3] = to_rgb(colour)
    colours[..., 3] = np.linspace(0.05, 0.6, steps)[:, None]
    axes.add_collection(
        LineCollection(
            list(segments.reshape(-1, 2, 2)),
            colors=colours.reshape(-1, 4),
            linewidths=width,
            capstyle="round",
            zorder=2,
        ),
        autolim=False,
    )


def discs(
    axes: Axes, points: npt.NDArray[np.floating], radius: npt.ArrayLike, colour: str, edge: str = "white"
) -> None:
    """Draw discs.

    Args:
        axes: The axes.
        points: ``[n, 2]``, centres.
        radius: Radius in the unit of the axes, one or ``[n]``.
        colour: Color of the discs.
        edge: Color of their edges.
    """
    diameters = np.broadcast_to(2 * np.asarray(radius, float), (len(points),))
    axes.add_collection(
        EllipseCollection(
            diameters,
            diameters,
            np.zeros(len(points)),
            units="xy",
            offsets=points,
            transOffset=axes.transData,
            facecolors=colour,
            edgecolors=edge,
            linewidths=1.2,
            zorder=3,
        ),
        autolim=False,
    )
