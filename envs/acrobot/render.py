"""Rendering of ``acrobot``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from warpdrive.envs.common import drawing

if TYPE_CHECKING:
    from warpdrive.envs.acrobot.acrobot import Acrobot

LONGEST_TRAIL = 12
Point = tuple[float, float]


def draw(env: Acrobot, state: dict[str, Any], trail: Sequence[dict[str, Any]]) -> Figure:
    """Return a figure of ``state``: both links, the path of the free end, and the height it must reach.

    Args:
        env: The environment.
        state: State of one replica.
        trail: Earlier states, the latest last.

    Returns:
        The figure.
    """
    reach = 1.15 * (env.length_1 + env.length_2)
    figure, axes = drawing.scene(
        (-reach, reach), (-reach, reach), f"Step {int(state.get('timestep', 0))} of {env.episode_length}", ""
    )
    axes.axhline(1.0, color=drawing.RUNNER_COLOUR, linewidth=1.5, linestyle=(0, (6, 4)), zorder=1)
    path = np.array([_joints(env, earlier)[1] for earlier in [*trail[-LONGEST_TRAIL:], state]])
    drawing.fading_trails(axes, path[:, :1], path[:, 1:], drawing.TAGGER_COLOUR, 2.5)
    elbow, end = _joints(env, state)
    drawing.rod(axes, (0.0, 0.0), elbow)
    drawing.rod(axes, elbow, end)
    return figure


def _joints(env: Acrobot, state: dict[str, Any]) -> tuple[Point, Point]:
    """Return the positions of the second joint and the free end."""
    p, q = float(state["angle_1"]), float(state["angle_2"])
    x, y = env.length_1 * math.sin(p), -env.length_1 * math.cos(p)
    return (x, y), (x + env.length_2 * math.sin(p + q), y - env.length_2 * math.cos(p + q))
