"""Self-play: agents that act as a policy did earlier in its training."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn

from warpdrive.observations import Observations, mapped
from warpdrive.training.distributed.team import Share, Team
from warpdrive.training.models.base import Actor
from warpdrive.training.models.recurrent import Remembering
from warpdrive.training.opponents.base import Opponent
from warpdrive.training.sections import SelfPlayConfig


class SelfPlay(Opponent):
    """Acts as past versions of a model: in each rollout several of a pool, each in a part of the replicas.

    The pool is on the device, and what is drawn of it is copied there by numbers that are there, too, so the host waits
    for nothing. Where a rollout ends within an episode, the episode goes on with other versions.

    Args:
        config: the tag's section of the run configuration.
        learner: the model whose versions act. It is read, and never changed.
        share: the replicas of the rollouts.
        num_agents: the agents of the tag in each.
        generator: draws versions, on the device.
    """

    def __init__(
        self, config: SelfPlayConfig, learner: Actor, share: Share, num_agents: int, generator: torch.Generator
    ) -> None:
        self.config, self.model, self.generator = config, learner, generator
        self.pool = Pool(learner, config.pool_size, config.recency)
        self.members = [copy.deepcopy(learner).requires_grad_(False) for _ in range(config.at_once)]
        self.actor = Together(self.members, share).in_replicas(share.count, num_agents)
        self._taken_at: int | None = None

    def begin(self, updates: int) -> None:
        """See ``Opponent``: keep the present version, if it is time, and draw those that act in the rollout."""
        if self._taken_at is None or updates - self._taken_at >= self.config.snapshot_every:
            self.pool.add(self.model)
            self._taken_at = updates
        for slot, member in zip(self.pool.draw(len(self.members), self.generator), self.members, strict=True):
            self.pool.put(slot, member)

    def state_dict(self) -> dict[str, Any]:
        """See ``Opponent``."""
        return {
            "pool": self.pool.state_dict(),
            "taken_at": self._taken_at,
            "device": self.generator.device.type,
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See ``Opponent``."""
        self.pool.load_state_dict(state["pool"])
        self._taken_at = state["taken_at"]
        if state["device"] == self.generator.device.type:  # each kind of device has a generator of its own
            self.generator.set_state(state["generator"])


class Pool:
    """The last versions of a model, where the model is.

    Args:
        model: whose parameters and persistent buffers are kept.
        size: how many versions are kept; a new one takes the place of the oldest.
        recency: the probability to draw a version, relative to that of the next newer one.

    Attributes:
        versions: ``[size, *shape]``, by the names of the model's parameters and buffers.
        added: how many versions there have been.
    """

    def __init__(self, model: nn.Module, size: int, recency: float) -> None:
        self.size, self.recency, self.added = size, recency, 0
        self.versions = {name: part.new_zeros((size, *part.shape)) for name, part in model.state_dict().items()}
        self._device = next(model.parameters()).device

    @torch.no_grad()
    def add(self, model: nn.Module) -> None:
        """Keep what ``model`` is now, as a copy."""
        for name, part in model.state_dict().items():
            self.versions[name][self.added % self.size].copy_(part)
        self.added += 1

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Slots of versions, ``[count]`` int64 on the device; there must be a version."""
        held = min(self.added, self.size)
        age = (self.added - 1 - torch.arange(held, device=self._device)) % self.size
        edges = (self.recency**age).cumsum(0)
        drawn = torch.rand(count, generator=generator, device=self._device) * edges[-1]
        return torch.searchsorted(edges, drawn, right=True).clamp(max=held - 1)

    @torch.no_grad()
    def put(self, slot: Tensor, model: nn.Module) -> None:
        """Let ``model`` become the version in ``slot``, a scalar on the device."""
        for name, part in model.state_dict().items():
            part.copy_(self.versions[name].index_select(0, slot.view(1))[0])

    def state_dict(self) -> dict[str, Any]:
        """All versions."""
        return {"versions": self.versions, "added": self.added}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Hold what another pool of the same size held."""
        for name, versions in self.versions.items():
            versions.copy_(state["versions"][name])
        self.added = state["added"]


class Together(Actor):
    """Several models of one kind, each acting in a part of the replicas.

    Args:
        members: the first acts in the first replicas of the run, and so on.
        share: which replicas of the run are here.
    """

    def __init__(self, members: list[Actor], share: Share) -> None:
        super().__init__()
        self.members, self.state_size = nn.ModuleList(members), members[0].state_size
        self.action_units = members[0].action_units
        parts = [share.those_of(Team.of(index, len(members)).share(share.total)) for index in range(len(members))]
        self._parts = [(index, here) for index, here in enumerate(parts) if here.start < here.stop]

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``; the first axis is that of the replicas."""
        return torch.cat(
            [self._member(index).logits(mapped(itemgetter(here), observations)) for index, here in self._parts]
        )

    def step(self, observations: Observations, state: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Actor``; likewise."""
        done = [
            self._member(index).step(mapped(itemgetter(here), observations), state[here]) for index, here in self._parts
        ]
        logits, after = zip(*done, strict=True)
        return torch.cat(logits), torch.cat(after)

    def in_replicas(self, num_envs: int, num_agents: int) -> Actor:
        """See ``Actor``."""
        return Remembering(self, num_envs, num_agents) if self.state_size else self

    def _member(self, index: int) -> Actor:
        member = self.members[index]
        assert isinstance(member, Actor)
        return member
