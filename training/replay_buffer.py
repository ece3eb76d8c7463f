"""Old experience of the agents that share a policy, kept on the device to learn from again and again."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from warpdrive.errors import ConfigError
from warpdrive.observations import Observations, mapped, tensors
from warpdrive.rollout import Rollout
from warpdrive.training.distributed.team import ALONE, Spread, Team
from warpdrive.training.n_step import NStep
from warpdrive.training.transitions import Transitions, ended, transitions_of


class ReplayBuffer:
    """The last transitions of the agents of a policy tag; the newest take the place of the oldest.

    Args:
        tag: the policy tag.
        capacity: how many transitions there is room for.
        device: where they are kept.
        n_step: makes of single steps what is kept; None: they are.
        team: the processes that learn from them together: each keeps all, and gets a part of each sample.

    Attributes:
        env_steps: environment steps seen so far.
        size: transitions that are there.
    """

    def __init__(
        self, tag: str, capacity: int, device: torch.device, n_step: NStep | None = None, team: Team = ALONE
    ) -> None:
        self.tag, self.capacity, self.device, self.n_step, self.team = tag, capacity, device, n_step, team
        self.env_steps = self.size = self._place = 0
        self._memory: dict[str, Observations] = {}

    def of(self, rollout: Rollout) -> ReplayBuffer:
        """Add the steps of a full rollout; return the buffer."""
        new = transitions_of(rollout, self.tag)
        self.add(self.n_step.of(new, ended(rollout, self.tag)) if self.n_step else new)
        self.env_steps += rollout.terminated.numel()
        return self

    def add(self, new: Transitions) -> None:
        """Add transitions, at most ``capacity``. Where they go is known without asking the device."""
        assert len(new) <= self.capacity, "the configuration is checked for this"
        columns = new.columns()
        if not self._memory:
            self._allocate(columns)
        first = min(len(new), self.capacity - self._place)
        for name, column in columns.items():
            for kept, added in zip(tensors(self._memory[name]), tensors(column), strict=True):
                kept[self._place : self._place + first].copy_(added[:first])
                kept[: len(new) - first].copy_(added[first:])
        self._place = (self._place + len(new)) % self.capacity
        self.size = min(self.size + len(new), self.capacity)

    def fill(self) -> int:
        """Repeat what is there until it is full, as after a long run. Returns the bytes that this was."""
        before = self.size
        while 0 < self.size < self.capacity:
            there = slice(min(self.size, self.capacity - self.size))
            columns: dict[str, Any] = {name: mapped(itemgetter(there), kept) for name, kept in self._memory.items()}
            self.add(Transitions(**columns))
        row = sum(int(kept[0].nbytes) for column in self._memory.values() for kept in tensors(column))
        return row * (self.size - before)

    def sample(self, count: int, generator: torch.Generator) -> Transitions:
        """``count`` transitions drawn uniformly, with replacement; of several processes each gets its part of them."""
        drawn = torch.randint(self.size, (count,), generator=generator, device=self.device)
        rows = drawn[self.team.part(count)]
        taken: dict[str, Any] = {name: mapped(itemgetter(rows), column) for name, column in self._memory.items()}
        return Transitions(**taken, spread=Spread(self.team), drawn=count)

    def state_dict(self) -> dict[str, Any]:
        """All that is there: copies of its columns, and numbers."""
        there = slice(self.size)
        columns = {name: mapped(lambda kept: kept[there].clone(), column) for name, column in self._memory.items()}
        state = {"columns": columns, "place": self._place, "env_steps": self.env_steps}
        return {**state, "n_step": self.n_step.state_dict()} if self.n_step else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become as another buffer of the same capacity was when its state was taken."""
        self._memory, self._place, self.size = {}, 0, 0
        if state["columns"]:
            columns: dict[str, Any] = {name: mapped(self._here, column) for name, column in state["columns"].items()}
            self.add(Transitions(**columns))
        self._place, self.env_steps = state["place"], state["env_steps"]
        if self.n_step:
            self.n_step.load_state_dict(state["n_step"], self.device)

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
