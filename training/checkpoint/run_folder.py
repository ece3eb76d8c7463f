"""Folder of one run: ``<folder>/<name>/<date-time>/``."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from warpdrive.arguments import check_path
from warpdrive.errors import CheckpointError, ConfigError, nearest, one_line, shown
from warpdrive.file_lock import is_locked, locked
from warpdrive.training.runtime.atomic_write import check_no_link, write_atomically, write_json

if TYPE_CHECKING:  # import PyTorch, which readers of run folders do not need
    from warpdrive.training.config.load import RunConfig
    from warpdrive.training.reports import TrainingSummary

_LONGEST_PATH = 4096
"""Maximum path length in characters, that of Linux."""


class RunFolder:
    """Paths of a run's outputs: ``config.yaml``, ``metrics.csv``, ``checkpoints/``, ``summary.json``, ``machine.json``.

    A run in progress may have ``present_policy/`` as well, see ``checkpoint/present.py``, and a run with experiment
    trackers ``tracker_id``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.metrics = path / "metrics.csv"
        self.checkpoints = path / "checkpoints"
        self.summary = path / "summary.json"
        self.machine = path / "machine.json"
        self.present_policy = path / "present_policy"
        self.tracker_id = path / "tracker_id"

    @classmethod
    def create(cls, config: RunConfig) -> RunFolder:
        """Create a new folder below ``config.saving.folder`` and write ``config.yaml`` to it."""
        run = cls(new_folder(Path(config.saving.folder) / config.name))
        if config.saving.wandb or config.saving.trackio or config.saving.mlflow:
            write_atomically(run.tracker_id, secrets.token_hex(4) + "\n")
        config.save(run.config)  # with it the folder becomes a run
        return run

    @staticmethod
    def check_can_create(config: RunConfig) -> None:
        """Check, before any setup, that :meth:`create` can make a folder, and leave none behind.

        Raises:
            ConfigError: If it cannot.
        """
        parent = Path(config.saving.folder) / config.name
        try:
            with TemporaryDirectory(dir=next(path for path in (parent, *parent.parents) if path.exists())):
                pass
        except OSError as error:
            what = f"found {shown(config.saving.folder, 200)}, in which no folder can be created: {error.strerror}"
            raise ConfigError(f"saving.folder: {what}") from None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the run against writes of other processes within the block. The lock of a killed process is released.

        Raises:
            CheckpointError: If another process holds the lock, or there is a link in the folder.
        """
        for path in self.path.rglob("*"):
            if self.path / "wandb" not in path.parents:  # where Weights & Biases links to its latest run and logs
                check_no_link(path)
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.path, wait=False))
            except BlockingIOError:
                raise CheckpointError(f"{self.path}: another process is training in this run") from None
            yield

    @property
    def is_in_progress(self) -> bool:
        """True if a process trains in the run."""
        try:
            return is_locked(self.path)
        except OSError:  # of a file system without locks, or a folder that is gone
            return self.config.is_file() and not self.summary.exists()

    def last_checkpoint(self) -> str | None:
        """Return the checkpoint that ``summary.json`` names, which may be deleted; None if there is none."""
        found = self._summarised("checkpoint")
        return found if isinstance(found, str) else None

    def status(self) -> str:
        """Return the status of a run that has ended: ``finished``, ``interrupted``, or else ``failed``."""
        found = self._summarised("status")
        return str(found) if found in ("finished", "interrupted") else "failed"

    def _summarised(self, key: str) -> Any:
        try:
            return json.loads(self.summary.read_text(encoding="utf-8"))[key]
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            return None

    def write_summary(self, summary: TrainingSummary) -> None:
        """Write ``summary.json`` atomically."""
        values = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(summary).items()}
        write_json(self.summary, values, indent=2)


def new_folder(parent: Path) -> Path:
    """Create a folder below ``parent``, with the date and time as its name, and return it."""
    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    for attempt in range(1, 1000):
        path = parent / (stamp if attempt == 1 else f"{stamp}-{attempt}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{parent}: a thousand folders were created in one second")


def written(path: Path) -> int:
    """Return the time in nanoseconds at which a file was last written; 0 if there is none (any more)."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def find_run(run: str | Path, folder: str | Path = "runs") -> RunFolder:
    """Return the run of a run folder, of a file or checkpoint in it, or of a name: ``runs/<name>`` or just ``<name>``.

    A name refers to its newest run.

    Raises:
        CheckpointError: If there is no such run.
    """
    check_path(run=run)
    path, parent = Path(run), Path(folder)
    for candidate in (path, *([path.parent] if os.path.isfile(path) else []), path.parent.parent):
        if os.path.isfile(candidate / "config.yaml"):
            return RunFolder(candidate)
    for named in (path, parent / path) if len(str(run)) <= _LONGEST_PATH else ():
        runs = sorted(named.glob("*/config.yaml"), key=written)
        if runs:
            return RunFolder(runs[-1].parent)
    names = sorted(child.name for child in parent.iterdir() if child.is_dir()) if parent.is_dir() else []
    known = f" Runs there: {', '.join(names)}." if names else ""
    raise CheckpointError(
        f"{one_line(str(run))}: neither a run folder (with a config.yaml) nor the name of a run in '{folder}'."
        f"{nearest(path.name, names)}{known}"
    )
