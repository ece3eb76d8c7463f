"""Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438, equations 11 and 16) as one kernel.

The kernel runs on the environment's backend (in CUDA C: ``cuda_src/advantages.cuh``) and is bound once per policy to
fixed buffers: a block per replica, and a thread per agent of the policy that iterates backwards in time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numba import cuda
from torch import Tensor

import warpdrive as wd
from warpdrive.errors import TrainingError
from warpdrive.kernels.fusion import Fusion

if TYPE_CHECKING:
    from warpdrive.backends.interface import Backend
    from warpdrive.rollout import Rollout


@wd.device_function
def generalised_advantages(  # type: ignore[no-untyped-def]
    rewards, terminated, truncated, final_slot, active, still_active, agent_ids, values, final_values, coefficients,
    advantages,
):  # fmt: skip
    """Write the advantages of a replica's agents that share a policy; each thread iterates backwards for one agent.

    The CUDA C version is in ``cuda_src/advantages.cuh``.

    Args:
        rewards: ``[T, num_envs, num_agents]`` float32.
        terminated: ``[T, num_envs]`` bool.
        truncated: ``[T, num_envs]`` bool.
        final_slot: ``[T, num_envs]`` int32, index into ``final_values`` of a truncation.
        active: ``[T, num_envs, num_agents]`` bool, True if the agent was in the episode when it acted.
        still_active: ``[T, num_envs, num_agents]`` bool, True if it still was after the step.
        agent_ids: ``[A]`` int32, agents that share the policy.
        values: ``[T + 1, num_envs, A]`` float32, value estimates.
        final_values: ``[num_final, num_envs, A]`` float32, value estimates of final observations.
        coefficients: ``[4]`` float32: ``gamma``, ``gae_lambda``, ``absent_value`` and ``returns_after_leaving`` of
            :class:`AdvantageEstimator`.
        advantages: ``[T, num_envs, A]`` float32, written.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    num_steps = advantages.shape[0]
    agent_id = agent_ids[agent]
    gamma = coefficients[0]
    gae_lambda = coefficients[1]
    absent_value = coefficients[2]
    returns_after_leaving = coefficients[3] != np.float32(0)
    later = np.float32(0)  # the advantage of the next step of the same episode
    for steps_back in range(num_steps):
        t = num_steps - 1 - steps_back
        is_there = active[t, env, agent_id]
        stays = still_active[t, env, agent_id]
        if is_there or returns_after_leaving:
            following = np.float32(0)  # the value of the state after the step
            if terminated[t, env] or not (stays or returns_after_leaving):
                later = np.float32(0)
            elif truncated[t, env]:
                later = np.float32(0)
                following = final_values[final_slot[t, env], env, agent] if stays else absent_value
            elif stays:
                later *= gae_lambda
                following = values[t + 1, env, agent]
            else:
                following = absent_value
            value = values[t, env, agent] if is_there else absent_value
            later = rewards[t, env, agent_id] + gamma * (following + later) - value
            advantages[t, env, agent] = later
        else:
            advantages[t, env, agent] = np.float32(0)


class AdvantageEstimator:
    """Advantage estimator of the agents that share one policy, as one kernel launch.

    A step truncated by the time limit is bootstrapped with the value of the episode's final observations; a terminated
    one is not bootstrapped.

    With ``returns_after_leaving`` the return of an agent that leaves includes its later rewards: they are summed, as
    there are no actions, until it returns or until the episode or the rollout ends, where ``absent_value`` is the
    bootstrap value. Rows of inactive agents are the differences of these returns from ``absent_value``. Without it,
    returns end with the step in which the agent leaves, and the rows of inactive agents are 0.

    Args:
        backend: Backend that runs the kernel.
        agent_ids: ``[A]`` int32, agents that share the policy.
        gamma: Discount per step.
        gae_lambda: GAE coefficient from 0 (one-step TD errors) to 1 (Monte Carlo returns).
        returns_after_leaving: See above.
        rewards: ``[T, num_envs, num_agents]`` float32, of all agents. This and the following tensors are read at each
            launch from their fixed addresses.
        terminated: ``[T, num_envs]`` bool.
        truncated: ``[T, num_envs]`` bool.
        final_slot: ``[T, num_envs]`` int32, index into ``final_values`` of a truncation.
        num_final: Number of slots.
        active: ``[T, num_envs, num_agents]`` bool, True if the agent was in the episode when it acted; None: always.
        still_active: ``[T, num_envs, num_agents]`` bool, True if it still was after the step; None: always.

    Attributes:
        values: ``[T + 1, num_envs, A]`` float32, value estimates, to be written before each launch.
        final_values: ``[num_final, num_envs, A]`` float32, value estimates of final observations, to be written as
            well.
        absent_value: Float32 scalar, to be written as well: bootstrap value of inactive agents; initially 0.
        advantages: ``[T, num_envs, A]`` float32, written by each launch.
        launch: Computes ``advantages`` from the other tensors.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        agent_ids: Tensor,
        gamma: float,
        gae_lambda: float,
        returns_after_leaving: bool = True,
        rewards: Tensor,
        terminated: Tensor,
        truncated: Tensor,
        final_slot: Tensor,
        num_final: int,
        active: Tensor | None,
        still_active: Tensor | None,
    ) -> None:
        num_steps, num_envs, _ = rewards.shape
        self.values = rewards.new_empty(num_steps + 1, num_envs, len(agent_ids))
        self.final_values = rewards.new_empty(num_final, num_envs, len(agent_ids))
        self.advantages = rewards.new_empty(num_steps, num_envs, len(agent_ids))
        if active is None or still_active is None:
            active = still_active = torch.ones_like(rewards, dtype=torch.bool)
        self._coefficients = rewards.new_zeros(4)
        self.absent_value = self._coefficients[2]
        self._coefficients[3].fill_(returns_after_leaving)
        self.set_coefficients(gamma, gae_lambda)
        arguments = {
            "rewards": rewards,
            "terminated": terminated,
            "truncated": truncated,
            "final_slot": final_slot,
            "active": active,
            "still_active": still_active,
            "agent_ids": agent_ids,
            "values": self.values,
            "final_values": self.final_values,
            "coefficients": self._coefficients,
            "advantages": self.advantages,
        }
        self.launch = backend.bind(Fusion.of(generalised_advantages), arguments, num_envs, len(agent_ids))

    def set_coefficients(self, gamma: float, gae_lambda: float) -> None:
        """Set the discount and the GAE coefficient of later launches."""
        # fill on the device: torch.tensor would synchronise
        self._coefficients[0].fill_(gamma)
        self._coefficients[1].fill_(gae_lambda)

    @classmethod
    def of(
        cls,
        rollout: Rollout,
        backend: Backend,
        agent_ids: Tensor,
        gamma: float,
        gae_lambda: float,
        returns_after_leaving: bool = True,
    ) -> AdvantageEstimator:
        """Return an advantage estimator of some agents in a rollout.

        Args:
            rollout: Rollout whose tensors are read at each launch.
            backend: See the class.
            agent_ids: See the class.
            gamma: See the class.
            gae_lambda: See the class.
            returns_after_leaving: See the class.

        Returns:
            The estimator; its value estimates are to be written before each launch.
        """
        return cls(
            backend,
            agent_ids=agent_ids,
            gamma=gamma,
            gae_lambda=gae_lambda,
            returns_after_leaving=returns_after_leaving,
            rewards=rollout.rewards,
            terminated=rollout.terminated,
            truncated=rollout.truncated,
            final_slot=rollout.final_slot,
            num_final=rollout.num_final,
            active=rollout.active,
            still_active=rollout.still_active,
        )


def gae(
    rewards: Tensor,
    values: Tensor,
    terminated: Tensor,
    truncated: Tensor | None = None,
    final_values: Tensor | None = None,
    *,
    gamma: float,
    gae_lambda: float,
) -> Tensor:
    """Return generalised advantage estimates of tensors on any device (arXiv:1506.02438, equation 16).

    For custom updates, in differentiable PyTorch operations. The returns, targets of the value function, are
    ``gae(...) + values[:-1]``.

    ```python
    advantages = wd.gae(rewards, values, terminated, gamma=0.99, gae_lambda=0.95)  # [T, n], [T + 1, n], [T, n]
    returns = advantages + values[:-1]
    ```

    Args:
        rewards: ``[T, ...]``.
        values: ``[T + 1, ...]``, value estimates of the observations before each step, and after the last one.
        terminated: ``[T, ...]`` bool, True if the episode terminated in the step: no bootstrapping.
        truncated: ``[T, ...]`` bool, True if the time limit truncated it: bootstrapped with ``final_values``. None:
            never.
        final_values: ``[T, ...]``, value estimates of the final observations, read where ``truncated``.
        gamma: Discount per step.
        gae_lambda: GAE coefficient from 0 (one-step TD errors) to 1 (Monte Carlo returns).

    Returns:
        Advantages ``[T, ...]``.

    Raises:
        TrainingError: If shapes do not match, or ``truncated`` is given without ``final_values``.
    """
    if values.shape != (len(rewards) + 1, *rewards.shape[1:]):
        raise TrainingError(
            f"gae: found values {tuple(values.shape)} for rewards {tuple(rewards.shape)}, expected one more step"
        )
    if truncated is not None and final_values is None:
        raise TrainingError("gae: found truncated without final_values, the value estimates to bootstrap from")
    ended, following = terminated, values[1:]
    if truncated is not None and final_values is not None:
        following = torch.where(truncated, final_values, following)
        ended = terminated | truncated
    errors = rewards + gamma * torch.where(terminated, 0.0, following) - values[:-1]
    later, found = torch.zeros_like(errors[0]), []
    for t in reversed(range(len(errors))):
        later = errors[t] + gamma * gae_lambda * torch.where(ended[t], 0.0, later)
        found.append(later)
    return torch.stack(found[::-1])
