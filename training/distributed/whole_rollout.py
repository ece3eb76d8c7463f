"""Gathering of the rollouts of all processes into that of a single process with all replicas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from warpdrive.observations import mapped, tensors
from warpdrive.rollout import Rollout
from warpdrive.training.distributed.process_group import ProcessGroup, Share

_BY_STEP_AND_REPLICA = (
    *("observations", "actions", "log_probabilities", "rewards", "terminated", "truncated"),
    *("active", "still_active", "action_mask", "final_observations", "final_action_mask", "final_slot"),
    *("global_state", "final_global_state"),
)
"""Rollout tensors with the axes ``[steps or slots, num_envs, ...]``."""

_PRESENT_MASK, _MEMORY = "present mask", "memory of "  # with the axes [num_envs, ...]


class WholeRollout:
    """Gathers the rollouts of all processes.

    Args:
        process_group: Process group.
        rollout: Rollout of this process's replicas.
        share: Range of this process's replicas.
    """

    def __init__(self, process_group: ProcessGroup, rollout: Rollout, share: Share) -> None:
        self.process_group, self.rollout, self.share = process_group, rollout, share
        self._whole: Rollout | None = None

    @torch.no_grad()
    def on_leader(self) -> Rollout | None:
        """Return the rollout of all replicas on rank 0, in the order of their global indices; None on other ranks.

        Each call returns the same object with the same tensors, overwritten.
        """
        return (
            self.rollout
            if self.process_group.world_size == 1
            else self._written(self.process_group.gather(self._own()))
        )

    @torch.no_grad()
    def on_all_ranks(self) -> Rollout:
        """Return the rollout of all replicas, on every process."""
        if self.process_group.world_size == 1:
            return self.rollout
        whole = self._written(self.process_group.all_gather(self._own()))
        assert whole is not None
        return whole

    def _own(self) -> dict[str, Tensor]:
        """Return the tensors of this process's replicas, with the replica as the first axis."""
        own = {f"{number:03}": part.transpose(0, 1) for number, part in enumerate(_parts(self.rollout))}
        if self.rollout.action_mask is not None:
            own[_PRESENT_MASK] = self.rollout.context["action_mask"]
        own |= {_MEMORY + tag: memory for tag, memory in self.rollout.memory.items()}
        return {name: rows[: self.share.count] for name, rows in own.items()}  # empty for a process that only learns

    def _written(self, rows: dict[str, Tensor] | None) -> Rollout | None:
        if rows is None:
            return None
        if self._whole is None:
            self._whole = self._allocated()
        present: Any = {"action_mask": rows.get(_PRESENT_MASK)}
        self._whole.context = present
        self._whole.memory = {tag: rows[_MEMORY + tag] for tag in self.rollout.memory}
        self._whole.steps_recorded = self.rollout.steps_recorded
        for number, part in enumerate(_parts(self._whole)):
            part.copy_(rows[f"{number:03}"].transpose(0, 1))
        return self._whole

    def _allocated(self) -> Rollout:
        def for_all(part: Tensor) -> Tensor:
            return part.new_empty(part.shape[0], self.share.total, *part.shape[2:])

        present = {name: getattr(self.rollout, name) for name in _BY_STEP_AND_REPLICA}
        parts: dict[str, Any] = {
            name: None if value is None else mapped(for_all, value) for name, value in present.items()
        }
        return replace(self.rollout, **parts, seen=[], launch=_cannot_be_stepped)


def _parts(rollout: Rollout) -> Iterator[Tensor]:
    for name in _BY_STEP_AND_REPLICA:
        value = getattr(rollout, name)
        if value is not None:
            yield from tensors(value)


def _cannot_be_stepped() -> NoReturn:
    raise AssertionError("the rollout of all processes is only read")
