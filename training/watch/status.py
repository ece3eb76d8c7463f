"""State of a run, as far as its folder shows it."""

from __future__ import annotations

import json
import time
from functools import lru_cache
from typing import Any

from warpdrive.errors import WarpDriveError
from warpdrive.training.checkpoint.run_folder import RunFolder, written
from warpdrive.training.config.yaml import read_yaml
from warpdrive.training.watch.curves import Curves

_STALLED, _INTERVALS = 60.0, 10.0
"""Seconds without a logged update, beyond so many usual intervals between two, after which a run has stalled."""
_JUST_WRITTEN = 10.0  # a process that ends unlocks the folder shortly before or after the summary


def state_of(run: RunFolder, curves: Curves) -> tuple[str, str]:
    """Return the state of a run, ``running``, ``stalled`` or ``ended``, and its details.

    Args:
        run: Folder of the run.
        curves: Its metrics, refreshed.
    """
    summary = _summary(run)
    if summary is not None:
        parts = (str(summary.get(key) or "") for key in ("status", "message"))
        return "ended", ": ".join(part for part in parts if part)
    silence = time.time() - max(map(written, (run.config, run.metrics))) * 1e-9
    if not run.is_in_progress and silence > _JUST_WRITTEN:
        return "ended", "its process is gone and wrote no summary"
    speed = curves.newest.get("perf/env_steps_per_second", 0.0)
    usual = curves.spacing / speed if speed > 0 else 0.0
    if curves.newest and silence > _STALLED + _INTERVALS * usual:
        return "stalled", f"no update was logged for {silence:.0f} seconds"
    return "running", "" if curves.newest else "waiting for the first update"


def settings_of(run: RunFolder) -> dict[str, Any]:
    """Return the policy tags and the environment steps of a run; empty while its configuration cannot be read."""
    return _settings(run, written(run.config))


@lru_cache(maxsize=1)
def _settings(run: RunFolder, changed: int) -> dict[str, Any]:
    try:
        config = read_yaml(run.config)
        trainer, policies = config["trainer"], config["policy"]
        return {
            "tags": list(policies),
            "total_steps": int(float(trainer["total_steps"])),  # an error if it is too large
            "batch": int(float(trainer["train_batch_size"])),
        }
    except (WarpDriveError, OSError, KeyError, TypeError, ValueError, OverflowError):
        return {}


def _summary(run: RunFolder) -> dict[str, Any] | None:
    try:
        found = json.loads(run.summary.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
