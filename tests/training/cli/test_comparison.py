"""Line-ups measured at the end of a run, and their table."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from warpdrive.training.cli.comparison import Measurement, comparison_table, line_ups
from warpdrive.training.evaluation import EvaluationResult


@pytest.mark.parametrize(
    ("tags", "trained", "random"),
    [
        (["a"], ["a"], [(), ("a",)]),
        (["a", "b"], ["a"], [("b",), ("a", "b")]),
        (["a", "b"], ["a", "b"], [(), ("b",), ("a",), ("a", "b")]),
        (["a", "b"], [], [("a", "b")]),
    ],
)
def test_everybody_as_trained_then_each_alone_then_nobody(tags, trained, random):
    assert line_ups(tags, trained) == random


def test_the_table_says_who_acted_and_what_it_means():
    result = EvaluationResult(
        episodes=1000,
        mean_return={"tagger": 7.25, "runner": -5.0},
        std_return={"tagger": 1.0, "runner": 1.0},
        mean_length=61.5,
        terminated_fraction=0.987,
    )
    lines = [Measurement(("tagger",), ("runner",), result), Measurement((), ("tagger", "runner"), result)]
    screen = io.StringIO()
    Console(file=screen, width=120).print(comparison_table(lines, "the runner was caught"))
    title, header, first, second = (line.split("  ") for line in screen.getvalue().splitlines())
    assert "1000 episodes" in title[0]
    words = [word.strip() for word in header if word.strip()]
    assert words == ["policies", "the runner was caught", "length", "return of tagger", "return of runner"]
    cells = [word.strip() for word in first if word.strip()]
    assert cells == ["trained tagger, random runner", "98.7 %", "61.5", "7.25", "-5.00"]
    assert second[0] == "random tagger and runner"
