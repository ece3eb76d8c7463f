"""What is shown while a run trains, on a terminal and elsewhere."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from warpdrive.training.progress import TrainingProgress, clock, short
from warpdrive.training.report import UpdateReport


def report(env_steps, **changes):
    values = {
        "update": 1,
        "env_steps": env_steps,
        "total_steps": 1000,
        "returns": {"tagger": 1.5, "runner": None},
        "env_steps_per_second": 41_000.0,
        "metrics": {"perf/agent_steps_per_second": 205_000.0},
        "seconds_left": 61.0,
    }
    return UpdateReport(**(values | changes))


def test_elsewhere_than_on_a_terminal_lines_are_printed(capsys):
    with TrainingProgress("tag", Console(file=io.StringIO())) as show:
        show(report(500))
        show(report(600))
        show(report(1000, seconds_left=0.0))
    name, first, last = capsys.readouterr().out.splitlines()
    assert "tag" in name
    for part in ("50%", "1:01 left", "tagger 1.50", "runner -", "41k environment steps/s", "205k agent steps/s"):
        assert part in first
    assert "100%" in last, "the last report is always shown"


def test_a_terminal_shows_a_bar_and_the_numbers():
    screen = io.StringIO()
    with TrainingProgress("tag", Console(file=screen, force_terminal=True, width=100)) as show:
        show(report(500))
    for part in ("tag", "50%", "1:01 left", "tagger 1.50", "205k agent steps/s"):
        assert part in screen.getvalue()


@pytest.mark.parametrize(
    ("number", "text"), [(0.4, "0"), (870, "870"), (12_345, "12.3k"), (999_700, "1000k"), (1_230_000, "1.23M")]
)
def test_numbers_are_shortened(number, text):
    assert short(number) == text


@pytest.mark.parametrize(("seconds", "text"), [(5, "0:05"), (61, "1:01"), (3600, "1:00:00"), (math.inf, "?")])
def test_durations_read_like_a_clock(seconds, text):
    assert clock(seconds) == text
