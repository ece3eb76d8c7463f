"""Rendering of ``flock``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from warpdrive.envs.common import drawing

if TYPE_CHECKING:
    from warpdrive.envs.flock.flock import Flock

NIGHT = "#14171f"
BOID = np.array([(1.0, 0.0), (-0.8, 0.6), (-0.4, 0.0), (-0.8, -0.6)])
LONGEST_TRAIL = 8


def draw(env: Flock, state: dict[str, Any], trail: Sequence[dict[str, Any]]) -> Figure:
    """Return a figure of ``state`` with the paths of the last steps in ``trail``.

    Args:
        env: The environment.
        state: State of one replica.
        trail: Earlier states, the latest last.

    Returns:
        The figure.
    """
    direction = state["direction"].astype(float)
    heading = np.exp(1j * direction)
    figure, axes = drawing.board(
        0.0,
        env.world_size,
        f"Step {int(state.get('timestep', 0))} of {env.episode_length}",
        f"{env.num_boids} boids, alignment {np.mean((heading[state['neighbours']] / heading[:, None]).real):.2f}",
    )
    axes.set_facecolor(NIGHT)
    colours, places = heading_colours(direction), _places(state)
    path = np.stack([_places(earlier) for earlier in (*trail[-LONGEST_TRAIL:], state)])
    path[np.abs(path - places) > env.world_size / 2] = np.nan  # before it went around the torus
    for start, end, alpha in zip(path[:-1], path[1:], np.linspace(0.05, 0.35, len(path))[1:], strict=True):
        lines = list(np.stack([start, end], axis=1))
        axes.add_collection(PolyCollection(lines, closed=False, edgecolors=colours, facecolors="none", alpha=alpha))
    turns = np.stack([heading.real, heading.imag, -heading.imag, heading.real], axis=1).reshape(-1, 2, 2)
    corners = places[:, None] + 0.45 * env.separation_distance * BOID @ turns
    axes.add_collection(PolyCollection(corners, facecolors=colours, linewidths=0, zorder=3))
    return figure


def heading_colours(direction: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return colors ``[n, 3]`` (sRGB, 0 to 1) of directions in radians, all of them bright on a dark background.

    Opposite directions are yellow and blue, or light and dark, which all kinds of color vision tell apart: a circle in
    the OKLab color space (Ottosson 2020).
    """
    light, green_red = 0.76 + 0.14 * np.sin(direction), 0.05 * np.cos(2 * direction)
    lab = np.stack([light, green_red, -0.13 * np.cos(direction)], axis=-1)
    to_cones = np.array(
        [
            [1, 0.3963377774, 0.2158037573],
            [1, -0.1055613458, -0.0638541728],
            [1, -0.0894841775, -1.2914855480],
        ]
    )
    to_linear = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.7076147010],
        ]
    )
    linear = np.clip((lab @ to_cones.T) ** 3 @ to_linear.T, 0, 1)
    bright = 1.055 * linear ** (1 / 2.4) - 0.055
    colours: npt.NDArray[np.floating] = np.where(linear < 0.0031308, 12.92 * linear, bright)
    return colours


def _places(state: dict[str, Any]) -> npt.NDArray[np.floating]:
    places: npt.NDArray[np.floating] = np.stack([state["loc_x"], state["loc_y"]], axis=-1).astype(float)
    return places
