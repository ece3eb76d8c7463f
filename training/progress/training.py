"""Progress of a training run: a bar and metrics on a terminal, an occasional line elsewhere."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

from warpdrive.training.progress.console import PlainConsole
from warpdrive.training.progress.displays import Display, display_on
from warpdrive.training.progress.work import PATIENCE, SECONDS_BETWEEN_LINES
from warpdrive.training.reports import A_YEAR, EvaluationReport, UpdateReport
from warpdrive.training.run.callbacks import Callback

if TYPE_CHECKING:
    from warpdrive.training.trainer import Trainer


class TrainingProgress(Callback):
    """Callback that shows the progress of a run, within its block as a context manager.

    Args:
        name: Name of the run.
        console: A bar and a table on a terminal and in a notebook, lines elsewhere; None: stderr.
        at_once: If True, a log names the run when it begins, instead of after two seconds.
    """

    def __init__(self, name: str, console: Console | None = None, at_once: bool = True) -> None:
        console = console or PlainConsole(stderr=True)
        display = display_on(console)
        self._view = _Screen(name, display) if display else _Lines(name, console, 0.0 if at_once else PATIENCE)
        self._evaluation: EvaluationReport | None = None

    def on_update(self, trainer: Trainer, report: UpdateReport) -> None:
        """See :class:`Callback`."""
        self.show(report)

    def on_evaluation_progress(self, trainer: Trainer, done: int, episodes: int) -> None:
        """See :class:`Callback`."""
        with suppress(OSError):
            self._view.evaluating(done, episodes)

    def on_evaluate(self, trainer: Trainer, report: EvaluationReport) -> None:
        """See :class:`Callback`."""
        self._evaluation = report

    def show(self, report: UpdateReport) -> None:
        """Show ``report``, and the last evaluation."""
        with suppress(OSError):  # a terminal that was closed is no reason to stop
            self._view.show(report, self._evaluation)

    def __enter__(self) -> TrainingProgress:
        self._view.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._view.stop()


class _Screen:
    """Progress bar, with a table with a column for each policy tag, and a line about the speed."""

    def __init__(self, name: str, display: Display) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}"),
            expand=True,
        )
        self._task = self._progress.add_task(name, total=None, left="starting")
        self._display = display
        self._below: tuple[Table | Text, ...] = ()

    def start(self) -> None:
        self._display.show(self._progress)

    def stop(self) -> None:
        self._display.stop()

    def show(self, report: UpdateReport, evaluation: EvaluationReport | None) -> None:
        self._progress.update(
            self._task,
            total=report.total_steps,
            completed=min(report.env_steps, report.total_steps),
            left=f"{clock(report.seconds_left)} left",
        )
        machine = Text(f"{speed(report)}\n{shares(report)}", style="dim")
        self._below = (_table(report, evaluation), machine)
        self._display.show(Group(self._progress, *self._below))

    def evaluating(self, done: int, episodes: int) -> None:
        """Show the progress of an evaluation for which training waits."""
        counted = Text(f"evaluating: {done} of {episodes} episodes", style="dim")
        self._display.show(Group(self._progress, *self._below, counted))


def _table(report: UpdateReport, evaluation: EvaluationReport | None) -> Table:
    """Return a table of the policies' returns and losses: a column for each tag."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(f"{short(report.env_steps)} steps", header_style="dim")
    for tag in report.returns:
        table.add_column(tag, justify="right", header_style="bold", min_width=8)
    table.add_row("return", *(_number(value) for value in report.returns.values()), style="bold")
    if "charts/episodes" in report.metrics:
        table.add_row(*(f"  of {_episodes(report)}", *[""] * len(report.returns)), style="dim")
    if evaluation is not None:
        returns = (_number(evaluation.result.mean_return[tag]) for tag in report.returns)
        table.add_row(f"evaluated at {short(evaluation.env_steps)}", *returns)
    names = [name.removeprefix("losses/").rpartition("/") for name in report.metrics if name.startswith("losses/")]
    for term in dict.fromkeys(term for term, _, _ in names):
        cells = (report.metrics.get(f"losses/{term}/{tag}", math.nan) for tag in report.returns)
        table.add_row(term.replace("_", " "), *(_number(None if math.isnan(cell) else cell, 3) for cell in cells))
    return table


class _Lines:
    """Line at the first report after ``patience`` seconds, then every few seconds, and at the last report."""

    def __init__(self, name: str, console: Console, patience: float) -> None:
        self._name, self._console = name, console
        self._named = False
        self._next = time.monotonic() + patience

    def start(self) -> None:
        self._print_line()

    def stop(self) -> None:
        pass

    def show(self, report: UpdateReport, evaluation: EvaluationReport | None) -> None:
        if time.monotonic() < self._next and (report.env_steps < report.total_steps or not self._named):
            return
        done = min(report.env_steps / report.total_steps, 1.0)
        left = f"{clock(report.seconds_left)} left"
        counted = f" ({_episodes(report)})" if "charts/episodes" in report.metrics else ""
        parts = [f"{done:4.0%}  {left:>10}  return{counted}: {_by_tag(report.returns)}"]
        if evaluation is not None:
            parts.append(f"evaluated at {short(evaluation.env_steps)}: {_by_tag(evaluation.result.mean_return)}")
        self._print_line("  ".join([*parts, speed(report), shares(report)]))

    def evaluating(self, done: int, episodes: int) -> None:
        """Show the progress of an evaluation for which training waits."""
        if time.monotonic() >= self._next:
            self._print_line(f"evaluating: {done} of {episodes} episodes")

    def _print_line(self, line: str | None = None) -> None:
        """Print a line if it is due, after a first one with the run's name; None prints only the name."""
        if time.monotonic() < self._next and not self._named:
            return
        lines = [] if self._named else [f"training {self._name}"]
        self._named = True
        if line is not None:
            self._next = time.monotonic() + SECONDS_BETWEEN_LINES
            lines.append(line)
        for each in lines:
            self._console.print(each, highlight=False, markup=False, soft_wrap=True)


def _number(value: float | None, digits: int = 2) -> str:
    """Format a number with so many decimals, or in scientific notation if it is small; ``"-"`` if it is None."""
    if value is None:
        return "-"
    return f"{value:.{digits}f}" if value == 0 or abs(value) >= 10**-digits else f"{value:.1e}"


def _episodes(report: UpdateReport) -> str:
    """Return the number of episodes of the mean returns."""
    count = int(report.metrics["charts/episodes"])
    return "1 episode" if count == 1 else f"{short(count)} episodes"


def _by_tag(returns: dict[str, float] | dict[str, float | None]) -> str:
    """Return the mean return of each policy tag: ``"tagger 3.20, runner -1.71"``."""
    return ", ".join(f"{tag} {_number(value)}" for tag, value in returns.items())


def speed(report: UpdateReport) -> str:
    """Return environment steps and agent steps per second."""
    agents = report.metrics.get("perf/agent_steps_per_second", math.nan)
    text = f"{short(report.env_steps_per_second)} environment steps/s"
    return text if math.isnan(agents) else f"{text} ({short(agents)} agent steps/s)"


def shares(report: UpdateReport) -> str:
    """Return the fractions of time spent in rollouts and updates, and the memory used: ``"rollout 62 %, ..."``.

    The rest is logging, evaluations and checkpoints.
    """
    seconds = report.env_steps / report.update / report.env_steps_per_second  # of an update with all around it
    parts = [
        f"{name} {100 * report.metrics[key] / seconds:.0f} %"
        for name, key in (("rollout", "perf/rollout_seconds"), ("update", "perf/update_seconds"))
        if key in report.metrics
    ]
    if "perf/memory_gib" in report.metrics:
        parts.append(f"memory {report.metrics['perf/memory_gib']:.2f} GiB")
    return ", ".join(parts)


def short(number: float) -> str:
    """Format a positive number with three digits: ``"870"``, ``"12.3k"``, ``"1.23M"``."""
    for unit, size in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}" if number < 999.5 * size else f"{number / size:.0f}{unit}"
    return f"{number:.0f}"


def clock(seconds: float) -> str:
    """Format a duration as ``minutes:seconds``, with hours if there are any; ``"?"`` if it is more than a year."""
    if not seconds < A_YEAR:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
