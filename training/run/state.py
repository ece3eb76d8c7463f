"""State of a run besides its policies, which is part of checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class RunState:
    """State of a run.

    Attributes:
        returns: Last logged mean return by policy tag, if there is one.
        best: Best evaluation of the run so far, see ``BestCheckpoint.state``.
        evaluation_under_way: True while the current weights are evaluated concurrently with training.
    """

    returns: dict[str, float | None] = field(default_factory=dict)
    best: dict[str, Any] | None = None
    evaluation_under_way: bool = False
