"""Experience over several steps at once (Sutton 1988, doi:10.1007/BF00115009; for replay Hessel et al. 2018,
arXiv:1710.02298): the rewards of n steps, and what came after the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from warpdrive.observations import Observations, mapped, tensors
from warpdrive.training.transitions import Transitions


class NStep:
    """Turns single steps into n steps each, but fewer where the episode, or the agent's part in it, ends before.

    A step waits for the n - 1 that follow it, which may come with the next rollout.

    Args:
        n: how many steps, 2 or more.
        gamma: returns what the discount per step is now.
    """

    def __init__(self, n: int, gamma: Callable[[], float]) -> None:
        self.n, self.gamma = n, gamma
        self._waiting: dict[str, Observations] = {}

    @torch.no_grad()
    def of(self, steps: Transitions, ended: Tensor) -> Transitions:
        """Transitions over n steps, beginning where all these steps are known by now.

        Args:
            steps: of a rollout, rows over time x replica x agent.
            ended: ``[T, num_envs, agents]`` bool: nothing of the agent's experience comes after the step.
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
        """Join the steps that follow each of the first ``complete`` ones to it."""
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
        """The steps that wait for others."""
        return {"waiting": self._waiting}

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Become as another was when its state was taken."""
        self._waiting = {
            name: mapped(lambda rows: rows.to(device), column) for name, column in state["waiting"].items()
        }


class StepsUntilBack:
    """Turns single steps of agents that may leave their episode into n steps each, or more.

    An agent that is out of the episode decides nothing, so what it is paid meanwhile belongs to the steps before it
    left: they last until it is back or, of an agent that stays out, until the episode ends. Nothing follows that end,
    whether it is a termination or a time limit.

    Args:
        n: the fewest steps, 1 or more, unless the episode ends before.
        gamma: returns what the discount per step is now.
    """

    def __init__(self, n: int, gamma: Callable[[], float]) -> None:
        self.n, self.gamma = n, gamma
        self._time = 0
        self._waiting: dict[str, Observations] = {}

    @torch.no_grad()
    def of(self, steps: Transitions, ended: Tensor, stays: Tensor) -> Transitions:
        """Transitions that are complete by now, ``[T x n x num_envs x agents]`` of which those of weight 1 are there.

        Args:
            steps: of a rollout, rows over time x replica x agent; what an agent is paid after it has left included.
            ended: ``[T, num_envs, agents]`` bool: the episode ended with this step.
            stays: ``[T, num_envs, agents]`` bool: the agent was in the episode after it.
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
        """Let the step that is taken ``now`` wait, and return what it completes: rows over place x agent."""
        waiting: Any = self._waiting
        here, enters = self._time % self.n, now["weight"] > 0  # whoever enters has nothing there that waits, see below
        for name in _BEFORE:
            for kept, new in zip(tensors(waiting[name]), tensors(now[name]), strict=True):
                kept[here] = torch.where(_as(enters, new), new if name != "rewards" else 0.0 * new, kept[here])
        waiting["steps"][here].masked_fill_(enters, 0.0)
        # what waits of an agent that is there is younger than n steps: older ones were complete when it came back
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
        """The steps that wait for others."""
        return {"time": self._time, "waiting": self._waiting}

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Become as another was when its state was taken."""
        self._time = state["time"]
        self._waiting = {
            name: mapped(lambda rows: rows.to(device), column) for name, column in state["waiting"].items()
        }


_BEFORE = ("observations", "actions", "rewards", "weight")
"""What is that of the first of n steps, and the sum of rewards."""
_AFTERWARDS = ("next_observations", "terminal", "next_action_mask")
"""What is that of the last of n steps."""


def _after(former: Observations, new: Observations) -> Observations:
    parts = tensors(new)
    return mapped(lambda rows: torch.cat([rows, next(parts)]), former)


def _flat(column: Observations, index: Any) -> Observations:
    return mapped(lambda rows: itemgetter(index)(rows).flatten(0, 1), column)


def _as(flags: Tensor, rows: Tensor) -> Tensor:
    """Let ``flags [rows]`` say of ``rows [rows, ...]`` what they say."""
    return flags.view(-1, *[1] * (rows.dim() - 1))


def _stacked(parts: Sequence[Observations]) -> Observations:
    """Rows of all parts, each ``[places, agents, ...]``, one after the other."""
    if isinstance(parts[0], dict):
        return {key: _stacked([part[key] for part in parts]) for key in parts[0]}  # type: ignore[index]
    return torch.stack(parts).flatten(0, 2)  # type: ignore[arg-type]
