"""Logged metrics of runs, without those that depend on time or the machine: reading and comparison."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest


def rows_of(run: Path) -> list[dict[str, str]]:
    """The rows of a run's metrics.csv, as they are written there."""
    with (run / "metrics.csv").open() as file:
        return [{k: v for k, v in row.items() if not k.startswith("perf/")} for row in csv.DictReader(file)]


def metrics_of(runs: Path) -> list[dict[str, float]]:
    """Return the metrics of the only run in a folder of runs as numbers, NaN where absent."""
    (file,) = runs.glob("*/*/metrics.csv")
    return [{k: float(v) if v else math.nan for k, v in row.items()} for row in rows_of(file.parent)]


def assert_close(one: list[dict[str, float]], other: list[dict[str, float]], name: str) -> None:
    """Float tolerance: sums are made in another order. What is near 0 is a difference of larger numbers."""
    assert len(one) == len(other)
    for ours, theirs in zip(one, other, strict=True):
        assert ours.keys() == theirs.keys()
        for metric, value in ours.items():
            assert theirs[metric] == pytest.approx(value, rel=1e-3, abs=1e-4, nan_ok=True), f"{name}: {metric}"
