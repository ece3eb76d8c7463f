"""Recording of steps into the slots of a rollout, on the device, as part of the fused step.

``slot`` is an array with one integer, the index of the current step of the rollout. It is on the device, so that one
captured launch can be replayed for every step.

``observations`` is an ordinary state array, from which slot t + 1 is copied in the same launch, while it is in the
cache. An environment may therefore update a part of its observations only, which it could not if it wrote to the slots
directly. Final observations are recorded for truncated episodes only, in as many slots as a replica can have
truncations in a rollout: values are bootstrapped exactly, without a second forward pass over all steps.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from warpdrive.kernels.kernel import device_function


@device_function
def record_per_agent(source, record, slot):  # type: ignore[no-untyped-def]
    """Record one number per agent: ``record[t, env, agent] = source[env, agent]``.

    Args:
        source: ``[num_envs, num_agents]``, values of this step.
        record: ``[num_steps, num_envs, num_agents]``, rollout.
        slot: ``[1]`` int32, index t of the step.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    record[slot[0], env, agent] = source[env, agent]


@device_function
def record_team_reward(rewards, team, share, record, slot):  # type: ignore[no-untyped-def]
    """Record a multiple of the sum of the rewards of an agent's team.

    Args:
        rewards: ``[num_envs, num_agents]`` float32, rewards of this step.
        team: ``[num_agents]`` int32, equal for the agents of one team.
        share: ``[num_agents]`` float32, factor of the sum.
        record: ``[num_steps, num_envs, num_agents]``, rollout.
        slot: ``[1]`` int32, index t of the step.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    total = np.float32(0.0)
    for other in range(team.shape[0]):
        if team[other] == team[agent]:
            total += rewards[env, other]
    record[slot[0], env, agent] = total * share[agent]


@device_function
def extend_observation(source, target, source_rows, target_rows, place):  # type: ignore[no-untyped-def]
    """Copy an agent's observation, followed by a one-hot index of the agent.

    Args:
        source: ``[num_envs, agents, size]``, observations as written by the environment.
        target: ``[num_envs, agents of a tag, size + number of ids]``, written.
        source_rows: ``[num_agents]`` int32, row of each agent in ``source``.
        target_rows: ``[num_agents]`` int32, row of each agent in ``target``; -1 for other agents.
        place: ``[num_agents]`` int32, index of each agent among the ids.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    row, size = target_rows[agent], source.shape[2]
    if row >= 0:
        for index in range(size):
            target[env, row, index] = source[env, source_rows[agent], index]
        for index in range(size, target.shape[2]):
            target[env, row, index] = 1 if index - size == place[agent] else 0


@device_function
def record_per_env(source, record, slot):  # type: ignore[no-untyped-def]
    """Record one number per replica: ``record[t, env] = source[env]``.

    Args:
        source: ``[num_envs]``, values of this step.
        record: ``[num_steps, num_envs]``, rollout.
        slot: ``[1]`` int32, index t of the step.
    """
    env = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        record[slot[0], env] = source[env]


@device_function
def record_row(source, record, slot):  # type: ignore[no-untyped-def]
    """Record ``source[env, :]`` in slot t; each thread of the replica copies its share.

    Args:
        source: ``[num_envs, length]``, values of this step.
        record: ``[num_steps, num_envs, length]``, rollout.
        slot: ``[1]`` int32, index t of the step.
    """
    copy_share(source, record, slot[0])


@device_function
def record_next_row(source, record, slot):  # type: ignore[no-untyped-def]
    """Record ``source[env, :]`` in slot t + 1.

    Args:
        source: ``[num_envs, length]``, values after this step.
        record: ``[num_steps + 1, num_envs, length]``, rollout.
        slot: ``[1]`` int32, index t of the step.
    """
    copy_share(source, record, slot[0] + 1)


@device_function
def copy_row(source, target):  # type: ignore[no-untyped-def]
    """Copy ``source[env, :]`` to ``target[env, :]``; each thread of the replica copies its share."""
    env, agent, agents = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    length = source.shape[1]
    for index in range(agent * length // agents, (agent + 1) * length // agents):
        target[env, index] = source[env, index]


@device_function
def copy_share(source, record, slot):  # type: ignore[no-untyped-def]
    """Copy a thread's share of ``source[env, :]`` to ``record[slot, env, :]``.

    Args:
        source: ``[num_envs, length]``.
        record: ``[slots, num_envs, length]``.
        slot: Index of the target, an integer.
    """
    env, agent, agents = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    length = source.shape[1]
    for index in range(agent * length // agents, (agent + 1) * length // agents):
        record[slot, env, index] = source[env, index]


@device_function
def note_final_slot(terminated, truncated, final_slot, final_count, final, slot):  # type: ignore[no-untyped-def]
    """Assign the slot of ``final`` for the last observations of this step's episode; -1 unless it was only truncated.

    There are enough slots for all truncations that kernel functions can cause. If ``timestep`` is modified from outside
    during a rollout, more may be needed; the last slot is then reused.

    Args:
        terminated: ``[num_envs]`` bool.
        truncated: ``[num_envs]`` bool.
        final_slot: ``[num_steps, num_envs]`` int32, written.
        final_count: ``[num_envs]`` int32, number of truncations in this rollout so far.
        final: ``[slots, num_envs, ...]``, final observations; only the shape is used.
        slot: ``[1]`` int32, index of the step.
    """
    env = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        if truncated[env] and not terminated[env]:
            final_slot[slot[0], env] = min(final_count[env], final.shape[0] - 1)
            final_count[env] += 1
        else:
            final_slot[slot[0], env] = -1


@device_function
def record_final_row(source, record, final_slot, slot):  # type: ignore[no-untyped-def]
    """Record the final observations ``source[env, :]`` of a truncated episode.

    Args:
        source: ``[num_envs, length]``, observations after this step.
        record: ``[slots, num_envs, length]``, final observations.
        final_slot: ``[num_steps, num_envs]`` int32, see :func:`note_final_slot`.
        slot: ``[1]`` int32, index of the step.
    """
    where = final_slot[slot[0], cuda.blockIdx.x]
    if where >= 0:
        copy_share(source, record, where)
