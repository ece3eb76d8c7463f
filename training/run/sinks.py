"""Metric sinks besides ``metrics.csv``: TensorBoard events, and Weights & Biases."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from warpdrive.errors import ConfigError
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.config.load import RunConfig
from warpdrive.training.config.schema import WandbConfig
from warpdrive.training.runtime.atomic_write import writing

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class MetricSink(Protocol):
    """Receiver of logged metrics."""

    def add(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Log metrics at ``env_steps``, which may be less than in the last call. NaN values are skipped."""

    def close(self) -> None:
        """Flush and close the sink."""


class TensorBoardEvents:
    """TensorBoard event files. TensorBoard is imported for the first metrics: a run starts without it.

    Args:
        folder: folder of the event files.
        go_on_after: environment steps of a resumed run: later events in the folder are superseded.
    """

    def __init__(self, folder: Path, go_on_after: int = 0) -> None:
        self._folder = folder
        self._purge_step = go_on_after + 1 if go_on_after else None
        self._writer: SummaryWriter | None = None

    def add(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """See ``MetricSink``."""
        with writing(self._folder):
            if self._writer is None:
                from torch.utils.tensorboard import SummaryWriter

                self._writer = SummaryWriter(str(self._folder), purge_step=self._purge_step)
            for name, value in metrics.items():
                if not math.isnan(value):
                    self._writer.add_scalar(name, value, env_steps)
            self._writer.flush()

    def close(self) -> None:
        """See ``MetricSink``."""
        if self._writer is not None:
            with writing(self._folder):
                self._writer.close()


class WandbRun:
    """Weights & Biases run, with ``env_steps`` as the x axis. A resumed run continues the same one.

    Args:
        settings: the project.
        run: folder of the run; its name and configuration are logged.
        config: run configuration.
    """

    def __init__(self, settings: WandbConfig, run: RunFolder, config: RunConfig) -> None:
        self._run = _wandb().init(
            project=settings.project,
            entity=settings.entity,
            group=settings.group,
            tags=settings.tags,
            mode=settings.mode,
            name=f"{config.name}/{run.path.name}",
            id=re.sub(r"\W", "-", f"{config.name}-{run.path.name}"),
            resume="allow",
            dir=str(run.path),
            config=config.model_dump(mode="json"),
        )
        # evaluations beside training arrive late: the x axis is their env_steps
        self._run.define_metric("env_steps")
        self._run.define_metric("*", step_metric="env_steps")

    def add(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """See ``MetricSink``."""
        finite = {name: value for name, value in metrics.items() if not math.isnan(value)}
        self._run.log({"env_steps": env_steps, **finite})

    def close(self) -> None:
        """See ``MetricSink``."""
        self._run.finish()


def check_sinks(config: RunConfig) -> None:
    """Check, before a run folder is created, that the packages for ``saving`` are installed.

    Raises:
        ConfigError: a package is missing.
    """
    if config.saving.wandb is not None:
        _wandb()


def sinks_of(config: RunConfig, run: RunFolder, go_on_after: int) -> list[MetricSink]:
    """Return the metric sinks configured in ``saving``.

    Args:
        config: run configuration.
        run: folder of the run.
        go_on_after: environment steps of a resumed run.

    Returns:
        The sinks, possibly none.
    """
    sinks: list[MetricSink] = []
    if config.saving.tensorboard:
        sinks.append(TensorBoardEvents(run.path / "tensorboard", go_on_after))
    if config.saving.wandb is not None:
        sinks.append(WandbRun(config.saving.wandb, run, config))
    return sinks


def _wandb() -> Any:
    try:
        return importlib.import_module("wandb")
    except ImportError as error:
        raise ConfigError(
            "saving.wandb: Weights & Biases is not installed: pip install 'warpdrive[wandb]', or remove saving.wandb"
        ) from error
