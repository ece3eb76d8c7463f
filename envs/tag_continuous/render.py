"""Rendering of ``tag_continuous``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection, PolyCollection
from matplotlib.figure import Figure

from warpdrive.envs.common import drawing

if TYPE_CHECKING:
    from warpdrive.envs.tag_continuous.tag_continuous import TagContinuous

LONGEST_TRAIL = 15
ARROW_HEAD = np.array([(1.0, 0.0), (-0.75, 0.7), (-0.4, 0.0), (-0.75, -0.7)])


def draw(env: TagContinuous, state: dict[str, Any], trail: Sequence[dict[str, Any]]) -> Figure:
    """Return a figure of ``state`` with the paths of the last steps in ``trail``.

    Args:
        env: The environment.
        state: State of one replica.
        trail: Earlier states, the latest last.

    Returns:
        The figure.
    """
    active = state["active"].astype(bool)
    just_tagged = state["in_game"].astype(bool) & ~active
    taggers, runners = env.tagger_ids, np.flatnonzero(env.is_runner & active)
    figure, axes = drawing.board(
        0.0,
        env.grid_length,
        f"Step {int(state.get('timestep', 0))} of {env.episode_length}",
        f"{env.num_runners - len(runners)} of {env.num_runners} runners tagged"
        if env.runner_exits_game_after_tagged
        else f"{env.num_runners} runners",
    )
    drawing.legend(figure, [("taggers", drawing.TAGGER_COLOUR), ("runners", drawing.RUNNER_COLOUR)])

    path = [*trail[-LONGEST_TRAIL:], state]
    path_x = np.stack([earlier["loc_x"] for earlier in path])
    path_y = np.stack([earlier["loc_y"] for earlier in path])
    drawing.fading_trails(axes, path_x[:, runners], path_y[:, runners], drawing.RUNNER_COLOUR, 1.4)
    drawing.fading_trails(axes, path_x[:, taggers], path_y[:, taggers], drawing.TAGGER_COLOUR, 2.0)

    locations = np.stack([state["loc_x"], state["loc_y"]], axis=-1)
    gone = ~active & ~just_tagged
    axes.scatter(
        locations[gone, 0],
        locations[gone, 1],
        s=14,
        c=drawing.GONE_COLOUR,
        marker="x",
        linewidths=1.0,
        zorder=1.5,
        clip_on=False,
    )
    _draw_reach(axes, locations[taggers], 2 * env.tagging_distance * env.grid_length)
    size = env.grid_length / np.clip(5.0 * np.sqrt(env.num_agents), 25.0, 60.0)
    _draw_agents(axes, locations[runners], state["direction"][runners], 0.8 * size, drawing.RUNNER_COLOUR)
    _draw_agents(axes, locations[taggers], state["direction"][taggers], 1.2 * size, drawing.TAGGER_COLOUR)
    axes.scatter(
        locations[just_tagged, 0],
        locations[just_tagged, 1],
        s=150,
        c=drawing.TAGGED_COLOUR,
        marker="*",
        zorder=5,
        clip_on=False,
    )
    return figure


def _draw_reach(axes: Axes, locations: npt.NDArray[np.floating], diameter: float) -> None:
    diameters = np.full(len(locations), diameter)
    axes.add_collection(
        EllipseCollection(
            diameters,
            diameters,
            np.zeros(len(locations)),
            units="xy",
            offsets=locations,
            transOffset=axes.transData,
            facecolors=drawing.TAGGER_COLOUR + "22",
            edgecolors=drawing.TAGGER_COLOUR + "66",
            linewidths=0.7,
            zorder=2.5,
        ),
        autolim=False,
    )


def _draw_agents(
    axes: Axes,
    locations: npt.NDArray[np.floating],
    directions: npt.NDArray[np.floating],
    size: float,
    colour: str,
) -> None:
    cos, sin = np.cos(directions), np.sin(directions)
    turns = np.stack([np.stack([cos, sin], axis=-1), np.stack([-sin, cos], axis=-1)], axis=1)
    corners = locations[:, None, :] + size * ARROW_HEAD @ turns
    axes.add_collection(
        PolyCollection(corners, facecolors=colour, edgecolors="white", linewidths=0.6, zorder=4, clip_on=False),
        autolim=False,
    )
