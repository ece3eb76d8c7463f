"""A barrier that only some agents come to."""

from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = r"divergence .*thread \d returned without reaching it.*all threads of a block must reach the same barrier"


@wd.kernel
def step(position, actions, rewards, length):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if actions[env, agent] > 0:
        position[env, agent] = min(position[env, agent] + 1, length)
        cuda.syncthreads()
        rewards[env, agent] = position[env, 0]


class Broken(Walk):
    step = step
