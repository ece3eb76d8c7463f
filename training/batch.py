"""One update's experience of the agents that share a policy, as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from warpdrive.backends.interface import Backend
from warpdrive.host_transfers import host_transfers_allowed
from warpdrive.observations import Observations, mapped, tensors
from warpdrive.rollout import Rollout
from warpdrive.training.advantages import AdvantageEstimator
from warpdrive.training.distributed.team import ALL_HERE, Spread
from warpdrive.training.joint_observations import JointObservations
from warpdrive.training.rows import Rows
from warpdrive.training.sections import OnPolicyConfig
from warpdrive.training.sequences import Judge, Sequences, estimate_values, sequences_of
from warpdrive.training.transitions import ended

_ROWS_AT_ONCE = 65536  # of a value estimate: bounds the memory of the hidden layers


@dataclass(frozen=True)
class Batch(Rows):
    """Rows over time x replica x agent, in that order; every tensor's first axis is the row.

    Attributes:
        observations: ``[rows, *observation_shape]``, by key where the observation space is a Dict.
        actions: ``[rows]`` or ``[rows, parts]`` int32, or ``[rows, *shape]`` float32 as they were drawn.
        log_probabilities: ``[rows]`` float32, of the actions when they were sampled.
        values: ``[rows]`` float32, estimates from before the update.
        advantages: ``[rows]`` float32.
        returns: ``[rows]`` float32, the targets of the value.
        weight: ``[rows]`` float32, 1 where the agent was in the episode and 0 where not.
        action_mask: ``[rows, choices]`` bool, or None.
        states: ``[rows, size]`` float32, what a centralised critic sees instead of the observations, or None.
        sequences: how the rows, of time x sequence then, belong together; None for models without a state.
        spread: over which processes the rows are spread.
    """

    observations: Observations
    actions: Tensor
    log_probabilities: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor
    weight: Tensor
    action_mask: Tensor | None = None
    states: Tensor | None = None
    sequences: Sequences | None = None
    spread: Spread = ALL_HERE

    def rows(self, index: Tensor | slice) -> Batch:
        """The rows of ``index`` (int64), in its order; of a batch with sequences, those of these sequences."""
        sequences = self.sequences
        if sequences is None:
            return self._taken(itemgetter(index))
        shape = sequences.begins.shape
        part = self._taken(lambda rows: rows.unflatten(0, shape)[:, index].flatten(0, 1))
        return replace(part, sequences=sequences.of(index))

    def minibatches(self, count: int, generator: torch.Generator) -> Iterator[Batch]:
        """Split the rows, or the whole sequences, into ``count`` parts at random: each is in one of them.

        They are drawn among those of all processes, from which each takes its own: as many as it happens to be. All are
        gathered at once, which takes the memory of another batch, and less time than part after part.
        """
        units = len(self) if self.sequences is None else len(self.sequences)
        order = torch.randperm(self.spread.total(units), generator=generator, device=self.weight.device)
        parts = [self.spread.own(part) for part in order.tensor_split(count)]
        # one index for every tensor: an agent keeps its own observation, action and advantage
        shuffled, end = self.rows(torch.cat(parts)), 0
        for part, counting in zip(parts, shuffled._counting_in([len(part) for part in parts]), strict=True):
            begin, end = end, end + len(part)
            minibatch = shuffled.rows(slice(begin, end)) if len(part) else self._none_that_count()
            vars(minibatch)["counting"] = counting  # which it need not ask for
            yield minibatch

    def _counting_in(self, sizes: Sequence[int]) -> Sequence[Tensor]:
        """``Rows.counting`` of parts of so many rows, or sequences: all processes ask the others once for all parts."""
        weight = self.weight
        if self.sequences is not None:
            weight = weight.view(self.sequences.begins.shape).sum(0)
        sums = torch.stack([part.sum() for part in weight.split(list(sizes))])
        return self.spread.team.sum(sums).clamp(min=1.0).unbind()

    def _none_that_count(self) -> Batch:
        """Some rows without weight: models may not be made for none."""
        part = self.rows(slice(0, 1))
        return replace(part, weight=torch.zeros_like(part.weight))

    def _taken(self, take: Callable[[Tensor], Tensor]) -> Batch:
        taken: dict[str, Any] = {name: mapped(take, rows) for name, rows in self.columns().items()}
        return replace(self, **taken)


class Discount(NamedTuple):
    """What advantages depend on, see ``AdvantageEstimator``."""

    gamma: float
    gae_lambda: float


class RolloutRows:
    """Makes the batch of each new rollout.

    Args:
        tag: the policy tag.
        model: estimates the values.
        backend: where advantages are computed.
        agent_ids: ``[agents of the tag]`` int32.
        config: returns what the coefficients of the algorithm are now.
        spread: over which processes the rows are spread.
        joint: makes of a rollout what ``model`` sees, where these are not the observations.
    """

    def __init__(
        self,
        tag: str,
        model: Judge,
        backend: Backend,
        agent_ids: Tensor,
        config: Callable[[], OnPolicyConfig | Discount],
        spread: Spread = ALL_HERE,
        joint: JointObservations | None = None,
    ) -> None:
        self.spread = spread
        self.tag, self.model, self.backend, self.agent_ids, self.config = tag, model, backend, agent_ids, config
        self.joint = joint
        self._estimator: tuple[Rollout, AdvantageEstimator] | None = None

    def of(self, rollout: Rollout) -> Batch:
        """The rows of a full rollout."""
        estimator, config = self._estimator_of(rollout), self.config()
        estimator.set_coefficients(config.gamma, config.gae_lambda)
        return replace(batch_of(rollout, self.tag, self.model, estimator, self.joint), spread=self.spread)

    def state_dict(self) -> dict[str, Any]:
        """Nothing: every update has rows of its own."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing is to be put back."""

    def _estimator_of(self, rollout: Rollout) -> AdvantageEstimator:
        """Return what estimates the advantages in a rollout: made once, as policies that only play need none."""
        if self._estimator is None or self._estimator[0] is not rollout:
            config = self.config()
            with host_transfers_allowed():
                made = AdvantageEstimator.of(rollout, self.backend, self.agent_ids, config.gamma, config.gae_lambda)
            self._estimator = rollout, made
        return self._estimator[1]


class WholeEpisodes:
    """Makes the batch of each new rollout where nothing estimates values: advantages and returns are sums of rewards.

    Steps whose episode does not end within the rollout have weight 0, as nobody knows what follows. Nothing follows a
    time limit either.

    Args:
        tag: the policy tag.
        backend: where returns are computed.
        agent_ids: ``[agents of the tag]`` int32.
        gamma: returns what the discount per step is now.
        spread: over which processes the rows are spread.
    """

    def __init__(
        self, tag: str, backend: Backend, agent_ids: Tensor, gamma: Callable[[], float], spread: Spread = ALL_HERE
    ) -> None:
        self.tag = tag
        self._rows = RolloutRows(tag, _NoValues(), backend, agent_ids, lambda: Discount(gamma(), 1.0), spread)

    @torch.no_grad()
    def of(self, rollout: Rollout) -> Batch:
        """The rows of a full rollout."""
        rows = self._rows.of(rollout)
        ends_later = ended(rollout, self.tag).flip(0).cumsum(0).flip(0) > 0
        return replace(rows, weight=rows.weight * ends_later.flatten())

    def state_dict(self) -> dict[str, Any]:
        """Nothing: every update has rows of its own."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing is to be put back."""


class _NoValues:
    """Estimates that everything is worth nothing."""

    def values(self, observations: Observations) -> Tensor:
        """One 0 for all."""
        return next(tensors(observations)).new_zeros((), dtype=torch.float32)

    def through(self, observations: Observations, state: Tensor, begins: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Zeros for all."""
        values = torch.zeros_like(begins, dtype=torch.float32)
        return values, values, state.expand(*begins.shape, -1)


@torch.no_grad()
def batch_of(
    rollout: Rollout, tag: str, model: Judge, estimator: AdvantageEstimator, joint: JointObservations | None = None
) -> Batch:
    """Turn a full rollout into the rows that train the policy of ``tag``.

    Args:
        rollout: ``num_steps`` recorded steps.
        tag: the policy tag.
        model: estimates the values.
        estimator: of the advantages in this rollout of the tag's agents, in the order of ``rollout.of(..., tag)``. The
            rows are partly its memory: its next launch overwrites them.
        joint: see ``RolloutRows``.
    """
    observations, final = (
        mapped(lambda tensor: tensor.flatten(0, 2), rollout.of(name, tag))
        for name in ("observations", "final_observations")
    )
    sequences = sequences_of(rollout, tag)
    states = None
    if joint is not None:
        states = joint.of(rollout, "observations")
        _estimate(model, states, estimator.values)
        _estimate(model, joint.of(rollout, "final_observations"), estimator.final_values)
    elif sequences is not None:
        final_slot = rollout.final_slot
        estimate_values(model, sequences, observations, final, final_slot, estimator.values, estimator.final_values)
    else:
        _estimate(model, observations, estimator.values)
        _estimate(model, final, estimator.final_values)
    estimator.launch()
    values, advantages = estimator.values[:-1].flatten(), estimator.advantages.flatten()
    active = None if rollout.active is None else rollout.of("active", tag)
    return Batch(
        observations=mapped(itemgetter(slice(len(values))), observations),
        actions=rollout.of("actions", tag).flatten(0, 2),
        log_probabilities=rollout.of("log_probabilities", tag).flatten(),
        values=values,
        advantages=advantages,
        returns=advantages + values,
        weight=torch.ones_like(values) if active is None else active.flatten().float(),
        action_mask=None if rollout.action_mask is None else rollout.of("action_mask", tag).flatten(0, 2),
        states=None if states is None else states[: len(values)],
        sequences=None if sequences is None else sequences.first(rollout.num_steps),
    )


def _estimate(model: Judge, observations: Observations, values: Tensor) -> None:
    """Write the values of all observations, a part at a time, by a model without a state."""
    for number, part in enumerate(values.flatten().split(_ROWS_AT_ONCE)):
        rows = slice(number * _ROWS_AT_ONCE, number * _ROWS_AT_ONCE + len(part))
        part.copy_(model.values(mapped(itemgetter(rows), observations)))
