"""Kernel of ``Sprint``, as a program of WarpDrive 2 has it."""

import numba.cuda as numba_driver
from numba import int32
from warp_drive.numba_includes.env_config import wkNumberAgents


@numba_driver.jit
def NumbaSprintStep(  # noqa: N802
    position, speed, actions, rewards, observations, done, timestep, track, episode_length
):
    crossed = numba_driver.shared.array(1, int32)
    env, agent = numba_driver.blockIdx.x, numba_driver.threadIdx.x
    if agent == 0:
        timestep[env] += 1
        crossed[0] = 0
    numba_driver.syncthreads()
    if agent < wkNumberAgents:
        speed[env, agent] = max(speed[env, agent] + actions[env, agent, 0] - 1, 0)
        position[env, agent] += speed[env, agent]
        rewards[env, agent] = speed[env, agent]
        if position[env, agent] >= track:
            numba_driver.atomic.add(crossed, 0, 1)
        observations[env, agent, 0] = position[env, agent] / track
        observations[env, agent, 1] = speed[env, agent]
        observations[env, agent, 2] = timestep[env]
    numba_driver.syncthreads()
    if agent == 0 and (crossed[0] > 0 or timestep[env] == episode_length):
        done[env] = 1
