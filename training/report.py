"""What a training run tells whoever watches it: after each logged update, and at its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # which needs kernels, and what reads a run folder need not
    from warpdrive.training.evaluation import EvaluationResult


@dataclass(frozen=True)
class UpdateReport:
    """The state of a run after a logged update.

    Attributes:
        update: updates done so far.
        env_steps: environment steps done so far.
        total_steps: environment steps of the whole run.
        returns: per policy tag, the mean over the episodes that ended since the last report of the mean over the
            agents of the tag; None where no episode ended.
        env_steps_per_second: since the last report.
        metrics: all that was logged, by the names of the metrics files.
        seconds_left: estimated from the speed so far.
    """

    update: int
    env_steps: int
    total_steps: int
    returns: dict[str, float | None]
    env_steps_per_second: float
    metrics: dict[str, float]
    seconds_left: float


@dataclass(frozen=True)
class EvaluationReport:
    """What came out of an evaluation while the run trains.

    Attributes:
        update: whose weights these are: updates done when they were taken.
        env_steps: environment steps done then.
        result: what came out.
        seconds: how long it took.
    """

    update: int
    env_steps: int
    result: EvaluationResult
    seconds: float


@dataclass(frozen=True)
class TrainingSummary:
    """How a run ended; also written to ``summary.json``.

    Attributes:
        status: ``"finished"``, ``"interrupted"`` (Ctrl-C, SIGTERM or SIGHUP) or ``"failed"``.
        run_folder: where everything was written.
        checkpoint: the last checkpoint's folder, or None.
        updates: updates done.
        env_steps: environment steps done.
        seconds: wall time of this call of ``train``.
        returns: per policy tag, as in the last ``UpdateReport`` in which an episode had ended.
        message: what went wrong, or "".
        best: the checkpoint with the best evaluation, or None.
        stopped_by: the signal that interrupted the run, as ``"SIGTERM"``, or "".
    """

    status: str
    run_folder: Path
    checkpoint: Path | None
    updates: int
    env_steps: int
    seconds: float
    returns: dict[str, float | None]
    message: str = ""
    best: Path | None = None
    stopped_by: str = ""
