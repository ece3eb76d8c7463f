"""Observations that are only wrong at the start of an episode: the elapsed time as a fraction of itself."""

import numpy as np
from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = (
    r"spaces .*number.py:18: at the start of the episode after step \d+ agent \d observes nan in observations\[\d, 0\]"
    r".*look for a division by zero"
)


@wd.kernel
def observe(timestep, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = np.float32(timestep[env]) / np.float32(timestep[env])


class Broken(Walk):
    observe = observe
    reference_step, reference_observe = wd.Environment.reference_step, wd.Environment.reference_observe
