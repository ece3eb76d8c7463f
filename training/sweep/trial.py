"""Trial process: ``python -m warpdrive.training.sweep.trial <folder> [--trust]``.

It trains with ``trial.yaml`` of the folder, or resumes the run in it, evaluates, writes its progress to
``progress.json``, and its result to ``result.json``. Ctrl-C ends it like any run.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from warpdrive.errors import WarpDriveError
from warpdrive.training.config.load import load_config
from warpdrive.training.reports import UpdateReport
from warpdrive.training.runtime.atomic_write import write_json
from warpdrive.training.trainer import Trainer, make_env

_BETWEEN_REPORTS = 0.25
"""Minimum seconds between two progress reports."""


def main(folder: Path, trust: bool) -> None:
    """Train and evaluate. Code that the files in ``folder`` name has to be known here unless ``trust``."""
    try:
        result = _result(folder, trust)
    except WarpDriveError as error:
        result = {"status": "failed", "reason": " ".join(str(error).split())}
    write_json(folder / "result.json", result)


def _result(folder: Path, trust: bool) -> dict[str, Any]:
    if any(folder.glob("*/config.yaml")):
        trainer = Trainer.resume(folder, trust=trust)
    else:
        config = load_config(folder / "trial.yaml", trust=trust)
        trainer = Trainer(make_env(config), config)
    reported_at = 0.0

    def on_update(report: UpdateReport) -> None:
        nonlocal reported_at
        now = time.monotonic()
        if now - reported_at < _BETWEEN_REPORTS and report.env_steps < report.total_steps:
            return
        reported_at = now
        progress = {
            "env_steps": report.env_steps,
            "total_steps": report.total_steps,
            "returns": report.returns,
            "speed": report.env_steps_per_second,
        }
        write_json(folder / "progress.json", progress)

    summary = trainer.train(on_update)
    result: dict[str, Any] = {
        "status": summary.status,
        "run": str(summary.run_folder),
        "env_steps": summary.env_steps,
        "seconds": summary.seconds,
    }
    if summary.status == "finished":
        evaluation = trainer.evaluate()
        result["returns"] = evaluation.mean_return
        result["episodes"] = evaluation.episodes
    return result


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--trust" in sys.argv[2:])
