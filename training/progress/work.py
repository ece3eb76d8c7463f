"""Progress of work that takes more than two seconds: a bar on terminals and in notebooks, lines in logs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from warpdrive.terminal import is_quiet
from warpdrive.training.progress.console import PlainConsole
from warpdrive.training.progress.displays import Display, display_on

PATIENCE = 2.0
"""Seconds of work before progress is shown."""
SECONDS_BETWEEN_LINES = 5.0
Item = TypeVar("Item")

_silenced: ContextVar[bool] = ContextVar("silenced", default=False)


@contextmanager
def no_progress() -> Iterator[None]:
    """Suppress every :class:`WorkProgress` that begins in this thread within the block."""
    token = _silenced.set(True)
    try:
        yield
    finally:
        _silenced.reset(token)


class WorkProgress:
    """Progress display of a piece of work, from its third second on, within its block as a context manager.

    On a terminal and in a notebook it is a bar, which is erased from the terminal at the end; elsewhere a line on
    stderr every few seconds.

    Args:
        description: Description of the work: ``"evaluating"``.
        total: Number of units; None: unknown, and the elapsed time is shown.
        unit: Name of the units: ``"episodes"``.
        console: Console of the display; None: stderr.
    """

    def __init__(
        self, description: str, total: int | None = None, unit: str = "", console: Console | None = None
    ) -> None:
        self.description, self.total, self.unit = description, total, unit
        self.completed = 0
        self._console = console or PlainConsole(stderr=True)
        self._display: Display | None = None
        self._bar: Progress | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._begin)
        self._timer.daemon = True
        self._next_line = 0.0
        self._visible = False

    def __enter__(self) -> WorkProgress:
        if not (_silenced.get() or is_quiet()):
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._visible = False
            if self._display is not None:
                with suppress(OSError):
                    self._display.stop()

    def advance(self, amount: int = 1) -> None:
        """Count ``amount`` more units as done."""
        self.reach(self.completed + amount)

    def reach(self, completed: int) -> None:
        """Count ``completed`` units in all as done."""
        with self._lock:
            self.completed = completed
            if self._visible:
                self._show()

    def over(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield ``items``, counting each as done when the next one is requested."""
        for item in items:
            yield item
            self.advance()

    def _begin(self) -> None:
        with self._lock:
            if not self._timer.finished.is_set():  # else the work has just ended
                self._visible = True
                self._display = display_on(self._console, transient=True)
                self._show()

    def _show(self) -> None:
        with suppress(OSError):  # a terminal that was closed is no reason to stop
            if self._display is None:
                self._print_line()
            else:
                self._show_bar(self._display)

    def _show_bar(self, display: Display) -> None:
        if self._bar is None:
            last = [TimeElapsedColumn()] if self.total is None else [TimeRemainingColumn(), TextColumn("left")]
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn(self._counted()), *last)
            self._bar = Progress(*columns, console=self._console)
            self._bar.add_task(self.description, total=self.total, completed=self.completed)
        self._bar.update(self._bar.task_ids[0], completed=self.completed)
        display.show(self._bar)

    def _counted(self) -> str:
        if self.total is None:
            return f"{{task.completed}} {self.unit}" if self.unit else ""
        return f"{{task.completed}} of {{task.total}} {self.unit}"

    def _print_line(self) -> None:
        now = time.monotonic()
        if now < self._next_line:
            return
        self._next_line = now + SECONDS_BETWEEN_LINES
        counted = ""
        if self.total:
            counted = f": {self.completed} of {self.total} {self.unit} ({self.completed / self.total:.0%})"
        elif self.unit:
            counted = f": {self.completed} {self.unit}"
        self._console.print(f"{self.description}{counted}", highlight=False, markup=False, soft_wrap=True)
