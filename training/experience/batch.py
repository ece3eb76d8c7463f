"""Training batches of the agents that share a policy.

Rows of inactive agents have weight 0, and ``Rollout.clear_absent`` removes non-finite values from them, since 0 times
NaN is NaN. ``AbsentValue`` estimates the future return of such agents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from warpdrive.host_transfers import host_transfers_allowed
from warpdrive.observations import Observations, mapped, tensors
from warpdrive.training.distributed.process_group import UNSHARDED, Sharding
from warpdrive.training.experience.masked_rows import Rows
from warpdrive.training.experience.sequences import (
    Sequences,
    ValueFunction,
    estimate_values,
    rows_at_once,
    sequences_of,
)
from warpdrive.training.experience.transitions import ended
from warpdrive.training.models.critic_inputs import CriticInput, CriticRows

if TYPE_CHECKING:
    from warpdrive.backends.interface import Backend
    from warpdrive.rollout import Rollout
    from warpdrive.training.experience.advantages import AdvantageEstimator

_PART_OF_NEW = 0.1  # weight of the newest rollout in a running mean


@dataclass(frozen=True)
class Batch(Rows):
    """Training batch: rows over time x replica x agent, in that order; every tensor's first axis is the row.

    It is returned by ``policy.batch(rollout)``, and passed to ``update`` and ``loss`` of a derived class:

    ```python
    for minibatch in batch.minibatches(4, generator):
        logits = model.logits(minibatch.observations)
        loss = minibatch.masked_mean(error(logits, minibatch.actions, minibatch.advantages))  # error: [rows]
    ```

    Attributes:
        observations: ``[rows, *observation_shape]``; a dict of tensors by key for a Dict observation space.
        actions: ``[rows]`` or ``[rows, parts]`` int32, or ``[rows, *shape]`` float32, as sampled.
        log_probabilities: ``[rows]`` float32, log-probabilities of the actions when they were sampled.
        values: ``[rows]`` float32, value estimates from before the update.
        advantages: ``[rows]`` float32.
        returns: ``[rows]`` float32, the targets of the value function.
        weight: ``[rows]`` float32, 1 where the agent was in the episode, else 0.
        action_mask: ``[rows, choices]`` bool, or None.
        critic_rows: The inputs of a centralised critic in place of the observations, or None; see ``states``.
        sequences: Recurrent state and episode starts of the rows, which are then over time x sequence; None for
            feed-forward models.
        sharding: Distribution of the rows over processes.
    """

    observations: Observations
    actions: Tensor
    log_probabilities: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor
    weight: Tensor
    action_mask: Tensor | None = None
    critic_rows: CriticRows | None = None
    sequences: Sequences | None = None
    sharding: Sharding = UNSHARDED

    @property
    def states(self) -> Tensor | None:
        """Inputs of a centralised critic in place of the observations, ``[rows, size]`` float32, or None."""
        return None if self.critic_rows is None else self.critic_rows.all()

    def rows(self, index: Tensor | slice) -> Batch:
        """Return the rows of an index, in its order; with sequences, the rows of the sequences.

        Args:
            index: ``[n]`` int64, or a slice.

        Returns:
            A batch of ``n`` rows, or of ``n`` sequences.
        """
        sequences = self.sequences
        if sequences is None:
            return self._taken(itemgetter(index))
        shape = sequences.begins.shape
        part = self._taken(lambda rows: rows.unflatten(0, shape)[:, index].flatten(0, 1))
        return replace(part, sequences=sequences.of(index))

    def rows_of(self, index: Tensor) -> Tensor:
        """Return the indices of the rows in :meth:`rows` of an index: int64, over time x sequence with sequences.

        Args:
            index: ``[n]`` int64, rows or sequences.
        """
        if self.sequences is None:
            return index
        steps = torch.arange(len(self.sequences.begins), device=index.device)
        return (steps.unsqueeze(1) * len(self.sequences) + index).flatten()

    def partition(self, count: int, generator: torch.Generator) -> list[Tensor]:
        """Return the indices of this process's rows, or sequences, in each of ``count`` random minibatches.

        The permutation is over the rows of all processes; each process takes its own rows of each minibatch, so their
        number varies.

        Args:
            count: Number of minibatches.
            generator: Random number generator of the permutation, on the device of the batch.

        Returns:
            ``[rows]`` int64 for each minibatch; each row is in exactly one.
        """
        units = len(self) if self.sequences is None else len(self.sequences)
        order = torch.randperm(self.sharding.total(units), generator=generator, device=self.weight.device)
        return [self.sharding.own(part) for part in order.tensor_split(count)]

    def minibatches(self, count: int, generator: torch.Generator) -> Iterator[Batch]:
        """Split the rows, or the whole sequences, into ``count`` random minibatches, see :meth:`partition`.

        Args:
            count: Number of minibatches.
            generator: Random number generator of the permutation, on the device of the batch.

        Yields:
            Minibatches whose ``counting`` is that of the minibatch over all processes.
        """
        return self.split(self.partition(count, generator))

    def split(self, parts: Sequence[Tensor]) -> Iterator[Batch]:
        """Return minibatches of the rows, or sequences, of a :meth:`partition`.

        All rows are gathered at once, which needs the memory of a second batch and is faster than gathering one
        minibatch after the other.

        Args:
            parts: The indices of each minibatch, ``[rows]`` int64.
        """
        # one permutation for all tensors keeps each agent's observation, action and advantage together
        shuffled, end = self.rows(torch.cat(list(parts))), 0
        for part, counting in zip(parts, shuffled._counting_in([len(part) for part in parts]), strict=True):
            begin, end = end, end + len(part)
            minibatch = shuffled.rows(slice(begin, end)) if len(part) else self._zero_weight_batch()
            vars(minibatch)["counting"] = counting  # precomputed: no all-reduce per minibatch
            yield minibatch

    def _counting_in(self, sizes: Sequence[int]) -> Sequence[Tensor]:
        """Return ``Rows.counting`` of parts with ``sizes`` rows (or sequences), with one all-reduce for all parts."""
        weight = self.weight
        if self.sequences is not None:
            weight = weight.view(self.sequences.begins.shape).sum(0)
        sums = torch.stack([part.sum() for part in weight.split(list(sizes))])
        return self.sharding.process_group.all_reduce(sums).clamp(min=1.0).unbind()

    def _zero_weight_batch(self) -> Batch:
        """Return a batch of one row with weight 0, since models may not accept empty batches."""
        part = self.rows(slice(0, 1))
        return replace(part, weight=torch.zeros_like(part.weight))

    def _taken(self, take: Callable[[Tensor], Tensor]) -> Batch:
        taken: dict[str, Any] = {name: mapped(take, rows) for name, rows in self.columns().items()}
        if self.critic_rows is not None:
            taken["critic_rows"] = self.critic_rows.taken(take)
        return replace(self, **taken)


class ReturnCoefficients(Protocol):
    """Coefficients of returns, such as the section of an algorithm in the run configuration."""

    @property
    def gamma(self) -> float:
        """Discount per step."""

    @property
    def returns_after_leaving(self) -> bool:
        """True if returns extend beyond the step at which an agent leaves its episode."""


class AdvantageCoefficients(ReturnCoefficients, Protocol):
    """Coefficients of advantage estimation, see ``AdvantageEstimator``."""

    @property
    def gae_lambda(self) -> float:
        """GAE coefficient lambda, from 0 to 1."""


class Discount(NamedTuple):
    """Coefficients of advantage estimation, see ``AdvantageEstimator``."""

    gamma: float
    gae_lambda: float
    returns_after_leaving: bool


class RolloutBatcher:
    """Builder of the batch of each new rollout.

    If a rollout or a time limit truncates the return of an agent that has left its episode, the return is bootstrapped
    with one scalar, the running mean of such returns, as the agent has no observations.

    Args:
        tag: Policy tag.
        model: Value function.
        backend: Backend that computes the advantages.
        agent_ids: ``[agents of the tag]`` int32.
        config: Callable that returns the current coefficients of the algorithm.
        sharding: Distribution of the rows over processes.
        critic_input: Computes the inputs of ``model`` from a rollout; None if these are the observations.
        estimates: If True, truncated returns are bootstrapped; else the remainder counts as zero.
    """

    def __init__(
        self,
        tag: str,
        model: ValueFunction,
        backend: Backend,
        agent_ids: Tensor,
        config: Callable[[], AdvantageCoefficients],
        sharding: Sharding = UNSHARDED,
        critic_input: CriticInput | None = None,
        estimates: bool = True,
    ) -> None:
        self.sharding, self.estimates = sharding, estimates
        self.tag, self.model, self.backend, self.agent_ids, self.config = tag, model, backend, agent_ids, config
        self.critic_input = critic_input
        self._estimator: tuple[Rollout, AdvantageEstimator] | None = None
        self._absent_value = AbsentValue(agent_ids.device, sharding)

    def of(self, rollout: Rollout) -> Batch:
        """Return the rows of a full rollout."""
        estimator, config = self._estimator_of(rollout), self.config()
        estimator.set_coefficients(config.gamma, config.gae_lambda)
        estimator.absent_value.copy_(self._absent_value.value)
        batch = replace(batch_of(rollout, self.tag, self.model, estimator, self.critic_input), sharding=self.sharding)
        if self.estimates and rollout.active is not None and config.returns_after_leaving:
            self._absent_value.observe(estimator.advantages.flatten(), 1.0 - batch.weight)
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Return the running mean of the returns of inactive agents."""
        return self._absent_value.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state returned by ``state_dict()``."""
        self._absent_value.load_state_dict(state_dict)

    def _estimator_of(self, rollout: Rollout) -> AdvantageEstimator:
        """Return the advantage estimator of a rollout, built on first use: policies that are not trained need none."""
        if self._estimator is None or self._estimator[0] is not rollout:
            from warpdrive.training.experience.advantages import AdvantageEstimator  # loads the kernel language

            config = self.config()
            coefficients = config.gamma, config.gae_lambda, config.returns_after_leaving
            with host_transfers_allowed():
                made = AdvantageEstimator.of(rollout, self.backend, self.agent_ids, *coefficients)
            self._estimator = rollout, made
        return self._estimator[1]


class EpisodeBatcher:
    """Builder of the batch of each new rollout without a value function: advantages and returns are sums of rewards.

    Steps whose episode does not end within the rollout have weight 0, as their returns are unknown. Nothing is
    bootstrapped after a time limit.

    Args:
        tag: Policy tag.
        backend: Backend that computes the returns.
        agent_ids: ``[agents of the tag]`` int32.
        config: Callable that returns the current coefficients of the algorithm.
        sharding: Distribution of the rows over processes.
    """

    def __init__(
        self,
        tag: str,
        backend: Backend,
        agent_ids: Tensor,
        config: Callable[[], ReturnCoefficients],
        sharding: Sharding = UNSHARDED,
    ) -> None:
        self.tag, self.config = tag, config

        def discount() -> Discount:
            return Discount(config().gamma, 1.0, config().returns_after_leaving)

        self._rows = RolloutBatcher(tag, _NoValues(), backend, agent_ids, discount, sharding, estimates=False)

    @torch.no_grad()
    def of(self, rollout: Rollout) -> Batch:
        """Return the rows of a full rollout."""
        rows = self._rows.of(rollout)
        ends_later = ended(rollout, self.tag, self.config().returns_after_leaving).flip(0).cumsum(0).flip(0) > 0
        return replace(rows, weight=rows.weight * ends_later.flatten())

    def state_dict(self) -> dict[str, Any]:
        """Return an empty dictionary: no state is kept between updates."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Do nothing: there is no state to restore."""


class _NoValues:
    """Value function that is zero everywhere."""

    state_size = 0

    def values(self, observations: Observations) -> Tensor:
        """Return a scalar 0, which broadcasts over all rows."""
        return next(tensors(observations)).new_zeros((), dtype=torch.float32)

    def forward_sequence(
        self, observations: Observations, state: Tensor, begins: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return zeros ``[T, n]`` for logits and values, and the unchanged state."""
        values = torch.zeros_like(begins, dtype=torch.float32)
        return values, values, state.expand(*begins.shape, -1)


class AbsentValue:
    """Running mean of the returns of agents that have left the episode.

    Args:
        device: Device of the value.
        sharding: Distribution over processes of the rows that are averaged.

    Attributes:
        value: Float32 scalar; 0 until the first such agent is observed.
    """

    def __init__(self, device: torch.device, sharding: Sharding) -> None:
        self.value, self.sharding = torch.zeros((), device=device), sharding

    @torch.no_grad()
    def observe(self, differences: Tensor, weight: Tensor) -> None:
        """Update the running mean with differences between returns and the current value.

        Args:
            differences: ``[rows]`` float32.
            weight: ``[rows]`` float32, 1 for the rows to average, else 0.
        """
        total, count = self.sharding.process_group.all_reduce(
            torch.stack([differences @ weight, weight.sum()])
        ).unbind()
        self.value += _PART_OF_NEW * total / count.clamp(min=1.0)

    def state_dict(self) -> dict[str, Any]:
        """See ``Stateful``."""
        return {"absent_value": self.value}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """See ``Stateful``. Older checkpoints have none."""
        self.value.copy_(state_dict.get("absent_value", torch.zeros(())))


@torch.no_grad()
def batch_of(
    rollout: Rollout,
    tag: str,
    model: ValueFunction,
    estimator: AdvantageEstimator,
    critic_input: CriticInput | None = None,
) -> Batch:
    """Turn a full rollout into the batch that trains the policy of ``tag``.

    Args:
        rollout: ``num_steps`` recorded steps.
        tag: Policy tag.
        model: Value function.
        estimator: Advantage estimator of this rollout and tag, with agents in the order of ``rollout.of(..., tag)``.
            Some tensors of the batch share its memory, which its next launch overwrites.
        critic_input: See ``RolloutBatcher``.

    Returns:
        The rows over time x replica x agent, or over time x sequence for models with recurrent state.
    """
    observations, final_observations = (
        mapped(lambda tensor: tensor.flatten(0, 2), rollout.of(name, tag))
        for name in ("observations", "final_observations")
    )
    sequences, critic_rows = sequences_of(rollout, tag), None
    seen: Observations | CriticRows = observations
    final: Observations | CriticRows = final_observations
    if critic_input is not None:
        seen = critic_rows = critic_input.of(rollout)
        final = critic_input.of(rollout, final=True)
    if sequences is not None:
        first, last = (rows.all() if isinstance(rows, CriticRows) else rows for rows in (seen, final))
        estimate_values(model, sequences, first, last, rollout.final_slot, estimator.values, estimator.final_values)
    else:
        _estimate(model, seen, estimator.values)
        _estimate(model, final, estimator.final_values)
    estimator.launch()
    values, advantages = estimator.values[:-1].flatten(), estimator.advantages.flatten()
    weight = torch.ones_like(values)
    if rollout.active is not None:
        active = rollout.of("active", tag).flatten()
        weight, values, advantages = active.float(), values.where(active, 0.0), advantages.where(active, 0.0)
    return Batch(
        observations=mapped(itemgetter(slice(len(values))), observations),
        actions=rollout.of("actions", tag).flatten(0, 2),
        log_probabilities=rollout.of("log_probabilities", tag).flatten(),
        values=values,
        advantages=advantages,
        returns=advantages + values,
        weight=weight,
        action_mask=None if rollout.action_mask is None else rollout.of("action_mask", tag).flatten(0, 2),
        critic_rows=None if critic_rows is None else critic_rows.between(0, len(values)),
        sequences=None if sequences is None else sequences.first(rollout.num_steps),
    )


def _estimate(model: ValueFunction, seen: Observations | CriticRows, values: Tensor) -> None:
    """Write the value estimates of all observations, or rows, by a feed-forward model, in chunks."""
    flat, agents = values.view(-1), values.shape[-1]

    def between(first: int, last: int) -> Observations:
        if isinstance(seen, CriticRows):
            return seen.between(first, last).all()
        return mapped(itemgetter(slice(first, last)), seen)

    width = max(agents, rows_at_once(between(0, agents)) // agents * agents)
    for first in range(0, len(flat), width):
        flat[first : first + width] = model.values(between(first, first + width))
