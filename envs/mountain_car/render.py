"""Rendering of the mountain cars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from warpdrive.envs.common import drawing

if TYPE_CHECKING:
    from warpdrive.envs.mountain_car.valley import Valley

HEIGHT = 0.45
WHEEL = 0.028


def draw(env: Valley, state: dict[str, Any]) -> Figure:
    """Return a figure of ``state``: the valley, the car on its slope, and a flag at the goal."""
    x = float(state["position"])
    low, high = env.min_position - 0.06, env.max_position + 0.06
    figure, axes = drawing.scene(
        (low, high),
        (-HEIGHT - 0.12, HEIGHT + 0.3),
        f"Step {int(state.get('timestep', 0))} of {env.episode_length}",
        f"velocity {float(state['velocity']):+.3f}",
    )
    ground = np.linspace(low, high, 200)
    axes.fill_between(ground, HEIGHT * np.sin(3 * ground), -HEIGHT - 0.12, color=drawing.GRID_LINE, zorder=1)
    axes.plot(ground, HEIGHT * np.sin(3 * ground), color=drawing.INK, linewidth=1.5, zorder=2)

    foot = HEIGHT * math.sin(3 * env.goal_position)
    axes.plot([env.goal_position] * 2, [foot, foot + 0.22], color=drawing.INK, linewidth=1.5, zorder=3)
    cloth = np.array([[0.0, 0.22], [0.1, 0.185], [0.0, 0.15]]) + np.array([env.goal_position, foot])
    axes.add_patch(Polygon(cloth, facecolor=drawing.TAGGED_COLOUR, edgecolor="none", zorder=3))

    slope = math.atan(3 * HEIGHT * math.cos(3 * x))
    along, up = np.array([math.cos(slope), math.sin(slope)]), np.array([-math.sin(slope), math.cos(slope)])
    centre = np.array([x, HEIGHT * math.sin(3 * x)])
    corners = [(-0.11, 0.9), (0.11, 0.9), (0.11, 2.1), (0.06, 2.3), (0.02, 3.5), (-0.07, 3.5), (-0.11, 2.3)]
    body = np.array([centre + a * along + b * WHEEL * up for a, b in corners])
    axes.add_patch(Polygon(body, facecolor=drawing.TAGGER_COLOUR, edgecolor="white", zorder=4))
    wheels = np.array([centre + side * 0.065 * along + WHEEL * up for side in (-1, 1)])
    axes.scatter(wheels[:, 0], wheels[:, 1], s=90, c=drawing.INK, edgecolors="white", zorder=5)
    return figure
