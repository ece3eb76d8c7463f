"""Returns reached by training: every shipped configuration has a target, and the table lists the measurements."""

from __future__ import annotations

import pytest
from targets import BEGIN, END, PAGE, TARGETS, Outcome, Target, row, table, with_results

import warpdrive as wd
from harness.evaluation import play
from warpdrive.training.config.load import load_config


def test_every_environment_has_a_target() -> None:
    configs = {target.config: load_config(target.config) for target in TARGETS}
    assert {config.env.name for config in configs.values() if config.env} == set(wd.registered_names())
    for target in TARGETS:
        assert {*target.random, *([target.tag] if target.tag else [])} <= set(configs[target.config].policy)


def test_returns_are_those_of_gymnasiums_own_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cart that is always pushed the same way falls within 8 to 11 steps; the pendulum is paid for every step."""
    closed: list[object] = []
    monkeypatch.setattr("gymnasium.envs.classic_control.cartpole.CartPoleEnv.close", lambda env: closed.append(env))
    assert 8 <= play("CartPole-v1", 20, lambda seen: [1] * len(seen)) <= 11
    assert len(closed) == 20
    assert 15 <= play("CartPole-v1", 100, None) <= 30  # 22, standard error 1.2


def test_a_line_says_what_was_missed_and_takes_the_place_of_the_former() -> None:
    target = Target("battle", 5, tag="red", random=("blue",))
    runs = [Outcome(5.5, 100, 10, 20), Outcome(4.94, 1100, 30, 25), Outcome(6.0, 100, 20, 90)]
    text = row(target, Outcome(-1.22, 0), runs)
    assert text == ("| `battle` | `red`, `blue` at random | 5 | -1.2 | 5.5, 4.9 (missed), 6.0 | 1,100 | 30 s | 90 s |")
    small = row(Target("lbf", 0.45, tag="agent"), Outcome(0.002, 0), [Outcome(0.498, 100), Outcome(0.444, 100)])
    assert small.startswith("| `lbf` | `agent` | 0.45 | 0.00 | 0.50, 0.44 (missed) | 100 |")
    other = row(Target("cartpole", 475, "CartPole-v1"), Outcome(21, 0), runs)
    former = table("", [text.replace("5.5,", "1.0,")])
    lines = table(table(former, [other]), [text]).splitlines()
    assert lines[0] == BEGIN and lines[3:] == [other, text, END]


def test_the_pages_of_the_algorithms_show_the_results_of_the_table() -> None:
    for page in [PAGE, *(PAGE.parent / "algorithms").glob("*.md")]:
        assert with_results(page, PAGE.read_text()) == page.read_text(), f"{page}: run benchmarks/targets.py"
    assert "| `pendulum_sac` | `Pendulum-v1` | -200 |" in (PAGE.parent / "algorithms" / "sac.md").read_text()
