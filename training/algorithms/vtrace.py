"""V-trace off-policy correction (Espeholt et al. 2018, arXiv:1802.01561), and the groups of replicas that use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from warpdrive.observations import Observations, mapped, tensors
from warpdrive.training.distributed.process_group import SINGLE_PROCESS, ProcessGroup, Sharding
from warpdrive.training.experience.batch import AbsentValue, Batch
from warpdrive.training.experience.transitions import ended, transitions_of

if TYPE_CHECKING:
    from warpdrive.rollout import Rollout
    from warpdrive.training.algorithms.a2c import A2CConfig


class VTrace(NamedTuple):
    """V-trace targets of ``[T, n]`` steps.

    Attributes:
        targets: ``[T, n]``, targets of the value function: v_s of the paper (equation 1).
        advantages: ``[T, n]``, advantages of the policy gradient (section 4.2), including the importance ratio.
    """

    targets: Tensor
    advantages: Tensor


def vtrace(
    *,
    log_ratios: Tensor,
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    ended: Tensor,
    gamma: float,
    gae_lambda: float | Tensor,
    rho_clip: float,
    c_clip: float,
    chosen: Tensor | None = None,
) -> VTrace:
    """Return value targets and advantages of off-policy experience, corrected by V-trace.

    Lambda multiplies every c (remark 2 of the paper). The advantage of a step is bootstrapped from ``V(s + 1) + lambda
    * (v_(s + 1) - V(s + 1))``: with lambda 1 from v_(s + 1), as in the paper's section 4.2; with less, as in DeepMind's
    RLax, so that on-policy targets and advantages equal those of generalised advantage estimation, for any lambda.

    Args:
        log_ratios: ``[T, n]``, log-probabilities of the actions by the current minus the behaviour policy.
        rewards: ``[T, n]``.
        values: ``[T, n]``, value estimates before each step.
        next_values: ``[T, n]``, after it, in the same episode; 0 if nothing follows.
        ended: ``[T, n]`` bool, True if the next row is not the next step of the same episode.
        gamma: Discount per step.
        gae_lambda: GAE coefficient, or ``[T, n]``: one per step.
        rho_clip: Clipping threshold of the ratios in temporal differences.
        c_clip: Clipping threshold of the ratios in trace coefficients.
        chosen: ``[T, n]`` bool, True if the agent chose the action; for inactive agents rho is 1, and c is lambda.
            None: always.

    Returns:
        Targets and advantages ``[T, n]``.
    """
    ratios = log_ratios.exp()
    rho, c = ratios.clamp(max=rho_clip), ratios.clamp(max=c_clip)
    if chosen is not None:
        rho, c = rho.where(chosen, 1.0), c.where(chosen, 1.0)
    differences = rho * (rewards + gamma * next_values - values)
    weight = gae_lambda * (~ended).to(values.dtype)
    correction = torch.zeros_like(values[0])  # v_(s + 1) - V(x_(s + 1))
    corrections = torch.empty_like(values)
    later = torch.empty_like(values)  # lambda times the correction of the next step of the same episode
    for t in reversed(range(len(values))):
        later[t] = weight[t] * correction
        correction = corrections[t] = differences[t] + gamma * c[t] * later[t]
    return VTrace(values + corrections, rho * (rewards + gamma * (next_values + later) - values))


class Learner(Protocol):
    """Policy and value function of the experience."""

    config: A2CConfig

    def values(self, observations: Observations) -> Tensor:
        """Return the value estimates ``[rows]`` float32 of ``[rows, *observation_shape]`` of any dtype."""

    def log_probabilities(self, observations: Observations, actions: Tensor, action_mask: Tensor | None) -> Tensor:
        """Return the log-probabilities ``[rows]`` of actions by the current policy.

        Args:
            observations: ``[rows, *observation_shape]``.
            actions: Recorded actions.
            action_mask: ``[rows, choices]`` bool, or None.
        """


class StaggeredGroups:
    """Builder of the batch of each update from the last steps of one group of replicas, in turn.

    There are as many groups as rollouts in ``num_steps``: each update learns from long sequences although the rollouts
    between updates are short, and each step is used once. At the beginning there are fewer steps; missing ones have
    weight 0.

    Args:
        tag: Policy tag.
        learner: Provides the policy, the value function and the coefficients.
        num_steps: Steps of each replica per update, a multiple of the rollout length.
        device: Device of the stored steps.
        process_group: Process group of the training: each process stores all steps, and trains on a part of each group.
    """

    def __init__(
        self,
        tag: str,
        learner: Learner,
        num_steps: int,
        device: torch.device,
        process_group: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        self.tag, self.learner, self.num_steps, self.device, self.process_group = (
            tag,
            learner,
            num_steps,
            device,
            process_group,
        )
        self._updates, self._agents_leave = 0, False
        self._absent_value = AbsentValue(device, Sharding(process_group))
        self._memory: dict[str, Observations] = {}

    @torch.no_grad()
    def of(self, rollout: Rollout) -> Batch:
        """Return the last ``num_steps`` steps of the next group, including this rollout's.

        Args:
            rollout: Rollout of all replicas, a multiple of the number of groups.
        """
        length = rollout.num_steps
        groups = self.num_steps // length
        group, size = self._updates % groups, rollout.terminated.shape[1] // groups
        part = self.process_group.part(size)
        first, count = group * size + part.start, part.stop - part.start
        self._store(rollout, slice(group * length, (group + 1) * length))
        self._updates += 1
        oldest = (group + 1) * length  # where the next rollout will be stored

        def of_group(column: Tensor) -> Tensor:
            replicas = column[:, first : first + max(count, 1)]
            return torch.cat([replicas[oldest:], replicas[:oldest]]).flatten(0, 2)

        columns: dict[str, Any] = {name: mapped(of_group, column) for name, column in self._memory.items()}
        if not count:  # there are more processes than replicas in a group, and models may not be made for no rows
            columns["weight"].zero_()
            columns["absent"].zero_()
        return self._batch(**columns)

    def _batch(
        self,
        *,
        observations: Observations,
        next_observations: Observations,
        actions: Tensor,
        action_mask: Tensor | None = None,
        log_probabilities: Tensor,
        rewards: Tensor,
        terminal: Tensor,
        ended: Tensor,
        stays: Tensor,
        absent: Tensor,
        weight: Tensor,
    ) -> Batch:
        config = self.learner.config
        is_there, absent_value = weight > 0, self._absent_value.value
        values = self.learner.values(observations).where(is_there, absent_value)
        next_values = self.learner.values(next_observations).where(stays, absent_value)
        now = self.learner.log_probabilities(observations, actions, action_mask)
        columns = {
            "log_ratios": (now - log_probabilities) * weight,
            "rewards": rewards,
            "values": values,
            "next_values": next_values * ~terminal,
            "ended": ended,
            "gae_lambda": torch.where(stays, config.gae_lambda, 1.0),  # inactive agents choose no actions
            "chosen": is_there,
        }
        found = vtrace(
            **{name: column.view(self.num_steps, -1) for name, column in columns.items()},
            gamma=config.gamma,
            rho_clip=config.rho_clip,
            c_clip=config.c_clip,
        )
        targets = found.targets.flatten()
        if self._agents_leave and config.returns_after_leaving:
            self._absent_value.observe(targets - values, absent.float())
        return Batch(
            observations=observations,
            actions=actions,
            log_probabilities=log_probabilities,
            values=values.where(is_there, 0.0),
            advantages=found.advantages.flatten().where(is_there, 0.0),
            returns=targets.where(is_there, 0.0),
            weight=weight,
            action_mask=action_mask,
            sharding=Sharding(self.process_group),
        )

    def _store(self, rollout: Rollout, place: slice) -> None:
        after_leaving, self._agents_leave = self.learner.config.returns_after_leaving, rollout.active is not None
        steps = transitions_of(rollout, self.tag, after_leaving)
        shape = rollout.of("rewards", self.tag).shape
        stays = torch.ones(shape, dtype=torch.bool, device=self.device)
        if rollout.still_active is not None:
            stays = rollout.of("still_active", self.tag)
        columns: dict[str, Any] = {
            "observations": steps.observations,
            "next_observations": steps.next_observations,
            "actions": steps.actions,
            "action_mask": None if rollout.action_mask is None else rollout.of("action_mask", self.tag).flatten(0, 2),
            "log_probabilities": rollout.of("log_probabilities", self.tag).flatten(),
            "rewards": steps.rewards,
            "terminal": steps.terminal,
            "ended": ended(rollout, self.tag, after_leaving).flatten(),
            "stays": stays.flatten(),
            "absent": steps.weight == 0,
            "weight": steps.weight,
        }
        there = {name: column for name, column in columns.items() if column is not None}
        if not self._memory:
            whole = (self.num_steps, *shape[1:])
            self._memory = {
                name: mapped(lambda rows: rows.new_zeros(*whole, *rows.shape[1:]), column)
                for name, column in there.items()
            }
        for name, column in there.items():
            for kept, new in zip(tensors(self._memory[name]), tensors(column), strict=True):
                kept[place].copy_(new.unflatten(0, shape))

    def state_dict(self) -> dict[str, Any]:
        """Return the last steps of all replicas."""
        memory = {name: mapped(torch.clone, column) for name, column in self._memory.items()}
        return {"updates": self._updates, "memory": memory, **self._absent_value.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state returned by ``state_dict()``."""
        self._updates = state["updates"]
        self._absent_value.load_state_dict(state)
        memory = state["memory"].items()
        self._memory = {name: mapped(lambda rows: rows.to(self.device), column) for name, column in memory}
        if self._memory:  # older checkpoints do not have these
            terminal: Any = self._memory["terminal"]
            self._memory.setdefault("stays", torch.ones_like(terminal))
            self._memory.setdefault("absent", torch.zeros_like(terminal))
