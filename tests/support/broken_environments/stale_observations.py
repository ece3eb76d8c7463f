"""Observations that only a step writes: an episode's first ones are the last ones of the episode before."""

import numpy as np
from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = r"resets .*observations are not those of the new episode.*write the observations in an observe kernel"


@wd.kernel
def step(position, actions, observations, terminated, length):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env, agent] = min(position[env, agent] + actions[env, agent], length)
    observations[env, agent, 0] = np.float32(position[env, agent]) / np.float32(length)
    if agent == 0:
        terminated[env] = position[env, 0] == length


class Broken(Walk):
    step, observe = step, None
