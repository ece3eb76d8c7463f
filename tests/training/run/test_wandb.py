"""Metrics of Weights & Biases, with a fake, as nothing is sent from tests."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from warpdrive.errors import ConfigError
from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]


class StandIn(ModuleType):
    """Fake of ``wandb``: ``init``, and three methods of the run that it returns."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.runs: list[StandInRun] = []

    def init(self, **settings: Any) -> StandInRun:
        self.runs.append(StandInRun(settings))
        return self.runs[-1]


class StandInRun:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.logged, self.axes, self.finished = settings, [], {}, False

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.axes[name] = step_metric

    def log(self, metrics: dict[str, float]) -> None:
        assert not self.finished
        self.logged.append(dict(metrics))

    def finish(self) -> None:
        self.finished = True


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    return stand_in


CHOICE = "saving.wandb={project: tag, entity: lab, tags: [first], mode: offline}"


def test_the_same_metrics_go_there(sections: Sections, trainer_of: TrainerOf, wandb: StandIn) -> None:
    evaluated = ("trainer.evaluation={every: 2, num_episodes: 5, beside: true}", "saving.keep_best=false")
    trainer = trainer_of(sections(), CHOICE, *evaluated)
    run = trainer.train().run_folder
    (there,) = wandb.runs
    assert there.finished and there.axes == {"env_steps": None, "*": "env_steps"}
    assert there.settings["project"] == "tag" and there.settings["entity"] == "lab"
    assert there.settings["tags"] == ["first"] and there.settings["mode"] == "offline"
    assert there.settings["config"] == trainer.config.model_dump(mode="json")
    with (run / "metrics.csv").open() as file:
        rows = {int(row.pop("env_steps")): {k: float(v) for k, v in row.items() if v} for row in csv.DictReader(file)}
    found: dict[int, dict[str, float]] = {}
    for metrics in there.logged:
        found.setdefault(int(metrics.pop("env_steps")), {}).update(metrics)
    assert found == rows
    assert "eval/episodic_return/odd" in found[400]


def test_a_resumed_run_goes_on_in_the_same_one(sections: Sections, trainer_of: TrainerOf, wandb: StandIn) -> None:
    run = trainer_of(sections(total_steps=200), CHOICE).train().run_folder
    Trainer.resume(run, ["trainer.total_steps=400"]).train()
    first, second = wandb.runs
    assert first.settings["id"] == second.settings["id"] and second.settings["resume"] == "allow"
    assert [metrics["env_steps"] for metrics in second.logged] == [400]


def test_it_is_finished_when_the_run_fails(sections: Sections, trainer_of: TrainerOf, wandb: StandIn) -> None:
    def on_update(report: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        trainer_of(sections(), CHOICE).train(on_update)
    assert wandb.runs[0].finished


def test_where_it_is_missing_nothing_is_begun(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)  # an import then fails
    values = sections()
    with pytest.raises(ConfigError, match=r"saving\.wandb: .* not installed: pip install 'warpdrive\[wandb\]'"):
        trainer_of(values, CHOICE).train()
    assert not Path(values["saving"]["folder"]).exists()


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("saving.wandb={}", r"saving\.wandb\.project: missing"),
        (
            "saving.wandb={project: tag, teem: lab}",
            r"saving\.wandb\.teem: unknown key, expected one of project",
        ),
        ("saving.wandb.mode=onlin", r"saving\.wandb\.mode: found 'onlin'.*Did you mean 'online'"),
    ],
)
def test_mistakes_are_told(sections: Sections, override: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_config(sections(), [override])
