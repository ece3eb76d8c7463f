"""Best checkpoint of a run, by the evaluations during training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpdrive.training.checkpoint.checkpoint import BEST, Keep, remove_old, write_pointer
from warpdrive.training.config.load import RunConfig
from warpdrive.training.reports import EvaluationReport


class BestCheckpoint:
    """Tracks the best evaluation so far, and points ``checkpoints/best`` to the checkpoint of its weights.

    Args:
        checkpoints: Folder of the run's checkpoints.
        config: Run configuration, whose ``saving`` section names the metric.
        state: State of a run that is continued, or None.

    Attributes:
        wanted: True if the best checkpoint is to be kept.
        state: ``metric``, ``mode``, ``value`` and ``env_steps`` of the best evaluation so far; or None.
    """

    def __init__(self, checkpoints: Path, config: RunConfig, state: Mapping[str, Any] | None) -> None:
        self.wanted, self.checkpoints = config.saving.keep_best, checkpoints
        self.metric, self.mode = config.best_metric, config.saving.best_mode
        comparable = state is not None and (state["metric"], state["mode"]) == (self.metric, self.mode)
        self.state = dict(state) if state is not None and comparable else None
        if self.folder is None or not self.folder.is_dir():  # nothing yet; or damaged, and removed since
            self.state = None
        self._mark()

    @property
    def env_steps(self) -> int | None:
        """Environment steps of the best checkpoint, or None."""
        return None if self.state is None else self.state["env_steps"]

    @property
    def folder(self) -> Path | None:
        """Folder of the best checkpoint, or None."""
        return None if self.state is None else self.checkpoints / f"step_{self.env_steps}"

    def is_new(self, report: EvaluationReport) -> bool:
        """Return True if an evaluation is better than all before, and record it as the best; NaN never is."""
        value = report.result.metrics()[self.metric]
        sign = 1 if self.mode == "max" else -1
        if not self.wanted or math.isnan(value):
            return False
        if self.state is not None and sign * value <= sign * self.state["value"]:
            return False
        self.state = {"metric": self.metric, "mode": self.mode, "value": value, "env_steps": report.env_steps}
        return True

    def replace_best(self, keep: Keep) -> None:
        """Replace the former best checkpoint by the new one, which is already written."""
        self._mark()
        remove_old(self.checkpoints, keep, self.env_steps)

    def _mark(self) -> None:
        """Point ``best`` to the best checkpoint, or remove it if there is none."""
        if self.folder is not None:
            write_pointer(self.folder, BEST)
        else:
            (self.checkpoints / BEST).unlink(missing_ok=True)
