"""Metrics on disk: ``metrics.csv``, with environment steps as the x axis, and further sinks."""

from __future__ import annotations

import csv
import io
import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import torch

from warpdrive.errors import CheckpointError, one_line, shown
from warpdrive.training.run.sinks.sink import MetricSink
from warpdrive.training.runtime.atomic_write import sync, write_atomically, writing
from warpdrive.user_code import describe_error


class MetricsLog:
    """CSV log with one row per logged update; rows are flushed immediately.

    New names, as of algorithms that first wait for experience, are appended as columns: the file is then rewritten,
    with empty cells in earlier rows.

    Args:
        path: CSV file.
        sinks: Further sinks; one that fails is no longer used.
        go_on_after: Environment steps of a resumed run: later rows of an existing file are removed.
    """

    def __init__(self, path: Path, sinks: Sequence[MetricSink] = (), go_on_after: int = 0) -> None:
        self._path, self._sinks = path, [*sinks]
        self._columns = _keep_rows(path, go_on_after)
        self._file = path.open("a", newline="", encoding="utf-8")

    def write(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Log ``metrics`` at ``env_steps``; NaN values become empty cells."""
        if not metrics.keys() <= set(self._columns):
            self._widen([name for name in metrics if name not in self._columns])
        row = {name: _cell(value) for name, value in metrics.items()}
        with writing(self._path):
            csv.writer(self._file).writerow([env_steps, *(row.get(name, "") for name in self._columns)])
            self._file.flush()
        self._add_to_sinks(env_steps, metrics)

    def amend(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Add ``metrics`` to the existing row of ``env_steps``; the file is rewritten."""
        self._widen([name for name in metrics if name not in self._columns], str(env_steps), metrics)
        self._add_to_sinks(env_steps, metrics)

    def sync(self) -> None:
        """Sync the rows to disk."""
        with writing(self._path):
            os.fsync(self._file.fileno())
            sync(self._path.parent)  # its entry, if it was created or rewritten

    def _add_to_sinks(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        for sink in [*self._sinks]:
            try:
                sink.add(env_steps, metrics)
            except Exception as error:  # of a service on the network, say: the training goes on
                self._sinks.remove(sink)
                told = f"metrics are no longer logged in {sink.title}, but in {self._path}: {describe_error(error)}"
                warnings.warn(told, stacklevel=2)

    def _widen(self, names: Sequence[str], of_row: str = "", metrics: Mapping[str, float] | None = None) -> None:
        """Rewrite the file with columns for ``names``, and with ``metrics`` in the row that begins with ``of_row``."""
        self._columns += names
        header = ["env_steps", *self._columns]
        with self._path.open(newline="", encoding="utf-8") as file:
            rows = [row + [""] * (len(header) - len(row)) for row in list(csv.reader(file))[1:]]
        for row in rows:
            if row[0] == of_row:
                for name, value in (metrics or {}).items():
                    row[header.index(name)] = _cell(value)
        whole = io.StringIO(newline="")
        csv.writer(whole).writerows([header, *rows])
        self._file.close()
        write_atomically(self._path, whole.getvalue())
        self._file = self._path.open("a", newline="", encoding="utf-8")

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with writing(self._path):
            self._file.close()


def _cell(value: float) -> str:
    return "" if math.isnan(value) else repr(value)


def memory_gib(device: torch.device) -> float:
    """Return the peak memory in GiB: of PyTorch on a GPU, of the whole process on the CPU; NaN on Windows."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    try:
        import resource
    except ImportError:
        return math.nan

    unit = 1 if sys.platform == "darwin" else 1024  # the unit of ru_maxrss differs
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def _keep_rows(path: Path, env_steps: int) -> list[str]:
    """Remove rows after ``env_steps``, and an incomplete last row. Return the names of the columns."""
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path}: found a folder, pipe or device, expected a file of metrics")
    if not path.exists():
        return []
    with _reading(path), path.open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file)) or [["env_steps"]]
        if header[0] != "env_steps":
            raise ValueError(f"the first column is {shown(header[0])}, expected env_steps")
        kept = [row for row in rows if len(row) == len(header) and int(row[0]) <= env_steps]
    if not kept:
        path.unlink()
        return []
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *kept])
    write_atomically(path, text.getvalue())
    return header[1:]


def read_metrics(path: Path) -> list[tuple[float, dict[str, float]]]:
    """Return the rows of a run's ``metrics.csv``: environment steps, and the logged values by name.

    Raises:
        CheckpointError: If the file is malformed.
    """
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path}: found a folder, pipe or device, expected a file of metrics")
    if not path.exists():
        return []
    with _reading(path), path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file, restkey="")
        # a row that is being written may be short
        return [
            (float(row["env_steps"]), {name: float(cell) for name, cell in row.items() if cell and name != "env_steps"})
            for row in rows
        ]


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Add the file name to errors of its contents."""
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError, csv.Error) as error:
        description = "it has no column env_steps" if isinstance(error, KeyError) else one_line(str(error), 100)
        raise CheckpointError(f"{path}: not a metrics file of a run, move it elsewhere: {description}") from None
