"""Rewards that several agents add to at the same time: some get lost."""

from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = r"races .*'rewards\[.*use cuda.atomic.add"


@wd.kernel
def step(position, actions, rewards):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, 0] += actions[env, agent]


class Broken(Walk):
    step = step
