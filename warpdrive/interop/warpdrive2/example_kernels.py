"""Kernels of WarpDrive 2's tutorials: ``testkernel`` of ``DummyEnv``, and ``cuda_increment``."""

from __future__ import annotations

from typing import Any

from numba import cuda, int32


@cuda.jit  # type: ignore[untyped-decorator]
def testkernel(
    x: Any, y: Any, done: Any, actions: Any, multiplier: Any, target: Any, step: Any, episode_length: Any
) -> None:
    """Divide ``x`` and multiply ``y``; the episode ends with its last step, or when a ``y`` reaches the target.

    Args:
        x: ``[num_envs, agents]`` float32.
        y: ``[num_envs, agents]`` int32.
        done: ``[num_envs]`` int32.
        actions: ``[num_envs, agents, 3]`` int32, set to 0, 1, 2.
        multiplier: The factor.
        target: The target.
        step: Number of the step.
        episode_length: Number of the last step.
    """
    reached = cuda.shared.array(1, int32)
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent == 0:
        reached[0] = 0
    cuda.syncthreads()
    if agent < x.shape[1]:
        x[env, agent] /= multiplier
        y[env, agent] *= multiplier
        if y[env, agent] >= target:
            cuda.atomic.add(reached, 0, 1)
        for component in range(actions.shape[2]):
            actions[env, agent, component] = component
    cuda.syncthreads()
    if agent == 0 and (step == episode_length or reached[0] > 0):
        done[env] = 1


@cuda.jit  # type: ignore[untyped-decorator]
def cuda_increment(data: Any, num_agents: Any) -> None:
    """Add the indices of replica and agent to ``data``, ``[num_envs, agents]``."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent < num_agents:
        data[env, agent] += env + agent
