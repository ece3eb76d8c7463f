"""A second drawing that writes the shapes of the agents."""

from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = r"things_drawn_as_agents.py:\d+: 'draw_things' has the parameter 'shapes', expected 'things'"


@wd.kernel
def draw(shapes, position):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    wd.draw.circle(shapes, 0, position[env, agent], agent, 0.5, wd.draw.BLUE)


@wd.kernel
def draw_goal(shapes, length):
    wd.draw.circle(shapes, 0, length, 1, 0.5, wd.draw.YELLOW)


class Broken(Walk):
    draw, draw_things, view = draw, draw_goal, (0.0, 6.0, -1.0, 3.0)
