"""A kernel that changes a constant of the environment."""

from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = r"changed_constant.py:\d+: kernel function 'step' assigns to 'length', a constant.*returned by initial_state"


@wd.kernel
def step(position, actions, rewards, length):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    length = length - 1
    position[env, agent] = min(position[env, agent] + actions[env, agent], length)


class Broken(Walk):
    step = step
