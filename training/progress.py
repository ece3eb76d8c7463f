"""What a person sees while a run trains: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

from warpdrive.training.report import UpdateReport

_SECONDS_BETWEEN_LINES = 5.0


class TrainingProgress:
    """Shows the reports of ``Trainer.train(on_update=...)``: a context manager, called with each report.

    Args:
        name: of the run.
        console: where to draw; not a terminal means plain lines.
    """

    def __init__(self, name: str, console: Console) -> None:
        self._display = _Bar(name, console) if console.is_terminal else _Lines(name)

    def __call__(self, report: UpdateReport) -> None:
        """Show ``report``."""
        self._display.show(report)

    def __enter__(self) -> TrainingProgress:
        self._display.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.stop()


class _Bar:
    """A progress bar, and under it the numbers of the last report."""

    def __init__(self, name: str, console: Console) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}"),
            expand=True,
        )
        self._task = self._progress.add_task(name, total=None, left="starting")
        self._numbers = Text()
        self._live = Live(Group(self._progress, self._numbers), console=console, refresh_per_second=8)

    def start(self) -> None:
        self._live.start()

    def stop(self) -> None:
        self._live.stop()

    def show(self, report: UpdateReport) -> None:
        self._progress.update(
            self._task,
            total=report.total_steps,
            completed=min(report.env_steps, report.total_steps),
            left=f"{clock(report.seconds_left)} left",
        )
        self._numbers.plain = f"return: {returns(report)}   {speed(report)}"


class _Lines:
    """A line at the first report, then every few seconds, and at the last."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._next = 0.0

    def start(self) -> None:
        print(f"training {self._name}", flush=True)

    def stop(self) -> None:
        pass

    def show(self, report: UpdateReport) -> None:
        now = time.monotonic()
        if now < self._next and report.env_steps < report.total_steps:
            return
        self._next = now + _SECONDS_BETWEEN_LINES
        done = min(report.env_steps / report.total_steps, 1.0)
        left = f"{clock(report.seconds_left)} left"
        print(f"{done:4.0%}  {left:>10}  return: {returns(report)}  {speed(report)}", flush=True)


def returns(report: UpdateReport) -> str:
    """Return the mean return of each policy tag: ``"tagger 3.20, runner -1.71"``."""
    return ", ".join(f"{tag} {'-' if value is None else f'{value:.2f}'}" for tag, value in report.returns.items())


def speed(report: UpdateReport) -> str:
    """Return environment steps and agent steps per second."""
    agents = report.metrics.get("perf/agent_steps_per_second", math.nan)
    text = f"{short(report.env_steps_per_second)} environment steps/s"
    return text if math.isnan(agents) else f"{text} ({short(agents)} agent steps/s)"


def short(number: float) -> str:
    """Return a positive number to three digits: ``"870"``, ``"12.3k"``, ``"1.23M"``."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}" if number < 999.5 * size else f"{number / size:.0f}{unit}"
    return f"{number:.0f}"


def clock(seconds: float) -> str:
    """Return a duration as ``minutes:seconds``, with hours where there are any; ``"?"`` if it is not known."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
