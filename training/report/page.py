"""Page of a report: one self-contained HTML file, with one script that shows the values of charts.

All text from a run folder is escaped, since the run may be from an untrusted source.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

from warpdrive import __version__
from warpdrive.training.config.schema_file import defaults
from warpdrive.training.config.values import is_number
from warpdrive.training.plots.learning_curves import Group, grouped
from warpdrive.training.progress.training import clock, short
from warpdrive.training.report.charts import Chart, distribution_chart, metric_charts
from warpdrive.training.report.contents import Contents
from warpdrive.training.report.svg import Plots, variable_of

_TEMPLATE = Path(__file__).parent / "page.html"
_EMBEDDED, _REPLAYS = 6_000_000, 4
"""Maximum size of an embedded animation in bytes, larger ones are linked; maximum number of animations."""
_DASHES = {"-": "", "--": "5 3", ":": "1.5 2.5", "-.": "6 2 1.5 2"}
_UNKNOWN = "–"  # noqa: RUF001
_CURVES = {
    "Learning curves": ("eval/episodic_return/", "charts/episodic_return/", "eval/elo/", "charts/episodic_length"),
    "Losses": ("losses/",),
    "Throughput and memory": ("perf/",),
    "Schedules and episodes": ("charts/", "eval/episodic_", "eval/terminated_fraction"),
}
"""Sections of metrics, with the beginnings of their names; a metric is shown once."""
_MEANS = "Lines are means over runs that differ only in the seed; bands reach from the minimum to the maximum."

Cell = str | tuple[str, str]
"""Text of a cell, possibly with its class; not yet escaped."""


def report_page(runs: Sequence[Contents], beside: Path) -> str:
    """Return the page.

    Args:
        runs: At least one run; those that differ only in the seed share their curves.
        beside: Folder of the page, to which links to animations are relative.

    Returns:
        The HTML.
    """
    groups = grouped([run.logged for run in runs])
    names = list(dict.fromkeys(run.logged.name for run in runs))
    title = f"{', '.join(names)}: {f'{len(runs)} runs' if len(runs) > 1 else runs[0].logged.folder.resolve().name}"
    plots = Plots()
    sections = {
        "Runs" if len(runs) > 1 else "Run": _runs(runs),
        **_curves(plots, runs, groups),
        "Evaluation": _evaluations(runs),
        "Configuration": _configuration(runs),
        "Versions and hardware": _machines(runs),
    }
    order = ["Run", "Runs", "Replay", "Learning curves", "Evaluation", "Distributions"]
    sections["Replay"] = _replays(runs, groups, beside)
    sections["Distributions"] = _charts(_distributions(plots, runs, groups))
    ordered = sorted(sections, key=lambda name: order.index(name) if name in order else len(order))
    body = [f"<section>\n<h2>{escape(name)}</h2>\n{sections[name]}\n</section>" for name in ordered if sections[name]]
    written = f"{datetime.now():%Y-%m-%d %H:%M}, WarpDrive {__version__}"
    template = _TEMPLATE.read_text(encoding="utf-8")
    _, script, _ = re.split("</?script>", template)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")  # no other script runs
    return Template(template).substitute(
        title=escape(title), subtitle=escape(written), body="\n".join(body), script_hash=allowed
    )


def _runs(runs: Sequence[Contents]) -> str:
    tags = list(dict.fromkeys(tag for run in runs for tag in run.logged.tags))
    head = ["run", "status", "seed", "environment steps", "updates", "duration", *(f"last return of {t}" for t in tags)]
    rows: list[list[Cell]] = []
    for run in runs:
        rows.append(
            [
                run.label,
                run.state,
                _number(run.settings.get("trainer.seed")),
                _number(run.env_steps, short),
                _number(run.summary.get("updates")),
                _number(run.summary.get("seconds"), clock),
                *(_number(run.last_return(tag)) for tag in tags),
            ]
        )
    return _table(head, rows)


def _curves(plots: Plots, runs: Sequence[Contents], groups: Sequence[Group]) -> dict[str, str]:
    shown: set[str] = set()
    sections = {}
    for section, prefixes in _CURVES.items():
        charts = metric_charts(plots, [run.logged for run in runs], groups, prefixes)
        sections[section] = _charts(chart for chart in charts if chart.title not in shown)
        if not shown and charts and any(len(group.runs) > 1 for group in groups):
            sections[section] += f'\n<p class="quiet">{_MEANS}</p>'
        shown |= {chart.title for chart in charts}
    return sections


def _distributions(plots: Plots, runs: Sequence[Contents], groups: Sequence[Group]) -> list[Chart]:
    """Return histograms over the episodes of the first evaluation, all trained, and of the last, all random."""
    by_folder = {run.logged.folder: run for run in runs}
    columns = dict.fromkeys(name for run in runs for name in run.episodes if name != "evaluation")
    charts = []
    for column in columns:
        values: dict[str, list[float]] = {}
        for group in groups:
            members = [by_folder[logged.folder] for logged in group.runs]
            for kind, place in (("trained", 0), ("random", -1)):
                found = [
                    value for run in members for value in run.episodes_of(column, place % max(1, len(run.evaluations)))
                ]
                if kind == "trained" or len(groups) == 1:
                    values[group.label if len(groups) > 1 else kind] = found
        if any(values.values()):
            base, _, tag = column.partition("/")
            title = f"return of {tag}" if base == "return" else "length of episodes"
            unit = "episodic_return" if base == "return" else "episodic_length"
            charts.append(distribution_chart(plots, title, unit, values))
    return charts


def _evaluations(runs: Sequence[Contents]) -> str:
    lines = [(run, line) for run in runs for line in run.evaluations]
    tags = list(dict.fromkeys(tag for _, line in lines for tag in _mapping(line, "mean_return")))
    head = [*(["run"] if len(runs) > 1 else []), "policies", "episodes", "terminated", "length"]
    rows: list[list[Cell]] = []
    for run, line in lines:
        mean, std = _mapping(line, "mean_return"), _mapping(line, "std_return")
        rows.append(
            [
                *([run.label] if len(runs) > 1 else []),
                _actors(line),
                _number(line.get("episodes")),
                _number(line.get("terminated_fraction"), lambda share: f"{100 * share:.1f} %"),
                _number(line.get("mean_length")),
                *((f"{_number(mean.get(tag))[0]} ± {_number(std.get(tag))[0]}", "number") for tag in tags),
            ]
        )
    notes = '<p class="quiet">Mean ± standard deviation over episodes.</p>'
    return f"{_table([*head, *(f'return of {tag}' for tag in tags)], rows)}\n{notes}" if rows else ""


def _actors(line: Mapping[str, Any]) -> str:
    parts = [(how, line.get(how)) for how in ("trained", "random")]
    acted = [f"{how} {' and '.join(map(str, tags))}" for how, tags in parts if isinstance(tags, list) and tags]
    return ", ".join([*acted, *(f"{tag} {how}" for tag, how in _mapping(line, "others").items())])


def _configuration(runs: Sequence[Contents]) -> str:
    """Return the keys that differ from the defaults or between runs, and the whole configurations."""
    usual: dict[str, Any] = {}
    for run in runs:
        usual |= defaults(run.nested)
    keys = dict.fromkeys(key for run in runs for key in run.settings if key != "name")
    several = len(runs) > 1
    differ = [key for key in keys if len({repr(run.settings.get(key)) for run in runs}) > 1]
    rest = [
        key
        for key in keys
        if key not in differ and (key not in usual or any(run.settings.get(key) != usual[key] for run in runs))
    ]

    def table(chosen: Sequence[str], shown: Sequence[Contents]) -> str:
        head = ["key", *(run.label if several and len(shown) > 1 else "value" for run in shown), "default"]
        rows: list[list[Cell]] = [
            [key, *(_value(run.settings.get(key)) for run in shown), (_value(usual.get(key), key in usual), "same")]
            for key in chosen
        ]
        return _table(head, rows)

    parts = []
    if differ:
        parts += ["<h3>Differences between the runs</h3>", table(differ, runs), "<p></p>"]
    parts += ["<h3>Differences from the defaults</h3>", table(rest, runs[:1])]
    for run in runs:
        named = f" of {escape(run.label)}" if several else ""
        text = "\n".join(f"{key}: {_value(value)}" for key, value in run.settings.items())
        parts.append(f"<details><summary>all keys{named}</summary>\n<pre>{escape(text)}</pre></details>")
    return "\n".join(parts)


def _machines(runs: Sequence[Contents]) -> str:
    keys = dict.fromkeys(key for run in runs for key, value in run.machine.items() if value is not None)
    if not keys:
        return '<p class="quiet">Not recorded: the run has no machine.json.</p>'
    same = all(run.machine == runs[0].machine for run in runs)
    shown = runs[:1] if same else runs
    head = ["", *([""] if same else [run.label for run in shown])]
    return _table(head, [[key, *(_value(run.machine.get(key), key in run.machine) for run in shown)] for key in keys])


def _replays(runs: Sequence[Contents], groups: Sequence[Group], beside: Path) -> str:
    """Return the animation of the first run of each group that has one: embedded if it is small, otherwise linked."""
    first_of = [next((r for r in runs if r.logged in group.runs and r.replay), None) for group in groups]
    figures = []
    for run in [run for run in first_of if run is not None][:_REPLAYS]:
        assert run.replay is not None
        words = [escape(run.label)] if len(runs) > 1 else []
        page = run.replay.with_suffix(".html")
        if page.exists():
            words.append(f'<a href="{_relative(page, beside)}">player</a>')
        caption = f"<figcaption>{', '.join(words)}</figcaption>" if words else ""
        if run.replay.stat().st_size <= _EMBEDDED:
            data = run.replay.read_bytes()
            if data.startswith(b"GIF8"):
                source = f"data:image/gif;base64,{base64.b64encode(data).decode('ascii')}"
                figures.append(f'<figure><img src="{source}" alt="animated episodes">{caption}</figure>')
            continue
        figures.append(f'<figure><a href="{_relative(run.replay, beside)}">replay.gif</a>{caption}</figure>')
    return f'<div class="replays">{"".join(figures)}</div>' if figures else ""


def _relative(path: Path, beside: Path) -> str:
    """Return the address of a file on a page in the folder ``beside``; on another drive of Windows, the whole one."""
    try:
        name = os.path.relpath(path, beside)
    except ValueError:
        return escape(path.resolve().as_uri())
    return escape(quote(os.fsencode(name.replace(os.sep, "/"))))


def _charts(charts: Iterable[Chart]) -> str:
    shown = [
        f'<figure class="chart"><h3>{escape(chart.title)} <small>{escape(chart.unit)}</small></h3>'
        f'{_legend(chart.legend)}<div class="plot">{chart.svg}</div></figure>'
        for chart in charts
    ]
    return '<div class="charts">\n' + "\n".join(shown) + "\n</div>" if shown else ""


def _legend(looks: Mapping[str, tuple[str, str]]) -> str:
    lines = [
        f'<li><svg viewBox="0 0 16 6" aria-hidden="true"><line x1="0" x2="16" y1="3" y2="3" stroke-width="2" '
        f'stroke="{variable_of(colour)}" stroke-dasharray="{_DASHES[style]}"/></svg>{escape(label)}</li>'
        for label, (colour, style) in looks.items()
    ]
    return f'<ul class="legend">{"".join(lines)}</ul>' if lines else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    plain = [[cell if isinstance(cell, tuple) else (cell, "") for cell in row] for row in rows]
    numeric = [bool(plain) and all(row[place][1] == "number" for row in plain) for place in range(len(head))]
    titles = "".join(
        f'<th scope="col" class="{"number" if number else ""}">{escape(text)}</th>'
        for text, number in zip(head, numeric, strict=True)
    )
    body = "\n".join(
        "<tr>" + "".join(f'<td class="{kind}">{escape(text)}</td>' for text, kind in row) + "</tr>" for row in plain
    )
    return f'<div class="scroll"><table>\n<thead><tr>{titles}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _number(value: object, shown: Any = None) -> tuple[str, str]:
    """Return a number as a right-aligned cell."""
    if not is_number(value):
        return _UNKNOWN, "number"
    if shown is not None:
        return str(shown(value)), "number"
    return (str(value) if isinstance(value, int) else f"{value:.4g}"), "number"


def _value(value: object, known: bool = True) -> str:
    """Return a configuration value as text."""
    if not known:
        return _UNKNOWN
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _mapping(line: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = line.get(key)
    return value if isinstance(value, Mapping) else {}
