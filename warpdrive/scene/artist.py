"""Pictures of an environment's states: from its ``draw`` kernel, or from the scene or figure of its ``render``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from warpdrive import draw
from warpdrive.backends.loading import load_backend
from warpdrive.device_context import DeviceContext
from warpdrive.environment import Environment, KernelFunctions, State
from warpdrive.errors import DefinitionError, shown
from warpdrive.figures import Frame, frame_of
from warpdrive.fused_step.binding import Binding
from warpdrive.fused_step.fuse import fuse_drawing
from warpdrive.scene.colours import LIGHT, Palette
from warpdrive.scene.geometry import BEHIND
from warpdrive.scene.raster import Raster
from warpdrive.scene.scene import Image, Polygon, Scene, Shapes, Text
from warpdrive.user_code import user_code

WIDTH, NARROWEST = 560, 140
"""Width of a picture in pixels, and of the narrowest: pictures over twice as high as wide are narrower."""
_LONGEST_TRAIL = 256  # states


class Artist:
    """Draws states of an environment.

    Args:
        env: The environment.
        scale: The scale of the pictures.
        palette: The colours of scenes.
    """

    def __init__(self, env: Environment, scale: float = 1.0, palette: Palette = LIGHT) -> None:
        self.env, self.scale, self.palette = env, scale, palette
        self._rasters: dict[tuple[float, ...], Raster] = {}

    def picture(self, state: State, trail: Sequence[State] = ()) -> Frame:
        """Return the picture of a state, ``[height, width, 3]`` uint8.

        Args:
            state: The state of one replica.
            trail: The earlier states of the episode, the latest last.
        """
        if self.env.draw is None:
            return self._of_render(state, trail)
        *earlier, last = self.shapes([*trail[-_LONGEST_TRAIL:], state])
        return self.picture_of_scene(self.scene(state, last), earlier)

    def scene(self, state: State, shapes: Shapes | None = None) -> Scene:
        """Return the scene of a state: the scenery, and the shapes of the ``draw`` kernel, which may be known."""
        scene = scenery_of(self.env, state)
        drawn = self.shapes([state])[0] if shapes is None else shapes
        return replace(scene, shapes=np.concatenate([drawn, scene.shapes]))

    def picture_of_scene(self, scene: Scene, earlier: Sequence[Shapes] = ()) -> Frame:
        """Return the picture of a scene; ``earlier`` are the shapes of agents in earlier states, for trails."""
        return self._raster(scene).frame(scene, earlier)

    def shapes(self, states: Sequence[State]) -> Shapes:
        """Return the shapes of states of one replica each, ``[states, number, len(FIELDS)]``.

        The first ``num_agents * shapes_per_agent`` are those of agents, followed by those of ``draw_things``, in layers
        behind trails. The kernels run once, on the CPU. Their parameters are arrays of a state and attributes of the
        environment.

        Args:
            states: The arrays by name, the same in all states.

        Raises:
            KernelError: If the kernel cannot be compiled, or has an unbound parameter.
            DefinitionError: If it drew a shape that does not exist, or wrote a number that is not finite or no colour.
        """
        env, count = self.env, len(states)
        assert env.draw is not None
        context = DeviceContext("cpu", count)
        counts = {"shapes": int(env.shapes_per_agent)}
        if env.draw_things is not None:
            counts["things"] = int(env.things_per_agent)
        kernels = [kernel for kernel in (env.draw, env.draw_things) if kernel is not None]
        names = [name for name in states[0] if any(name in kernel.parameters for kernel in kernels)]
        for name in names:
            context.put(name, np.stack([state[name] for state in states]))
        agents = int(env.num_agents)
        for name, each in counts.items():
            context.zeros(name, (count, agents, each, len(draw.FIELDS)), torch.float32)
        binding = Binding(env, KernelFunctions(env.step, None, None), context, [*names, *counts], ())
        for kernel in kernels:
            binding.check(kernel)
        fuse_drawing(env, binding).bind(load_backend("cpu"), agents)()
        for name in counts:
            check_shapes(env, name, context[name].numpy())
        drawn = [context[name].numpy().reshape(count, -1, len(draw.FIELDS)) for name in counts]
        for things in drawn[1:]:
            things[..., draw.LAYER] += BEHIND
        found: Shapes = np.concatenate(drawn, axis=1)
        return found

    def _of_render(self, state: State, trail: Sequence[State]) -> Frame:
        rendered = rendered_by(self.env, state, trail)
        if isinstance(rendered, Scene):
            return self.picture_of_scene(rendered)
        return frame_of(rendered, self.scale)

    def _raster(self, scene: Scene) -> Raster:
        if scene.view not in self._rasters:
            low_x, high_x, low_y, high_y = scene.view
            width = WIDTH * math.sqrt(min(1.0, 2 * (high_x - low_x) / (high_y - low_y)))  # bounds the number of pixels
            self._rasters[scene.view] = Raster(scene.view, round(self.scale * max(width, NARROWEST)), self.palette)
        return self._rasters[scene.view]


def scenery_of(env: Environment, state: State) -> Scene:
    """Return the scenery of a state.

    Raises:
        DefinitionError: If ``scenery`` raises an exception, with its file and line, or returns no valid scene.
    """
    title = f"scenery of {type(env).__name__}"
    with user_code(title):
        scene = env.scenery(state)
    _check_scene(title, scene)
    return scene


def rendered_by(env: Environment, state: State, trail: Sequence[State] = ()) -> Any:
    """Return what ``render`` returns for a state: a figure, an image, or a valid scene.

    Raises:
        DefinitionError: If it raises an exception, with its file and line, or returns an invalid scene.
    """
    title = f"render of {type(env).__name__}"
    with user_code(title):
        rendered = env.render(state, trail)
    if isinstance(rendered, Scene):
        _check_scene(title, rendered)
    return rendered


def check_shapes(env: Environment, name: str, shapes: Shapes) -> None:
    """Check the shapes that a kernel has drawn.

    Args:
        env: The environment.
        name: Name of the array: ``"shapes"`` or ``"things"``.
        shapes: ``[replicas or states, num_agents, shapes, len(FIELDS)]``.

    Raises:
        DefinitionError: If an agent drew a shape that does not exist or with a negative radius, or a number is not
            finite or no colour.
    """
    kernel, count = ("draw_things", "things_per_agent") if name == "things" else ("draw", "shapes_per_agent")
    title = f"environment {env.name}: its {kernel} kernel"
    kinds = shapes[..., draw.KIND]
    for row, agent, _ in np.argwhere(kinds == draw.OUTSIDE)[:1]:
        raise DefinitionError(
            f"{title} drew shape {shapes[row, agent, 0, draw.X]:.0f} of agent {agent}, but {count} is "
            f"{shapes.shape[2]}, and the first is 0; 'warpdrive check' shows the line"
        )
    if not np.isfinite(shapes).all():
        raise DefinitionError(f"{title} wrote a number that is not finite")
    round_ones = (kinds == draw.CIRCLE) | (kinds == draw.SECTOR)
    for row, agent, index in np.argwhere(round_ones & (shapes[..., draw.WIDTH] < 0))[:1]:
        radius = shapes[row, agent, index, draw.WIDTH] / 2
        raise DefinitionError(
            f"{title} drew shape {index} of agent {agent} with the radius {radius:g}, expected 0 or more"
        )
    drawn = shapes[kinds != draw.NOTHING]
    for field, least in ((draw.COLOUR, 0), (draw.EDGE, -1)):
        colours = drawn[:, field]
        for colour in colours[(colours < least) | (colours >= len(LIGHT))][:1]:
            what = "the colour" if field == draw.COLOUR else "the colour of an outline"
            raise DefinitionError(f"{title} wrote {what} {colour:g}, expected {least} to {len(LIGHT) - 1}")


def _check_scene(title: str, scene: object) -> None:
    """Check a scene made by the user's code. Raises :class:`DefinitionError` that names the first mistake."""
    if not isinstance(scene, Scene):
        advice = ": is there a return?" if scene is None else ""
        raise DefinitionError(f"{title} returned {shown(scene)}, expected a Scene{advice}")
    title = f"{title} returned a Scene whose"
    if np.shape(scene.view) != (4,) or not (scene.view[0] < scene.view[1] and scene.view[2] < scene.view[3]):
        expected = "(lowest x, highest x, lowest y, highest y)"
        raise DefinitionError(f"{title} view is {shown(scene.view)}, expected {expected}")
    if np.shape(scene.shapes)[1:] != (len(draw.FIELDS),):
        expected = f"[n, {len(draw.FIELDS)}]"
        raise DefinitionError(f"{title} shapes are an array {list(np.shape(scene.shapes))}, expected {expected}")
    for name, kind in (("polygons", Polygon), ("texts", Text), ("images", Image)):
        for part in getattr(scene, name):
            if not isinstance(part, kind):
                raise DefinitionError(f"{title} {name} contain {shown(part)}, expected {kind.__name__}")
            least = 0 if isinstance(part, Text) else -1
            for colour in (getattr(part, field, 0) for field in ("colour", "edge")):
                if not isinstance(colour, (int, np.integer)) or not least <= colour < len(LIGHT):
                    expected = f"0 to {len(LIGHT) - 1}" + (", or -1 for none" if least < 0 else "")
                    raise DefinitionError(f"{title} {name} have the colour {shown(colour)}, expected {expected}")
            if isinstance(part, Polygon) and not _are_points(part.points):
                raise DefinitionError(
                    f"{title} polygons have the points {shown(part.points)}, expected an array [n, 2] of two or more "
                    "points with finite coordinates"
                )
            if isinstance(part, Text) and not isinstance(part.text, str):
                raise DefinitionError(f"{title} texts contain the text {shown(part.text)}, expected a string")
            if isinstance(part, Image) and not _is_picture(part.pixels):
                found = (
                    f"an array {part.pixels.dtype} {list(part.pixels.shape)}"
                    if isinstance(part.pixels, np.ndarray)
                    else shown(part.pixels)
                )
                raise DefinitionError(f"{title} images have the pixels {found}, expected uint8 [height, width, 3]")


def _are_points(points: object) -> bool:
    if not isinstance(points, np.ndarray) or points.dtype.kind not in "fiu" or points.shape[1:] != (2,):
        return False
    return len(points) > 1 and bool(np.isfinite(points).all())


def _is_picture(pixels: object) -> bool:
    return isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8 and pixels.shape[2:] == (3,) and pixels.size > 0
