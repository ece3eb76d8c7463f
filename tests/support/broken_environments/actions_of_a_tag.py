"""A kernel that names the actions of a policy tag, although all tags share a space."""

from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = r"parameter 'actions_walker' of .* is not bound.*The arrays of action_space are: actions$"


@wd.kernel
def step(position, actions_walker):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env, agent] += actions_walker[env, agent]


class Broken(Walk):
    step = step
