"""Rendering of ``cartpole``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from warpdrive.envs.common import drawing

if TYPE_CHECKING:
    from warpdrive.envs.cartpole.cartpole import CartPole

BELOW, ABOVE = 0.45, 0.35


def draw(env: CartPole, state: dict[str, Any]) -> Figure:
    """Return a figure of ``state``: the track with its ends, the cart, and the pole on it."""
    x, angle = float(state["position"]), float(state["angle"])
    pole_length, width = 2 * env.pole_half_length, 1.1 * env.largest_position
    figure, axes = drawing.scene(
        (-width, width),
        (-BELOW, pole_length + ABOVE),
        f"Step {int(state.get('timestep', 0))} of {env.episode_length}",
        f"pole at {math.degrees(angle):+.1f}\N{DEGREE SIGN}",
    )
    axes.axhline(0, color=drawing.INK, linewidth=1.2, zorder=1)
    for end in (-env.largest_position, env.largest_position):
        axes.plot([end, end], [-0.12, 0.12], color=drawing.RUNNER_COLOUR, linewidth=2.5, zorder=1)
    body = FancyBboxPatch((x - 0.25, -0.12), 0.5, 0.24, boxstyle="round,pad=0,rounding_size=0.05", zorder=3)
    body.set(facecolor=drawing.INK, edgecolor="white")
    axes.add_patch(body)
    drawing.rod(axes, (x, 0.06), (x + pole_length * math.sin(angle), 0.06 + pole_length * math.cos(angle)))
    return figure
