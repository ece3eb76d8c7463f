"""Environments of skrl, over Gymnasium's with tensors on the device."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from skrl.envs.wrappers.torch import Wrapper

from warpdrive.interop.gymnasium import GymnasiumVectorEnv


class SkrlEnv(Wrapper):
    """Environment of skrl; see ``wd.to_skrl``.

    Attributes:
        envs: The vector environment with tensor outputs.
    """

    def __init__(self, envs: GymnasiumVectorEnv) -> None:
        super().__init__(envs)
        self.envs = envs
        self._seen: tuple[torch.Tensor, dict[str, Any]] | None = None

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """The observation space of a row."""
        return self.envs.single_observation_space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """The action space of a row."""
        return self.envs.single_action_space

    def reset(self) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the current observations ``[num_envs, n]`` and infos; episodes begin at the first call only."""
        if self._seen is None:
            observations, infos = self.envs.reset()
            self._seen = self._flat(observations), infos
        return self._seen

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Any]:
        """Advance all replicas by one step.

        Args:
            actions: ``[num_envs, n]``.

        Returns:
            Observations ``[num_envs, n]``, rewards, terminations and truncations ``[num_envs, 1]``, and infos.
        """
        shape = self.action_space.shape or ()
        observations, *columns, infos = self.envs.step(actions.reshape(self.num_envs, *shape))
        self._seen = self._flat(observations), infos
        rewards, terminated, truncated = (column.view(-1, 1) for column in columns)
        return self._seen[0], rewards, terminated, truncated, infos

    def state(self) -> None:
        """Return None: there is no state apart from the observations."""

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Return an image per row."""
        return self.envs.render()

    def close(self) -> None:
        """Free the device's memory."""
        self.envs.close()

    def _flat(self, observations: Any) -> torch.Tensor:
        if not isinstance(observations, dict):
            flat: torch.Tensor = observations.reshape(self.num_envs, -1)
            return flat
        return torch.cat([self._flat(observations[key]) for key in sorted(observations)], dim=-1)  # the order of skrl
