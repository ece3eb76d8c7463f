"""Vector environments of rsl_rl, over Gymnasium's with tensors on the device."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from warpdrive.interop.gymnasium import GymnasiumVectorEnv
from warpdrive.interop.tensordicts import new_tensordict


class RslRlVecEnv(VecEnv):
    """Vector environment of rsl_rl; see ``wd.to_rsl_rl``.

    Observations are in the group ``policy``, or in a group per key of a Dict space. Policies of rsl_rl are continuous:
    for discrete actions there is an output per choice, of which the largest is taken.

    Attributes:
        envs: The vector environment with tensor outputs.
        num_actions: The number of outputs of a policy.
        max_episode_length: The maximum number of steps of an episode.
        cfg: The parameters of the environment, for logs.
    """

    def __init__(self, envs: GymnasiumVectorEnv) -> None:
        self.envs, self.device, self.num_envs = envs, envs.device, envs.num_envs
        space = envs.single_action_space
        choices = [space.n] if isinstance(space, spaces.Discrete) else getattr(space, "nvec", [])
        self._choices = [int(n) for n in choices]
        self.num_actions = sum(self._choices) or spaces.flatdim(space)
        self.max_episode_length = int(envs.replicas.env.episode_length)
        self.cfg = dict(envs.replicas.env_config or {})
        self._observations, _ = envs.reset()

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """The number of steps of the current episodes, int64 ``[num_envs]``; writable as a whole."""
        per_replica = self.envs.replicas.ctx["timestep"]
        return per_replica.long().repeat_interleave(self.num_envs // len(per_replica))

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:
        per_replica = self.envs.replicas.ctx["timestep"]
        per_replica.copy_(value.view(len(per_replica), -1)[:, 0])

    def get_observations(self) -> TensorDict:
        """Return the current observations by group, each ``[num_envs, *shape]``."""
        groups = self._observations if isinstance(self._observations, dict) else {"policy": self._observations}
        return new_tensordict(groups, batch_size=torch.Size([self.num_envs]))

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Advance all replicas by one step.

        Args:
            actions: ``[num_envs, num_actions]`` float32.

        Returns:
            Observations, rewards ``[num_envs]``, dones int64 ``[num_envs]``, and extras with ``time_outs``.
        """
        self._observations, rewards, terminated, truncated = self.envs.advance(self._fitted(actions))
        return (
            self.get_observations(),
            rewards,
            (terminated | truncated).long(),
            {"time_outs": truncated & ~terminated},
        )

    def _fitted(self, actions: torch.Tensor) -> torch.Tensor:
        space = self.envs.single_action_space
        if not self._choices:
            return actions.view(self.num_envs, *(space.shape or ()))
        if isinstance(space, spaces.Discrete):
            return actions.argmax(dim=-1)
        return torch.stack([part.argmax(dim=-1) for part in actions.split(self._choices, dim=-1)], dim=-1)
