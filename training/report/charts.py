"""Plots of a report: metrics over environment steps, and distributions over episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape

import numpy as np
from matplotlib.axes import Axes

from warpdrive.training.plots.figure import Line, draw_panel, looks_of, panels_of, unit_of
from warpdrive.training.plots.learning_curves import Curve, Group, LoggedRun
from warpdrive.training.report.svg import Plots

_POINTS, _BINS = 250, 24


@dataclass(frozen=True)
class Chart:
    """Plot with its title and legend, as HTML.

    Attributes:
        title: title, plain text.
        unit: unit of the y axis, plain text, or "".
        svg: ``svg`` element.
        legend: colour and line style of each label.
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
        plots: plots of the page.
        runs: all runs.
        groups: the same, grouped; each group is a line, the mean with a band from minimum to maximum.
        prefixes: beginnings of names.

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
        svg = plots.svg(partial(_draw_curves, title, thinned, looks), "environment steps", escape(title))
        drawn = {line.label: looks[line.label] for line in lines if line.label}
        charts.append(Chart(title, unit_of(title), svg, drawn))
    return charts


def distribution_chart(plots: Plots, title: str, unit: str, values: Mapping[str, Sequence[float]]) -> Chart:
    """Return histograms of values, as shares of all episodes.

    Args:
        plots: plots of the page.
        title: title.
        unit: label of the x axis.
        values: values by label; not all empty.
    """
    values = {label: numbers for label, numbers in values.items() if numbers}
    looks = looks_of(list(values))
    svg = plots.svg(partial(_draw_histograms, values, looks), unit_of(unit) or unit, escape(title))
    return Chart(title, "share of episodes", svg, {label: looks[label] for label in values})


def _draw_curves(title: str, lines: Sequence[Line], looks: dict[str, tuple[str, str]], axes: Axes) -> None:
    draw_panel(axes, title, lines, looks)
    axes.set_xlim(0, 1.02 * max(line.curve.env_steps[-1] for line in lines))


def _draw_histograms(values: Mapping[str, Sequence[float]], looks: dict[str, tuple[str, str]], axes: Axes) -> None:
    joined = np.concatenate([np.asarray(numbers) for numbers in values.values()])
    edges = np.histogram_bin_edges(joined, _BINS)
    if np.all(joined == np.round(joined)) and np.ptp(joined) < _BINS and abs(joined[0]) < 1e9:  # a bin for each integer
        edges = np.arange(joined.min() - 0.5, joined.max() + 1)
    for label, numbers in values.items():
        colour, style = looks[label]
        share = np.histogram(numbers, edges)[0] / len(numbers)
        axes.stairs(share, edges, color=colour, linestyle=style, linewidth=1.6)
        axes.stairs(share, edges, color=colour, fill=True, alpha=0.15)
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
