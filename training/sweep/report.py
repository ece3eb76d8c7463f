"""Reports of a sweep: a table of its trials, and a figure."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from warpdrive.training.progress.training import clock, short
from warpdrive.training.run.metrics import read_metrics
from warpdrive.training.sweep.runner import Trial
from warpdrive.training.sweep.space import Choices, Space

_STYLES = {"failed": "red", "pruned": "dim", "interrupted": "yellow", "waiting": "dim", "running": ""}


def ranked(trials: Sequence[Trial], minimise: bool) -> list[Trial]:
    """Return the trials sorted by score, the best first; those without a score follow in their order."""
    scored = [trial for trial in trials if _is_number(trial.score)]
    scored.sort(key=lambda trial: trial.score or 0.0, reverse=not minimise)
    return [*scored, *(trial for trial in trials if not _is_number(trial.score))]


def trial_table(trials: Sequence[Trial], space: Space, tags: Sequence[str]) -> Table:
    """Return a table of trials: values, and the return of each policy tag, evaluated or last logged.

    Args:
        trials: Trials of the sweep.
        space: Search space.
        tags: Policy tags.

    Returns:
        A table of rich, with a row per trial.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("trial", justify="right")
    for key in space:
        table.add_column(_short_key(key, space), justify="right")
    for tag in tags:
        table.add_column(f"return of {tag}", justify="right")
    for name in ("steps", "time"):
        table.add_column(name, justify="right")
    table.add_column("")
    for trial in trials:
        returns = trial.result.get("returns") or trial.progress.get("returns") or {}
        table.add_row(
            str(trial.number),
            *(_in_words(trial.values[key]) for key in space),
            *("-" if not _is_number(returns.get(tag)) else f"{returns[tag]:.2f}" for tag in tags),
            short(trial.result.get("env_steps") or trial.progress.get("env_steps") or 0),
            clock(trial.result["seconds"]) if "seconds" in trial.result else "-",
            _state(trial),
            style=_STYLES.get(trial.status, ""),
        )
    return table


def write_csv(trials: Sequence[Trial], space: Space, tags: Sequence[str], path: Path) -> None:
    """Write the table as CSV: a row for each trial, with returns of evaluations only.

    Args:
        trials: Trials of the sweep.
        space: Search space.
        tags: Policy tags.
        path: CSV file.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        columns = (*space, *(f"return/{tag}" for tag in tags), "env_steps", "seconds", "status", "run", "reason")
        writer.writerow(["trial", *columns])
        for trial in trials:
            result, returns = trial.result, trial.result.get("returns", {})
            values = [trial.values[key] for key in space]
            found = [returns.get(tag, "") for tag in tags]
            counts = [result.get(name, "") for name in ("env_steps", "seconds")]
            writer.writerow([trial.number, *values, *found, *counts, trial.status, result.get("run", ""), trial.reason])


def save_picture(trials: Sequence[Trial], space: Space, tag: str, best: Trial | None, path: Path) -> None:
    """Plot the learning curves of all trials, and the score against each varied value.

    Args:
        trials: Trials of the sweep.
        space: Search space.
        tag: Policy tag whose return is plotted.
        best: Best trial, which is highlighted.
        path: File of the figure.
    """
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    columns = min(3, 1 + len(space))
    rows = math.ceil((1 + len(space)) / columns)
    figure = Figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    curves, *others = figure.subplots(rows, columns, squeeze=False).flat
    shades = colormaps["viridis"]
    for place, trial in enumerate(trials):
        steps, returns = _curve(trial, tag)
        is_best = trial is best
        colour = "C3" if is_best else shades(place / max(1, len(trials)))
        label = f"trial {trial.number}, the best" if is_best else None
        curves.plot(
            steps, returns, color=colour, linewidth=2.2 if is_best else 1.0, zorder=3 if is_best else 2, label=label
        )
    curves.set_xlabel("environment steps")
    curves.set_ylabel(f"return of {tag} in training")
    curves.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    if best is not None:
        curves.legend(fontsize="small", frameon=False)
    scored = [trial for trial in trials if _is_number(trial.score)]
    for axes, (key, part) in zip(others, space.items(), strict=False):
        if isinstance(part, Choices):
            places = [part.values.index(trial.values[key]) for trial in scored]
            axes.set_xticks(range(len(part.values)), [_in_words(value) for value in part.values])
            axes.set_xlim(-0.5, len(part.values) - 0.5)
        else:
            places = [trial.values[key] for trial in scored]
            axes.set_xscale("log" if part.kind == "loguniform" else "linear")
            if part.kind == "integer":
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        colours = ["C3" if trial is best else "C0" for trial in scored]
        axes.scatter(places, [trial.score for trial in scored], c=colours)
        axes.set_xlabel(key)
        axes.set_ylabel(f"return of {tag}, evaluated")
    for axes in (curves, *others[: len(space)]):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in others[len(space) :]:
        axes.set_visible(False)
    figure.savefig(path, dpi=110)


def _curve(trial: Trial, tag: str) -> tuple[list[float], list[float]]:
    """Return the environment steps and returns that a trial has logged so far."""
    name, steps, returns = f"charts/episodic_return/{tag}", [], []
    for path in trial.folder.glob("*/metrics.csv"):
        for env_steps, row in read_metrics(path):
            if name in row:
                steps.append(env_steps)
                returns.append(row[name])
    return steps, returns


def _state(trial: Trial) -> str:
    if trial.status == "running":
        done, total = (trial.progress.get(name, 0) for name in ("env_steps", "total_steps"))
        return f"{min(1.0, done / total):.0%}" if total else "starting"
    return f"{trial.status}: {trial.reason}" if trial.reason else "" if trial.status == "finished" else trial.status


def _short_key(key: str, space: Space) -> str:
    """Return the shortest unambiguous suffix of a dotted key."""
    parts = key.split(".")
    for count in range(1, len(parts)):
        tail = ".".join(parts[-count:])
        if sum(f".{other}".endswith(f".{tail}") for other in space) == 1:
            return tail
    return key


def _in_words(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
