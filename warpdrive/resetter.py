"""Reset of replicas: a start state of the pool is copied to the replica, on the device."""

from __future__ import annotations

from numba import cuda

import warpdrive.random as wd_random
from warpdrive.kernels.kernel import device_function


@device_function
def clear_continued(continued):  # type: ignore[no-untyped-def]
    """Make the next episode of the replica begin from a start state.

    Args:
        continued: ``[num_envs]`` bool, set by a step that ends an episode if the next one begins from its state.
    """
    if cuda.threadIdx.x == 0:
        continued[cuda.blockIdx.x] = False


@device_function
def begins_anew(continued):  # type: ignore[no-untyped-def]
    """Return True if the replica's next episode begins from a start state, see :func:`clear_continued`."""
    return not continued[cuda.blockIdx.x]


@device_function
def choose_start(choice, stream, pool_size):  # type: ignore[no-untyped-def]
    """Choose the next start state of the replica, in its first thread.

    Args:
        choice: ``[num_envs]`` int32, written: index in the pool of start states.
        stream: ``[num_envs, 4]`` uint32, random state of the replicas.
        pool_size: ``[1]`` int32, number of start states.
    """
    env = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        if pool_size[0] > 1:
            choice[env] = wd_random.replica_integer(stream, env, pool_size[0])
        else:
            choice[env] = 0


@device_function
def copy_start(target, pool, choice):  # type: ignore[no-untyped-def]
    """Copy one array of the chosen start state; each thread of the replica copies its share of ``[env, :]``.

    Args:
        target: ``[num_envs, length]``, written.
        pool: ``[pool_size, length]``, start states, of the same dtype.
        choice: ``[num_envs]`` int32, see :func:`choose_start`.
    """
    env, agent, agents = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    length = target.shape[1]
    for index in range(agent * length // agents, (agent + 1) * length // agents):
        target[env, index] = pool[choice[env], index]


@device_function
def start_episode(timestep, running_return):  # type: ignore[no-untyped-def]
    """Reset the step counter and the running returns."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    running_return[env, agent] = 0
    if agent == 0:
        timestep[env] = 0
