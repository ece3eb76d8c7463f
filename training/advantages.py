"""Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438, equations 11 and 16) as one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import cuda
from torch import Tensor

import warpdrive as wd

_THREADS = 64


@wd.kernel
def _advantages(  # type: ignore[no-untyped-def]
    rewards,
    terminated,
    truncated,
    final_slot,
    active,
    still_active,
    agent_ids,
    values,
    final_values,
    coefficients,
    advantages,
):
    num_steps, num_envs, num_agents = advantages.shape
    i = cuda.grid(1)
    if i < num_envs * num_agents:
        env = i // num_agents
        agent = i % num_agents
        agent_id = agent_ids[agent]
        gamma = coefficients[0]
        gae_lambda = coefficients[1]
        later = np.float32(0)  # the advantage of the next step of the same episode
        for steps_back in range(num_steps):
            t = num_steps - 1 - steps_back
            if active[t, env, agent_id]:
                next_value = values[t + 1, env, agent]
                if terminated[t, env] or not still_active[t, env, agent_id]:
                    next_value = np.float32(0)
                    later = np.float32(0)
                elif truncated[t, env]:
                    next_value = final_values[final_slot[t, env], env, agent]
                    later = np.float32(0)
                delta = rewards[t, env, agent_id] + gamma * next_value - values[t, env, agent]
                later = delta + gamma * gae_lambda * later
                advantages[t, env, agent] = later
            else:
                advantages[t, env, agent] = np.float32(0)


def generalised_advantages(
    *,
    rewards: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    final_slot: Tensor,
    active: Tensor | None,
    still_active: Tensor | None,
    agent_ids: Tensor,
    values: Tensor,
    final_values: Tensor,
    gamma: float,
    gae_lambda: float,
) -> Tensor:
    """Advantages of the agents that share one policy, in one launch.

    A step that ended an episode by a time limit is continued with the value of the episode's final observations, one
    that terminated, or in which the agent left the episode, with nothing. An agent's rows after it left are 0.

    Args:
        rewards: ``[T, num_envs, num_agents]`` float32, of all agents.
        terminated: ``[T, num_envs]`` bool.
        truncated: ``[T, num_envs]`` bool.
        final_slot: ``[T, num_envs]`` int32, which of ``final_values`` belongs to a truncation.
        active: ``[T, num_envs, num_agents]`` bool, the agent was in the episode when it acted; None: always.
        still_active: ``[T, num_envs, num_agents]`` bool, and still was after the step; None: always.
        agent_ids: ``[A]`` int32, the agents that share the policy.
        values: ``[T + 1, num_envs, A]`` float32.
        final_values: ``[slots, num_envs, A]`` float32.
        gamma: discount per step.
        gae_lambda: weight of longer returns, 0 (one step) to 1 (whole episode).

    Returns:
        ``[T, num_envs, A]`` float32.
    """
    advantages = torch.empty_like(values[:-1])
    always = torch.ones_like(rewards, dtype=torch.bool) if active is None or still_active is None else None
    # filled on the device: torch.tensor would copy from the host and wait for it
    coefficients = torch.stack([values.new_full((), gamma), values.new_full((), gae_lambda)])
    arguments: list[Any] = [
        rewards,
        terminated,
        truncated,
        final_slot,
        always if active is None else active,
        always if still_active is None else still_active,
        agent_ids,
        values,
        final_values,
        coefficients,
        advantages,
    ]
    blocks = -(-advantages[0].numel() // _THREADS)
    _advantages[blocks, _THREADS](*arguments)
    return advantages
