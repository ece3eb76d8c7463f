"""Metric sinks of a run configuration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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


@contextmanager
def open_sinks(config: RunConfig, run: RunFolder, go_on_after: int) -> Iterator[list[MetricSink]]:
    """Open the metric sinks configured in ``saving``, possibly none, for the block.

    Args:
        config: Run configuration.
        run: Folder of the run.
        go_on_after: Environment steps of a resumed run.
    """
    with ExitStack() as stack:
        sinks: list[MetricSink] = []
        for sink in _sinks_of(config, run, go_on_after):
            stack.callback(sink.close)
            sinks.append(sink)
        yield sinks


def _sinks_of(config: RunConfig, run: RunFolder, go_on_after: int) -> Iterator[MetricSink]:
    saving = config.saving
    if writes_events(saving.tensorboard):
        yield TensorBoardEvents(run.path / "tensorboard", go_on_after)
    if saving.wandb is not None:
        yield WandbRun(saving.wandb, run, config)
    if saving.trackio is not None:
        yield TrackioRun(saving.trackio, run, config)
    if saving.mlflow is not None:
        yield MlflowRun(saving.mlflow, run, config)


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
