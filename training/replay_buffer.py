"""Old experience of the agents that share a policy, kept on the device to learn from again and again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from warpdrive.errors import ConfigError
from warpdrive.observations import Observations, mapped, tensors
from warpdrive.rollout import Rollout, of_agents
from warpdrive.training.rows import Rows


@dataclass(frozen=True)
class Transitions(Rows):
    """Steps of single agents; every tensor's first axis is the row.

    Attributes:
        observations: ``[rows, *observation_shape]``, before the step; by key where the space is a Dict.
        actions: as the rollout has them: ``[rows]`` or ``[rows, parts]`` int32, or ``[rows, *shape]`` float32 as drawn.
        rewards: ``[rows]`` float32.
        next_observations: ``[rows, *observation_shape]``, after the step: of the same episode, even where that ended.
        terminal: ``[rows]`` bool: nothing comes after the step for this agent, because the episode terminated (which a
            time limit does not do) or the agent left it.
        weight: ``[rows]`` float32, 1 where the agent was in the episode and 0 where not.
        next_action_mask: ``[rows, choices]`` bool, what the agent could do next, or None.
    """

    observations: Observations
    actions: Tensor
    rewards: Tensor
    next_observations: Observations
    terminal: Tensor
    weight: Tensor
    next_action_mask: Tensor | None = None


@torch.no_grad()
def transitions_of(rollout: Rollout, tag: str) -> Transitions:
    """The steps of the agents of ``tag`` in a full rollout: rows over time x replica x agent, in that order."""
    terminated = rollout.terminated.unsqueeze(-1)
    terminal = terminated.expand(rollout.of("rewards", tag).shape)
    weight = torch.ones_like(terminal, dtype=torch.float32)
    if rollout.active is not None:
        terminal = terminal | ~rollout.of("still_active", tag)
        weight = rollout.of("active", tag).float()
    next_mask = None
    if rollout.action_mask is not None:
        present = of_agents(rollout.context["action_mask"], rollout.agents[tag], dim=1)
        next_mask = torch.cat([rollout.of("action_mask", tag)[1:], present.unsqueeze(0)])
        next_mask = _or_final(next_mask, rollout.of("final_action_mask", tag), rollout.final_slot).flatten(0, 2)
    observations: Observations = rollout.of("observations", tag)
    final = tensors(rollout.of("final_observations", tag))
    following = mapped(lambda seen: _or_final(seen[1:], next(final), rollout.final_slot).flatten(0, 2), observations)
    return Transitions(
        observations=mapped(lambda seen: seen[:-1].flatten(0, 2), observations),
        actions=rollout.of("actions", tag).flatten(0, 2),
        rewards=rollout.of("rewards", tag).flatten(),
        next_observations=following,
        terminal=terminal.flatten(),
        weight=weight.flatten(),
        next_action_mask=next_mask,
    )


def _or_final(following: Tensor, final: Tensor, final_slot: Tensor) -> Tensor:
    """``following [T, num_envs, ...]``, but where an episode was truncated its end instead of the next one's start."""
    replica = torch.arange(following.shape[1], device=following.device)
    ends = final[final_slot.long().clamp(min=0), replica]
    truncated = (final_slot >= 0).view(*final_slot.shape, *[1] * (following.dim() - 2))
    return torch.where(truncated, ends, following)


class ReplayBuffer:
    """The last transitions of the agents of a policy tag; the newest take the place of the oldest.

    Args:
        tag: the policy tag.
        capacity: how many transitions there is room for.
        device: where they are kept.

    Attributes:
        env_steps: environment steps seen so far.
        size: transitions that are there.
    """

    def __init__(self, tag: str, capacity: int, device: torch.device) -> None:
        self.tag, self.capacity, self.device = tag, capacity, device
        self.env_steps = self.size = self._place = 0
        self._memory: dict[str, Observations] = {}

    def of(self, rollout: Rollout) -> ReplayBuffer:
        """Add the steps of a full rollout; return the buffer."""
        self.add(transitions_of(rollout, self.tag))
        self.env_steps += rollout.terminated.numel()
        return self

    def add(self, new: Transitions) -> None:
        """Add transitions, at most ``capacity``. Where they go is known without asking the device."""
        assert len(new) <= self.capacity, "the configuration is checked for this"
        columns = {name: column for name, column in vars(new).items() if column is not None}
        if not self._memory:
            self._allocate(columns)
        first = min(len(new), self.capacity - self._place)
        for name, column in columns.items():
            for kept, added in zip(tensors(self._memory[name]), tensors(column), strict=True):
                kept[self._place : self._place + first].copy_(added[:first])
                kept[: len(new) - first].copy_(added[first:])
        self._place = (self._place + len(new)) % self.capacity
        self.size = min(self.size + len(new), self.capacity)

    def sample(self, count: int, generator: torch.Generator) -> Transitions:
        """``count`` transitions drawn uniformly, with replacement."""
        rows = torch.randint(self.size, (count,), generator=generator, device=self.device)
        taken: dict[str, Any] = {name: mapped(itemgetter(rows), column) for name, column in self._memory.items()}
        return Transitions(**taken)

    def state_dict(self) -> dict[str, Any]:
        """All that is there: copies of its columns, and numbers."""
        there = slice(self.size)
        columns = {name: mapped(lambda kept: kept[there].clone(), column) for name, column in self._memory.items()}
        return {"columns": columns, "place": self._place, "env_steps": self.env_steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become as another buffer of the same capacity was when its state was taken."""
        self._memory, self._place, self.size = {}, 0, 0
        if state["columns"]:
            missing: set[str] = {field.name for field in fields(Transitions)} - state["columns"].keys()
            columns: dict[str, Any] = {name: mapped(self._here, column) for name, column in state["columns"].items()}
            self.add(Transitions(**{**dict.fromkeys(missing), **columns}))
        self._place, self.env_steps = state["place"], state["env_steps"]

    def _here(self, column: Tensor) -> Tensor:
        return column.to(self.device)

    def _empty(self, column: Tensor) -> Tensor:
        return column.new_empty(self.capacity, *column.shape[1:])

    def _allocate(self, columns: dict[str, Observations]) -> None:
        try:
            self._memory = {name: mapped(self._empty, column) for name, column in columns.items()}
        except RuntimeError as error:  # what PyTorch raises when an allocation fails, on any device
            needed = sum(int(part[0].nbytes) for part in tensors(columns)) * self.capacity / 2**30
            raise ConfigError(
                f"policy.{self.tag}.buffer_size: found {self.capacity}, "
                f"expected fewer transitions: these need {needed:.1f} GiB, more than {self.device} has"
            ) from error
