"""A step that reads what others write, without waiting for them."""

from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = r"races .*'position\[.*put cuda.syncthreads\(\) between the two lines"


@wd.kernel
def step(position, actions, rewards, terminated, length):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env, agent] = min(max(position[env, agent] + actions[env, agent] - 1, 0), length)
    rewards[env, agent] = position[env, agent]
    if agent == 0:
        for other in range(cuda.blockDim.x):
            if position[env, other] == length:
                terminated[env] = True


class Broken(Walk):
    step = step
