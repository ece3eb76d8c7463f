"""Self-play: agents that act as past versions of a policy.

Versions are sampled and copied on the device; several act at the same time, each in a part of the replicas.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, cast

import torch
from torch import Tensor, nn

from warpdrive.observations import Observations, mapped, tensors
from warpdrive.training.config.schema import SelfPlayConfig
from warpdrive.training.distributed.process_group import ProcessGroup, Share
from warpdrive.training.models.base import Actor
from warpdrive.training.models.recurrent import RecurrentActor
from warpdrive.training.opponents.base import Opponent
from warpdrive.training.opponents.elo import performance_rating

MAX_EVALUATED = 8
"""Maximum number of versions that a policy is evaluated against."""


class SelfPlay(Opponent):
    """Opponent that acts as past versions of a model: several at a time, each in a part of the replicas.

    The pool is on the device, and versions are selected by indices on the device, so the host never synchronises. If a
    rollout ends within an episode, the episode continues with other versions.

    Args:
        config: Section of the tag in the run configuration.
        learner: Model whose versions act; it is never changed.
        share: Range of the replicas of the rollouts.
        num_agents: Number of agents of the tag per replica.
        generator: Random number generator of the selection, on the device.

    Attributes:
        evaluation_model: Versions of the pool from the newest to the oldest, each in a part of the replicas.
        rating: Last estimate of the learner's Elo rating; the initial policy has 0.
    """

    evaluation_model: Together

    def __init__(
        self, config: SelfPlayConfig, learner: Actor, share: Share, num_agents: int, generator: torch.Generator
    ) -> None:
        self.config, self.model, self.generator = config, learner, generator
        self.pool = Pool(learner, config.pool_size, config.recency)
        self.members = [copy.deepcopy(learner).requires_grad_(False) for _ in range(config.at_once)]
        self.actor = Together(self.members, share).in_replicas(share.count, num_agents)
        evaluated = min(config.pool_size, MAX_EVALUATED)
        self.evaluation_model = Together([copy.deepcopy(learner).requires_grad_(False) for _ in range(evaluated)])
        self.rating = 0.0
        self._taken_at: int | None = None

    def begin(self, updates: int) -> None:
        """See ``Opponent``: take a snapshot if it is due, and select the versions that act in the rollout."""
        if self._taken_at is None or updates - self._taken_at >= self.config.snapshot_every:
            self.pool.add(self.model, self.rating)
            self._taken_at = updates
            self._show_evaluation()
        for slot, member in zip(self.pool.draw(len(self.members), self.generator), self.members, strict=True):
            self.pool.put(slot, member)

    def evaluated_slots(self) -> list[int]:
        """Return the pool slot of each member of ``evaluation_model``, from the newest to the oldest.

        They are evenly spaced; if there are fewer versions than members, versions act several times.
        """
        members, held = len(self.evaluation_model.members), min(self.pool.added, self.pool.size)
        ages = [index * held // members if held > members else index % held for index in range(members)]
        return [(self.pool.added - 1 - age) % self.pool.size for age in ages]

    def evaluated_ratings(self) -> list[float]:
        """Return the rating of each member of ``evaluation_model``: the learner's when that version was taken."""
        return [self.pool.ratings[slot] for slot in self.evaluated_slots()] if self.pool.added else []

    def rate(self, learner: Tensor, opponent: Tensor, ratings: Sequence[float], replicas: int) -> float:
        """Return the learner's Elo rating from an evaluation against ``evaluation_model``: the higher return wins.

        Args:
            learner: The learner's return in each episode, ``[episodes]``; replica ``i % replicas`` played episode
                ``i``.
            opponent: Returns of the agents of this tag, likewise.
            ratings: Result of :meth:`evaluated_ratings` when the evaluation began.
            replicas: Number of replicas.

        Returns:
            The rating, on the Elo scale.
        """
        scores = (learner > opponent).double() + 0.5 * (learner == opponent)
        replica = torch.arange(len(scores)) % replicas
        met = [
            (rating, scores[chosen])
            for rating, here in zip(ratings, self.evaluation_model.replicas_of(replicas), strict=True)
            if (chosen := (replica >= here.start) & (replica < here.stop)).any()
        ]
        return performance_rating(
            [rating for rating, _ in met], [float(won.mean()) for _, won in met], [len(won) for _, won in met]
        )

    def _show_evaluation(self) -> None:
        for slot, member in zip(self.evaluated_slots(), self.evaluation_model.members, strict=True):
            self.pool.put(torch.full((), slot, dtype=torch.int64, device=self.generator.device), member)

    def state_dict(self) -> dict[str, Any]:
        """See ``Opponent``."""
        return {
            "rating": self.rating,
            "pool": self.pool.state_dict(),
            "taken_at": self._taken_at,
            "device": self.generator.device.type,
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See ``Opponent``."""
        self.pool.load_state_dict(state["pool"])
        self._taken_at = state["taken_at"]
        self.rating = state.get("rating", 0.0)
        if self.pool.added:
            self._show_evaluation()
        if state["device"] == self.generator.device.type:  # each kind of device has a separate generator
            self.generator.set_state(state["generator"])


class Pool:
    """Last versions of a model, on the model's device.

    Args:
        model: Model whose parameters and persistent buffers are stored.
        size: Number of versions; a new one replaces the oldest.
        recency: Probability of selecting a version, relative to that of the next newer one.

    Attributes:
        versions: ``[size, *shape]``, by the names of the model's parameters and buffers.
        added: Number of versions added so far.
        ratings: Rating of the version in each slot.
    """

    def __init__(self, model: nn.Module, size: int, recency: float) -> None:
        self.size, self.recency, self.added = size, recency, 0
        self.ratings = [0.0] * size
        self.versions = {name: part.new_zeros((size, *part.shape)) for name, part in model.state_dict().items()}
        self._device = next(model.parameters()).device

    @torch.no_grad()
    def add(self, model: nn.Module, rating: float = 0.0) -> None:
        """Add a copy of the current state of ``model``, with its rating."""
        slot = self.added % self.size
        for name, part in model.state_dict().items():
            self.versions[name][slot].copy_(part)
        self.ratings[slot] = rating
        self.added += 1

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Sample slots of versions, ``[count]`` int64 on the device; at least one version must have been added."""
        held = min(self.added, self.size)
        age = (self.added - 1 - torch.arange(held, device=self._device)) % self.size
        edges = (self.recency**age).cumsum(0)
        drawn = torch.rand(count, generator=generator, device=self._device) * edges[-1]
        return torch.searchsorted(edges, drawn, right=True).clamp(max=held - 1)

    @torch.no_grad()
    def put(self, slot: Tensor, model: nn.Module) -> None:
        """Copy the version in ``slot``, a scalar on the device, to ``model``."""
        for name, part in model.state_dict().items():
            part.copy_(self.versions[name].index_select(0, slot.view(1))[0])

    def state_dict(self) -> dict[str, Any]:
        """Return all versions."""
        return {"versions": self.versions, "added": self.added, "ratings": self.ratings}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a pool of the same size."""
        for name, versions in self.versions.items():
            versions.copy_(state["versions"][name])
        self.added = state["added"]
        self.ratings = list(state.get("ratings", self.ratings))


class Together(Actor):
    """Several models of the same architecture, each acting in a part of the replicas.

    Args:
        members: Models; the first acts in the first replicas of the run, and so on.
        share: Range of the local replicas; None: all, as many as there are observations.
    """

    def __init__(self, members: list[Actor], share: Share | None = None) -> None:
        super().__init__()
        self.members, self.state_size = nn.ModuleList(members), members[0].state_size
        self._share = share

    def replicas_of(self, replicas: int) -> list[slice]:
        """Return the slice of the local replicas in which each member acts, of ``replicas`` in total."""
        teams = [ProcessGroup.of(index, len(self.members)) for index in range(len(self.members))]
        if self._share is None:
            return [process_group.part(replicas) for process_group in teams]
        return [self._share.overlap_with(process_group.share(self._share.total)) for process_group in teams]

    def _parts(self, observations: Observations) -> list[tuple[Actor, slice]]:
        replicas = len(next(tensors(observations)))
        parts = zip(cast("Iterable[Actor]", self.members), self.replicas_of(replicas), strict=True)
        return [(member, here) for member, here in parts if here.start < here.stop]

    def logits(self, observations: Observations) -> Tensor:
        """See ``Actor``; the first axis is that of the replicas."""
        return torch.cat(
            [member.logits(mapped(itemgetter(here), observations)) for member, here in self._parts(observations)]
        )

    def step(self, observations: Observations, state: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Actor``; the first axis is that of the replicas."""
        done = [
            member.step(mapped(itemgetter(here), observations), state[here])
            for member, here in self._parts(observations)
        ]
        logits, after = zip(*done, strict=True)
        return torch.cat(logits), torch.cat(after)

    def in_replicas(self, num_envs: int, num_agents: int) -> Actor:
        """See ``Actor``."""
        return RecurrentActor(self, num_envs, num_agents) if self.state_size else self
