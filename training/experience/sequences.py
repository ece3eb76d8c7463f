"""Sequences of experience for models with recurrent state.

``RolloutLoop.fill`` stores the states before the first step in ``Rollout.memory``. Values of final observations are
estimated with the state after the last step of their episode. A ``Batch`` with sequences is split into whole sequences;
feed-forward models take none of these paths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from warpdrive.observations import Observations, mapped, tensors
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.distributions import Distribution

if TYPE_CHECKING:
    from warpdrive.rollout import Rollout

_MOST_ROWS = 65536  # per forward pass of a value function: bounds the memory of activations
_MOST_ELEMENTS = 1 << 27  # of their observations
_MOST_ELEMENTS_ON_CPU = 1 << 20  # fit its caches: with more, memory is the bottleneck


@dataclass(frozen=True)
class Sequences:
    """Recurrent state and episode starts of ``[steps, sequences]`` observations.

    A sequence is one agent's part of a rollout in one replica; it may span several episodes.

    Attributes:
        start: ``[sequences, state_size]`` float32, recurrent states before the first step.
        begins: ``[steps, sequences]`` bool, True where the state is reset to zero before the step: an episode begins
            with it, or the agent was out of the episode in the step before.
    """

    start: Tensor
    begins: Tensor

    def of(self, index: Tensor | slice) -> Sequences:
        """Return the sequences of ``index`` (int64), in its order."""
        return Sequences(self.start[index], self.begins[:, index])

    def first(self, steps: int) -> Sequences:
        """Return the first ``steps`` steps."""
        return Sequences(self.start, self.begins[:steps])

    def __len__(self) -> int:
        return len(self.start)


def sequences_of(rollout: Rollout, tag: str) -> Sequences | None:
    """Return the sequences of the agents of ``tag`` in a full rollout; None for feed-forward models.

    They have one step more than the rollout, for the observations after the last step.
    """
    if tag not in rollout.memory:
        return None
    start = rollout.memory[tag]
    ended = (rollout.terminated | rollout.truncated).unsqueeze(-1).expand(-1, *start.shape[:2])
    if rollout.active is not None:
        ended = ended | ~rollout.of("active", tag)
    begins = torch.cat([torch.zeros_like(ended[:1]), ended]).flatten(1)  # the recorded start state is already reset
    return Sequences(start.flatten(0, 1), begins)


def outputs(model: ActorCritic, observations: Observations, sequences: Sequences | None) -> tuple[Tensor, Tensor]:
    """Return logits ``[rows, n]`` and value estimates ``[rows]``.

    Args:
        model: The model.
        observations: ``[rows, *observation_shape]``; with ``sequences``, rows are over time x sequence in that order.
        sequences: Recurrent state and episode starts; None for feed-forward models.

    Returns:
        Logits and value estimates, both float32.
    """
    if sequences is None:
        logits, values = model(observations)
        return logits, values
    shape = sequences.begins.shape
    by_step = mapped(lambda seen: seen.unflatten(0, shape), observations)
    own = sequences.start[:, : model.state_size]  # followed by the critic's state
    logits, values, _ = model.forward_sequence(by_step, own, sequences.begins)
    return logits.flatten(0, 1), values.flatten()


class ValueFunction(Protocol):
    """Value function."""

    @property
    def state_size(self) -> int:
        """Number of elements of the recurrent state per agent: the first of those in ``Sequences.start``."""

    def values(self, observations: Observations) -> Tensor:
        """Return the value estimates ``[rows]`` float32 of observations ``[rows, *observation_shape]`` of any dtype."""

    def forward_sequence(
        self, observations: Observations, state: Tensor, begins: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return outputs, values and states of sequences by a recurrent model, see ``ActorCritic.forward_sequence``.

        Args:
            observations: ``[T, n, *observation_shape]``, in time order.
            state: ``[n, state_size]``, recurrent state before the first step.
            begins: ``[T, n]`` bool, True where the state is reset to zero.
        """


class Replayed(NamedTuple):
    """Outputs of a model for recorded actions, with gradient.

    Attributes:
        log_probabilities: ``[num_steps, num_envs, agents of the tag]``, log-probabilities of the actions.
        entropies: Of the same shape, entropies of the action distributions.
        values: Of the same shape, value estimates.
    """

    log_probabilities: Tensor
    entropies: Tensor
    values: Tensor


def replay_of(rollout: Rollout, tag: str, model: ActorCritic, distribution: Distribution) -> Replayed:
    """Recompute the outputs of ``model`` for a full rollout of the agents of ``tag``.

    Args:
        rollout: ``num_steps`` recorded steps.
        tag: Policy tag.
        model: The model.
        distribution: Action distribution for the model's logits.

    Returns:
        Log-probabilities, entropies and values ``[num_steps, num_envs, agents of the tag]``, with gradient.
    """
    sequences = sequences_of(rollout, tag)
    recorded: dict[str, Any] = {
        name: mapped(lambda tensor: tensor[: rollout.num_steps].flatten(0, 2), rollout.of(name, tag))
        for name in ("observations", "actions", "action_mask")
        if getattr(rollout, name) is not None
    }
    sequences = None if sequences is None else sequences.first(rollout.num_steps)
    logits, values = outputs(model, recorded["observations"], sequences)
    probabilities = distribution.log_prob_and_entropy(logits, recorded["actions"], recorded.get("action_mask"))
    shape = rollout.of("rewards", tag).shape
    return Replayed(*(rows.view(shape) for rows in (*probabilities, values)))


def logits_of(model: ActorCritic, observations: Observations, sequences: Sequences | None) -> Tensor:
    """Return the logits of :func:`outputs`, without computing the values where they are separate.

    Args:
        model: See :func:`outputs`.
        observations: See :func:`outputs`.
        sequences: See :func:`outputs`.

    Returns:
        Logits ``[rows, n]`` float32.
    """
    if sequences is None or not model.state_size:
        return model.logits(observations)
    return outputs(model, observations, sequences)[0]


def estimate_values(
    model: ValueFunction,
    sequences: Sequences,
    observations: Observations,
    final_observations: Observations,
    final_slot: Tensor,
    values: Tensor,
    final_values: Tensor,
) -> None:
    """Write the value estimates of a recurrent model for all observations of a rollout, in chunks of sequences.

    Args:
        model: Value function with recurrent state.
        sequences: Sequences of the rollout.
        observations: ``[rows, *observation_shape]`` over time x sequence.
        final_observations: ``[rows, *observation_shape]`` over slot x sequence, of truncated episodes.
        final_slot: ``[steps, num_envs]``, see ``Rollout``.
        values: ``[steps + 1, num_envs, agents]``, written in place.
        final_values: ``[slots, num_envs, agents]``, written in place, computed with the agent's state after the last
            step of the truncated episode. Undefined for slots without an episode.
    """
    observations, final_observations = (
        mapped(lambda rows: rows.unflatten(0, (-1, len(sequences))), seen)
        for seen in (observations, final_observations)
    )
    slots = len(final_values)
    slot = final_slot.long().unsqueeze(-1).expand(values[:-1].shape).flatten(1)
    slot = torch.where(slot < 0, slots, slot)  # an extra slot for steps without truncation
    width = max(1, rows_at_once(observations, 2) // len(values))
    for first in range(0, len(sequences), width):
        some = slice(first, min(first + width, len(sequences)))
        start, begins = sequences.start[some, : model.state_size], sequences.begins[:, some]
        _, values.flatten(1)[:, some], states = model.forward_sequence(_of(observations, some), start, begins)
        ends = states.new_zeros(slots + 1, *start.shape)
        ends[slot[:, some], torch.arange(len(start), device=slot.device)] = states[:-1]
        at_once = mapped(lambda seen: seen.flatten(0, 1).unsqueeze(0), _of(final_observations, some))
        going_on = begins.new_zeros(1, slots * len(start))
        _, found, _ = model.forward_sequence(at_once, ends[:-1].flatten(0, 1), going_on)
        final_values.flatten(1)[:, some] = found.view(slots, -1)


def rows_at_once(observations: Observations, leading: int = 1) -> int:
    """Return the number of rows per forward pass of a value function.

    Args:
        observations: ``[*leading, *observation_shape]``.
        leading: Number of leading axes.
    """
    parts = list(tensors(observations))
    size = sum(math.prod(part.shape[leading:]) for part in parts)
    most = _MOST_ELEMENTS_ON_CPU if parts[0].device.type == "cpu" else _MOST_ELEMENTS
    return max(1, min(_MOST_ROWS, most // max(1, size)))


def _of(observations: Observations, sequences: slice) -> Observations:
    return mapped(itemgetter((slice(None), sequences)), observations)
