"""Inputs of a centralised critic: the observations of all agents, or the environment's own global state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from gymnasium import Space
from torch import Tensor, nn

from warpdrive.training.models.base import observations_of
from warpdrive.training.models.flatten import Flatten

if TYPE_CHECKING:
    from warpdrive.env_wrapper import EnvWrapper
    from warpdrive.rollout import Rollout


class RowLayout(NamedTuple):
    """Number of elements of each part of :class:`CriticRows`, and of agents."""

    own: int
    common: int
    which: int
    agents: int


@dataclass(frozen=True)
class CriticRows:
    """Input of a centralised critic, a row for each agent, with the shared elements stored once per replica.

    Row ``r`` consists of ``own[r]``, ``common[r // agents]`` and ``which[r % agents]``.

    Attributes:
        own: ``[rows, elements]`` float32, of each agent.
        common: ``[rows / agents, elements]`` float32, of all agents of a replica.
        which: ``[agents, elements]`` float32, the same at each step: the one-hot index of the agent.
    """

    own: Tensor
    common: Tensor
    which: Tensor

    def __len__(self) -> int:
        return len(self.own)

    @property
    def layout(self) -> RowLayout:
        """Sizes of the parts."""
        return RowLayout(self.own.shape[1], self.common.shape[1], self.which.shape[1], len(self.which))

    @property
    def _is_plain(self) -> bool:
        return self.common.shape[1] + self.which.shape[1] == 0

    def all(self) -> Tensor:
        """Return all rows ``[rows, size]``."""
        if self._is_plain:
            return self.own
        agents, replicas = len(self.which), len(self.common)
        common = self.common.unsqueeze(1).expand(-1, agents, -1)
        which = self.which.expand(replicas, -1, -1)
        return torch.cat([self.own.unflatten(0, (replicas, agents)), common, which], dim=-1).flatten(0, 1)

    def between(self, first: int, last: int) -> CriticRows:
        """Return the rows from ``first`` to before ``last``, those of whole replicas."""
        agents = len(self.which)
        return replace(self, own=self.own[first:last], common=self.common[first // agents : last // agents])

    def taken(self, take: Callable[[Tensor], Tensor]) -> CriticRows:
        """Return the rows that a function takes of any tensor of rows, stored one by one."""
        if self._is_plain:
            rows = take(self.own)
        else:
            number, agents = take(torch.arange(len(self), device=self.own.device)), len(self.which)
            rows = torch.cat([self.own[number], self.common[number // agents], self.which[number % agents]], dim=-1)
        return CriticRows(rows, rows.new_empty(len(rows), 0), rows.new_empty(1, 0))


class CriticInput(nn.Module, ABC):
    """Module that computes the input of a centralised critic, a row for each agent of a policy tag.

    Attributes:
        size: Number of elements of a row.
        uses_global_state: True if rows are computed from the environment's global state.
    """

    size: int
    uses_global_state: bool = False

    @abstractmethod
    def of(self, rollout: Rollout, final: bool = False) -> CriticRows:
        """Return rows over step x replica x agent of the tag.

        Args:
            rollout: The rollout.
            final: If True, rows ``[slots x ...]`` of the final states of truncated episodes.
        """

    @abstractmethod
    def now(self, env: EnvWrapper) -> Tensor:
        """Return the current rows ``[num_envs, agents of the tag, size]`` float32, before the next step."""


class SharedInput(CriticInput):
    """Features common to all agents of a replica, followed by a one-hot agent index.

    Args:
        num_agents: Number of agents of the policy tag.
        shared: Number of common features.
    """

    which: Tensor

    def __init__(self, num_agents: int, shared: int) -> None:
        super().__init__()
        self.register_buffer("which", torch.eye(num_agents), persistent=False)
        self.size = shared + num_agents

    @abstractmethod
    def recorded(self, rollout: Rollout, final: bool) -> Tensor:
        """Return common features ``[steps, num_envs, shared]`` float32.

        Args:
            rollout: The rollout.
            final: If True, features ``[slots, ...]`` of the final states of truncated episodes.
        """

    @abstractmethod
    def present(self, env: EnvWrapper) -> Tensor:
        """Return the current common features ``[num_envs, shared]`` float32, before the next step."""

    def of(self, rollout: Rollout, final: bool = False) -> CriticRows:
        """See ``CriticInput``."""
        return self._rows(self.recorded(rollout, final).flatten(0, 1))

    def now(self, env: EnvWrapper) -> Tensor:
        """See ``CriticInput``."""
        present = self.present(env)
        return self._rows(present).all().view(len(present), len(self.which), -1)

    def _rows(self, common: Tensor) -> CriticRows:
        return CriticRows(common.new_empty(len(common) * len(self.which), 0), common, self.which)


class JointObservations(SharedInput):
    """Concatenated observations of all agents of all tags; zeros for agents out of the episode.

    Args:
        spaces: Observation space of one agent, by policy tag.
        counts: Number of agents, by policy tag.
        tag: Policy tag whose values are estimated.
    """

    def __init__(self, tag: str, spaces: Mapping[str, Space[Any]], counts: Mapping[str, int]) -> None:
        parts = [Flatten(space) for space in spaces.values()]
        super().__init__(counts[tag], sum(part.size * counts[name] for part, name in zip(parts, spaces, strict=True)))
        self.flatten, self.tags = nn.ModuleList(parts), list(spaces)

    def recorded(self, rollout: Rollout, final: bool) -> Tensor:
        """See ``SharedInput``."""
        name = "final_observations" if final else "observations"
        return self._side_by_side({tag: rollout.of(name, tag) for tag in self.tags})

    def present(self, env: EnvWrapper) -> Tensor:
        """See ``SharedInput``."""
        return self._side_by_side({tag: observations_of(env, tag) for tag in self.tags})

    def _side_by_side(self, seen: Mapping[str, Any]) -> Tensor:
        """Flatten ``[..., agents of the tag, *shape]`` to ``[..., agents of the tag x size]``; join all tags."""
        flat = [part(seen[tag]).flatten(-2) for part, tag in zip(self.flatten, self.tags, strict=True)]
        return torch.cat(flat, dim=-1)


class GlobalState(SharedInput):
    """Flattened and concatenated arrays of an environment's ``global_state``.

    Args:
        num_agents: Number of agents of the policy tag.
        sizes: Number of elements of each array in a replica, by name.
    """

    uses_global_state = True

    def __init__(self, num_agents: int, sizes: Mapping[str, int]) -> None:
        super().__init__(num_agents, sum(sizes.values()))
        self.names = list(sizes)

    def recorded(self, rollout: Rollout, final: bool) -> Tensor:
        """See ``SharedInput``."""
        return self._side_by_side(rollout.final_global_state if final else rollout.global_state, leading=2)

    def present(self, env: EnvWrapper) -> Tensor:
        """See ``SharedInput``."""
        return self._side_by_side({name: env.ctx[name] for name in self.names}, leading=1)

    def _side_by_side(self, arrays: Mapping[str, Tensor], leading: int) -> Tensor:
        flat = [arrays[name].reshape(*arrays[name].shape[:leading], -1).float() for name in self.names]
        return torch.cat(flat, dim=-1)


class AgentSpecific(CriticInput):
    """Own observation of each agent, followed by the rows of another input.

    Agent-specific global state of Yu et al. (2022, arXiv:2103.01955), without removing features that both parts
    contain.

    Args:
        tag: Policy tag whose values are estimated.
        space: Observation space of one of its agents.
        shared: Computes the features common to all agents.
    """

    def __init__(self, tag: str, space: Space[Any], shared: SharedInput) -> None:
        super().__init__()
        self.tag, self.flatten, self.shared = tag, Flatten(space), shared
        self.size, self.uses_global_state = self.flatten.size + shared.size, shared.uses_global_state

    def of(self, rollout: Rollout, final: bool = False) -> CriticRows:
        """See ``CriticInput``."""
        own = self.flatten(rollout.of("final_observations" if final else "observations", self.tag))
        return replace(self.shared.of(rollout, final), own=own.flatten(0, 2))

    def now(self, env: EnvWrapper) -> Tensor:
        """See ``CriticInput``."""
        return torch.cat([self.flatten(observations_of(env, self.tag)), self.shared.now(env)], dim=-1)
