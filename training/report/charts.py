"""Plots of a report: metrics over environment steps, and distributions over episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from warpdrive.training.plots.figure import Line, draw_panel, looks_of, panels_of, unit_of
from warpdrive.training.plots.learning_curves import LARGEST, Curve, Group, LoggedRun, Numbers
from warpdrive.training.report.svg import Plots, Values

_POINTS, _BINS = 250, 24


@dataclass(frozen=True)
class Chart:
    """Plot with its title and legend, as HTML.

    Attributes:
        title: Title, plain text.
        unit: Unit of the y axis, plain text, or "".
        svg: ``svg`` element.
        legend: Colour and line style of each label.
    """

    title: str
    unit: str
    svg: str
    legend: Mapping[str, tuple[str, str]]


def metric_charts(
    plots: Plots, runs: Sequence[LoggedRun], groups: Sequence[Group], prefixes: Sequence[str]
) -> list[Chart]:
    """Return a chart for each logged metric whose name begins with one of ``prefixes``, in their order.

    Args:
        plots: Plots of the page.
        runs: All runs.
        groups: The same, grouped; each group is a line, the mean with a band from minimum to maximum.
        prefixes: Beginnings of names.

    Returns:
        The charts. Metrics that a group has not logged in all of its runs are left out of it.
    """
    names = dict.fromkeys(name for run in runs for name in run.metrics)
    metrics = [name for prefix in prefixes for name in names if name.startswith(prefix)]
    drawable = [name for name in dict.fromkeys(metrics) if any(group.curve(name) is not None for group in groups)]
    tags = list({tag: 0 for run in runs for tag in run.tags})
    labels = [group.label for group in groups] if len(groups) > 1 else (tags if len(tags) > 1 else [])
    looks = looks_of(labels)
    charts = []
    for title, lines in (panels_of(runs, groups, drawable) if drawable else {}).items():
        thinned = [replace(line, curve=_thinned(line.curve)) for line in lines]
        at = np.unique(np.concatenate([line.curve.env_steps for line in thinned]))
        at = at[np.unique(np.linspace(0, len(at) - 1, _POINTS).astype(int))]
        steps = [f"step {round(env_steps):,}" for env_steps in at]
        values = [_values_at(at, line, looks[line.label][0]) for line in thinned]
        svg = plots.svg(partial(_draw_curves, title, thinned, looks), "environment steps", title, at, steps, values)
        drawn = {line.label: looks[line.label] for line in lines if line.label}
        charts.append(Chart(title, unit_of(title), svg, drawn))
    return charts


def distribution_chart(plots: Plots, title: str, unit: str, values: Mapping[str, Sequence[float]]) -> Chart:
    """Return histograms of values, as shares of all episodes.

    Args:
        plots: Plots of the page.
        title: Title.
        unit: Label of the x axis.
        values: Values by label; not all empty.
    """
    numbers_of = {label: np.asarray(numbers, np.float64) for label, numbers in values.items() if numbers}
    found = {label: np.clip(numbers, -LARGEST, LARGEST) for label, numbers in numbers_of.items()}
    edges, names = _bins_of(np.concatenate(list(found.values())))
    shares = {label: np.histogram(numbers, edges)[0] / len(numbers) for label, numbers in found.items()}
    looks = looks_of(list(shares))
    lines = [Values(label if len(shares) > 1 else "", looks[label][0], share) for label, share in shares.items()]
    draw = partial(_draw_histograms, edges, shares, looks)
    svg = plots.svg(draw, unit_of(unit) or unit, title, (edges[1:] + edges[:-1]) / 2, names, lines)
    return Chart(title, "share of episodes", svg, {label: looks[label] for label in shares})


def _draw_curves(title: str, lines: Sequence[Line], looks: dict[str, tuple[str, str]], axes: Axes) -> None:
    draw_panel(axes, title, lines, looks)
    axes.set_xlim(0, 1.02 * max(1.0, *(line.curve.env_steps[-1] for line in lines)))


def _values_at(env_steps: Numbers, line: Line, colour: str) -> Values:
    """Return the values of a line as it is drawn: interpolated, and none before its first and after its last point."""
    curve = line.curve
    absent = (env_steps < curve.env_steps[0]) | (env_steps > curve.env_steps[-1])
    mean, *ends = (
        np.ma.masked_where(absent, np.interp(env_steps, curve.env_steps, values))
        for values in (curve.mean, curve.low, curve.high)
    )
    return Values(line.label, colour, mean, *(ends if line.runs > 1 else ()))


def _bins_of(values: Numbers) -> tuple[Numbers, list[str]]:
    """Return the edges of the bins of a histogram, and the text of each bin; few integers have a bin each."""
    if np.all(values == np.round(values)) and np.ptp(values) < _BINS and abs(values[0]) < 1e9:
        integers = np.arange(values.min(), values.max() + 1)
        return np.append(integers, integers[-1] + 1) - 0.5, [f"{integer:.0f}" for integer in integers]
    least, most = float(values.min()), float(values.max())
    size = max(abs(least), abs(most))
    if most - least < 1e-9 * size:  # they differ by rounding, and NumPy makes no bins narrower than that
        around = max(0.5, 1e-6 * size)
        edges = np.linspace(least - around, most + around, _BINS + 1)
    else:
        edges = np.histogram_bin_edges(values, _BINS)
    return edges, [f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges)]


def _draw_histograms(
    edges: Numbers, shares: Mapping[str, Numbers], looks: Mapping[str, tuple[str, str]], axes: Axes
) -> None:
    for label, share in shares.items():
        colour, style = looks[label]
        axes.stairs(share, edges, color=colour, linestyle=style, linewidth=1.6)
        axes.stairs(share, edges, color=colour, fill=True, alpha=0.15)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=edges[0] % 1 == 0.5))  # bins of integers
    axes.set_ylim(bottom=0)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _thinned(curve: Curve) -> Curve:
    """Return a curve of at most ``_POINTS`` points, which are means over neighbours."""
    if len(curve.env_steps) <= _POINTS:
        return curve
    starts = np.unique(np.linspace(0, len(curve.env_steps), _POINTS, endpoint=False).astype(int))
    counts = np.diff([*starts, len(curve.env_steps)])
    means = [np.add.reduceat(v, starts) / counts for v in (curve.env_steps, curve.mean, curve.low, curve.high)]
    return Curve(*means)
