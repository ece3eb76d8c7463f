"""Inputs of a centralised critic: the observations of all agents, or the environment's own global state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from gymnasium import Space
from torch import Tensor, nn

from warpdrive.env_wrapper import EnvWrapper
from warpdrive.rollout import Rollout
from warpdrive.training.models.base import observations_of
from warpdrive.training.models.flatten import Flatten


class CriticInput(nn.Module, ABC):
    """Numbers that are the same for all agents of a replica, followed by a unit vector for the agent within its tag.

    Args:
        num_agents: how many agents the policy tag has.
        shared: how many of the numbers are the same for all.

    Attributes:
        size: the numbers in a row.
    """

    which: Tensor

    def __init__(self, num_agents: int, shared: int) -> None:
        super().__init__()
        self.register_buffer("which", torch.eye(num_agents), persistent=False)
        self.size = shared + num_agents

    @abstractmethod
    def recorded(self, rollout: Rollout, final: bool) -> Tensor:
        """``[steps, num_envs, shared]`` float32; ``final``: ``[slots, ...]``, of the ends of truncated episodes."""

    @abstractmethod
    def present(self, env: EnvWrapper) -> Tensor:
        """``[num_envs, shared]`` float32, as it is before the next step."""

    def of(self, rollout: Rollout, final: bool = False) -> Tensor:
        """``[steps (or slots) x num_envs x agents of the tag, size]`` float32; see :meth:`recorded`."""
        return self._for_each_agent(self.recorded(rollout, final)).flatten(0, 2)

    def now(self, env: EnvWrapper) -> Tensor:
        """``[num_envs, agents of the tag, size]`` float32, as it is before the next step."""
        return self._for_each_agent(self.present(env))

    def _for_each_agent(self, shared: Tensor) -> Tensor:
        agents = shared.unsqueeze(-2).expand(*shared.shape[:-1], len(self.which), -1)
        return torch.cat([agents, self.which.expand(*agents.shape[:-1], -1)], dim=-1)


class JointObservations(CriticInput):
    """The observations of all agents of all tags side by side; zeros for agents out of the episode.

    Args:
        spaces: of one agent's observations, by policy tag.
        counts: how many agents there are, by policy tag.
        tag: of the agents that values are estimated for.
    """

    def __init__(self, tag: str, spaces: Mapping[str, Space[Any]], counts: Mapping[str, int]) -> None:
        parts = [Flatten(space) for space in spaces.values()]
        super().__init__(counts[tag], sum(part.size * counts[name] for part, name in zip(parts, spaces, strict=True)))
        self.flatten, self.tags = nn.ModuleList(parts), list(spaces)

    def recorded(self, rollout: Rollout, final: bool) -> Tensor:
        """See ``CriticInput``."""
        name = "final_observations" if final else "observations"
        return self._side_by_side({tag: rollout.of(name, tag) for tag in self.tags})

    def present(self, env: EnvWrapper) -> Tensor:
        """See ``CriticInput``."""
        return self._side_by_side({tag: observations_of(env, tag) for tag in self.tags})

    def _side_by_side(self, seen: Mapping[str, Any]) -> Tensor:
        """Flatten ``[..., agents of the tag, *shape]`` of each tag to ``[..., agents of the tag x size]``, and join."""
        flat = [part(seen[tag]).flatten(-2) for part, tag in zip(self.flatten, self.tags, strict=True)]
        return torch.cat(flat, dim=-1)


class GlobalState(CriticInput):
    """The arrays that an environment calls its ``global_state``, flattened and side by side.

    Args:
        num_agents: how many agents the policy tag has.
        sizes: the numbers that each array has in a replica, by name.
    """

    def __init__(self, num_agents: int, sizes: Mapping[str, int]) -> None:
        super().__init__(num_agents, sum(sizes.values()))
        self.names = list(sizes)

    def recorded(self, rollout: Rollout, final: bool) -> Tensor:
        """See ``CriticInput``."""
        return self._side_by_side(rollout.final_global_state if final else rollout.global_state, leading=2)

    def present(self, env: EnvWrapper) -> Tensor:
        """See ``CriticInput``."""
        return self._side_by_side({name: env.ctx[name] for name in self.names}, leading=1)

    def _side_by_side(self, arrays: Mapping[str, Tensor], leading: int) -> Tensor:
        flat = [arrays[name].reshape(*arrays[name].shape[:leading], -1).float() for name in self.names]
        return torch.cat(flat, dim=-1)
