"""Interface of metric sinks: destinations of logged metrics other than ``metrics.csv``."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from warpdrive.errors import ConfigError
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.config.load import RunConfig


class MetricSink(Protocol):
    """Receiver of logged metrics, and of the animation at the end of a run.

    Attributes:
        title: Name of the product.
    """

    title: str

    def add(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Log metrics at ``env_steps``, which may be less than in the last call. NaN values are skipped."""

    def add_replay(self, env_steps: int, path: Path) -> None:
        """Log the animated episodes, a GIF, of the policies at ``env_steps``."""

    def close(self, status: str) -> None:
        """Flush and close the sink. The status of the run is ``finished``, ``interrupted`` or ``failed``."""


def package(name: str, key: str, title: str) -> Any:
    """Import an optional package.

    Args:
        name: Name of the package, and of the extra that installs it.
        key: Configuration key that requires it.
        title: Name of the product.

    Returns:
        The package.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        missing = f"{title} is not installed" if getattr(error, "name", None) in (name, None) else str(error)
        raise ConfigError(f"{key}: {missing}: pip install 'warpdrive[{name}]', or remove {key}") from error


def without_nan(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics that have a value."""
    return {name: value for name, value in metrics.items() if not math.isnan(value)}


def run_id(config: RunConfig, run: RunFolder) -> str:
    """Return an identifier of a run, equal after resuming: name, folder and, unless the run is old, random digits.

    Runs of one name begin in the same second on several machines. Characters are letters, digits and ``-``.
    """
    parts = [run_title(config, run)]
    if run.tracker_id.is_file():
        parts.append(run.tracker_id.read_bytes()[:20].decode(errors="replace").strip())
    return re.sub(r"\W", "-", "-".join(parts))


def run_title(config: RunConfig, run: RunFolder) -> str:
    """Return the name of a run and that of its folder, which may be given as ``.``."""
    return f"{config.name}/{run.path.resolve().name}"
