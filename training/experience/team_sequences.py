"""Replay buffer of sequences of teams: the agents of a policy tag, which learn together.

An entry is a rollout of one replica, with the recurrent state before its first step (stored state: Kapturowski et al.
2019, "Recurrent experience replay in distributed reinforcement learning") and flags of the steps with which episodes
begin. Where rollouts are as long as episodes, and these all last to the time limit, an entry is a whole episode from a
zero state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from warpdrive.errors import ConfigError
from warpdrive.observations import Observations, mapped, tensors
from warpdrive.training.distributed.process_group import SINGLE_PROCESS, UNSHARDED, ProcessGroup, Sharding
from warpdrive.training.experience.masked_rows import Rows
from warpdrive.training.experience.sequences import sequences_of
from warpdrive.training.experience.transitions import next_action_mask, or_final
from warpdrive.training.models.critic_inputs import SharedInput

if TYPE_CHECKING:
    from warpdrive.rollout import Rollout


@dataclass(frozen=True)
class TeamSequences(Rows):
    """Sequences of ``T`` steps of ``B`` teams of ``A`` agents.

    Attributes:
        observations: ``[T + 1, B, A, *observation_shape]``, before each step and after the last one; by key for a Dict
            space.
        final_observations: ``[slots, B, A, *observation_shape]``, the last ones of truncated episodes.
        final_slot: ``[T, B]`` int32, index in ``final_observations`` of a truncation in the step, else -1.
        start: ``[B, A, state_size]`` float32, recurrent states before the first step.
        begins: ``[T + 1, B, A]`` bool, True where the recurrent state is reset to zero before the step.
        actions: ``[T, B, A]`` int32.
        rewards: ``[T, B]`` float32, rewards of the team.
        terminal: ``[T, B]`` bool, True if the episode terminated in the step.
        ended: ``[T, B]`` bool, True if the episode ended in the step.
        weight: ``[T * B]`` float32, 1 where an agent was in the episode, else 0.
        active: ``[T, B, A]`` bool, True if the agent was in the episode; None: always.
        still_active: ``[T, B, A]`` bool, True if it still was after the step; None: always.
        next_action_mask: ``[T, B, A, choices]`` bool, allowed actions after the step, or None.
        states: ``[T, B, size]`` float32, inputs of the mixer before each step, or None.
        next_states: ``[T, B, size]`` float32, those after each step, of the same episode, or None.
        sharding: Distribution of a minibatch over processes; each has a part, see ``ProcessGroup.part``.
    """

    observations: Observations
    final_observations: Observations
    final_slot: Tensor
    start: Tensor
    begins: Tensor
    actions: Tensor
    rewards: Tensor
    terminal: Tensor
    ended: Tensor
    weight: Tensor
    active: Tensor | None = None
    still_active: Tensor | None = None
    next_action_mask: Tensor | None = None
    states: Tensor | None = None
    next_states: Tensor | None = None
    sharding: Sharding = UNSHARDED


@torch.no_grad()
def team_columns(
    rollout: Rollout, tag: str, returns_after_leaving: bool, is_shared: bool, mixer_input: SharedInput | None
) -> dict[str, Observations]:
    """Return a rollout as entries of a buffer of sequences, ``[num_envs, ...]`` by name, see :class:`TeamSequences`.

    Args:
        rollout: ``num_steps`` recorded steps.
        tag: Policy tag.
        returns_after_leaving: If True, rewards of agents that have left the episode count.
        is_shared: If True, each agent has the reward of the team, else a part of it.
        mixer_input: Computes the inputs of the mixer; None: it has none.
    """
    rewards, observations = rollout.of("rewards", tag), rollout.of("observations", tag)
    if rollout.active is not None and not returns_after_leaving and not is_shared:
        rewards = rewards * rollout.of("active", tag)
    columns: dict[str, Any] = {
        "observations": observations,
        "final_observations": rollout.of("final_observations", tag),
        "final_slot": rollout.final_slot,
        "actions": rollout.of("actions", tag),
        "rewards": rewards.mean(-1) if is_shared else rewards.sum(-1),
        "terminal": rollout.terminated,
        "ended": rollout.terminated | rollout.truncated,
        "weight": torch.ones_like(rewards[..., 0]),
    }
    if rollout.active is not None:
        columns |= {name: rollout.of(name, tag) for name in ("active", "still_active")}
        columns["weight"] = columns["active"].any(-1).float()
    if rollout.action_mask is not None:
        columns["next_action_mask"] = next_action_mask(rollout, tag)
    if mixer_input is not None:
        states = mixer_input.recorded(rollout, final=False)
        columns["states"] = states[:-1]
        columns["next_states"] = or_final(states[1:], mixer_input.recorded(rollout, final=True), rollout.final_slot)
    sequences, (envs, agents) = sequences_of(rollout, tag), rewards.shape[1:]
    if sequences is None:
        columns["begins"] = rewards.new_zeros(len(rewards) + 1, envs, agents, dtype=torch.bool)
        start = rewards.new_zeros(envs, agents, 0)
    else:
        columns["begins"] = sequences.begins.unflatten(1, (envs, agents))
        start = sequences.start.unflatten(0, (envs, agents))
    columns = {name: mapped(lambda rows: rows.movedim(0, 1), column) for name, column in columns.items()}
    return {**columns, "start": start}


class SequenceBuffer:
    """Ring buffer of the last sequences of the team of a policy tag, one of each replica per rollout.

    Args:
        tag: Policy tag.
        capacity: Maximum number of sequences.
        device: Device of the buffer.
        returns_after_leaving: See :func:`team_columns`.
        is_shared: See :func:`team_columns`.
        mixer_input: See :func:`team_columns`.
        process_group: Process group of the training: each process stores all sequences, and trains on a part of each
            minibatch.

    Attributes:
        env_steps: Environment steps observed so far.
        size: Number of stored sequences.
    """

    def __init__(
        self,
        tag: str,
        capacity: int,
        device: torch.device,
        returns_after_leaving: bool = True,
        is_shared: bool = False,
        mixer_input: SharedInput | None = None,
        process_group: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        self.tag, self.capacity, self.device, self.process_group = tag, capacity, device, process_group
        self._options = returns_after_leaving, is_shared, mixer_input
        self.env_steps = self.size = self._place = self._added = 0
        self._memory: dict[str, Observations] = {}

    def of(self, rollout: Rollout) -> SequenceBuffer:
        """Add the sequences of a full rollout, and return the buffer."""
        self._add(team_columns(rollout, self.tag, *self._options))
        self.env_steps += rollout.terminated.numel()
        return self

    def _add(self, columns: Mapping[str, Observations]) -> None:
        count = len(next(tensors(columns["rewards"])))
        assert count <= self.capacity, "the configuration is checked for this"
        if not self._memory:
            self._allocate(columns)
        first = min(count, self.capacity - self._place)
        for name, column in columns.items():
            for kept, added in zip(tensors(self._memory[name]), tensors(column), strict=True):
                kept[self._place : self._place + first].copy_(added[:first])
                kept[: count - first].copy_(added[first:])
        self._place, self._added = (self._place + count) % self.capacity, count
        self.size = min(self.size + count, self.capacity)

    @property
    def is_empty(self) -> bool:
        """True if no sequences are stored."""
        return self.size == 0

    @property
    def newest(self) -> TeamSequences:
        """The sequences that were added last."""
        places = torch.arange(self._place - self._added, self._place, device=self.device) % self.capacity
        return self._taken(places, UNSHARDED)

    def sample(self, count: int, generator: torch.Generator) -> TeamSequences:
        """Sample ``count`` sequences uniformly with replacement, of several processes this one's part."""
        drawn = torch.randint(self.size, (count,), generator=generator, device=self.device)
        return self._taken(drawn[self.process_group.part(count)], Sharding(self.process_group))

    def _taken(self, index: Tensor, sharding: Sharding) -> TeamSequences:
        taken: dict[str, Any] = {
            name: mapped(lambda kept: kept[index].movedim(0, 1), column)
            for name, column in self._memory.items()
            if name != "start"
        }
        start = self._memory["start"]
        assert isinstance(start, Tensor)
        taken |= {"weight": taken["weight"].flatten(), "start": start[index], "sharding": sharding}
        return TeamSequences(**taken)

    def fill(self) -> int:
        """Repeat the contents until the buffer is full, as after a long run. Returns its bytes."""
        before = self.size
        while 0 < self.size < self.capacity:
            there = slice(min(self.size, self.capacity - self.size))
            self._add({name: mapped(itemgetter(there), kept) for name, kept in self._memory.items()})
        return sum(int(kept[0].nbytes) for column in self._memory.values() for kept in tensors(column)) * (
            self.size - before
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the contents: copies of the columns, and numbers."""
        there = slice(self.size)
        columns = {name: mapped(lambda kept: kept[there].clone(), column) for name, column in self._memory.items()}
        return {"columns": columns, "place": self._place, "env_steps": self.env_steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a buffer of the same capacity."""
        self._memory, self._place, self.size = {}, 0, 0
        if state["columns"]:
            self._add({name: mapped(lambda rows: rows.to(self.device), c) for name, c in state["columns"].items()})
        self._place, self.env_steps = state["place"], state["env_steps"]

    def _allocate(self, columns: Mapping[str, Observations]) -> None:
        try:
            self._memory = {
                name: mapped(lambda rows: rows.new_zeros(self.capacity, *rows.shape[1:]), column)
                for name, column in columns.items()
            }
        except RuntimeError as error:  # failed allocation, on any device
            needed = sum(int(part[0].nbytes) for c in columns.values() for part in tensors(c)) * self.capacity / 2**30
            raise ConfigError(
                f"policy.{self.tag}.buffer_size: found {self.capacity}, "
                f"expected fewer sequences: these need {needed:.1f} GiB, more than {self.device} has"
            ) from error
