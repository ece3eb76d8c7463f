"""The neighbour of the last agent."""

import numpy as np
from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = r"bounds .*'position'.*use the element only where the index is less than shape\[1\], which is 3"


@wd.kernel
def observe(position, observations, length):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = np.float32(position[env, agent + 1] % length) / np.float32(length)


class Broken(Walk):
    observe = observe
