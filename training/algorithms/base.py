"""What the trainer asks of an algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from warpdrive.training.models.base import Actor

Experience = TypeVar("Experience")


class Stateful(Protocol):
    """What can be stored in a checkpoint and be put back."""

    def state_dict(self) -> dict[str, Any]:
        """Tensors, numbers and strings, and lists and dictionaries of these."""

    def load_state_dict(self, state_dict: dict[str, Any], /) -> object:
        """Become as another was when its state was taken."""


class Algorithm(ABC, Generic[Experience]):
    """Trains the model of one policy tag: owns its loss and its update.

    Attributes:
        model: the policy, which acts when it is evaluated.
        actor: acts in the rollouts that are learned from: the model, or the model and what makes it explore.
    """

    model: Actor
    actor: Actor

    @abstractmethod
    def update(self, experience: Experience, generator: torch.Generator) -> dict[str, Tensor]:
        """Train on experience with random numbers of ``generator``. Returns scalars on the device."""

    @abstractmethod
    def parts(self) -> Mapping[str, Stateful]:
        """What else than the model's parameters belongs into a checkpoint."""

    def begin(self, env_steps: int) -> None:
        """Prepare for the rollout and the update that begin at ``env_steps``."""


class Every:
    """Says of every n-th call that it is one."""

    def __init__(self, n: int) -> None:
        self.n, self.calls = n, 0

    def __call__(self) -> bool:
        """Count a call and return whether it is one."""
        self.calls += 1
        return self.calls % self.n == 0

    def state_dict(self) -> dict[str, Any]:
        """See ``Stateful``."""
        return {"calls": self.calls}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """See ``Stateful``."""
        self.calls = state_dict["calls"]
