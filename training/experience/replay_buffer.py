"""Replay buffer of the agents that share a policy, on the device."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from warpdrive.errors import ConfigError
from warpdrive.observations import Observations, mapped, tensors
from warpdrive.training.distributed.process_group import SINGLE_PROCESS, ProcessGroup, Sharding
from warpdrive.training.experience.n_step import NStep, StepsUntilBack
from warpdrive.training.experience.transitions import Transitions, ended, transitions_of

if TYPE_CHECKING:
    from warpdrive.rollout import Rollout


class ReplayBuffer:
    """Ring buffer of the last transitions of the agents of a policy tag.

    Args:
        tag: Policy tag.
        capacity: Maximum number of transitions.
        device: Device of the buffer.
        n_step: Converts single steps to multi-step transitions; None: single steps are stored.
        process_group: Process group of the training: each process stores all transitions, and trains on a part of each
            minibatch.
        until_back: Converts single steps if returns include rewards after an agent has left; None: returns end when an
            agent leaves, see ``ReturnsConfig``.

    Attributes:
        env_steps: Environment steps observed so far.
        size: Number of stored transitions; if agents leave their episodes, a scalar on the device.
    """

    size: int | Tensor

    def __init__(
        self,
        tag: str,
        capacity: int,
        device: torch.device,
        n_step: NStep | None = None,
        process_group: ProcessGroup = SINGLE_PROCESS,
        until_back: StepsUntilBack | None = None,
    ) -> None:
        self.tag, self.capacity, self.device, self.process_group = tag, capacity, device, process_group
        self.n_step, self.until_back = n_step, until_back
        self.env_steps, self.size = 0, 0
        self._place: int | Tensor = 0
        self._memory: dict[str, Observations] = {}

    def of(self, rollout: Rollout) -> ReplayBuffer:
        """Add the steps of a full rollout, and return the buffer."""
        after_leaving = self.until_back is not None
        new = transitions_of(rollout, self.tag, after_leaving)
        if rollout.still_active is not None and self.until_back:
            stays = rollout.of("still_active", self.tag)
            new = self.until_back.of(new, ended(rollout, self.tag, after_leaving), stays)
        elif self.n_step:
            new = self.n_step.of(new, ended(rollout, self.tag, after_leaving))
        self.add(new, None if rollout.active is None else new.weight > 0)
        self.env_steps += rollout.terminated.numel()
        return self

    def add(self, new: Transitions, counts: Tensor | None = None) -> None:
        """Add transitions, at most ``capacity``: those where ``counts [rows]`` bool is True, or all.

        Without ``counts`` the new position is known on the host; with it only on the device.
        """
        columns = new.columns()
        if not self._memory:
            self._allocate(columns)
        if counts is not None:
            self._add_some(columns, counts)
            return
        assert len(new) <= self.capacity, "the configuration is checked for this"
        place = int(self._place)
        first = min(len(new), self.capacity - place)
        for name, column in columns.items():
            for kept, added in zip(tensors(self._memory[name]), tensors(column), strict=True):
                kept[place : place + first].copy_(added[:first])
                kept[: len(new) - first].copy_(added[first:])
        self._place = (place + len(new)) % self.capacity
        self.size = min(int(self.size) + len(new), self.capacity)

    def _add_some(self, columns: Mapping[str, Observations], counts: Tensor) -> None:
        """Write the rows that count to the next places; of more than ``capacity`` the last ones."""
        number, total = torch.arange(len(counts), device=self.device), counts.sum()
        # indices of these rows, in order; the others share one index after them
        order = number.new_zeros(len(counts) + 1)
        order[torch.where(counts, counts.cumsum(0) - 1, len(counts))] = number
        # All rows are written: those that do not count are replaced by repetitions of one that does.
        again = torch.maximum(torch.minimum(number, total - 1), total - self.capacity).clamp(min=0)
        source, places = order[again], (self._place + again) % self.capacity
        for name, column in columns.items():
            for kept, added in zip(tensors(self._memory[name]), tensors(column), strict=True):
                kept[places] = torch.where(total > 0, added[source], kept[places])
        self._place = (total + self._place) % self.capacity
        self.size = (total + self.size).clamp(max=self.capacity)

    def fill(self) -> int:
        """Repeat the contents until the buffer is full, as after a long run. Returns its bytes."""
        before = self.size = int(self.size)
        while 0 < self.size < self.capacity:
            there = slice(min(self.size, self.capacity - self.size))
            columns: dict[str, Any] = {name: mapped(itemgetter(there), kept) for name, kept in self._memory.items()}
            self.add(Transitions(**columns))
        row = sum(int(kept[0].nbytes) for column in self._memory.values() for kept in tensors(column))
        return row * (self.size - before)

    def sample(self, count: int, generator: torch.Generator) -> Transitions:
        """Sample ``count`` transitions uniformly with replacement, of several processes this one's part."""
        return self.rows(self.draw(count, generator), count)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Return the indices of :meth:`sample`: this process's part of ``count``."""
        if isinstance(self.size, int):
            drawn = torch.randint(self.size, (count,), generator=generator, device=self.device)
        else:  # if the buffer is empty, a row of weight 0
            uniform = torch.rand(count, generator=generator, device=self.device, dtype=torch.float64)
            drawn = (uniform * self.size).long()
        return drawn[self.process_group.part(count)]

    def rows(self, rows: Tensor, count: int) -> Transitions:
        """Return the transitions with the indices ``rows``, this process's part of a minibatch of ``count``."""
        taken: dict[str, Any] = {name: mapped(itemgetter(rows), column) for name, column in self._memory.items()}
        return Transitions(**taken, sharding=Sharding(self.process_group), drawn=count)

    def state_dict(self) -> dict[str, Any]:
        """Return the contents: copies of the columns, and numbers."""
        there = slice(int(self.size))
        columns = {name: mapped(lambda kept: kept[there].clone(), column) for name, column in self._memory.items()}
        state = {"columns": columns, "place": int(self._place), "env_steps": self.env_steps}
        for name, part in self._joining().items():
            state[name] = part.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a buffer of the same capacity."""
        self._memory, self._place, self.size = {}, 0, 0
        if state["columns"]:
            columns: dict[str, Any] = {name: mapped(self._here, column) for name, column in state["columns"].items()}
            self.add(Transitions(**columns))
        self._place, self.env_steps = state["place"], state["env_steps"]
        for name, part in self._joining().items():
            if name in state:  # missing in older checkpoints
                part.load_state_dict(state[name], self.device)

    def _joining(self) -> dict[str, NStep | StepsUntilBack]:
        """Return the multi-step converters, by their names in checkpoints."""
        return {name: part for name in ("n_step", "until_back") if (part := getattr(self, name)) is not None}

    @property
    def is_empty(self) -> bool:
        """True if the buffer is empty, as far as known without synchronising with the device."""
        return isinstance(self.size, int) and self.size == 0

    def _here(self, column: Tensor) -> Tensor:
        return column.to(self.device)

    def _empty(self, column: Tensor) -> Tensor:
        return column.new_zeros(self.capacity, *column.shape[1:])

    def _allocate(self, columns: dict[str, Observations]) -> None:
        try:
            self._memory = {name: mapped(self._empty, column) for name, column in columns.items()}
        except RuntimeError as error:  # failed allocation, on any device
            needed = sum(int(part[0].nbytes) for part in tensors(columns)) * self.capacity / 2**30
            raise ConfigError(
                f"policy.{self.tag}.buffer_size: found {self.capacity}, "
                f"expected fewer transitions: these need {needed:.1f} GiB, more than {self.device} has"
            ) from error
