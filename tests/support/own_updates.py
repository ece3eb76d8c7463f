"""Update functions as users write them. Loaded by their file's path."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import warpdrive as wd


def returns_of_whole_episodes(rollout: wd.Rollout, tag: str, gamma: float) -> tuple[Tensor, Tensor]:
    """Discounted sums of rewards, and 1 where the agent's part in the episode ends within the rollout."""
    rewards = rollout.of("rewards", tag)
    over = (rollout.terminated | rollout.truncated).unsqueeze(-1).expand_as(rewards)
    there = torch.ones_like(over)
    if rollout.active is not None and rollout.still_active is not None:
        over, there = over | ~rollout.of("still_active", tag), rollout.of("active", tag)
    returns, counts = torch.zeros_like(rewards), torch.zeros_like(rewards)
    later, known = torch.zeros_like(rewards[0]), torch.zeros_like(rewards[0])
    for t in reversed(range(rollout.num_steps)):
        known = torch.where(over[t], 1.0, known)
        later = torch.where(there[t], rewards[t], 0.0) + gamma * torch.where(over[t], 0.0, later)
        returns[t], counts[t] = later, known * there[t]
    return returns, counts


class Reinforce:
    """The built-in algorithm once more, by hand, with an optimizer of its own."""

    def __init__(self, policy: Any, entropy_coef: float = 0.0) -> None:
        self.policy, self.entropy_coef = policy, entropy_coef
        self.optimizer = torch.optim.Adam(policy.model.parameters(), lr=policy.lr, eps=1e-5)

    def __call__(self, rollout: wd.Rollout) -> dict[str, Tensor]:
        for group in self.optimizer.param_groups:
            group["lr"] = self.policy.lr
        returns, counts = returns_of_whole_episodes(rollout, self.policy.tag, self.policy.gamma)

        def mean(values: Tensor) -> Tensor:
            return (values * counts).sum() / counts.sum().clamp(min=1.0)

        centred = returns - mean(returns)
        returns = centred / (mean(centred**2).sqrt() + 1e-8)
        replayed = self.policy.replay(rollout)
        policy_loss, entropy = -mean(replayed.log_probabilities * returns), mean(replayed.entropies)
        self.optimizer.zero_grad()
        (policy_loss - self.entropy_coef * entropy).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.policy.model.parameters(), 0.5)
        self.optimizer.step()
        return {"policy_loss": policy_loss, "entropy": entropy, "grad_norm": norm}

    def state_dict(self) -> dict[str, Any]:
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state)


class Climb:
    """Keeps what earned more than anything before, and tries something near it: no gradients."""

    def __init__(self, policy: Any, sigma: float = 0.3) -> None:
        self.policy, self.sigma = policy, sigma
        self.best, self.earned = self.parameters(), -torch.inf

    def parameters(self) -> Tensor:
        return torch.nn.utils.parameters_to_vector(self.policy.model.parameters()).detach().clone()

    @torch.no_grad()
    def __call__(self, rollout: wd.Rollout) -> dict[str, float]:
        earned = float(rollout.of("rewards", self.policy.tag).mean())
        if earned > self.earned:
            self.best, self.earned = self.parameters(), earned
        noise = torch.randn(self.best.shape, generator=self.policy.generator, device=self.best.device)
        torch.nn.utils.vector_to_parameters(self.best + self.sigma * noise, self.policy.model.parameters())
        return {"earned": earned, "best": self.earned}

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "earned": self.earned}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.earned = state["best"], state["earned"]


def returns_what_it_is_told(policy: Any, rollout: wd.Rollout, what: str) -> Any:
    """Mistakes."""
    if what == "broken weights":
        with torch.no_grad():
            next(policy.model.parameters()).fill_(torch.nan)
        return {}
    return {
        "nothing": None,
        "a vector": {"loss": torch.zeros(3)},
        "a word": {"loss": "little"},
        "a path": {"a/b": 1.0},
        "nan": {"loss": torch.tensor(torch.nan)},
    }[what]


def takes_one(rollout: wd.Rollout) -> dict[str, float]:
    """A parameter is missing."""
    return {}


class NeverCalled:
    """A method is missing."""

    def __init__(self, policy: Any) -> None: ...


class HalfStored(NeverCalled):
    """Another one is."""

    def __call__(self, rollout: wd.Rollout) -> dict[str, float]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}
