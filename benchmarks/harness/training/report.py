"""Contestants of ``training.py``, their settings, and the table of results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

TITLES = {
    "warpdrive": "**WarpDrive**",
    "sb3": "Stable-Baselines3",
    "single": "single file, like CleanRL",
    "arrays": "the same, Gymnasium's vectorized cartpole",
    "jax": "one JAX program, like PureJaxRL",
}
SETTINGS = {
    "for the most steps per second": {
        "warpdrive": "num_envs=1024 num_steps=32 minibatch_size=8192 lr=6e-3 threads=1",
        "sb3": "num_envs=64 num_steps=128 minibatch_size=8192 lr=2.5e-3 threads=2",
        "single": "num_envs=64 num_steps=128 minibatch_size=8192 lr=2.5e-3 threads=2",
        "arrays": "num_envs=1024 num_steps=32 minibatch_size=8192 lr=6e-3 threads=2",
        "jax": "num_envs=256 num_steps=32 minibatch_size=1024 lr=2.5e-3",
    },
    "for the fewest seconds to 475": {
        "warpdrive": "num_envs=32 num_steps=64 minibatch_size=256 lr=3e-3 threads=1",
        "sb3": "num_envs=64 num_steps=32 minibatch_size=512 lr=2.5e-3 threads=1",
        "single": "num_envs=64 num_steps=32 minibatch_size=512 lr=2.5e-3 threads=1",
        "arrays": "num_envs=256 num_steps=16 minibatch_size=1024 lr=4e-3 threads=2",
        "jax": "num_envs=32 num_steps=32 minibatch_size=128 lr=3e-3",
    },
}


@dataclass
class Figures:
    """Results of a contestant in all rounds.

    Attributes:
        first_start: Seconds from the start of the process to the end of the first update, with empty compile caches.
        start: The same with filled compile caches.
        speed: Environment steps per second.
        seconds: Seconds of training until the target return; None if it was not reached.
        steps: Environment steps until then.
        why_not: The reason for a missing measurement.
    """

    first_start: float | None = None
    start: list[float] = field(default_factory=list)
    speed: list[float] = field(default_factory=list)
    seconds: list[float | None] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    why_not: str = ""


def table(settings: Mapping[str, str], results: Mapping[str, Figures]) -> str:
    """Return the results as a Markdown table."""
    lines = [
        "| | replicas x steps, minibatch, learning rate | steps per second | seconds to 475 | steps to 475 "
        "| start (first time) | with start |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, result in results.items():
        values = dict(item.split("=") for item in settings[name].split())
        used = f"{values['num_envs']} x {values['num_steps']}, {values['minibatch_size']}, {values['lr']}"
        lines.append(f"| {TITLES[name]} | {used} | {_cells(result)} |")
    return "\n".join(lines)


def _cells(result: Figures) -> str:
    if result.why_not:
        return f"{result.why_not} | | | |"
    speed, start = statistics.median(result.speed), statistics.median(result.start)
    reached = [seconds for seconds in result.seconds if seconds is not None]
    cells = [f"{speed:,.0f}"]
    if len(reached) < len(result.seconds):
        missed = f"not reached {len(result.seconds) - len(reached)} of {len(result.seconds)} times"
        cells += [missed, ""]
        whole = ""
    else:
        cells += [f"{statistics.median(reached):.2f}", f"{statistics.median(result.steps):,.0f}"]
        whole = f"{statistics.median(reached) + start:.1f}"
    return " | ".join([*cells, f"{start:.1f} ({result.first_start:.1f})", whole])
