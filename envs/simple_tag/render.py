"""Rendering of ``simple_tag``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from warpdrive.envs.common import drawing
from warpdrive.envs.particles import drawing as shared

if TYPE_CHECKING:
    from warpdrive.envs.simple_tag.simple_tag import SimpleTag

OBSTACLE_COLOUR = "#8d8a80"
EDGE = 1.0
"""Coordinate at which the penalty for leaving the square becomes steep."""


def draw(env: SimpleTag, state: dict[str, Any], trail: Sequence[dict[str, Any]]) -> Figure:
    """Return a figure of ``state``: obstacles, both teams with their paths, and contacts.

    Args:
        env: The environment.
        state: State of one replica.
        trail: Earlier states, the latest last.

    Returns:
        The figure.
    """
    path, a = [*trail, state], env.num_adversaries
    agents, obstacles = shared.points(state), shared.points(state, "obstacle_x", "obstacle_y")
    adversaries, good_agents = agents[:a], agents[a:]
    apart = np.linalg.norm(good_agents[:, None] - adversaries, axis=-1)
    one, other = np.nonzero(apart < env.size[a:, None] + env.size[:a])
    figure, axes = shared.plane(
        path,
        EDGE,
        f"Step {int(state.get('timestep', 0))} of {env.episode_length}",
        f"{len(one)} touched" if len(one) else "nobody touched",
    )
    drawing.discs(axes, obstacles, env.obstacle_size, OBSTACLE_COLOUR)
    shared.trails(axes, path, np.arange(a), drawing.TAGGER_COLOUR)
    shared.trails(axes, path, np.arange(a, env.num_agents), drawing.RUNNER_COLOUR)
    drawing.discs(axes, adversaries, env.adversary_size, drawing.TAGGER_COLOUR)
    drawing.discs(axes, good_agents, env.good_agent_size, drawing.RUNNER_COLOUR)
    shared.bursts(axes, (good_agents[one] + adversaries[other]) / 2)
    entries = [("adversaries", drawing.TAGGER_COLOUR), ("good agents", drawing.RUNNER_COLOUR)]
    drawing.legend(figure, [*entries, ("obstacles", OBSTACLE_COLOUR)])
    return figure
