"""Rendering of ``battle``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from warpdrive.envs.common import drawing

if TYPE_CHECKING:
    from warpdrive.envs.battle.battle import Battle

TEAMS = (("red", "#d1433f"), ("blue", "#2a78b8"))
FALLEN_COLOUR = "#cfc9b8"
WALL_COLOUR = "#8d8a80"
BOARD_POINTS = 365.0
PALEST = 0.25


def draw(env: Battle, state: dict[str, Any]) -> Figure:
    """Return a figure of ``state``."""
    n = env.agents_per_team
    members = [np.arange(n), np.arange(n, 2 * n)]
    standing = [agents[state["active"][agents]] for agents in members]
    counts = ", ".join(f"{name} {len(agents)}" for (name, _), agents in zip(TEAMS, standing, strict=True))
    title = f"Step {int(state.get('timestep', 0))} of {env.episode_length}"
    figure, axes = drawing.board(-0.5, env.map_size - 0.5, title, counts)
    legend = [*TEAMS, ("fallen", "#a9a38f"), *([("walls", WALL_COLOUR)] if env.walls else [])]
    drawing.legend(figure, legend)
    fallen = np.flatnonzero(~state["active"])
    _squares(env, axes, np.array(env.walls).reshape(-1, 2), 1.0, WALL_COLOUR)
    _marks(env, axes, state, fallen, 0.35, FALLEN_COLOUR)
    for (_, colour), agents in zip(TEAMS, standing, strict=True):
        _marks(env, axes, state, agents, 0.85, _paled(colour, state["health"][agents] / env.most_health))
    return figure


def _marks(
    env: Battle, axes: Axes, state: dict[str, Any], agents: npt.NDArray[np.integer], size: float, colour: Any
) -> None:
    points = np.stack([state["loc_x"][agents], state["loc_y"][agents]], axis=1)
    _squares(env, axes, points, size, colour)


def _squares(env: Battle, axes: Axes, points: npt.NDArray[np.integer], size: float, colour: Any) -> None:
    """Draw a square on each cell of ``points [n, 2]``, ``size`` of it wide."""
    width = size * BOARD_POINTS / env.map_size
    axes.scatter(points[:, 0], points[:, 1], s=width**2, c=colour, marker="s", linewidths=0)


def _paled(colour: str, strength: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return a color for each strength from 0 to 1; weaker ones are closer to the color of the board."""
    share = (PALEST + (1 - PALEST) * strength)[:, None]
    mixed: npt.NDArray[np.floating] = share * np.array(to_rgb(colour)) + (1 - share) * np.array(to_rgb(drawing.BOARD))
    return mixed
