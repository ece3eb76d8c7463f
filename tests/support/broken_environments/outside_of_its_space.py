"""Observations that leave their space, as nobody divided by the length."""

import numpy as np
from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = r"spaces .*observes 3 in observations\[\d, 0\], which is outside of its space \[0, 2\].*widen the space"


@wd.kernel
def observe(position, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = np.float32(position[env, agent])


class Broken(Walk):
    observe = observe

    def __init__(self):
        super().__init__()
        self.observation_space.high[:] = 2

    def reference_observe(self, state):
        return state["position"].astype(np.float32)[:, None]
