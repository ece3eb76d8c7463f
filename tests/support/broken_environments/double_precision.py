"""A literal that makes a kernel compute in float64."""

from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = r"float64 .*0\.1.*convert with np.float32"


@wd.kernel
def step(position, actions, rewards, length):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env, agent] = min(position[env, agent] + actions[env, agent], length)
    rewards[env, agent] = position[env, agent] * 0.1


class Broken(Walk):
    step = step
