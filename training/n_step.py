"""Experience over several steps at once (Sutton 1988, doi:10.1007/BF00115009; for replay Hessel et al. 2018,
arXiv:1710.02298): the rewards of n steps, and what came after the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


_AFTERWARDS = ("next_observations", "terminal", "next_action_mask")
"""What is that of the last of n steps."""


def _after(former: Observations, new: Observations) -> Observations:
    parts = tensors(new)
    return mapped(lambda rows: torch.cat([rows, next(parts)]), former)


def _flat(column: Observations, index: Any) -> Observations:
    return mapped(lambda rows: itemgetter(index)(rows).flatten(0, 1), column)
