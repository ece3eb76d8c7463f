"""Multi-step transitions (Sutton 1988, doi:10.1007/BF00115009; for replay Hessel et al. 2018, arXiv:1710.02298).

They are sums of n rewards, followed by the state after the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from warpdrive.observations import Observations, mapped, tensors
from warpdrive.training.experience.transitions import Transitions


class NStep:
    """Converter of single steps to n-step transitions, truncated where the episode, or the agent's part in it, ends.

    A step is stored until the n - 1 following steps are known, which may be in the next rollout.

    Args:
        n: Number of steps, at least 2.
        gamma: Callable that returns the current discount per step.
    """

    def __init__(self, n: int, gamma: Callable[[], float]) -> None:
        self.n, self.gamma = n, gamma
        self._waiting: dict[str, Observations] = {}

    @torch.no_grad()
    def of(self, steps: Transitions, ended: Tensor) -> Transitions:
        """Return the n-step transitions whose steps are all known by now.

        Args:
            steps: Single steps of a rollout, rows over time x replica x agent.
            ended: ``[T, num_envs, agents]`` bool, True if the agent's experience ends with the step.
        """
        shape = (len(ended), ended[0].numel())
        new: dict[str, Observations] = {
            name: mapped(lambda rows: rows.unflatten(0, shape), column)
            for name, column in {**steps.columns(), "ended": ended.flatten()}.items()
        }
        known = {name: _after(self._waiting[name], column) for name, column in new.items()} if self._waiting else new
        complete = max(0, len(next(tensors(known["rewards"]))) - self.n + 1)
        self._waiting = {name: mapped(lambda rows: rows[complete:].clone(), column) for name, column in known.items()}
        return self._joined(known, complete)

    def _joined(self, known: Mapping[str, Any], complete: int) -> Transitions:
        """Join each of the first ``complete`` steps with the steps that follow it."""
        gamma, rewards = self.gamma(), known["rewards"]
        first = torch.arange(complete, device=rewards.device).unsqueeze(1).expand(-1, rewards.shape[1])
        last, total = first.clone(), torch.zeros_like(rewards[:complete])
        goes_on = torch.ones_like(total, dtype=torch.bool)
        for k in range(self.n):
            later = slice(k, k + complete)
            total += gamma**k * rewards[later] * goes_on
            last = torch.where(goes_on, first + k, last)
            goes_on &= ~known["ended"][later]
        agent = torch.arange(rewards.shape[1], device=rewards.device)
        joined: dict[str, Any] = {
            name: _flat(column, (last, agent) if name in _AFTERWARDS else slice(complete))
            for name, column in known.items()
            if name != "ended"
        }
        return Transitions(**{**joined, "rewards": total.flatten(), "steps": (last - first + 1).flatten().float()})

    def state_dict(self) -> dict[str, Any]:
        """Return the steps that wait for later ones."""
        return {"waiting": self._waiting}

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Restore the state returned by ``state_dict()``."""
        self._waiting = {
            name: mapped(lambda rows: rows.to(device), column) for name, column in state["waiting"].items()
        }


class StepsUntilBack:
    """Converter of single steps of agents that may leave their episode to transitions of at least n steps.

    An inactive agent takes no actions, so its rewards belong to the steps before it left: these last until it returns
    or, if it does not, until the episode ends, where there is no bootstrapping, be it a termination or a truncation.

    Args:
        n: Minimum number of steps, at least 1, unless the episode ends before.
        gamma: Callable that returns the current discount per step.
    """

    def __init__(self, n: int, gamma: Callable[[], float]) -> None:
        self.n, self.gamma = n, gamma
        self._time = 0
        self._waiting: dict[str, Observations] = {}

    @torch.no_grad()
    def of(self, steps: Transitions, ended: Tensor, stays: Tensor) -> Transitions:
        """Return the completed transitions as rows ``[T x n x num_envs x agents]``, with weight 0 for absent ones.

        Args:
            steps: Single steps of a rollout, rows over time x replica x agent, including rewards of agents that have
                left.
            ended: ``[T, num_envs, agents]`` bool, True if the episode ended with this step.
            stays: ``[T, num_envs, agents]`` bool, True if the agent was in the episode after it.

        Returns:
            Transitions over n steps, rows over time x step x replica x agent.
        """
        shape = (len(ended), ended[0].numel())
        known: dict[str, Any] = {
            name: mapped(lambda rows: rows.unflatten(0, shape), column) for name, column in steps.columns().items()
        }
        over, stays = ended.flatten(1), stays.flatten(1)
        if not self._waiting:
            self._waiting = {
                name: mapped(lambda rows: rows.new_zeros(self.n, *rows.shape[1:]), known[name]) for name in _BEFORE
            }
            self._waiting["steps"] = torch.zeros_like(known["rewards"][:1]).repeat(self.n, 1)
        complete = []
        for t in range(shape[0]):
            now = {name: mapped(itemgetter(t), column) for name, column in known.items()}
            complete.append(self._advance(now, over[t], stays[t]))
            self._time += 1
        columns: dict[str, Any] = {name: _stacked([part[name] for part in complete]) for name in complete[0]}
        return Transitions(**columns)

    def _advance(self, now: Mapping[str, Any], over: Tensor, stays: Tensor) -> dict[str, Observations]:
        """Add the current step to the waiting ones, and return those that it completes: rows over place x agent."""
        waiting: Any = self._waiting
        here, enters = self._time % self.n, now["weight"] > 0  # entering agents have no waiting steps here, see below
        for name in _BEFORE:
            for kept, new in zip(tensors(waiting[name]), tensors(now[name]), strict=True):
                kept[here] = torch.where(_as(enters, new), new if name != "rewards" else 0.0 * new, kept[here])
        waiting["steps"][here].masked_fill_(enters, 0.0)
        # waiting steps of a present agent are younger than n: older ones were completed when it returned
        waits = waiting["weight"] > 0
        waiting["rewards"] += torch.where(waits, self.gamma() ** waiting["steps"] * now["rewards"], 0.0)
        waiting["steps"] += waits
        is_complete = waits & (over | ((waiting["steps"] >= self.n) & stays))
        found: dict[str, Observations] = {
            name: mapped(lambda rows: rows.clone(), waiting[name]) for name in (*_BEFORE, "steps")
        }
        for name in _AFTERWARDS:
            if name in now:
                found[name] = mapped(lambda rows: rows.expand(self.n, *rows.shape), now[name])
        found["terminal"] = (now["terminal"] | (over & ~stays)).expand(self.n, -1)
        found["weight"] = is_complete.float()
        waiting["weight"].masked_fill_(is_complete, 0.0)
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return the steps that wait for later ones."""
        return {"time": self._time, "waiting": self._waiting}

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Restore the state returned by ``state_dict()``."""
        self._time = state["time"]
        self._waiting = {
            name: mapped(lambda rows: rows.to(device), column) for name, column in state["waiting"].items()
        }


_BEFORE = ("observations", "actions", "rewards", "weight")
"""Columns taken from the first of n steps, and the sum of rewards."""
_AFTERWARDS = ("next_observations", "terminal", "next_action_mask")
"""Columns taken from the last of n steps."""


def _after(former: Observations, new: Observations) -> Observations:
    parts = tensors(new)
    return mapped(lambda rows: torch.cat([rows, next(parts)]), former)


def _flat(column: Observations, index: Any) -> Observations:
    return mapped(lambda rows: itemgetter(index)(rows).flatten(0, 1), column)


def _as(flags: Tensor, rows: Tensor) -> Tensor:
    """Reshape ``flags [rows]`` to broadcast over ``rows [rows, ...]``."""
    return flags.view(-1, *[1] * (rows.dim() - 1))


def _stacked(parts: Sequence[Observations]) -> Observations:
    """Concatenate parts ``[places, agents, ...]`` to rows."""
    if isinstance(parts[0], dict):
        return {key: _stacked([part[key] for part in parts]) for key in parts[0]}  # type: ignore[index]
    return torch.stack(parts).flatten(0, 2)  # type: ignore[arg-type]
