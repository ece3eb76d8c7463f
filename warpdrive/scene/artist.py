"""Pictures of an environment's states: from its ``draw`` kernel, or from the scene or figure of its ``render``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from warpdrive import draw
from warpdrive.backends.loading import load_backend
from warpdrive.device_context import DeviceContext
from warpdrive.environment import Environment, KernelFunctions, State
from warpdrive.errors import DefinitionError
from warpdrive.figures import Frame, frame_of
from warpdrive.fused_step.binding import Binding
from warpdrive.fused_step.fuse import fuse_drawing
from warpdrive.scene.colours import LIGHT, Palette
from warpdrive.scene.geometry import BEHIND
from warpdrive.scene.raster import Raster
from warpdrive.scene.scene import Scene, Shapes

WIDTH = 560
"""Width of a picture in pixels."""
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
        scene = self.env.scenery(state)
        drawn = self.shapes([state])[0] if shapes is None else shapes
        return replace(scene, shapes=np.concatenate([drawn, scene.shapes]))

    def picture_of_scene(self, scene: Scene, earlier: Sequence[Shapes] = ()) -> Frame:
        """Return the picture of a scene; ``earlier`` are the shapes of agents in earlier states, for trails."""
        return self._raster(scene).frame(scene, earlier)

    def shapes(self, states: Sequence[State]) -> Shapes:
        """Return the shapes of states of one replica each, ``[states, number, len(FIELDS)]``.

        First are those of agents, ``num_agents * shapes_per_agent``, then those of ``draw_things``, in layers behind
        trails. The kernels run once, on the CPU. They may name the arrays of a state and attributes of the environment.

        Args:
            states: The arrays by name, the same in all states.

        Raises:
            KernelError: If the kernel cannot be compiled, or has an unbound parameter.
            DefinitionError: If it wrote a number that is not finite.
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
        drawn = [context[name].numpy().reshape(count, -1, len(draw.FIELDS)) for name in counts]
        for things in drawn[1:]:
            things[..., draw.LAYER] += BEHIND
        found: Shapes = np.concatenate(drawn, axis=1)
        if not np.isfinite(found).all():
            raise DefinitionError(f"environment {env.name}: its draw kernel wrote a number that is not finite")
        return found

    def _of_render(self, state: State, trail: Sequence[State]) -> Frame:
        rendered = self.env.render(state, trail)
        if isinstance(rendered, Scene):
            return self.picture_of_scene(rendered)
        return frame_of(rendered, self.scale)

    def _raster(self, scene: Scene) -> Raster:
        if scene.view not in self._rasters:
            self._rasters[scene.view] = Raster(scene.view, round(self.scale * WIDTH), self.palette)
        return self._rasters[scene.view]
