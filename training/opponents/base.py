"""What the trainer asks of an opponent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from warpdrive.training.models.base import Actor


class Opponent(ABC):
    """Acts for the agents of a policy tag, and learns nothing.

    Attributes:
        actor: acts in rollouts.
        model: acts where episodes are shown: in self-play the present version.
        evaluation_model: acts where policies are evaluated.
    """

    actor: Actor
    model: Actor
    evaluation_model: Actor

    @abstractmethod
    def begin(self, updates: int) -> None:
        """Prepare for the rollout after so many updates."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """What it takes to go on as before: tensors, numbers and strings, and lists and dictionaries of these."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on as another would, whose state this was."""
