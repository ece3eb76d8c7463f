"""What the benchmarks share: timing in turns, medians, and a line about the machine."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version


def medians(candidates: Mapping[str, Callable[[], float]], rounds: int = 7) -> dict[str, float]:
    """Measure the candidates in turns (A B A B ...), so that a machine that changes speed is fair to all.

    Each candidate returns one figure per call; the first round is left out. Returns the median of each.
    """
    figures: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(rounds + 1):
        for name, measure in candidates.items():
            figure = measure()
            if number:
                figures[name].append(figure)
    return {name: statistics.median(values) for name, values in figures.items()}


def rate(work: Callable[[], None], units: float, seconds: float = 1.0) -> float:
    """Return how many units per second ``work`` does, each call doing ``units`` of them, called for some seconds."""
    calls, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        work()
        calls += 1
    return calls * units / elapsed


def machine() -> str:
    """Return a line that names the processor, its cores in use and the versions that matter."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numba", "torch", "numpy"))
    return f"{_processor()}, {len(os.sched_getaffinity(0))} cores; Python {platform.python_version()}, {packages}"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
