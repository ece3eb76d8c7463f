"""Contents of run folders, as far as a report shows them."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.config.values import is_number
from warpdrive.training.config.yaml import flat, read_yaml
from warpdrive.training.plots.learning_curves import LoggedRun, read_runs


@dataclass(frozen=True)
class Contents:
    """Contents of a run folder; missing and malformed files are empty.

    Attributes:
        logged: Logged metrics.
        settings: Complete configuration by dotted keys.
        nested: Complete configuration.
        summary: ``summary.json``.
        in_progress: True if a process trains in the run.
        evaluations: ``evaluation.json``, which is written when a run has finished.
        episodes: Columns of ``evaluation_episodes.csv`` by name.
        machine: ``machine.json``.
    """

    logged: LoggedRun
    settings: Mapping[str, Any]
    nested: Mapping[str, Any]
    summary: Mapping[str, Any]
    in_progress: bool
    evaluations: Sequence[Mapping[str, Any]]
    episodes: Mapping[str, Sequence[float]]
    machine: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Name and folder of the run."""
        return f"{self.logged.name}/{self.logged.folder.resolve().name}"

    @property
    def state(self) -> str:
        """Status of the run, and the cause if it did not finish."""
        if self.in_progress:
            return "running"
        status = self.summary.get("status")
        if status is None:
            return "stopped without a summary: its process was killed, or runs on another machine"
        cause = self.summary.get("message") or self.summary.get("stopped_by")
        return f"{status}: {cause}" if cause else str(status)

    @property
    def env_steps(self) -> float:
        """Number of environment steps so far, according to the summary or the last row of the metrics."""
        told: Any = self.summary.get("env_steps")
        logged = max(float(rows[0, -1]) for rows in self.logged.metrics.values())
        return max(logged, float(told)) if is_number(told) else logged

    def last_return(self, tag: str) -> object:
        """Return the last return of a policy in training, or None."""
        returns = self.summary.get("returns")
        if isinstance(returns, Mapping) and returns.get(tag) is not None:
            return returns[tag]
        rows = self.logged.metrics.get(f"charts/episodic_return/{tag}")
        return None if rows is None else float(rows[1, -1])

    @property
    def replay(self) -> Path | None:
        """Path of the animation, if there is one."""
        path = self.logged.folder / "replay.gif"
        return path if path.is_file() and not path.is_symlink() else None

    def episodes_of(self, column: str, evaluation: int) -> list[float]:
        """Return a column of the episodes of one evaluation."""
        rows = zip(self.episodes.get("evaluation", ()), self.episodes.get(column, ()), strict=False)
        return [value for index, value in rows if index == evaluation and math.isfinite(value)]


def read_contents(runs: Sequence[str | Path]) -> list[Contents]:
    """Read run folders, each once.

    Raises:
        CheckpointError: If a path is not a run, or the run has not logged anything yet.
    """
    return [_read(logged) for logged in read_runs(runs)]


def _read(logged: LoggedRun) -> Contents:
    folder = RunFolder(logged.folder)
    nested = read_yaml(folder.config)
    summary, evaluations, machine = (
        _json(path) for path in (folder.summary, folder.path / "evaluation.json", folder.machine)
    )
    summary = summary if isinstance(summary, dict) else {}
    # a run that was resumed and has not finished since has an evaluation of a time before
    finished = not folder.is_in_progress and summary.get("status") not in (None, "interrupted", "failed")
    return Contents(
        logged,
        flat(nested),
        nested,
        summary,
        folder.is_in_progress,
        [line for line in evaluations if isinstance(line, dict)] if finished and isinstance(evaluations, list) else [],
        _columns(folder.path / "evaluation_episodes.csv") if finished else {},
        flat(machine) if isinstance(machine, dict) else {},
    )


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    except (OSError, ValueError, RecursionError):
        return None


def _columns(path: Path) -> dict[str, list[float]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        return {name: [float(row[place]) for row in rows] for place, name in enumerate(header)}
    except (OSError, ValueError, IndexError, csv.Error):
        return {}
