"""State of a run besides what is learned, which checkpoints keep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class RunState:
    """State of a run.

    Attributes:
        returns: last logged mean return by policy tag, if there is one.
        best: best evaluation of the run so far, see ``BestCheckpoint.state``.
        evaluation_under_way: True while the current weights are evaluated beside training.
    """

    returns: dict[str, float | None] = field(default_factory=dict)
    best: dict[str, Any] | None = None
    evaluation_under_way: bool = False
