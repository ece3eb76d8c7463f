"""Rendering of ``tag_gridworld``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warpdrive.envs.common import drawing

if TYPE_CHECKING:
    from warpdrive.envs.tag_gridworld.tag_gridworld import TagGridworld

IntArray = npt.NDArray[np.integer]
LONGEST_TRAIL = 25
MAX_GRID_LINES = 25
BOARD_POINTS = 365.0


def draw(env: TagGridworld, state: dict[str, Any], trail: Sequence[dict[str, Any]]) -> Figure:
    """Return a figure of ``state`` with the paths of the last steps in ``trail``.

    Args:
        env: The environment.
        state: State of one replica.
        trail: Earlier states, the latest last.

    Returns:
        The figure.
    """
    x, y = state["loc_x"], state["loc_y"]
    tagged = bool(((x[:-1] == x[-1]) & (y[:-1] == y[-1])).any())
    figure, axes = drawing.board(
        -0.5,
        env.grid_length + 0.5,
        f"Step {int(state.get('timestep', 0))} of {env.episode_length}",
        "runner caught" if tagged else "runner at large",
    )
    drawing.legend(figure, [("taggers", drawing.TAGGER_COLOUR), ("runner", drawing.RUNNER_COLOUR)])
    _draw_grid(axes, env.grid_length)

    path = [*trail[-LONGEST_TRAIL:], state]
    path_x = np.stack([earlier["loc_x"] for earlier in path]).astype(float)
    path_y = np.stack([earlier["loc_y"] for earlier in path]).astype(float)
    diameter = float(np.clip(0.7 * BOARD_POINTS / (env.grid_length + 1), 9.0, 30.0))
    drawing.fading_trails(axes, path_x[:, :-1], path_y[:, :-1], drawing.TAGGER_COLOUR, 0.22 * diameter)
    drawing.fading_trails(axes, path_x[:, -1:], path_y[:, -1:], drawing.RUNNER_COLOUR, 0.22 * diameter)

    _draw_marks(axes, x[:-1], y[:-1], diameter, "s", drawing.TAGGER_COLOUR)
    if tagged:
        _draw_marks(axes, x[-1:], y[-1:], 2.0 * diameter, "*", drawing.TAGGED_COLOUR)
    _draw_marks(axes, x[-1:], y[-1:], (0.55 if tagged else 1.0) * diameter, "o", drawing.RUNNER_COLOUR)
    _write_counts(axes, x[:-1], y[:-1], (int(x[-1]), int(y[-1])), diameter)
    return figure


def _draw_grid(axes: Axes, grid_length: int) -> None:
    stride = max(1, -(-(grid_length + 1) // MAX_GRID_LINES))
    edges = np.arange(stride, grid_length + 1, stride) - 0.5
    span = (-0.5, grid_length + 0.5)
    axes.hlines(edges, *span, color=drawing.GRID_LINE, linewidth=0.8, zorder=1)
    axes.vlines(edges, *span, color=drawing.GRID_LINE, linewidth=0.8, zorder=1)


def _draw_marks(axes: Axes, x: IntArray, y: IntArray, diameter: float, shape: str, colour: str) -> None:
    axes.scatter(
        x,
        y,
        s=diameter**2,
        c=colour,
        marker=shape,
        edgecolors="white",
        linewidths=1.2,
        zorder=3,
        clip_on=False,
    )


def _write_counts(axes: Axes, x: IntArray, y: IntArray, runner: tuple[int, int], diameter: float) -> None:
    cells = Counter(zip(x.tolist(), y.tolist(), strict=True))
    for cell, count in cells.items():
        if count > 1 and cell != runner:
            axes.text(
                *cell,
                str(count),
                fontsize=0.5 * diameter,
                color="white",
                fontweight="bold",
                ha="center",
                va="center_baseline",
                zorder=5,
            )
