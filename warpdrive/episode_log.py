"""Step counting, episode termination and episode statistics, on the device."""

from __future__ import annotations

import numpy as np
from numba import cuda

from warpdrive.kernels.kernel import device_function

BEGAN_MIDWAY = -1
"""Start state of an episode that began midway, and is excluded from the statistics."""
_INFINITY = np.float32(np.inf)


@device_function
def begin_step(timestep, rewards, terminated, truncated):  # type: ignore[no-untyped-def]
    """Increment the step counter and clear the step's outputs.

    Args:
        timestep: ``[num_envs]`` int32, number of steps of the episode.
        rewards: ``[num_envs, num_agents]`` float32.
        terminated: ``[num_envs]`` bool.
        truncated: ``[num_envs]`` bool.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    rewards[env, agent] = 0
    if agent == 0:
        timestep[env] += 1
        terminated[env] = False
        truncated[env] = False


@device_function
def uncount_step(timestep, skipped):  # type: ignore[no-untyped-def]
    """Reset the step counter of replicas in which an episode began instead of a step.

    Args:
        timestep: ``[num_envs]`` int32, number of steps of the episode.
        skipped: ``[num_envs]`` bool.
    """
    env = cuda.blockIdx.x
    if cuda.threadIdx.x == 0 and skipped[env]:
        timestep[env] = 0


@device_function
def end_step(timestep, truncated, episode_length):  # type: ignore[no-untyped-def]
    """Truncate the episode at its time limit.

    Args:
        timestep: ``[num_envs]`` int32, number of steps of the episode.
        truncated: ``[num_envs]`` bool, set at the time limit.
        episode_length: ``[1]`` int32, maximum number of steps.
    """
    env = cuda.blockIdx.x
    if cuda.threadIdx.x == 0 and timestep[env] >= episode_length[0]:
        truncated[env] = True


@device_function
def is_done(terminated, truncated):  # type: ignore[no-untyped-def]
    """Return True if the replica's episode ended with this step."""
    env = cuda.blockIdx.x
    return terminated[env] or truncated[env]


@device_function
def is_running(terminated, truncated):  # type: ignore[no-untyped-def]
    """Return True if the replica's episode has not ended."""
    env = cuda.blockIdx.x
    return not (terminated[env] or truncated[env])


@device_function
def note_acting(active, acted):  # type: ignore[no-untyped-def]
    """Keep which agents are in the episode before a step, which may change it.

    Args:
        active: ``[num_envs, num_agents]`` bool.
        acted: ``[num_envs, num_agents]`` bool, written.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    acted[env, agent] = active[env, agent]


@device_function
def clear_absent_rewards(rewards, acted):  # type: ignore[no-untyped-def]
    """Clear non-finite rewards of agents out of the episode, for which an environment may leave NaN.

    Args:
        rewards: ``[num_envs, num_agents]`` float32, rewards of this step.
        acted: ``[num_envs, num_agents]`` bool, see :func:`note_acting`.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if not acted[env, agent] and not abs(rewards[env, agent]) < _INFINITY:
        rewards[env, agent] = 0


@device_function
def add_rewards(rewards, running_return):  # type: ignore[no-untyped-def]
    """Add the step's rewards to the returns of the running episode."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    running_return[env, agent] += rewards[env, agent]


@device_function
def log_episode(  # type: ignore[no-untyped-def]
    choice, timestep, terminated, running_return, last_return, last_length, return_sum, length_sum, episodes,
    terminations,
):  # fmt: skip
    """Record the return and length of a finished episode, and add them to the sums of the statistics.

    Episodes that began midway are excluded.

    Args:
        choice: ``[num_envs]`` int32, index of the episode's start state, or ``BEGAN_MIDWAY``.
        timestep: ``[num_envs]`` int32, length of the episode.
        terminated: ``[num_envs]`` bool.
        running_return: ``[num_envs, num_agents]`` float32, sum of the episode's rewards.
        last_return: ``[num_envs, num_agents]`` float32, return of the last episode, written.
        last_length: ``[num_envs]`` int32, length of the last episode, written.
        return_sum: ``[num_envs, num_agents]`` float32, sum of returns, incremented.
        length_sum: ``[num_envs]`` int32, sum of lengths, incremented.
        episodes: ``[num_envs]`` int32, number of episodes, incremented.
        terminations: ``[num_envs]`` int32, number of terminated episodes, incremented.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if choice[env] != BEGAN_MIDWAY:
        last_return[env, agent] = running_return[env, agent]
        return_sum[env, agent] += running_return[env, agent]
        if agent == 0:
            last_length[env] = timestep[env]
            length_sum[env] += timestep[env]
            episodes[env] += 1
            if terminated[env]:
                terminations[env] += 1
