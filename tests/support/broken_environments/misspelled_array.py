"""A kernel whose parameter has another name than the array."""

import numpy as np
from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = r"misspelled_array.py:\d+: parameter 'positon' of .* is not bound.*Did you mean 'position'"


@wd.kernel
def observe(positon, observations, length):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = np.float32(positon[env, agent]) / np.float32(length)


class Broken(Walk):
    observe = observe
