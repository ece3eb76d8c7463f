"""Points of learning curves, read from a ``metrics.csv`` that is being written."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

Row = list[float | None]

MAX_POINTS = 2000
"""From twice as many rows on, neighbours are merged."""


class Curves:
    """Rows of a metrics file, read as it grows; a line that is being written is left for later.

    Args:
        path: The file; it may not exist yet.

    Attributes:
        columns: Names of the columns; the first is ``env_steps``.
        rows: Values, at most ``2 * MAX_POINTS`` rows; None for missing ones. Of long runs, means over neighbours.
        newest: The last row, by name, without missing values.
        generation: Changes when earlier rows do: the file was rewritten, or neighbours were merged.
        spacing: Environment steps between the last two rows of the file, or 0.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.generation, self._inode = path, 0, -1
        self._restart()

    def _restart(self) -> None:
        self.columns: list[str] = []
        self.rows: list[Row] = []
        self.newest: dict[str, float] = {}
        self.spacing = 0.0
        self.generation += 1
        self._read, self._last_line, self._merged = 0, b"", 1
        self._unmerged: list[Row] = []

    def refresh(self) -> None:
        """Read the rows appended since the last call, or all of a file that was replaced."""
        try:
            with self.path.open("rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                file.seek(self._read - len(self._last_line))
                content = file.read()
                if inode != self._inode or not content.startswith(self._last_line):
                    self._restart()
                    file.seek(0)
                    content = file.read()
        except OSError:  # there is none yet
            return
        self._inode = inode
        *lines, _ = content[len(self._last_line) :].split(b"\n")
        if not lines:
            return
        self._read += sum(len(line) + 1 for line in lines)
        self._last_line = lines[-1] + b"\n"
        with suppress(csv.Error):  # as of a field that is too long
            for cells in csv.reader(line.decode("utf-8", "replace") for line in lines):
                self._add(cells)

    def _add(self, cells: Sequence[str]) -> None:
        if not self.columns:
            self.columns = ["env_steps", *cells[1:]]
            return
        row = [_number(cell) for cell in cells]
        if len(row) != len(self.columns) or row[0] is None:
            return
        self.spacing = row[0] - self.newest["env_steps"] if self.newest else 0.0
        self.newest = {name: value for name, value in zip(self.columns, row, strict=True) if value is not None}
        self._unmerged.append(row)
        if len(self._unmerged) == self._merged:
            self.rows.append(_mean(self._unmerged))
            self._unmerged = []
        if len(self.rows) >= 2 * MAX_POINTS:
            self.rows = [_mean(self.rows[index : index + 2]) for index in range(0, len(self.rows), 2)]
            self._merged *= 2
            self.generation += 1


def _mean(rows: Sequence[Row]) -> Row:
    """Return the mean of each column over its values; steps are those of the last row."""
    if len(rows) == 1:
        return rows[0]
    columns = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    return [rows[-1][0], *(sum(values) / len(values) if values else None for values in columns[1:])]


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
