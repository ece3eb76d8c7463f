"""Copy of a rollout for updates, possibly on another device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from warpdrive.device_context import DeviceContext
from warpdrive.observations import mapped, tensors
from warpdrive.rollout import Rollout
from warpdrive.training.rollout.actor_copies import at

_NOT_COPIED = ("context", "agents", "by_tag", "seen", "launch", "steps_recorded", "memory")
_READ_FROM_CONTEXT = ("action_mask",)
"""Arrays of the replicas, as they are after the last step, that updates read."""


class RolloutCopy:
    """Copy of a rollout on another device, refreshed on request.

    Args:
        source: The rollout.
        device: Device of the copy.

    Attributes:
        rollout: The copy, for reading only. The addresses of its tensors do not change.
    """

    def __init__(self, source: Rollout, device: torch.device) -> None:
        self.source, self.device = source, device
        context = DeviceContext(device, source.context.num_envs)
        for name in _READ_FROM_CONTEXT:
            if name in source.context:
                context.put(name, torch.zeros_like(source.context[name], device=device))
        copied: dict[str, Any] = {
            field.name: mapped(lambda tensor: torch.zeros_like(tensor, device=device), value)
            for field in fields(source)
            if field.name not in _NOT_COPIED and (value := getattr(source, field.name)) is not None
        }
        agents = {tag: ids.to(device) if isinstance(ids, Tensor) else ids for tag, ids in source.agents.items()}
        self.rollout = replace(source, **copied, context=context, agents=agents, seen=(), launch=_refuse)

    @torch.no_grad()
    def refresh(self) -> Rollout:
        """Copy the current contents of the rollout, through host memory if the devices differ. Returns the copy."""
        sources, targets = list(_tensors(self.source)), list(_tensors(self.rollout))
        for arrived, target in zip(at(sources, self.device), targets, strict=True):
            target.copy_(arrived)
        memory = self.source.memory
        self.rollout.memory = dict(zip(memory, at(list(memory.values()), self.device), strict=True))
        self.rollout.steps_recorded = self.source.steps_recorded
        return self.rollout


def _tensors(rollout: Rollout) -> Iterator[Tensor]:
    for field in fields(rollout):
        value: Any = getattr(rollout, field.name)
        if field.name not in _NOT_COPIED and value is not None:
            yield from tensors(value)
    yield from (rollout.context[name] for name in _READ_FROM_CONTEXT if name in rollout.context)


def _refuse() -> None:
    raise RuntimeError("this is the copy of a rollout that policies learn from: steps are recorded into the other")
