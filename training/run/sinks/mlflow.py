"""Metrics in MLflow."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.config.load import RunConfig
from warpdrive.training.config.schema import MlflowConfig
from warpdrive.training.config.yaml import flat
from warpdrive.training.run.sinks.sink import package, run_id, run_title, without_nan

_TAG = "warpdrive.run"
"""Tag with which a resumed run is found again."""
_STATUSES = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}
_MAX_PARAMS, _MAX_LENGTH = 100, 500
"""Parameters per request, and characters of a value, that every server accepts."""


class MlflowRun:
    """MLflow run, with environment steps as steps. A resumed run continues the same one.

    The client is used rather than ``mlflow.start_run``: another run may be active in the process.

    Args:
        settings: The experiment.
        run: Folder of the run; its name and configuration are logged.
        config: Run configuration.
    """

    title = "MLflow"

    def __init__(self, settings: MlflowConfig, run: RunFolder, config: RunConfig) -> None:
        self._mlflow = mlflow()
        self._client = client = self._mlflow.MlflowClient(tracking_uri=settings.tracking_uri)
        name, identifier = settings.experiment or config.name, run_id(config, run)
        experiment = client.get_experiment_by_name(name)
        experiment_id = client.create_experiment(name) if experiment is None else experiment.experiment_id
        known = client.search_runs([experiment_id], f"tags.`{_TAG}` = '{identifier}'", max_results=1)
        if known:
            self._run_id = known[0].info.run_id
            client.update_run(self._run_id, status="RUNNING")
            return
        made = client.create_run(experiment_id, tags={_TAG: identifier}, run_name=run_title(config, run))
        self._run_id = made.info.run_id
        params = [
            self._mlflow.entities.Param(_name(key), str(value)[:_MAX_LENGTH])
            for key, value in flat(config.model_dump(mode="json")).items()
        ]
        for first in range(0, len(params), _MAX_PARAMS):
            client.log_batch(self._run_id, params=params[first : first + _MAX_PARAMS])

    def add(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """See ``MetricSink``."""
        now, metric = int(1000 * time.time()), self._mlflow.entities.Metric
        values = without_nan(metrics).items()
        self._client.log_batch(
            self._run_id, metrics=[metric(_name(key), value, now, env_steps) for key, value in values]
        )

    def add_replay(self, env_steps: int, path: Path) -> None:
        """See ``MetricSink``: an artifact."""
        self._client.log_artifact(self._run_id, str(path))

    def close(self, status: str) -> None:
        """See ``MetricSink``."""
        self._client.set_terminated(self._run_id, _STATUSES[status])


def mlflow() -> Any:
    """Return the package ``mlflow``.

    Raises:
        ConfigError: If it is not installed.
    """
    return package("mlflow", "saving.mlflow", MlflowRun.title)


def _name(name: str) -> str:
    """Return a name with only the characters that MLflow allows."""
    return re.sub(r"[^\w\-./ ]", "_", name)
