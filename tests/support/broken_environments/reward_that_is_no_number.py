"""A mean over nothing."""

import numpy as np
from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = (
    r"spaces .*number.py:19: .*the reward of agent \d is nan: nan is written to 'rewards\[0, \d\]' by thread \d"
    r".*\| rewards\[env, agent\] = moved / abs\(moved\).*look for a division by zero"
)


@wd.kernel
def step(position, actions, rewards):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    moved = np.float32(actions[env, agent] - 1)
    rewards[env, agent] = moved / abs(moved)


class Broken(Walk):
    step = step
