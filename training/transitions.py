"""Single steps of the agents that share a policy, each with what came after it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from warpdrive.observations import Observations, mapped, tensors
from warpdrive.rollout import Rollout, of_agents
from warpdrive.training.distributed.team import ALL_HERE, Spread
from warpdrive.training.rows import Rows


@dataclass(frozen=True)
class Transitions(Rows):
    """Steps of single agents; every tensor's first axis is the row.

    Attributes:
        observations: ``[rows, *observation_shape]``, before the step; by key where the space is a Dict.
        actions: as the rollout has them: ``[rows]`` or ``[rows, parts]`` int32, or ``[rows, *shape]`` float32 as drawn.
        rewards: ``[rows]`` float32.
        next_observations: ``[rows, *observation_shape]``, after the step: of the same episode, even where that ended.
        terminal: ``[rows]`` bool: nothing comes after the step for this agent, because the episode terminated (which a
            time limit does not do) or the agent left it.
        weight: ``[rows]`` float32, 1 where the agent was in the episode and 0 where not.
        next_action_mask: ``[rows, choices]`` bool, what the agent could do next, or None.
        steps: ``[rows]`` float32, how many steps a row is of, see ``NStep``; None: of one. ``next_observations``,
            ``terminal`` and ``next_action_mask`` are those of the last one.
        spread: over which processes a sample is spread; each has its part of it, see ``Team.part``.
        drawn: how many rows the sample has in all processes together; None: those that are here.
    """

    observations: Observations
    actions: Tensor
    rewards: Tensor
    next_observations: Observations
    terminal: Tensor
    weight: Tensor
    next_action_mask: Tensor | None = None
    steps: Tensor | None = None
    spread: Spread = ALL_HERE
    drawn: int | None = None

    def noise(self, count: int, components: int, generator: torch.Generator) -> Tensor:
        """Standard normal numbers, ``[count, rows, components]``: of a sample that is spread, those of the rows."""
        total = len(self) if self.drawn is None else self.drawn
        numbers = torch.randn(count, total, components, generator=generator, device=self.weight.device)
        return numbers[:, self.spread.team.part(total)]

    def target(self, gamma: float, later: Tensor) -> Tensor:
        """``[rows]``: the rewards and, where anything comes after, ``later [rows]``, discounted by ``gamma`` a step."""
        discount = gamma if self.steps is None else gamma**self.steps
        return self.rewards + discount * later * ~self.terminal


@torch.no_grad()
def transitions_of(rollout: Rollout, tag: str, returns_after_leaving: bool) -> Transitions:
    """The steps of the agents of ``tag`` in a full rollout: rows over time x replica x agent, in that order.

    With ``returns_after_leaving`` leaving ends nothing, and what an agent is paid afterwards is in its rows then;
    without, those are 0.
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
    next_mask = None
    if rollout.action_mask is not None:
        present = of_agents(rollout.context["action_mask"], rollout.agents[tag], dim=1)
        next_mask = torch.cat([rollout.of("action_mask", tag)[1:], present.unsqueeze(0)])
        next_mask = _or_final(next_mask, rollout.of("final_action_mask", tag), rollout.final_slot).flatten(0, 2)
    observations: Observations = rollout.of("observations", tag)
    final = tensors(rollout.of("final_observations", tag))
    following = mapped(lambda seen: _or_final(seen[1:], next(final), rollout.final_slot).flatten(0, 2), observations)
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
    """``[T, num_envs, agents of the tag]`` bool: nothing of the agent's return comes after the step.

    That is where the episode ended and, unless ``returns_after_leaving``, where the agent left it.
    """
    over = (rollout.terminated | rollout.truncated).unsqueeze(-1)
    if rollout.still_active is not None and not returns_after_leaving:
        over = over | ~rollout.of("still_active", tag)
    return over.expand(rollout.of("rewards", tag).shape)


def _or_final(following: Tensor, final: Tensor, final_slot: Tensor) -> Tensor:
    """``following [T, num_envs, ...]``, but where an episode was truncated its end instead of the next one's start."""
    replica = torch.arange(following.shape[1], device=following.device)
    ends = final[final_slot.long().clamp(min=0), replica]
    truncated = (final_slot >= 0).view(*final_slot.shape, *[1] * (following.dim() - 2))
    return torch.where(truncated, ends, following)
