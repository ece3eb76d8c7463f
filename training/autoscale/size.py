"""Training sizes and the outcomes of trying them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


class Size(NamedTuple):
    """Number of replicas and rollout length."""

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
    """Outcome of trying a size.

    Attributes:
        size: The size.
        speed: Trained environment steps per second (rollout, update and logging); 0 if it does not fit.
        memory: Peak memory in bytes: of the process on the CPU, of PyTorch on a GPU; 0 if unknown.
        grows: Part of it in bytes that only a long run allocates, as replay buffers fill.
        rollout_seconds: Rollout time per update.
        update_seconds: Learning time per update.
        failure: Kind of failure: no memory, timeout, an error, or not tried (``refused``: the arrays alone need more
            memory than available, or the configuration forbids the size); None if it fits.
        reason: Description of the failure.
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
        """True if training with the size succeeded."""
        return self.failure is None
