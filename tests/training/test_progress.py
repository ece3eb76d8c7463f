"""What is shown while a run trains, on a terminal and elsewhere."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from warpdrive.training.evaluation import EvaluationResult
from warpdrive.training.progress import TrainingProgress, clock, short
from warpdrive.training.report import EvaluationReport, UpdateReport


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
        },
        "seconds_left": 61.0,
    }
    return UpdateReport(**(values | changes))


def test_elsewhere_than_on_a_terminal_lines_are_printed(capsys):
    with TrainingProgress("tag", Console(file=io.StringIO())) as show:
        show.show(report(500))
        show.show(report(600))
        show.show(report(1000, seconds_left=0.0))
    name, first, last = capsys.readouterr().out.splitlines()
    assert "tag" in name
    for part in (
        "50%",
        "1:01 left",
        "tagger 1.50",
        "runner -",
        "41k environment steps/s",
        "205k agent steps/s",
        "update 50 %",
    ):
        assert part in first
    assert "100%" in last, "the last report is always shown"


def test_a_terminal_shows_a_bar_and_the_numbers():
    screen = io.StringIO()
    with TrainingProgress("tag", Console(file=screen, force_terminal=True, width=100)) as show:
        show.show(report(500))
    for part in ("tag", "50%", "1:01 left", "205k agent steps/s", "rollout 40 %, update 50 %, memory 0.25 GiB"):
        assert part in screen.getvalue()


def shown(*reports, evaluation=None):
    """What is on the screen in the end, line by line, in words."""
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
    assert ["return", "1.50", "-"] in lines
    assert ["policy", "loss", "-0.013", "-"] in lines, "the runner is not trained"
    assert ["value", "loss", "2.0e-05", "-"] in lines, "small numbers do not become 0"


def test_the_last_evaluation_stays_until_the_next():
    result = EvaluationResult(10, {"tagger": 4.25, "runner": -2.0}, {"tagger": 1.0, "runner": 1.0}, 8.0, 0.5)
    lines = shown(report(500), report(600), evaluation=EvaluationReport(1, 400, result, 0.1))
    assert ["evaluated", "at", "400", "4.25", "-2.00"] in lines
    assert not any(line[:1] == ["evaluated"] for line in shown(report(500)))


@pytest.mark.parametrize(
    ("number", "text"), [(0.4, "0"), (870, "870"), (12_345, "12.3k"), (999_700, "1000k"), (1_230_000, "1.23M")]
)
def test_numbers_are_shortened(number, text):
    assert short(number) == text


@pytest.mark.parametrize(("seconds", "text"), [(5, "0:05"), (61, "1:01"), (3600, "1:00:00"), (math.inf, "?")])
def test_durations_read_like_a_clock(seconds, text):
    assert clock(seconds) == text
