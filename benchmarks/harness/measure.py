"""Interleaved timing, medians and throughput, and a description of the machine."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version

import torch


def medians(candidates: Mapping[str, Callable[[], float]], rounds: int = 7) -> dict[str, float]:
    """Measure the candidates alternately (A B A B ...), so that changes of clock speed affect all equally.

    Args:
        candidates: Functions that return one measurement per call, by name.
        rounds: The number of measurements of each; one more, the first, is discarded.

    Returns:
        The median of each candidate.
    """
    return {name: statistics.median(values) for name, values in alternating(candidates, rounds).items()}


def alternating(candidates: Mapping[str, Callable[[], float]], rounds: int = 7) -> dict[str, list[float]]:
    """Return the measurements of which :func:`medians` returns the medians, in the order of the rounds."""
    figures: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(rounds + 1):
        for name, measure in candidates.items():
            figure = measure()
            if number:
                figures[name].append(figure)
    return figures


def rate(
    work: Callable[[], None], units: float, seconds: float = 1.0, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the throughput of ``work`` in units per second.

    Args:
        work: The function to call repeatedly.
        units: The number of units processed per call.
        seconds: The duration of the measurement.
        clock: Function that returns the time: ``time.process_time`` for that of the processor.

    Returns:
        Units per second.
    """
    calls, start = 0, clock()
    while (elapsed := clock() - start) < seconds:
        work()
        calls += 1
    return calls * units / elapsed


def seconds_per_call(work: Callable[[], object], device: torch.device, seconds: float = 0.5, rounds: int = 5) -> float:
    """Return the median duration of a call, over rounds of calls that start and end with the device idle.

    The first two calls are warm-up. A round takes ``seconds / rounds``, and at least one call; if calls take longer,
    there are as many rounds as fit into ``seconds``.

    Args:
        work: The function to call repeatedly.
        device: The device to synchronise with.
        seconds: The total duration of the measurement.
        rounds: The maximum number of rounds.

    Returns:
        Seconds per call.
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
    """Return a line with the processor, the number of cores in use and relevant versions."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numba", "torch", "numpy"))
    return f"{_processor()}, {len(os.sched_getaffinity(0))} cores; Python {platform.python_version()}, {packages}"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
