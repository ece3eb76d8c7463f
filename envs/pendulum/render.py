"""Rendering of ``pendulum``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Arc

from warpdrive.envs.common import drawing

if TYPE_CHECKING:
    from warpdrive.envs.pendulum.pendulum import Pendulum

LONGEST_TRAIL = 20


def draw(env: Pendulum, state: dict[str, Any], trail: Sequence[dict[str, Any]]) -> Figure:
    """Return a figure of ``state``: the rod, the path of its end, and an arc proportional to the torque.

    Args:
        env: The environment.
        state: State of one replica.
        trail: Earlier states, the latest last.

    Returns:
        The figure.
    """
    reach = 1.3 * env.length
    figure, axes = drawing.scene(
        (-reach, reach),
        (-reach, reach),
        f"Step {int(state.get('timestep', 0))} of {env.episode_length}",
        f"velocity {float(state['velocity']):+.1f}",
    )
    axes.plot([0, 0], [1.04 * env.length, 1.14 * env.length], color=drawing.RUNNER_COLOUR, linewidth=2.5, zorder=1)
    path = np.array([_end(env, earlier) for earlier in [*trail[-LONGEST_TRAIL:], state]])
    drawing.fading_trails(axes, path[:, :1], path[:, 1:], drawing.TAGGER_COLOUR, 2.5)
    drawing.rod(axes, (0.0, 0.0), _end(env, state))
    if "actions" in state:
        torque = float(np.clip(state["actions"].item(), -env.largest_torque, env.largest_torque))
        sweep = 150 * torque / env.largest_torque  # degrees, from the top; a positive torque turns to the left
        first, last = sorted((90.0, 90.0 + sweep))
        size = 0.5 * env.length
        axes.add_patch(
            Arc((0, 0), size, size, theta1=first, theta2=last, color=drawing.TAGGED_COLOUR, linewidth=4, zorder=3)
        )
    return figure


def _end(env: Pendulum, state: dict[str, Any]) -> tuple[float, float]:
    """Return the position of the free end; angles are measured counterclockwise from upright."""
    angle = float(state["angle"])
    return -env.length * math.sin(angle), env.length * math.cos(angle)
