"""Inputs of a centralised critic: observations of all agents, the environment's global state, or both per agent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from gymnasium import Space
from torch import Tensor, nn

from warpdrive.observations import Observations
from warpdrive.training.models.base import observations_of
from warpdrive.training.models.flatten import Flatten

if TYPE_CHECKING:
    from warpdrive.env_wrapper import EnvWrapper
    from warpdrive.rollout import Rollout


class CriticInput(nn.Module, ABC):
    """Module that computes features common to all agents of a replica, followed by a one-hot agent index.

    Args:
        tag: policy tag whose values are estimated.
        num_agents: number of agents of the policy tag.
        shared: number of common features.
        own: observation space of an agent that sees its own observation as well, between the two; or None.
        death_masks: If True, all but the index is zero for agents out of the episode.

    Attributes:
        size: number of elements of a row.
        death_masks: as given.
    """

    which: Tensor

    def __init__(
        self, tag: str, num_agents: int, shared: int, own: Space[Any] | None = None, death_masks: bool = False
    ) -> None:
        super().__init__()
        self.register_buffer("which", torch.eye(num_agents), persistent=False)
        self.tag, self.own, self.death_masks = tag, None if own is None else Flatten(own), death_masks
        self.size = shared + (0 if self.own is None else self.own.size) + num_agents

    @abstractmethod
    def recorded(self, rollout: Rollout, final: bool) -> Tensor:
        """Return common features ``[steps, num_envs, shared]`` float32.

        Args:
            rollout: the rollout.
            final: If True, features ``[slots, ...]`` of the final states of truncated episodes.
        """

    @abstractmethod
    def present(self, env: EnvWrapper) -> Tensor:
        """Return the current common features ``[num_envs, shared]`` float32, before the next step."""

    def of(self, rollout: Rollout, final: bool = False) -> Tensor:
        """Return rows ``[steps (or slots) x num_envs x agents of the tag, size]`` float32; see :meth:`recorded`."""
        seen = rollout.of("final_observations" if final else "observations", self.tag)
        absent = rollout.absent(self.tag, final) if self.death_masks else None
        return self._for_each_agent(self.recorded(rollout, final), seen, absent).flatten(0, 2)

    def now(self, env: EnvWrapper) -> Tensor:
        """Return the current rows ``[num_envs, agents of the tag, size]`` float32, before the next step."""
        active = env.active(self.tag) if self.death_masks else None
        absent = None if active is None else ~active
        return self._for_each_agent(self.present(env), observations_of(env, self.tag), absent)

    def _for_each_agent(self, shared: Tensor, seen: Observations, absent: Tensor | None) -> Tensor:
        features = shared.unsqueeze(-2).expand(*shared.shape[:-1], len(self.which), -1)
        if self.own is not None:
            features = torch.cat([features, self.own(seen)], dim=-1)
        if absent is not None:
            features = features.masked_fill(absent.unsqueeze(-1), 0.0)
        return torch.cat([features, self.which.expand(*features.shape[:-1], -1)], dim=-1)


class JointObservations(CriticInput):
    """Concatenated observations of all agents of all tags; zeros for agents out of the episode.

    Args:
        spaces: observation space of one agent, by policy tag.
        counts: number of agents, by policy tag.
        tag: see ``CriticInput``.
        death_masks: see ``CriticInput``.
    """

    def __init__(
        self, tag: str, spaces: Mapping[str, Space[Any]], counts: Mapping[str, int], death_masks: bool = False
    ) -> None:
        parts = [Flatten(space) for space in spaces.values()]
        shared = sum(part.size * counts[name] for part, name in zip(parts, spaces, strict=True))
        super().__init__(tag, counts[tag], shared, death_masks=death_masks)
        self.flatten, self.tags = nn.ModuleList(parts), list(spaces)

    def recorded(self, rollout: Rollout, final: bool) -> Tensor:
        """See ``CriticInput``."""
        name = "final_observations" if final else "observations"
        return self._side_by_side({tag: rollout.of(name, tag) for tag in self.tags})

    def present(self, env: EnvWrapper) -> Tensor:
        """See ``CriticInput``."""
        return self._side_by_side({tag: observations_of(env, tag) for tag in self.tags})

    def _side_by_side(self, seen: Mapping[str, Any]) -> Tensor:
        """Flatten ``[..., agents of the tag, *shape]`` to ``[..., agents of the tag x size]``; join all tags."""
        flat = [part(seen[tag]).flatten(-2) for part, tag in zip(self.flatten, self.tags, strict=True)]
        return torch.cat(flat, dim=-1)


class GlobalState(CriticInput):
    """Flattened and concatenated arrays of an environment's ``global_state``.

    Args:
        tag: see ``CriticInput``.
        num_agents: number of agents of the policy tag.
        sizes: number of elements of each array in a replica, by name.
        own: see ``CriticInput``.
        death_masks: see ``CriticInput``.
    """

    def __init__(
        self,
        tag: str,
        num_agents: int,
        sizes: Mapping[str, int],
        own: Space[Any] | None = None,
        death_masks: bool = False,
    ) -> None:
        super().__init__(tag, num_agents, sum(sizes.values()), own, death_masks)
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
