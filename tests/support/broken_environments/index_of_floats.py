"""A place on the line that NumPy made a float64."""

import numpy as np
from base import Walk
from numba import cuda

import warpdrive as wd

EXPECTED = (
    r"index_of_floats.py:\d+: .*'marks\[env, position\[env, agent\]\]': the index 'position\[env, agent\]' is float64, "
    r"as 'position' is an array of float64"
)


@wd.kernel
def step(position, marks, actions, rewards):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, agent] = marks[env, position[env, agent]]


class Broken(Walk):
    step = step

    def initial_state(self, rng):
        return {"position": np.floor(rng.uniform(0, 3, self.num_agents)), "marks": np.zeros(7, np.float32)}
