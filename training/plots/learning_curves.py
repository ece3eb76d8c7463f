"""Learning curves from the logs of runs; runs that differ only in the seed are grouped."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.errors import CheckpointError, ConfigError, nearest, one_line
from warpdrive.terminal import plain
from warpdrive.training.checkpoint.run_folder import RunFolder, find_run
from warpdrive.training.config.yaml import flat, read_yaml
from warpdrive.training.run.metrics import read_metrics

Numbers = npt.NDArray[np.float64]

LARGEST = 1e300
"""Largest magnitude that is plotted: differences of larger numbers, and margins around them, overflow."""
_WITHOUT_EFFECT = ("name", "saving", "trainer.seed", "trainer.evaluation")
"""Configuration keys that affect learning only by chance, if at all."""


@dataclass(frozen=True)
class Curve:
    """Curve of one metric of runs that differ only in the seed.

    Attributes:
        env_steps: ``[n]``, ascending.
        mean: ``[n]``, mean over the runs.
        low: ``[n]``, minimum.
        high: ``[n]``, maximum.
    """

    env_steps: Numbers
    mean: Numbers
    low: Numbers
    high: Numbers


@dataclass(frozen=True)
class LoggedRun:
    """Configuration and logged metrics of a run.

    Attributes:
        name: Name of the run configuration.
        folder: Folder of the run.
        settings: Configuration values by dotted keys.
        tags: Policy tags.
        metrics: Environment steps and values ``[2, n]``, by name, without missing values.
    """

    name: str
    folder: Path
    settings: Mapping[str, Any]
    tags: tuple[str, ...]
    metrics: Mapping[str, Numbers]


@dataclass(frozen=True)
class Group:
    """Runs that differ only in the seed.

    Attributes:
        label: Label that distinguishes them from other runs.
        runs: At least one run.
    """

    label: str
    runs: Sequence[LoggedRun]

    def curve(self, metric: str, smooth: int = 1) -> Curve | None:
        """Return the curve of a metric as far as all runs have logged it; None if one has not.

        Args:
            metric: Name of the metric.
            smooth: Number of values in the moving average.
        """
        logged = [run.metrics[metric] for run in self.runs if metric in run.metrics]
        if len(logged) < len(self.runs):
            return None
        first, last = (pick(rows[0, end] for rows in logged) for pick, end in ((max, 0), (min, -1)))
        env_steps = np.unique(np.concatenate([rows[0] for rows in logged]))
        env_steps = env_steps[(env_steps >= first) & (env_steps <= last)]
        if not len(env_steps):
            return None
        values = np.stack([np.interp(env_steps, rows[0], _smoothed(rows[1], smooth)) for rows in logged])
        return Curve(env_steps, values.mean(0), values.min(0), values.max(0))


def read_runs(runs: Sequence[str | Path]) -> list[LoggedRun]:
    """Read the logs of runs, each once.

    Raises:
        CheckpointError: If a path is not a run, or the run has not logged anything yet.
    """
    folders = {run.path.resolve(): run for run in map(find_run, runs)}
    return [_read(folder) for folder in folders.values()]


def grouped(runs: Sequence[LoggedRun]) -> list[Group]:
    """Group runs that differ only in the seed, in the order given."""
    together: dict[tuple[Any, ...], list[LoggedRun]] = defaultdict(list)
    for run in runs:
        together[tuple(sorted((key, repr(value)) for key, value in run.settings.items()))].append(run)
    of_name: dict[str, list[list[LoggedRun]]] = defaultdict(list)
    for alike in together.values():
        of_name[alike[0].name].append(alike)
    return [
        Group(_label(alike, of_name[alike[0].name], with_name=len(of_name) > 1), alike) for alike in together.values()
    ]


def chosen_metrics(runs: Sequence[LoggedRun], wanted: Sequence[str]) -> list[str]:
    """Return the metrics selected by full names, by names without the policy tag, or by patterns with ``*``.

    Raises:
        ConfigError: If no run has logged a metric of such a name.
    """
    logged = list(dict.fromkeys(name for run in runs for name in run.metrics))
    found: list[str] = []
    for pattern in wanted:
        fitting = [name for name in logged if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*")]
        if not fitting:
            known = list(dict.fromkeys(base_of(name, runs)[0] for name in logged))
            hint = nearest(pattern, [*known, *logged])
            problem = f"--metric {one_line(pattern, 100)}: not logged by these runs"
            raise ConfigError(f"{problem}.{hint} Metrics: {', '.join(known)}")
        found += fitting
    return list(dict.fromkeys(found))


def usual_metrics(runs: Sequence[LoggedRun]) -> list[str]:
    """Return the default metrics: returns in training, and in evaluations if there were any."""
    return [
        name
        for kind in ("charts/episodic_return", "eval/episodic_return")
        for name in dict.fromkeys(name for run in runs for name in run.metrics)
        if name.startswith(f"{kind}/")
    ]


def base_of(metric: str, runs: Sequence[LoggedRun]) -> tuple[str, str]:
    """Split a metric's name into the name without its policy tag, and the tag, or ""."""
    base, _, tag = metric.rpartition("/")
    return (base, tag) if any(tag in run.tags for run in runs) else (metric, "")


def _read(run: RunFolder) -> LoggedRun:
    config = read_yaml(run.config)
    if not isinstance(config.get("policy"), dict):
        raise ConfigError(f"{run.config}: found no section 'policy', which the configuration of a run has")
    columns: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for env_steps, row in read_metrics(run.metrics):
        if not math.isfinite(env_steps):
            raise CheckpointError(f"{run.metrics}: found {env_steps} in the column env_steps, expected a finite number")
        for name, value in row.items():
            columns[name].append((env_steps, math.copysign(math.inf, value) if abs(value) > LARGEST else value))
    if not columns:
        raise CheckpointError(f"{run.path}: the run has not logged anything yet")
    metrics = {name: np.array(rows, np.float64).T for name, rows in columns.items()}
    settings = {key: value for key, value in flat(config).items() if not f"{key}.".startswith(tuple(_dotted()))}
    return LoggedRun(
        str(config.get("name", run.path.parent.name)), run.path, settings, tuple(config["policy"]), metrics
    )


def _dotted() -> list[str]:
    return [f"{key}." for key in _WITHOUT_EFFECT]


def _label(runs: Sequence[LoggedRun], others: Sequence[Sequence[LoggedRun]], with_name: bool) -> str:
    """Return the label that distinguishes runs from the others of their name, by the shortest unambiguous keys."""
    settings = runs[0].settings
    keys = dict.fromkeys(key for alike in others for key in alike[0].settings)
    differ = [key for key in keys if len({repr(alike[0].settings.get(key)) for alike in others}) > 1]
    values: dict[str, dict[str, Any]] = defaultdict(dict)
    for key in differ:
        values[key.rpartition(".")[2]][key] = settings.get(key, "-")
    labels = []
    for leaf, by_key in values.items():
        if len(set(map(repr, by_key.values()))) == 1:  # of several policies the same
            labels.append(f"{leaf} {next(iter(by_key.values()))}")
        else:
            labels += [f"{key.removeprefix('policy.')} {value}" for key, value in by_key.items()]
    parts = ", ".join(labels[:3]) + (", ..." if len(labels) > 3 else "")
    label = ": ".join(part for part in (runs[0].name if with_name or not labels else "", parts) if part)
    return plain(f"{label} ({len(runs)} seeds)" if len(runs) > 1 else label)


def _smoothed(values: Numbers, width: int) -> Numbers:
    """Return the moving average over ``width`` values, truncated at the ends."""
    width = min(width, len(values))
    ones = np.ones(width)
    return np.convolve(values, ones, "same") / np.convolve(np.ones(len(values)), ones, "same")
