"""Reports of a training run: after each logged update, and at its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # imports kernels, which readers of run folders do not need
    from warpdrive.training.evaluation import EvaluationResult

A_YEAR = 365 * 24 * 3600.0
"""Seconds from which on no remaining time is shown: such runs are meant to be interrupted."""


@dataclass(frozen=True)
class UpdateReport:
    """State of a run after a logged update.

    Attributes:
        update: Number of updates so far.
        env_steps: Environment steps so far.
        total_steps: Environment steps of the whole run.
        returns: By policy tag, the mean over the episodes that ended since the last report of the mean return of the
            tag's agents; None if no episode ended.
        env_steps_per_second: Throughput since the last report.
        metrics: All logged metrics, by their names in the metrics files.
        seconds_left: Estimate from the throughput so far.
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
    """Result of an evaluation during training.

    Attributes:
        update: Number of updates of the evaluated weights.
        env_steps: Environment steps of the evaluated weights.
        result: Evaluation result.
        seconds: Duration of the evaluation.
    """

    update: int
    env_steps: int
    result: EvaluationResult
    seconds: float


@dataclass(frozen=True)
class TrainingSummary:
    """Summary of a run; also written to ``summary.json``.

    Attributes:
        status: ``"finished"``, ``"interrupted"`` (Ctrl-C, SIGTERM or SIGHUP) or ``"failed"``.
        run_folder: Folder of all outputs.
        checkpoint: Folder of the last checkpoint, or None.
        updates: Number of updates.
        env_steps: Number of environment steps.
        seconds: Wall time of this call of ``train``.
        returns: By policy tag, as in the last ``UpdateReport`` in which an episode had ended.
        message: Error message, or "".
        best: Checkpoint with the best evaluation, or None.
        stopped_by: Signal that interrupted the run, such as ``"SIGTERM"``, or "".
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
