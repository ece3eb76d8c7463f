"""Interface of opponents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from warpdrive.training.models.base import Actor


class Opponent(ABC):
    """Actor for the agents of a policy tag that is not trained.

    Attributes:
        actor: Actor of rollouts.
        model: Actor of displayed episodes: for self-play the current version.
        evaluation_model: Actor of evaluations.
    """

    actor: Actor
    model: Actor
    evaluation_model: Actor

    @abstractmethod
    def begin(self, updates: int) -> None:
        """Prepare for the rollout after ``updates`` updates."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the state: tensors, numbers and strings, and lists and dictionaries of these."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state returned by ``state_dict()``."""
