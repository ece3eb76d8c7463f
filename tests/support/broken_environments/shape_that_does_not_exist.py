"""A second shape of each agent, where each has one."""

from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = (
    r"bounds .*shape_that_does_not_exist.py:\d+: index \(0, 0, 1, 0\) lies outside of 'shapes'.*"
    r"set shapes_per_agent of the environment, which is 1"
)


@wd.kernel
def draw(shapes, position):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    wd.draw.circle(shapes, 1, position[env, agent], agent, 0.5, wd.draw.BLUE)


class Broken(Walk):
    draw, view = draw, (0.0, 6.0, -1.0, 3.0)
