"""What the benchmarks share: timing in turns, medians, and a line about the machine."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version

import torch


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


def seconds_per_call(work: Callable[[], object], device: torch.device, seconds: float = 0.5, rounds: int = 5) -> float:
    """Return the median time of a call, over rounds of calls that begin and end with the device idle.

    The first two calls warm up and are not counted. A round takes ``seconds / rounds``, and at least one call; where
    calls take longer than that, there are as many rounds as fit in ``seconds``.
    """

    def timed(calls: int) -> float:
        _wait(device)
        start = time.perf_counter()
        for _ in range(calls):
            work()
        _wait(device)
        return (time.perf_counter() - start) / calls

    timed(1)
    estimate = timed(1)
    calls = max(1, round(seconds / rounds / estimate))
    return statistics.median(timed(calls) for _ in range(max(1, min(rounds, round(seconds / estimate)))))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


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
