"""Search space of a sweep, and the order of its trials."""

from __future__ import annotations

import math
from statistics import median

import pytest

from warpdrive.errors import ConfigError, WarpDriveError
from warpdrive.training.config.load import load_config
from warpdrive.training.config.yaml import parse_override
from warpdrive.training.sweep.engines import make_engine
from warpdrive.training.sweep.space import as_overrides, drawn, grid, parse_space


def test_lists_and_ranges_are_told_from_what_is_the_same_for_all():
    given = ["a.b=[1,2]", "c=uniform(0, 1)", "d=3", "e=loguniform(1e-4,1e-2)", "f=integer(2,5)", "g=x"]
    words = ["policy.agent.model.initialization=uniform", "h=integers.txt"]  # begin like ranges, and are none
    space, fixed = parse_space([*given, *words])
    assert list(space) == ["a.b", "c", "e", "f"] and fixed == ["d=3", "g=x", *words]


def test_a_grid_has_every_combination():
    space, _ = parse_space(["a=[1,2]", "b=[x,y,z]"])
    assert [tuple(values.values()) for values in grid(space)] == [(a, b) for a in (1, 2) for b in "xyz"]


def test_draws_are_in_their_ranges_and_follow_from_the_seed():
    space, _ = parse_space(["u=uniform(0.1,0.3)", "l=loguniform(1e-4,1e-2)", "i=integer(2,4)", "c=[[64,64],[8]]"])
    draws = [drawn(space, 0, number) for number in range(300)]
    assert all(0.1 <= values["u"] <= 0.3 and 1e-4 <= values["l"] <= 1e-2 for values in draws)
    assert {values["i"] for values in draws} == {2, 3, 4}
    assert {len(values["c"]) for values in draws} == {1, 2}
    below = sum(values["l"] < 1e-3 for values in draws)
    assert abs(below - 150) < 4.5 * math.sqrt(75), "half of them are below the geometric mean (fails once in 100,000)"
    assert draws[7] == drawn(space, 0, 7) != drawn(space, 1, 7)


def test_values_arrive_in_the_configuration():
    values = {"policy.agent.lr": 1e-3, "policy.agent.model.hidden": [8, 8], "env.episode_length": 20}
    config = load_config("cartpole", as_overrides(values))
    assert config.policy["agent"].lr == 1e-3 and config.policy["agent"].model.hidden == [8, 8]


VALUES = [
    math.inf,
    -math.inf,
    "\N{GRINNING FACE}\N{SNOWMAN}",
    'a "b"\\c\n',
    [1, 2.5, None, True],
    {"a": ["1e-3", 1e-3]},
    *("1e5", "yes", "a: b, [c] # d", " ", "", "long " * 50),
]


@pytest.mark.parametrize("value", VALUES)
def test_values_are_the_same_as_overrides(value):
    (override,) = as_overrides({"a.b": value})
    assert parse_override(override) == (("a", "b"), value)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["a=1"], "nothing to vary"),
        (["a=[]"], "a: found an empty list"),
        (["a=[1]", "a=[2]"], "a: given twice"),
        (["a=[2024-01-01]"], "a: found datetime.date(2024, 1, 1), expected numbers, words, lists or sections"),
        (["a=uniform(2,1)"], "expected a range from low to high"),
        (["a=loguniform(0,1)"], "both greater than 0"),
        (["a=uniform(x,1)"], "expected uniform of two numbers"),
        (["a=integer(1.5,3)"], "expected integer of two numbers"),
        (["a=uniform(1)"], "expected uniform(low,high), loguniform(low,high) or integer(low,high)"),
    ],
)
def test_what_cannot_be_varied_is_told(arguments, told):
    with pytest.raises(ConfigError) as error:
        parse_space(arguments)
    assert told in str(error.value)


def test_engines():
    lists, _ = parse_space(["a=[1,2]"])
    ranges, _ = parse_space(["a=uniform(0,1)"])
    assert make_engine(None, lists, None, 0, False).trials == 2
    assert make_engine(None, ranges, None, 0, False).trials == 16
    assert make_engine(None, lists, 5, 0, False).trials == 5
    with pytest.raises(WarpDriveError, match="a is a range"):
        make_engine("grid", ranges, None, 0, False)
    with pytest.raises(WarpDriveError, match="as many trials as there are combinations"):
        make_engine("grid", lists, 3, 0, False)


def test_optuna_learns_from_trials_and_stops_bad_ones():
    pytest.importorskip("optuna", reason="an extra")
    space, _ = parse_space(["x=uniform(0,1)", "c=[[1],[2]]"])
    engine = make_engine("optuna", space, 40, 0, minimise=False)
    misses = []
    for number in range(40):
        values = engine.values(number)
        assert values["c"] in ([1], [2])
        misses.append(abs(values["x"] - 0.3))
        engine.record_result(number, values, -misses[-1])
    assert median(misses[20:]) < 0.5 * median(misses[:10]), "the first ten are drawn at random"
    engine = make_engine("optuna", space, 10, 0, minimise=False)
    for number in range(5):
        values = engine.values(number)
        engine.should_stop(number, 100, 10.0 + number)
        engine.record_result(number, values, 10.0)
    engine.values(5)
    assert engine.should_stop(5, 100, 1.0)
    engine.values(6)
    assert not engine.should_stop(6, 100, 20.0)


def test_optuna_goes_on_with_what_is_known():
    pytest.importorskip("optuna", reason="an extra")
    space, _ = parse_space(["x=uniform(0,1)", "c=[[1],[2]]"])
    engine = make_engine("optuna", space, 3, 0, minimise=True)
    engine.record_result(0, {"x": 0.5, "c": [2]}, 1.0)
    engine.record_result(1, {"x": 0.6, "c": [1]}, None)
    assert 0 <= engine.values(2)["x"] <= 1


def test_without_optuna_it_says_how_to_get_it(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "optuna", None)
    space, _ = parse_space(["x=uniform(0,1)"])
    with pytest.raises(WarpDriveError, match=r"pip install 'warpdrive\[optuna\]'"):
        make_engine("optuna", space, 3, 0, False)
