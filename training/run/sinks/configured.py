"""Metric sinks of a run configuration."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.config.load import RunConfig
from warpdrive.training.run.sinks.mlflow import MlflowRun, mlflow
from warpdrive.training.run.sinks.sink import MetricSink
from warpdrive.training.run.sinks.tensorboard import TensorBoardEvents, writes_events
from warpdrive.training.run.sinks.trackio import TrackioRun, trackio
from warpdrive.training.run.sinks.wandb import WandbRun, wandb


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


def sinks_of(config: RunConfig, run: RunFolder, go_on_after: int) -> list[MetricSink]:
    """Return the metric sinks configured in ``saving``.

    Args:
        config: Run configuration.
        run: Folder of the run.
        go_on_after: Environment steps of a resumed run.

    Returns:
        The sinks, possibly none.
    """
    saving = config.saving
    sinks: list[MetricSink] = []
    if writes_events(saving.tensorboard):
        sinks.append(TensorBoardEvents(run.path / "tensorboard", go_on_after))
    if saving.wandb is not None:
        sinks.append(WandbRun(saving.wandb, run, config))
    if saving.trackio is not None:
        sinks.append(TrackioRun(saving.trackio, run, config))
    if saving.mlflow is not None:
        sinks.append(MlflowRun(saving.mlflow, run, config))
    return sinks


def log_replay(config: RunConfig, run: RunFolder, env_steps: int, path: Path) -> None:
    """Add an animation to the sinks of a run that has ended.

    Args:
        config: Run configuration.
        run: Folder of the run.
        env_steps: Environment steps of the policies that act.
        path: GIF file.
    """
    with ExitStack() as stack:
        for sink in sinks_of(config, run, env_steps):
            stack.callback(sink.close)
            sink.add_replay(env_steps, path)
