"""Rendering of ``simple_spread``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from warpdrive.envs.common import drawing
from warpdrive.envs.particles import drawing as shared

if TYPE_CHECKING:
    from warpdrive.envs.simple_spread.simple_spread import SimpleSpread

COVERED = 0.1
"""Distance within which an agent covers a landmark in the figure, as in ``mpe2``'s statistics."""
COVERED_COLOUR = "#3c9a5f"


def draw(env: SimpleSpread, state: dict[str, Any], trail: Sequence[dict[str, Any]]) -> Figure:
    """Return a figure of ``state``: landmarks, the distance of each to its nearest agent, and contacts.

    Args:
        env: The environment.
        state: State of one replica.
        trail: Earlier states, the latest last.

    Returns:
        The figure.
    """
    path = [*trail, state]
    agents, landmarks = shared.points(state), shared.points(state, "landmark_x", "landmark_y")
    distances = np.linalg.norm(landmarks[:, None] - agents, axis=-1)
    covered = distances.min(axis=1) < COVERED
    figure, axes = shared.plane(
        path,
        env.start_range,
        f"Step {int(state.get('timestep', 0))} of {env.episode_length}",
        f"{covered.sum()} of {env.num_landmarks} landmarks covered, distances {distances.min(axis=1).sum():.2f}",
    )
    shared.trails(axes, path, np.arange(env.num_agents), drawing.RUNNER_COLOUR)
    ways = np.stack([landmarks, agents[distances.argmin(axis=1)]], axis=1)
    axes.add_collection(LineCollection(list(ways), colors=drawing.INK, linewidths=1, linestyles=":", zorder=2.5))
    drawing.discs(axes, agents, env.agent_size, drawing.RUNNER_COLOUR + "cc")
    for colour, chosen in ((COVERED_COLOUR, covered), (drawing.INK, ~covered)):
        axes.scatter(
            landmarks[chosen, 0], landmarks[chosen, 1], s=90, marker="X", c=colour, edgecolors="white", zorder=5
        )
    apart = np.linalg.norm(agents[:, None] - agents, axis=-1)
    one, other = np.nonzero(np.triu(apart < 2 * env.agent_size, k=1))
    shared.bursts(axes, (agents[one] + agents[other]) / 2)
    drawing.legend(figure, [("agents", drawing.RUNNER_COLOUR), ("landmarks", drawing.INK), ("covered", COVERED_COLOUR)])
    return figure
