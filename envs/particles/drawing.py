"""Shared rendering helpers of the particle environments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from warpdrive.envs.common import drawing

LONGEST_TRAIL = 12


def points(state: dict[str, Any], x: str = "loc_x", y: str = "loc_y") -> npt.NDArray[np.floating[Any]]:
    """Return two arrays of a state as points ``[n, 2]``.

    Args:
        state: State of one replica.
        x: Name of the array of horizontal positions.
        y: Name of the array of vertical positions.

    Returns:
        ``[n, 2]``, of the arrays' dtype.
    """
    return np.stack([state[x], state[y]], axis=-1)


def plane(states: Iterable[dict[str, Any]], square: float, title: str, subtitle: str) -> tuple[Figure, Axes]:
    """Return a figure of the square from ``-square`` to ``square``, enlarged to include every agent.

    Args:
        states: States whose agents the figure includes.
        square: Half the side of the square.
        title: Title of the figure.
        subtitle: Second line of the title.

    Returns:
        The figure and its axes.
    """
    farthest = max(float(np.abs(points(state)).max()) for state in states)
    limit = max(1.2 * square, farthest + 0.15 * square)
    figure, axes = drawing.board(-limit, limit, title, subtitle)
    inside = Rectangle((-square, -square), 2 * square, 2 * square, zorder=0.5)
    inside.set(facecolor=drawing.PAPER, edgecolor=drawing.GRID_LINE, linewidth=1.2)
    axes.add_patch(inside)
    return figure, axes


def trails(axes: Axes, path: Sequence[dict[str, Any]], agents: npt.NDArray[np.intp], colour: str) -> None:
    """Draw the trails of agents over the last states of ``path``, the latest last.

    Args:
        axes: The axes.
        path: States of one replica, the latest last.
        agents: Indices of the agents.
        colour: Color of the trails.
    """
    recent = path[-LONGEST_TRAIL:]
    x, y = (np.stack([state[name][agents] for state in recent]) for name in ("loc_x", "loc_y"))
    drawing.fading_trails(axes, x, y, colour, 2.2)


def bursts(axes: Axes, places: npt.NDArray[np.floating[Any]]) -> None:
    """Mark contact positions ``[n, 2]``."""
    axes.scatter(places[:, 0], places[:, 1], s=130, marker="*", c=drawing.TAGGED_COLOUR, edgecolors="white", zorder=6)
