"""Plots of learning curves: a panel for each metric, a line for each configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from warpdrive.errors import ConfigError
from warpdrive.training.plots.learning_curves import Curve, Group, LoggedRun, base_of, grouped
from warpdrive.training.progress.training import short

FORMATS = (".png", ".svg", ".pdf")
# the colours of Okabe & Ito (2008), which can be distinguished with any kind of colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", ":", "-.")
_PANEL = (5.6, 3.4)
"""Size of a panel in inches."""
_COLUMNS = 3
_LETTERS_PER_INCH = 11
_FEW = 25
"""Maximum number of points for which each is marked."""

_UNITS = {
    "episodic_return": "return per episode",
    "episodic_return_std": "return per episode",
    "episodic_length": "steps per episode",
    "terminated_fraction": "share of episodes",
    "episodes": "episodes",
    "entropy": "nats",
    "approx_kl": "nats",
    "clipfrac": "share of samples",
    "explained_variance": "share of variance",
    "env_steps_per_second": "environment steps per second",
    "agent_steps_per_second": "agent steps per second",
    "memory_gib": "GiB",
}


@dataclass(frozen=True)
class Line:
    """Line of a panel.

    Attributes:
        label: Label in the legend; "" if there is none.
        curve: The values.
        runs: Number of runs that the curve is the mean of.
    """

    label: str
    curve: Curve
    runs: int


@matplotlib.rc_context({"text.parse_math": False})  # names are text, also those with "$"
def draw(runs: Sequence[LoggedRun], metrics: Sequence[str], smooth: int = 1) -> Figure:
    """Plot metrics over environment steps.

    Runs that differ only in the seed are shown as their mean, with a band from minimum to maximum. For a single
    configuration, all policy tags share a panel; for several, each tag has a panel, and each configuration a line.

    Args:
        runs: At least one run.
        metrics: Names of logged metrics.
        smooth: Number of values in the moving average.

    Returns:
        A figure of matplotlib.

    Raises:
        ConfigError: If there is nothing to plot.
    """
    groups = grouped(runs)
    panels = panels_of(runs, groups, metrics, smooth)
    labels = list(dict.fromkeys(line.label for lines in panels.values() for line in lines if line.label))
    columns = 2 if len(panels) in (2, 4) else min(len(panels), _COLUMNS)
    rows = -(-len(panels) // columns)
    width = columns * _PANEL[0]
    side_by_side = max(1, int(width * _LETTERS_PER_INCH / (8 + max(map(len, labels), default=0))))
    legend_rows = -(-len(labels) // side_by_side) + (len(groups) == 1)
    figure = Figure(
        figsize=(width, rows * _PANEL[1] + 0.25 * legend_rows), dpi=120, layout="constrained", facecolor="white"
    )
    grid = figure.subplots(rows, columns, squeeze=False)
    looks = looks_of(labels)
    drawn: dict[str, Line2D] = {}
    for axes, (title, lines) in zip(grid.flat, panels.items(), strict=False):
        drawn |= draw_panel(axes, title, lines, looks)
    end = max(line.curve.env_steps[-1] for lines in panels.values() for line in lines)
    for index, axes in enumerate(grid.flat):
        axes.set_xlim(0, 1.02 * end)
        axes.set_visible(index < len(panels))
        if index >= len(panels) - columns:
            axes.set_xlabel("environment steps")
    heading = groups[0].label if len(groups) == 1 else ""
    if labels:
        handles = [drawn[label] for label in labels]
        legend = figure.legend(handles, labels, loc="outside upper center", ncols=side_by_side, frameon=False)
        legend.set_title(heading, prop=FontProperties(weight="bold", size=12))
    elif heading:
        figure.suptitle(heading, fontsize=12, fontweight="bold")
    return figure


def check_output(path: Path) -> None:
    """Check that a file can be written as a figure.

    Raises:
        ConfigError: If it cannot.
    """
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: expected a name that ends in {', '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: the folder {path.parent} does not exist")


def looks_of(labels: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the colour and the line style of each label, and of ``""``."""
    looks = {
        label: (COLOURS[index % len(COLOURS)], STYLES[index // len(COLOURS) % len(STYLES)])
        for index, label in enumerate(labels or [""])
    }
    looks.setdefault("", (COLOURS[-1], STYLES[0]))  # metrics without a policy tag
    return looks


def panels_of(
    runs: Sequence[LoggedRun], groups: Sequence[Group], metrics: Sequence[str], smooth: int = 1
) -> dict[str, list[Line]]:
    """Return the lines of each panel, by its title.

    Args:
        runs: All runs.
        groups: The same, grouped.
        metrics: Names of logged metrics.
        smooth: Number of values in the moving average.

    Raises:
        ConfigError: If there is nothing to plot.
    """
    several_tags = any(len(run.tags) > 1 for run in runs)
    panels: dict[str, list[Line]] = {}
    for metric in metrics:
        base, tag = base_of(metric, runs)
        for group in groups:
            curve = group.curve(metric, smooth)
            if curve is not None and len(groups) > 1:
                panels.setdefault(metric, []).append(Line(group.label, curve, len(group.runs)))
            elif curve is not None:
                panels.setdefault(base, []).append(Line(tag if several_tags else "", curve, len(group.runs)))
    if not panels:
        raise ConfigError(f"nothing to plot: no group of runs has {', '.join(metrics)} in all of its runs")
    return panels


def draw_panel(axes: Axes, title: str, lines: Sequence[Line], looks: dict[str, tuple[str, str]]) -> dict[str, Line2D]:
    """Draw the lines of a panel.

    Args:
        axes: Axes to draw on.
        title: Name of the metric, which also gives the unit.
        lines: At least one line.
        looks: Colour and line style by label.

    Returns:
        The legend handles by label.
    """
    drawn = {}
    for line in lines:
        colour, style = looks[line.label]
        curve = line.curve
        marker = "o" if len(curve.env_steps) <= _FEW else ""  # evaluations; of a single one no line would be seen
        (drawn[line.label],) = axes.plot(
            curve.env_steps, curve.mean, style, color=colour, linewidth=1.6, marker=marker, markersize=3
        )
        if line.runs > 1:
            axes.fill_between(curve.env_steps, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
    axes.set_title(title, fontsize=11, loc="left")
    axes.set_ylabel(unit_of(title))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    if max(abs(bound) for bound in axes.get_ylim()) >= 1e4:
        axes.yaxis.set_major_formatter(FuncFormatter(_tick))
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return drawn


def _tick(value: float, position: int) -> str:
    return f"{'-' if value < 0 else ''}{short(abs(value))}"


def unit_of(title: str) -> str:
    """Return the unit of a metric; "" if it has none."""
    for name in title.split("/"):
        if name in _UNITS:
            return _UNITS[name]
        if name.endswith("_seconds"):
            return "seconds"
    return ""
