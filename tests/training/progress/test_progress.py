"""Progress of a run, on a terminal and elsewhere."""

from __future__ import annotations

import io
import math
import threading

import pytest
from rich.console import Console

from warpdrive.training.evaluation import EvaluationResult
from warpdrive.training.progress.training import TrainingProgress, clock, short
from warpdrive.training.progress.work import WorkProgress, no_progress
from warpdrive.training.reports import EvaluationReport, UpdateReport


def report(env_steps, **changes):
    values = {
        "update": 1,
        "env_steps": env_steps,
        "total_steps": 1000,
        "returns": {"tagger": 1.5, "runner": None},
        "env_steps_per_second": 41_000.0,
        "metrics": {
            "losses/policy_loss/tagger": -0.0125,
            "losses/value_loss/tagger": 2e-5,
            "perf/agent_steps_per_second": 205_000.0,
            "perf/rollout_seconds": 0.4 * env_steps / 41_000,
            "perf/update_seconds": 0.5 * env_steps / 41_000,
            "perf/memory_gib": 0.25,
            "charts/episodes": 12,
        },
        "seconds_left": 61.0,
    }
    return UpdateReport(**(values | changes))


def test_elsewhere_than_on_a_terminal_lines_are_printed():
    log = io.StringIO()
    with TrainingProgress("tag", Console(file=log)) as show:
        show.show(report(500))
        show.show(report(600))
        show.show(report(1000, seconds_left=0.0))
    name, first, last = log.getvalue().splitlines()
    assert "tag" in name
    for part in (
        "50%",
        "1:01 left",
        "return (12 episodes): tagger 1.50",
        "runner -",
        "41k environment steps/s",
        "205k agent steps/s",
        "update 50 %",
    ):
        assert part in first
    assert "100%" in last, "the last report is always shown"


def test_a_terminal_that_was_closed_ends_nothing():
    class Terminal(io.StringIO):
        is_closed = False

        def write(self, text):
            if self.is_closed:
                raise OSError(5, "Input/output error")
            return super().write(text)

    log = Terminal()
    with TrainingProgress("tag", Console(file=log)) as show:
        log.is_closed = True
        show.on_evaluation_progress(None, 5, 50)
    work = WorkProgress("evaluating", 40, "episodes", Console(file=log))
    work._begin()
    work.advance()
    assert work.completed == 1


def test_a_terminal_shows_a_bar_and_the_numbers():
    screen = io.StringIO()
    with TrainingProgress("tag", Console(file=screen, force_terminal=True, width=100)) as show:
        show.show(report(500))
    for part in ("tag", "50%", "1:01 left", "205k agent steps/s", "rollout 40 %, update 50 %, memory 0.25 GiB"):
        assert part in screen.getvalue()


def shown(*reports, evaluation=None):
    """Return the final contents of the screen, line by line."""
    screen = Console(file=io.StringIO(), force_terminal=True, width=100, record=True)
    with TrainingProgress("tag", screen) as progress:
        for each in reports:
            progress.show(each)
        if evaluation:
            progress.on_evaluate(None, evaluation)
            progress.show(reports[-1])
    return [line.split() for line in screen.export_text().splitlines()]


def test_the_table_has_a_column_for_each_tag():
    lines = shown(report(500))
    assert ["500", "steps", "tagger", "runner"] in lines
    assert ["return", "1.50", "-"] in lines and ["of", "12", "episodes"] in lines
    assert ["policy", "loss", "-0.013", "-"] in lines, "the runner is not trained"
    assert ["value", "loss", "2.0e-05", "-"] in lines, "small numbers do not become 0"


def test_the_last_evaluation_stays_until_the_next():
    result = EvaluationResult(10, {"tagger": 4.25, "runner": -2.0}, {"tagger": 1.0, "runner": 1.0}, 8.0, 0.5)
    lines = shown(report(500), report(600), evaluation=EvaluationReport(1, 400, result, 0.1))
    assert ["evaluated", "at", "400", "4.25", "-2.00"] in lines
    assert not any(line[:1] == ["evaluated"] for line in shown(report(500)))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.4, "0"),
        (870, "870"),
        (12_345, "12.3k"),
        (999_700, "1000k"),
        (1_230_000, "1.23M"),
        (2e12, "2T"),
        (2**63, "9.22E"),
    ],
)
def test_numbers_are_shortened(number, text):
    assert short(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "0:05"), (61, "1:01"), (3600, "1:00:00"), (4e7, "?"), (math.inf, "?")]
)
def test_durations_read_like_a_clock(seconds, text):
    assert clock(seconds) == text


@pytest.mark.parametrize("patience", ["0:02", "none"])
def test_a_log_is_told_of_work_that_lasts(patience, monkeypatch):
    """With the timer that starts it in the hands of the test: work that has ended before says nothing."""
    timers = []

    class Timer:
        def __init__(self, seconds, begin):
            self.seconds, self.begin, self.finished = seconds, begin, threading.Event()
            timers.append(self)

        def start(self):
            assert self.seconds == 2.0

        def cancel(self):
            self.finished.set()

    monkeypatch.setattr(threading, "Timer", Timer)
    log = io.StringIO()
    with WorkProgress("evaluating", 40, "episodes", Console(file=log)) as work:
        work.advance(10)
        assert log.getvalue() == ""
        if patience != "none":
            timers[0].begin()
            work.advance(10)  # within the seconds between two lines
    timers[0].begin()
    assert log.getvalue() == ("evaluating: 10 of 40 episodes (25%)\n" if patience != "none" else "")


@pytest.mark.parametrize(
    ("total", "unit", "parts"),
    [(3, "frames", ("drawing", "2 of 3 frames", "left")), (None, "steps", ("drawing", "2 steps", "0:00:0"))],
)
def test_a_terminal_shows_a_bar_of_work_that_lasts(total, unit, parts, monkeypatch):
    monkeypatch.setattr("warpdrive.training.progress.work.PATIENCE", 0.0)
    screen, seen = io.StringIO(), threading.Event()
    monkeypatch.setattr(WorkProgress, "_show", lambda self, show=WorkProgress._show: (show(self), seen.set()))
    with WorkProgress("drawing", total, unit, Console(file=screen, force_terminal=True, width=100)) as work:
        assert seen.wait(120)
        assert [*work.over("abc")] == ["a", "b", "c"] and work.completed == 3
        work.reach(2)
    for part in parts:
        assert part in screen.getvalue()


def test_a_notebook_shows_training_without_widgets(monkeypatch):
    """One output of the cell is drawn anew; what is left is the last report."""
    import IPython.display

    drawn = []

    class Handle:
        def update(self, html):
            drawn.append(html.data)

    monkeypatch.setattr(IPython.display, "display", lambda html, display_id: Handle())
    with TrainingProgress("tag", Console(file=io.StringIO(), force_jupyter=True)) as show:
        show.show(report(500))
        show.on_evaluation_progress(None, 5, 50)
        show.show(report(1000))
    assert "100%" in drawn[-1] and "205k agent steps/s" in drawn[-1] and drawn[-1].startswith("<pre")


def test_nothing_is_shown_where_nobody_wants_it(monkeypatch):
    monkeypatch.setattr("warpdrive.training.progress.work.PATIENCE", 0.0)
    log = io.StringIO()
    with no_progress(), WorkProgress("drawing", 3, "frames", Console(file=log)) as work:
        assert not work._timer.is_alive()
        work.advance()
    assert log.getvalue() == ""
