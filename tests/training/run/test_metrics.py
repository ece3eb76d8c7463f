"""Rows of metrics.csv and checkpoints of one run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import warpdrive as wd
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]


def test_all_rows_are_on_disk_when_a_checkpoint_is_written(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut, the run is resumed from a checkpoint that is on disk."""
    on_disk: dict[int, int] = {}

    def fsync(handle: int) -> None:
        status = os.fstat(handle)
        on_disk[status.st_ino] = status.st_size

    class Checkpoints(wd.Callback):
        found = 0

        def on_checkpoint(self, trainer: Trainer, path: Path) -> None:
            metrics = (path.parents[1] / "metrics.csv").stat()
            assert on_disk[metrics.st_ino] == metrics.st_size
            self.found += 1

    monkeypatch.setattr(os, "fsync", fsync)
    checkpoints = Checkpoints()
    trainer_of(sections(), "saving.checkpoint_every=1").train(callbacks=[checkpoints])
    assert checkpoints.found > 1
