"""Metrics in Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.config.load import RunConfig
from warpdrive.training.config.schema import WandbConfig
from warpdrive.training.run.sinks.sink import package, run_id, run_title, without_nan

_EXIT_CODES = {"finished": 0, "interrupted": 130, "failed": 1}


class WandbRun:
    """Weights & Biases run, with ``env_steps`` as the x axis. A resumed run continues the same one.

    Args:
        settings: The project.
        run: Folder of the run; its name and configuration are logged.
        config: Run configuration.
    """

    title = "Weights & Biases"

    def __init__(self, settings: WandbConfig, run: RunFolder, config: RunConfig) -> None:
        self._wandb = wandb()
        self._run = self._wandb.init(
            project=settings.project,
            entity=settings.entity,
            group=settings.group,
            tags=settings.tags,
            mode=settings.mode,
            name=run_title(config, run),
            id=run_id(config, run),
            resume="allow",
            dir=str(run.path),
            config=config.model_dump(mode="json"),
        )
        # concurrent evaluations arrive late: the x axis is their env_steps
        self._run.define_metric("env_steps")
        self._run.define_metric("*", step_metric="env_steps")

    def add(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """See ``MetricSink``."""
        self._run.log({"env_steps": env_steps, **without_nan(metrics)})

    def add_replay(self, env_steps: int, path: Path) -> None:
        """See ``MetricSink``."""
        self._run.log({"env_steps": env_steps, "replay": self._wandb.Video(str(path), format="gif")})

    def close(self, status: str) -> None:
        """See ``MetricSink``."""
        self._run.finish(exit_code=_EXIT_CODES[status])


def wandb() -> Any:
    """Return the package ``wandb``.

    Raises:
        ConfigError: If it is not installed.
    """
    return package("wandb", "saving.wandb", WandbRun.title)
