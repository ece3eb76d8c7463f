"""A scenery that is made and not returned."""

from base import Walk
from numba import cuda

import warpdrive as wd
from warpdrive.scene.scene import Scene

EXPECTED = "scenery of Broken returned None, expected a Scene"


@wd.kernel
def draw(shapes, position):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    wd.draw.circle(shapes, 0, position[env, agent], agent, 0.5, wd.draw.BLUE)


class Broken(Walk):
    draw, view = draw, (0.0, 6.0, -1.0, 3.0)

    def scenery(self, state):
        Scene(self.view)
