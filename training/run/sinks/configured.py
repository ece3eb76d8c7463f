"""Metric sinks of a run configuration."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from warpdrive.errors import ConfigError, WarpDriveError
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.config.load import RunConfig
from warpdrive.training.run.sinks.mlflow import MlflowRun, mlflow
from warpdrive.training.run.sinks.sink import MetricSink
from warpdrive.training.run.sinks.tensorboard import TensorBoardEvents, writes_events
from warpdrive.training.run.sinks.trackio import TrackioRun, trackio
from warpdrive.training.run.sinks.wandb import WandbRun, wandb
from warpdrive.user_code import describe_error

_TRACKERS: dict[str, Callable[[Any, RunFolder, RunConfig], MetricSink]] = {
    "wandb": WandbRun,
    "trackio": TrackioRun,
    "mlflow": MlflowRun,
}
"""Classes of experiment trackers, by the key of their settings in ``saving``."""


def check_sinks(config: RunConfig) -> None:
    """Check, before a run folder is created, that the packages for ``saving`` are installed.

    Raises:
        ConfigError: If a package is missing.
    """
    saving = config.saving
    writes_events(saving.tensorboard)
    for settings, package in ((saving.wandb, wandb), (saving.trackio, trackio), (saving.mlflow, mlflow)):
        if settings is not None:
            package()


@contextmanager
def open_sinks(config: RunConfig, run: RunFolder, go_on_after: int) -> Iterator[list[MetricSink]]:
    """Open the metric sinks configured in ``saving``, possibly none, for the block.

    Args:
        config: Run configuration.
        run: Folder of the run.
        go_on_after: Environment steps of a resumed run.

    Raises:
        ConfigError: If one cannot be opened, for example because there is no network or account.
    """
    with ExitStack() as stack:
        sinks: list[MetricSink] = []
        if writes_events(config.saving.tensorboard):
            sinks.append(TensorBoardEvents(run.path / "tensorboard", go_on_after))
            stack.callback(_close, sinks[-1], run)
        for key, tracker in _TRACKERS.items():
            settings = getattr(config.saving, key)
            if settings is not None:
                try:
                    sinks.append(tracker(settings, run, config))
                except WarpDriveError:
                    raise
                except Exception as error:
                    raise ConfigError(f"saving.{key}: cannot be opened: {describe_error(error)}") from error
                stack.callback(_close, sinks[-1], run)
        yield sinks


def _close(sink: MetricSink, run: RunFolder) -> None:
    """Close a sink; a failure is a warning, since the run has ended."""
    try:
        sink.close(run.status())
    except Exception as error:
        warnings.warn(f"the run was not ended in {sink.title}: {describe_error(error)}", stacklevel=2)


def log_replay(config: RunConfig, run: RunFolder, env_steps: int, path: Path) -> None:
    """Add an animation to the sinks of a run that has ended.

    Args:
        config: Run configuration.
        run: Folder of the run.
        env_steps: Environment steps of the policies that act.
        path: GIF file.
    """
    with open_sinks(config, run, env_steps) as sinks:
        for sink in sinks:
            sink.add_replay(env_steps, path)
