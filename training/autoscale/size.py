"""Sizes of training, and what came of trying them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


class Size(NamedTuple):
    """How much is simulated at a time."""

    num_envs: int
    rollout_length: int

    @property
    def batch(self) -> int:
        """Environment steps per update."""
        return self.num_envs * self.rollout_length

    def __str__(self) -> str:
        return f"{self.num_envs} replicas x {self.rollout_length} steps"


Failure = Literal["memory", "time", "crash", "refused"]


@dataclass(frozen=True)
class Outcome:
    """What came of trying a size.

    Attributes:
        size: what was tried.
        speed: environment steps trained per second (rollout, update and logging); 0 where it does not fit.
        memory: the most bytes taken: of the process on the CPU, of PyTorch on a GPU; 0 where nobody knows.
        grows: bytes of it that only a long run takes: replay buffers fill.
        rollout_seconds: of one update, the part of the rollout.
        update_seconds: and that of learning.
        failure: why it does not fit: no memory, not within the time limit, an error, or that it was not even tried
            (``refused``: the arrays alone need more memory than there is, or the configuration forbids it); or None.
        reason: the same in words.
    """

    size: Size
    speed: float = 0.0
    memory: float = 0.0
    grows: float = 0.0
    rollout_seconds: float = 0.0
    update_seconds: float = 0.0
    failure: Failure | None = None
    reason: str = ""

    @property
    def fits(self) -> bool:
        """Whether the size could be trained with."""
        return self.failure is None
