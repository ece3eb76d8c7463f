"""The table of the cooperative benchmark, its data as JSON and CSV, and the learning curves."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.cooperative.run import Run, run_of
from harness.cooperative.settings import ALGORITHMS
from harness.cooperative.tasks import FAMILIES, TASKS

BEGIN, END = "<!-- cooperative -->", "<!-- end of cooperative -->"
HEAD = [
    "| task | algorithm | published | EPyMARL, run here | ours | other mode | env steps | minutes | seeds |",
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
]
# Student's t distribution: the 97.5 % quantile for 1, 2, ... degrees of freedom
QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
NORMAL_QUANTILE = 1.96
COLUMNS = ("task", "algorithm", "seed", "env_steps", "minutes", "episodes", "sampled", "greedy")


@dataclass(frozen=True)
class Reference:
    """Published result.

    Attributes:
        task: The name of the task.
        algorithm: The name of the algorithm.
        mean: Mean return over seeds.
        interval: Half of the 95 % confidence interval; None if it is not known.
        source: Where the value was read, or how it was obtained.
    """

    task: str
    algorithm: str
    mean: float
    interval: float | None
    source: str


def half_interval(values: Sequence[float]) -> float | None:
    """Return half of the 95 % confidence interval of the mean, by Student's t distribution; None for one value."""
    if len(values) < 2:
        return None
    freedom = len(values) - 1
    quantile = QUANTILES[freedom - 1] if freedom <= len(QUANTILES) else NORMAL_QUANTILE
    return quantile * statistics.stdev(values) / math.sqrt(len(values))


def references(path: Path) -> dict[tuple[str, str], Reference]:
    """Read published results: columns task, algorithm, mean, interval (may be empty), source."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            Reference(
                row["task"],
                row["algorithm"],
                float(row["mean"]),
                float(row["interval"]) if row["interval"] else None,
                row["source"],
            )
            for row in csv.DictReader(file)
        ]
    return {(row.task, row.algorithm): row for row in rows}


def table(
    runs: Sequence[Run],
    published: Mapping[tuple[str, str], Reference],
    by_epymarl: Mapping[tuple[str, str], Reference],
    pictures: Mapping[str, str] | None = None,
) -> str:
    """Return the tables of all families that have runs, as Markdown.

    Args:
        runs: The runs, in the order of the table.
        published: Published results by task and algorithm.
        by_epymarl: Results of EPyMARL on this machine.
        pictures: Links to the learning curves, by family.
    """
    parts = []
    for family, title in FAMILIES.items():
        lines, of_family = [], [run for run in runs if TASKS[run.task].family == family]
        for name in (task.name for task in TASKS.values() if task.family == family):
            for algorithm in ALGORITHMS:
                own = [run for run in of_family if (run.task, run.algorithm) == (name, algorithm)]
                if own:
                    key = (name, algorithm)
                    lines.append(_line(own, published.get(key), by_epymarl.get(key)))
        if lines:
            parts += [f"### {title}", "", *HEAD, *lines, "", _times(of_family), ""]
            if pictures and family in pictures:
                parts += [f"![Learning curves: {title}]({pictures[family]})", ""]
    return "\n".join([BEGIN, *parts, "### All families", "", _times(runs), "", END])


def _times(runs: Sequence[Run]) -> str:
    """Return the processor time of all runs, and that of each algorithm."""
    minutes = {label: sum(run.minutes for run in runs if run.algorithm == name) for name, label in ALGORITHMS.items()}
    each = ", ".join(f"{label} {own:.0f}" for label, own in minutes.items() if own)
    return f"Training of all {len(runs)} runs took {sum(minutes.values()):.0f} minutes of processor time: {each}."


def _line(runs: Sequence[Run], published: Reference | None, by_epymarl: Reference | None) -> str:
    scores = [run.score for run in runs]
    others = [run.sampled if run.score is run.greedy else run.greedy for run in runs]
    cells = [
        f"`{runs[0].task}`",
        ALGORITHMS[runs[0].algorithm],
        _reference(published) or "not found",
        _reference(by_epymarl) or "not run",
        _with_interval(statistics.mean(scores), half_interval(scores)),
        f"{statistics.mean(others):.2f}",
        f"{max(run.env_steps for run in runs):,}",
        f"{statistics.mean(run.minutes for run in runs):.1f}",
        f"{len(runs)}",
    ]
    return f"| {' | '.join(cells)} |"


def _reference(found: Reference | None) -> str:
    return _with_interval(found.mean, found.interval) if found else ""


def _with_interval(mean: float, half: float | None) -> str:
    return f"{mean:.2f}" if half is None else f"{mean:.2f} ± {half:.2f}"


def replaced(text: str, tables: str) -> str:
    """Return the text of a page with the tables between the markers replaced."""
    return re.sub(f"{BEGIN}.*{END}", lambda _: tables, text, flags=re.DOTALL)


def as_csv(runs: Sequence[Run]) -> str:
    """Return one line for each run, without learning curves."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({**asdict(run), "minutes": round(run.minutes, 2)} for run in runs)
    return text.getvalue()


def as_json(runs: Sequence[Run]) -> str:
    """Return all runs, a line for each."""
    return "[\n" + ",\n".join(json.dumps(asdict(run)) for run in runs) + "\n]\n"


def read(path: Path) -> list[Run]:
    """Return the runs of a file of :func:`as_json`; none if there is no such file."""
    return [run_of(saved) for saved in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else []


def merged(former: Sequence[Run], new: Sequence[Run]) -> list[Run]:
    """Return the runs in the order of the table, with ``new`` ones replacing former ones of the same seed."""
    kept = {(run.task, run.algorithm, run.seed): run for run in (*former, *new) if run.task in TASKS}
    tasks, algorithms = list(TASKS), list(ALGORITHMS)
    return sorted(kept.values(), key=lambda run: (tasks.index(run.task), algorithms.index(run.algorithm), run.seed))


def draw_family(path: Path, family: str, runs: Sequence[Run]) -> None:
    """Draw the learning curves of a family: a panel for each task, a line for each algorithm, a band over the seeds.

    Args:
        path: The file to write.
        family: The name of the family.
        runs: All runs; those of other families are ignored.
    """
    import matplotlib as mpl
    import numpy as np
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from warpdrive.training.plots.figure import Line, draw_panel
    from warpdrive.training.plots.learning_curves import Group, LoggedRun

    tasks = [task for task in TASKS.values() if task.family == family and any(run.task == task.name for run in runs)]
    if not tasks:
        return
    grey = "#808080"  # readable on white and on black
    colours = dict(zip(ALGORITHMS, ("#3289c7", "#d55e00", "#009e73", "#cc79a7"), strict=True))
    style = {"svg.fonttype": "none", "svg.hashsalt": path.stem, "font.family": "sans-serif"}
    names = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    columns = min(3, len(tasks))
    height = -(-len(tasks) // columns)
    with mpl.rc_context({**style, **dict.fromkeys(names, grey)}):
        figure = Figure(figsize=(3.6 * columns, 2.5 * height), layout="constrained", facecolor="none")
        panels = figure.subplots(height, columns, squeeze=False).flatten()
        for axes in panels[len(tasks) :]:
            axes.set_visible(False)
        for axes, task in zip(panels, tasks, strict=False):
            axes.set_facecolor("none")
            lines = []
            for algorithm, label in ALGORITHMS.items():
                own = [run for run in runs if (run.task, run.algorithm) == (task.name, algorithm) and run.curve]
                logged = [LoggedRun("", path, {}, (), {"return": np.array(run.curve, np.float64).T}) for run in own]
                curve = Group("", logged).curve("return") if logged else None
                if curve is not None:
                    lines.append((Line(label, curve, len(own)), colours[algorithm]))
            styles = {line.label: (colour, "-") for line, colour in lines}
            draw_panel(axes, task.name, [line for line, _ in lines], styles)
            axes.grid(color=grey, alpha=0.3, linewidth=0.5)
            axes.set_title(task.name, fontsize=9, loc="left")
            axes.set_xlabel("environment steps", fontsize=8)
            axes.set_ylabel("return", fontsize=8)
            axes.tick_params(labelsize=8)
            if lines:  # bands have no entry
                entries = [Line2D([], [], color=colour, label=label) for label, (colour, _) in styles.items()]
                axes.legend(handles=entries, fontsize=7, frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
