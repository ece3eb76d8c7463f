"""Which checkpoint of a run is the best, by the evaluations while it trained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpdrive.training.checkpoint import BEST, Keep, point_to, remove_old
from warpdrive.training.config import RunConfig
from warpdrive.training.report import EvaluationReport


class BestCheckpoint:
    """Remembers the best evaluation so far, and has ``checkpoints/best`` name the checkpoint of its weights.

    Args:
        checkpoints: the folder of the run's checkpoints.
        config: of the run; says by what, see ``saving``.
        state: as another's was that went on from here, or None.

    Attributes:
        wanted: whether the best checkpoint is to be kept.
        state: what was best so far: ``metric``, ``mode``, ``value`` and ``env_steps``; or None.
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
        """Environment steps of the best checkpoint, if there is one."""
        return None if self.state is None else self.state["env_steps"]

    @property
    def folder(self) -> Path | None:
        """The best checkpoint, if there is one."""
        return None if self.state is None else self.checkpoints / f"step_{self.env_steps}"

    def is_new(self, report: EvaluationReport) -> bool:
        """Whether an evaluation is better than all before; it then counts as the best."""
        value = report.result.metrics()[self.metric]
        sign = 1 if self.mode == "max" else -1
        if not self.wanted or (self.state is not None and sign * value <= sign * self.state["value"]):
            return False
        self.state = {"metric": self.metric, "mode": self.mode, "value": value, "env_steps": report.env_steps}
        return True

    def take_place(self, keep: Keep) -> None:
        """Let the best checkpoint, which was written before it was known to be that, take the place of the former."""
        self._mark()
        remove_old(self.checkpoints, keep, self.env_steps)

    def _mark(self) -> None:
        """Have ``best`` name the best checkpoint, which is there; or no longer be there."""
        if self.folder is not None:
            point_to(self.folder, BEST)
        else:
            (self.checkpoints / BEST).unlink(missing_ok=True)
