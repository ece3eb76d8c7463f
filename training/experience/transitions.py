"""Transitions of the agents that share a policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from warpdrive.observations import Observations, mapped, tensors
from warpdrive.rollout import of_agents
from warpdrive.training.distributed.process_group import UNSHARDED, ProcessGroup, Sharding
from warpdrive.training.experience.masked_rows import Rows

if TYPE_CHECKING:
    from warpdrive.rollout import Rollout


@dataclass(frozen=True)
class Transitions(Rows):
    """Transitions of single agents; every tensor's first axis is the row.

    Attributes:
        observations: ``[rows, *observation_shape]``, before the step; by key for a Dict space.
        actions: As in the rollout: ``[rows]`` or ``[rows, parts]`` int32, or ``[rows, *shape]`` float32 as sampled.
        rewards: ``[rows]`` float32.
        next_observations: ``[rows, *observation_shape]``, after the step: of the same episode, even if it ended.
        terminal: ``[rows]`` bool, True if there is no bootstrapping, because the episode terminated (not by a time
            limit) or the agent left it.
        weight: ``[rows]`` float32, 1 where the agent was in the episode, else 0.
        next_action_mask: ``[rows, choices]`` bool, allowed next choices, or None.
        steps: ``[rows]`` float32, number of steps of a row, see ``NStep``; None: one. ``next_observations``,
            ``terminal`` and ``next_action_mask`` are those of the last one.
        sharding: Distribution of a minibatch over processes; each has a part, see ``ProcessGroup.part``.
        drawn: Number of rows of the minibatch in all processes together; None: the local ones.
    """

    observations: Observations
    actions: Tensor
    rewards: Tensor
    next_observations: Observations
    terminal: Tensor
    weight: Tensor
    next_action_mask: Tensor | None = None
    steps: Tensor | None = None
    sharding: Sharding = UNSHARDED
    drawn: int | None = None

    def noise(self, count: int, components: int, generator: torch.Generator) -> Tensor:
        """Return standard normal numbers ``[count, rows, components]``; of a distributed minibatch those of its rows.

        Args:
            count: Number of samples per row.
            components: Number of components.
            generator: Random number generator, equal in all processes.

        Returns:
            ``[count, rows, components]`` float32, on the device of the rows.
        """
        total = len(self) if self.drawn is None else self.drawn
        return normal_samples((count, total, components), generator, self.weight.device, self.sharding.process_group)

    def target(self, gamma: float, later: Tensor) -> Tensor:
        """Return targets ``[rows]``: the rewards plus, unless terminal, the discounted ``later [rows]``.

        Args:
            gamma: Discount per step.
            later: ``[rows]``, bootstrap values.
        """
        return self.rewards + self.discounts(gamma) * later

    def discounts(self, gamma: float) -> Tensor:
        """Return the discounts ``[rows]`` of bootstrap values, 0 if terminal."""
        return (gamma if self.steps is None else gamma**self.steps) * ~self.terminal


def normal_samples(
    shape: tuple[int, int, int], generator: torch.Generator, device: torch.device, process_group: ProcessGroup
) -> Tensor:
    """Return standard normal numbers of a minibatch.

    Args:
        shape: Number of samples per row, of rows in all processes, and of components.
        generator: Random number generator, equal in all processes.
        device: Device of the numbers.
        process_group: Processes that share the minibatch.

    Returns:
        ``[samples, own rows, components]`` float32.
    """
    return torch.randn(shape, generator=generator, device=device)[:, process_group.part(shape[1])]


@torch.no_grad()
def transitions_of(rollout: Rollout, tag: str, returns_after_leaving: bool) -> Transitions:
    """Return the transitions of a rollout's agents of ``tag``: rows over time x replica x agent, in that order.

    With ``returns_after_leaving`` leaving is not terminal, and the rows after it contain the agent's rewards; without
    it, those are 0.

    Args:
        rollout: ``num_steps`` recorded steps.
        tag: Policy tag.
        returns_after_leaving: See ``ReturnsConfig``.

    Returns:
        The transitions, ``T * num_envs * agents of the tag`` rows.
    """
    terminated = rollout.terminated.unsqueeze(-1)
    terminal = terminated.expand(rollout.of("rewards", tag).shape)
    weight = torch.ones_like(terminal, dtype=torch.float32)
    rewards = rollout.of("rewards", tag)
    if rollout.active is not None:
        weight = rollout.of("active", tag).float()
        if not returns_after_leaving:
            terminal = terminal | ~rollout.of("still_active", tag)
            rewards = rewards * weight
    next_mask = None if rollout.action_mask is None else next_action_mask(rollout, tag).flatten(0, 2)
    observations: Observations = rollout.of("observations", tag)
    final = tensors(rollout.of("final_observations", tag))
    following = mapped(lambda seen: or_final(seen[1:], next(final), rollout.final_slot).flatten(0, 2), observations)
    return Transitions(
        observations=mapped(lambda seen: seen[:-1].flatten(0, 2), observations),
        actions=rollout.of("actions", tag).flatten(0, 2),
        rewards=rewards.flatten(),
        next_observations=following,
        terminal=terminal.flatten(),
        weight=weight.flatten(),
        next_action_mask=next_mask,
    )


def ended(rollout: Rollout, tag: str, returns_after_leaving: bool) -> Tensor:
    """Return ``[T, num_envs, agents of the tag]`` bool, True if the agent's return ends with the step.

    That is where the episode ended and, unless ``returns_after_leaving``, where the agent left it.

    Args:
        rollout: ``num_steps`` recorded steps.
        tag: Policy tag.
        returns_after_leaving: See ``ReturnsConfig``.

    Returns:
        ``[T, num_envs, agents of the tag]`` bool.
    """
    over = (rollout.terminated | rollout.truncated).unsqueeze(-1)
    if rollout.still_active is not None and not returns_after_leaving:
        over = over | ~rollout.of("still_active", tag)
    return over.expand(rollout.of("rewards", tag).shape)


def next_action_mask(rollout: Rollout, tag: str) -> Tensor:
    """Return ``[T, num_envs, agents of the tag, choices]`` bool, the actions allowed after each step."""
    present = of_agents(rollout.context["action_mask"], rollout.agents[tag], dim=1)
    following = torch.cat([rollout.of("action_mask", tag)[1:], present.unsqueeze(0)])
    return or_final(following, rollout.of("final_action_mask", tag), rollout.final_slot)


def or_final(following: Tensor, final: Tensor, final_slot: Tensor) -> Tensor:
    """Return ``following [T, num_envs, ...]`` with final observations where an episode was truncated."""
    replica = torch.arange(following.shape[1], device=following.device)
    ends = final[final_slot.long().clamp(min=0), replica]
    truncated = (final_slot >= 0).view(*final_slot.shape, *[1] * (following.dim() - 2))
    return torch.where(truncated, ends, following)
