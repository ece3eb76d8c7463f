"""``wd.draw``: shapes for the ``draw`` kernel of an environment, in which each thread draws its agent.

```python
@wd.kernel
def draw(shapes, loc_x, loc_y, heading, active):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if active[env, agent]:
        wd.draw.triangle(shapes, 0, loc_x[env, agent], loc_y[env, agent], 0.5, heading[env, agent], wd.draw.BLUE)
        wd.draw.trail(shapes, 0, 20)
```

``shapes`` is ``[num_envs, num_agents, shapes_per_agent, len(FIELDS)]`` float32, cleared before the launch; the second
argument of each function is the index of the shape. Indices out of bounds are reported as errors. Coordinates and sizes
are in the units of the world, see ``Environment.view``; angles are in radians, counterclockwise from the x-axis.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from warpdrive.kernels.kernel import device_function
from warpdrive.scene.fields import (
    ANGLE as ANGLE,
    BLUE as BLUE,
    CIRCLE as CIRCLE,
    COLOUR as COLOUR,
    EDGE as EDGE,
    FIELDS as FIELDS,
    GREEN as GREEN,
    GREY as GREY,
    GROUND as GROUND,
    HEIGHT as HEIGHT,
    INK as INK,
    KIND as KIND,
    LAYER as LAYER,
    LINE as LINE,
    NOTHING as NOTHING,
    NUMBER as NUMBER,
    OPACITY as OPACITY,
    ORANGE as ORANGE,
    OUTSIDE as OUTSIDE,
    PAPER as PAPER,
    PURPLE as PURPLE,
    RECTANGLE as RECTANGLE,
    RED as RED,
    SECTOR as SECTOR,
    SEGMENT as SEGMENT,
    SKY as SKY,
    TRAIL as TRAIL,
    TRIANGLE as TRIANGLE,
    WIDTH as WIDTH,
    YELLOW as YELLOW,
    X as X,
    Y as Y,
)

_ONE, _ZERO, _NONE = np.float32(1), np.float32(0), np.float32(-1)


@device_function
def _is_inside(shapes, index):  # type: ignore[no-untyped-def]
    """Return True if ``index`` is within the agent's shapes, and no earlier index was out of bounds.

    Otherwise the agent's first shape gets the kind ``OUTSIDE``, and ``index`` as its x, for the host to report:
    kernels cannot raise exceptions. The checks, which detect such an index themselves, replace this function.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if index < 0 or index >= shapes.shape[2]:
        shapes[env, agent, 0, KIND] = OUTSIDE
        shapes[env, agent, 0, X] = index
    return shapes[env, agent, 0, KIND] != OUTSIDE


@device_function
def _place(shapes, index, kind, x, y, width, height, angle, colour):  # type: ignore[no-untyped-def]
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if _is_inside(shapes, index):
        shapes[env, agent, index, KIND] = kind
        shapes[env, agent, index, X] = x
        shapes[env, agent, index, Y] = y
        shapes[env, agent, index, WIDTH] = width
        shapes[env, agent, index, HEIGHT] = height
        shapes[env, agent, index, ANGLE] = angle
        shapes[env, agent, index, COLOUR] = colour
        shapes[env, agent, index, OPACITY] = _ONE
        shapes[env, agent, index, EDGE] = _NONE
        shapes[env, agent, index, LINE] = _ZERO
        shapes[env, agent, index, LAYER] = _ZERO
        shapes[env, agent, index, TRAIL] = _ZERO


@device_function
def circle(shapes, index, x, y, radius, colour):  # type: ignore[no-untyped-def]
    """Draw a disc around (x, y).

    Args:
        shapes: ``[num_envs, num_agents, shapes_per_agent, len(FIELDS)]`` float32, the parameter of the kernel.
        index: Index of the shape, from 0 to ``shapes_per_agent`` - 1.
        x: x coordinate of the centre.
        y: y coordinate of the centre.
        radius: Radius.
        colour: A colour such as ``wd.draw.BLUE``.
    """
    _place(shapes, index, CIRCLE, x, y, radius + radius, radius + radius, _ZERO, colour)


@device_function
def rectangle(shapes, index, x, y, width, height, angle, colour):  # type: ignore[no-untyped-def]
    """Draw a rectangle around (x, y), rotated by ``angle``.

    Args:
        shapes: ``[num_envs, num_agents, shapes_per_agent, len(FIELDS)]`` float32, the parameter of the kernel.
        index: Index of the shape, from 0 to ``shapes_per_agent`` - 1.
        x: x coordinate of the centre.
        y: y coordinate of the centre.
        width: Length of the sides along x, before the rotation.
        height: Length of the sides along y, before the rotation.
        angle: Angle in radians, counterclockwise.
        colour: A colour such as ``wd.draw.BLUE``.
    """
    _place(shapes, index, RECTANGLE, x, y, width, height, angle, colour)


@device_function
def triangle(shapes, index, x, y, size, angle, colour):  # type: ignore[no-untyped-def]
    """Draw an arrowhead of length ``size`` around (x, y) that points in the direction ``angle``.

    Args:
        shapes: ``[num_envs, num_agents, shapes_per_agent, len(FIELDS)]`` float32, the parameter of the kernel.
        index: Index of the shape, from 0 to ``shapes_per_agent`` - 1.
        x: x coordinate of the centre.
        y: y coordinate of the centre.
        size: Length.
        angle: Direction in radians, counterclockwise from the x-axis.
        colour: A colour such as ``wd.draw.BLUE``.
    """
    _place(shapes, index, TRIANGLE, x, y, size, size, angle, colour)


@device_function
def sector(shapes, index, x, y, radius, angle, opening, colour):  # type: ignore[no-untyped-def]
    """Draw a sector of a disc around (x, y), with the opening angle ``opening`` around the direction ``angle``.

    Args:
        shapes: ``[num_envs, num_agents, shapes_per_agent, len(FIELDS)]`` float32, the parameter of the kernel.
        index: Index of the shape, from 0 to ``shapes_per_agent`` - 1.
        x: x coordinate of the centre.
        y: y coordinate of the centre.
        radius: Radius.
        angle: Direction of the middle in radians.
        opening: Opening angle in radians.
        colour: A colour such as ``wd.draw.BLUE``.
    """
    _place(shapes, index, SECTOR, x, y, radius + radius, opening, angle, colour)


@device_function
def line(shapes, index, x, y, to_x, to_y, width, colour):  # type: ignore[no-untyped-def]
    """Draw a line with round ends from (x, y) to (to_x, to_y).

    Args:
        shapes: ``[num_envs, num_agents, shapes_per_agent, len(FIELDS)]`` float32, the parameter of the kernel.
        index: Index of the shape, from 0 to ``shapes_per_agent`` - 1.
        x: x coordinate of one end.
        y: y coordinate of one end.
        to_x: x coordinate of the other end.
        to_y: y coordinate of the other end.
        width: Width of the line.
        colour: A colour such as ``wd.draw.BLUE``.
    """
    _place(shapes, index, SEGMENT, x, y, to_x - x, to_y - y, _ZERO, colour)
    if _is_inside(shapes, index):
        shapes[cuda.blockIdx.x, cuda.threadIdx.x, index, LINE] = width


@device_function
def number(shapes, index, x, y, value, size, colour):  # type: ignore[no-untyped-def]
    """Write a whole number around (x, y), in front of shapes of layer 0.

    Args:
        shapes: ``[num_envs, num_agents, shapes_per_agent, len(FIELDS)]`` float32, the parameter of the kernel.
        index: Index of the shape, from 0 to ``shapes_per_agent`` - 1.
        x: x coordinate of the centre.
        y: y coordinate of the centre.
        value: The number, at most 2**24.
        size: Height of its digits.
        colour: A colour such as ``wd.draw.INK``.
    """
    _place(shapes, index, NUMBER, x, y, size, size, _ZERO, colour)
    if _is_inside(shapes, index):
        shapes[cuda.blockIdx.x, cuda.threadIdx.x, index, LINE] = value
        shapes[cuda.blockIdx.x, cuda.threadIdx.x, index, LAYER] = _ONE


@device_function
def style(shapes, index, opacity, edge, layer):  # type: ignore[no-untyped-def]
    """Set the opacity (0 to 1), the colour of the outline (-1 for none) and the layer of an already drawn shape.

    Args:
        shapes: ``[num_envs, num_agents, shapes_per_agent, len(FIELDS)]`` float32, the parameter of the kernel.
        index: Index of the shape, from 0 to ``shapes_per_agent`` - 1.
        opacity: Opacity, from 0 to 1.
        edge: Colour of the outline; -1 for none.
        layer: Layer; higher ones are in front.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if _is_inside(shapes, index):
        shapes[env, agent, index, OPACITY] = opacity
        shapes[env, agent, index, EDGE] = edge
        shapes[env, agent, index, LAYER] = layer


@device_function
def trail(shapes, index, steps):  # type: ignore[no-untyped-def]
    """Connect an already drawn shape with its last ``steps`` positions.

    Args:
        shapes: ``[num_envs, num_agents, shapes_per_agent, len(FIELDS)]`` float32, the parameter of the kernel.
        index: Index of the shape, from 0 to ``shapes_per_agent`` - 1.
        steps: Number of positions that the fading line connects.
    """
    if _is_inside(shapes, index):
        shapes[cuda.blockIdx.x, cuda.threadIdx.x, index, TRAIL] = steps
