"""Films whose pictures are known, without a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warpdrive import draw
from warpdrive.environment import Environment
from warpdrive.recording.recording import Recording
from warpdrive.scene.scene import Image, Polygon, Scene
from warpdrive.training.replay.film import Film

VIEW = (0.0, 4.0, 0.0, 2.0)


class Painted(Environment):
    """The whole view has the colour of the state; an agent is a disc that moves to the right."""

    name = "painted"
    num_agents = 2
    termination_meaning = "the paint is dry"

    def render(self, state: dict[str, Any], trail: Sequence[dict[str, Any]] = ()) -> Scene:
        corners = np.array([[0, 0], [4, 0], [4, 2], [0, 2]], np.float32)
        rows = np.array([[[255, 0, 0], [0, 0, 255]], [[0, 255, 0], [0, 0, 0]]], np.uint8)
        images = [Image(rows, (1.0, 3.0, 0.5, 1.5))] if "image" in state else []
        polygons = [] if images else [Polygon(corners, int(state["colour"]))]
        return Scene(VIEW, polygons=polygons, images=images, caption=f"colour {state['colour']}")


def recording_of(colours: Sequence[int], replicas: int = 1, image: bool = False) -> Recording:
    """Return a recording whose states have the given colours, or show an image of four pixels, in all replicas."""
    steps, colour = len(colours) - 1, np.array(colours, np.int32)[:, None]
    return Recording(
        env_name="painted",
        env_config=None,
        policy_tags={"one": [0], "two": [1]},
        by_tag=[],
        replicas=np.arange(replicas),
        seed=0,
        states={name: np.repeat(colour, replicas, axis=1) for name in ("colour", *["image"] * image)},
        actions=np.arange(steps * replicas * 2, dtype=np.int32).reshape(steps, replicas, 2),
        rewards=np.tile(np.array([1.0, 0.25], np.float32), (steps, replicas, 1)),
        log_probabilities=np.zeros((steps, replicas, 2), np.float32),
        lengths=np.full(replicas, steps, np.int32),
        terminated=np.ones(replicas, bool),
        truncated=np.zeros(replicas, bool),
    )


def painted_film(
    colours: Sequence[int] = (draw.RED, draw.GREEN, draw.BLUE), replicas: int = 1, image: bool = False
) -> Film:
    """Return a film of :func:`recording_of`."""
    return Film(Painted(), recording_of(colours, replicas, image))
