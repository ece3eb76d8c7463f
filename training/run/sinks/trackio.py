"""Metrics in Trackio: dashboards on this machine, or in a Space of Hugging Face."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.config.load import RunConfig
from warpdrive.training.config.schema import TrackioConfig
from warpdrive.training.run.sinks.sink import package, run_id, without_nan


class TrackioRun:
    """Trackio run, with environment steps as steps. A resumed run continues the same one.

    Args:
        settings: The project.
        run: Folder of the run; its name and configuration are logged.
        config: Run configuration.
    """

    title = "Trackio"

    def __init__(self, settings: TrackioConfig, run: RunFolder, config: RunConfig) -> None:
        self._trackio = trackio()
        self._run = self._trackio.init(
            project=settings.project,
            name=run_id(config, run),
            group=settings.group,
            space_id=settings.space_id,
            resume="allow",
            embed=False,
            config=config.model_dump(mode="json"),
        )

    def add(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """See ``MetricSink``."""
        self._run.log(without_nan(metrics), step=env_steps)

    def add_replay(self, env_steps: int, path: Path) -> None:
        """See ``MetricSink``."""
        self._run.log({"replay": self._trackio.Video(str(path), format="gif")}, step=env_steps)

    def close(self, status: str) -> None:
        """See ``MetricSink``."""
        self._trackio.finish()  # of the only current run, which it also forgets


def trackio() -> Any:
    """Return the package ``trackio``.

    Raises:
        ConfigError: If it is not installed.
    """
    return package("trackio", "saving.trackio", TrackioRun.title)
