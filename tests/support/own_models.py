"""Models as users write them. Loaded by their file's path, or registered by name."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import Space
from torch import Tensor, nn

import warpdrive as wd


class Own(wd.ActorCritic):
    """A layer for both, and what a mistake would be: ``wrong`` says where one is made."""

    def __init__(self, observation_space: Space[Any], num_logits: int, *, width: int = 8, wrong: str = "") -> None:
        super().__init__()
        assert observation_space.shape is not None
        if wrong == "constructor":
            raise RuntimeError("not today")
        self.wrong = wrong
        self.body = nn.Sequential(nn.Linear(observation_space.shape[0], width), nn.Tanh())
        self.head = nn.Linear(width, num_logits + 1)
        self.factor = torch.ones(3, device="meta" if wrong == "attribute" else "cpu")

    def logits(self, observations: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(observations.float()))[..., :-1]
        if self.wrong == "call":
            raise RuntimeError("not now")
        if self.wrong == "nothing":
            return None  # type: ignore[return-value]
        if self.wrong == "dtype":
            return outputs.double()
        return outputs.to("meta") if self.wrong == "device" else outputs

    def values(self, observations: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(observations.float()))
        return outputs[..., -1:] if self.wrong == "shape" else outputs[..., -1]


class OwnStatistics(Own):
    """Keeps the mean of the last rollout, of which each of several processes sees its own part."""

    last: Tensor

    def __init__(self, observation_space: Space[Any], num_logits: int) -> None:
        super().__init__(observation_space, num_logits)
        self.register_buffer("last", torch.zeros(observation_space.shape or ()))

    def observe(self, observations: Any, weight: Tensor) -> None:
        self.last.copy_(observations.mean(0))


class OwnMemory(wd.RecurrentActorCritic):
    """Recurrent model whose state is the mean of its observations."""

    def __init__(self, observation_space: Space[Any], num_logits: int, decay: float = 0.5) -> None:
        super().__init__()
        assert observation_space.shape is not None
        self.decay, self.state_size = decay, observation_space.shape[0]
        self.policy = nn.Linear(self.state_size, num_logits)
        self.value = nn.Linear(self.state_size, 1)

    def encode(self, observations: Tensor) -> Tensor:
        return observations.float()

    def advance(self, features: Tensor, state: Tensor) -> Tensor:
        return self.decay * state + features

    def heads(self, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.policy(state), self.value(state).squeeze(-1)


class NoModel:
    """Something else."""
