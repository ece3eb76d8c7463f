"""Output of ``gpu.py``: one JSON file and one table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.gpu.plan import CALLER, KINDS, RECORDED, Row, Setup


class Report:
    """Collects results. :meth:`write` can be called at any time.

    Args:
        path: The path of the JSON file.
        about: Metadata shared by all results: the machine, versions, the command, the copy bandwidth.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path, self.about = path, about
        self.rows: list[Row] = []
        self.setups: list[Setup] = []

    def add(self, result: Row | Setup) -> None:
        """Add a result."""
        if isinstance(result, Row):
            self.rows.append(result)
        else:
            self.setups.append(result)

    def write(self) -> None:
        """Write all results so far, atomically: concurrent readers see the previous version."""
        values = {
            **self.about,
            "rows": [{**asdict(row), "share_of_limit": row.share} for row in self.rows],
            "setups": [asdict(setup) for setup in self.setups],
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".part")
        beside.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, self.path)

    def table(self) -> str:
        """Return the table: a row for each environment, number of replicas and backend, with and without a graph."""
        errors: list[str] = []
        head = ["environment", "replicas", "backend", "graph", *KINDS, "memory", "at once", "first step"]
        lines = [self._line(key, errors) for key in dict.fromkeys(_key(row) for row in self.rows)]
        notes = [f"[{number}] {error}" for number, error in enumerate(errors, 1)]
        return "\n".join([*aligned([head, *lines]), "", *notes]).rstrip()

    def _line(self, key: tuple[Any, ...], errors: list[str]) -> list[str]:
        title, replicas, backend, graph = key
        found = {row.kind: row for row in self.rows if _key(row) == key}
        setup = next((s for s in self.setups if (s.title, s.replicas, s.backend) == key[:3]), None)
        cells = [_cell(found.get(kind), errors) for kind in KINDS]
        of_setup = [_memory(setup), _at_once(setup), _start(setup)]
        return [title, f"{replicas:,}", backend, "yes" if graph else "no", *cells, *of_setup]


def _key(row: Row) -> tuple[Any, ...]:
    return row.title, row.replicas, row.backend, row.graph


def _cell(row: Row | None, errors: list[str]) -> str:
    if row is None:
        return ""
    if row.error is not None:
        if row.error not in errors:
            errors.append(row.error)
        return f"[{errors.index(row.error) + 1}]"
    # policies and updates have other limits, which are unknown
    share = f" ({row.share:.0%})" if row.share is not None and row.kind in (CALLER, RECORDED) else ""
    return f"{rate(row.steps_per_second or 0.0)}{share}"


def _memory(setup: Setup | None) -> str:
    """Return the memory used by the replicas, and the size according to the memory report."""
    if setup is None or setup.memory_reported is None:
        return ""
    used = "?" if setup.memory_used is None else f"{setup.memory_used / 2**20:,.0f}"
    return f"{used} of {setup.memory_reported / 2**20:,.0f} MiB"


def _at_once(setup: Setup | None) -> str:
    return "" if setup is None or setup.replicas_at_once is None else f"{setup.replicas_at_once:,}"


def _start(setup: Setup | None) -> str:
    return "" if setup is None or setup.seconds_to_first_step is None else f"{setup.seconds_to_first_step:.1f} s"


def rate(value: float) -> str:
    """Return a number of steps per second with three digits: ``12.3 M``."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 0.9995 * size:
            return f"{_three_digits(value / size)} {unit}"
    return _three_digits(value)


def _three_digits(value: float) -> str:
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def aligned(lines: Sequence[Sequence[str]]) -> Iterable[str]:
    """Return the lines of a Markdown table whose columns are aligned; the first line is its head."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rule = ["-" * width for width in widths]
    for line in (lines[0], rule, *lines[1:]):
        cells = (
            cell.ljust(width) if column in (0, 2, 3) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        yield f"| {' | '.join(cells)} |"
