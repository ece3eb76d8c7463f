"""Kernel of ``Aim``, as a program of WarpDrive 2 has it."""

import numba.cuda as numba_driver


@numba_driver.jit(device=True)
def error(targets, actions, env, agent, row):
    across, up = actions[env, row, 0] - targets[env, agent, 0], actions[env, row, 1] - targets[env, agent, 1]
    return across * across + up * up


@numba_driver.jit
def NumbaAimStep(  # noqa: N802
    targets, done, timestep, actions_first, rewards_first, actions_others, rewards_others, episode_length
):
    env, agent = numba_driver.blockIdx.x, numba_driver.threadIdx.x
    if agent == 0:
        rewards_first[env, 0] = -error(targets, actions_first, env, agent, 0)
        timestep[env] += 1
        if timestep[env] == episode_length:
            done[env] = 1
    else:
        rewards_others[env, agent - 1] = -error(targets, actions_others, env, agent, agent - 1)
