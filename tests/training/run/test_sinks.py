"""Metrics elsewhere: real event files of TensorBoard; fakes of the others, as nothing is sent from tests."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from warpdrive.errors import ConfigError
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.config.load import load_config
from warpdrive.training.run.sinks.configured import check_sinks, log_replay, open_sinks
from warpdrive.training.run.sinks.sink import run_id
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]


class StandIn(ModuleType):
    """Fake of ``wandb``: ``init``, and three methods of the run that it returns."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.runs: list[StandInRun] = []

    def Video(self, path: str, format: str) -> tuple[str, str]:  # noqa: N802
        return path, format

    def init(self, **settings: Any) -> StandInRun:
        self.runs.append(StandInRun(settings))
        return self.runs[-1]


class StandInRun:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.logged, self.axes, self.finished = settings, [], {}, False

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.axes[name] = step_metric

    def log(self, metrics: dict[str, Any]) -> None:
        assert not self.finished
        self.logged.append(dict(metrics))

    def finish(self, exit_code: int) -> None:
        self.finished, self.exit_code = True, exit_code


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


def test_a_run_has_one_name_from_wherever_it_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder(tmp_path / "2026-11-30")
    (run.path / "checkpoints").mkdir(parents=True)
    config = load_config("cartpole")
    for folder, path in ((run.path, "."), (run.checkpoints, "..")):
        monkeypatch.chdir(folder)
        assert run_id(config, RunFolder(Path(path))) == run_id(config, run) == "cartpole-2026-11-30"


def test_runs_of_one_second_on_two_machines_are_two(tmp_path: Path) -> None:
    ids = set()
    for machine in ("one", "two"):
        config = load_config("cartpole", [f"saving.folder={tmp_path / machine}", "saving.wandb={project: p}"])
        ids.add(run_id(config, RunFolder(RunFolder.create(config).path.rename(tmp_path / machine / "2026-11-30"))))
    assert len(ids) == 2 and all(one.startswith("cartpole-2026-11-30-") for one in ids)


def test_it_is_finished_when_the_run_fails(sections: Sections, trainer_of: TrainerOf, wandb: StandIn) -> None:
    def on_update(report: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        trainer_of(sections(), CHOICE).train(on_update)
    assert wandb.runs[0].finished and wandb.runs[0].exit_code == 1


@pytest.mark.parametrize(
    ("name", "choice"),
    [("wandb", "{project: p}"), ("trackio", "{project: p}"), ("mlflow", "{}"), ("tensorboard", "true")],
)
def test_where_one_is_missing_nothing_is_begun(
    sections: Sections, monkeypatch: pytest.MonkeyPatch, name: str, choice: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)  # an import then fails
    with pytest.raises(ConfigError, match=rf"saving\.{name}: .* not installed: pip install 'warpdrive\[{name}\]'"):
        check_sinks(load_config(sections(), [f"saving.{name}={choice}"]))
    check_sinks(load_config(sections(), ["saving.tensorboard=null"]))  # by default only if it is installed


class FakeTrackio(ModuleType):
    """Fake of ``trackio``: ``init``, ``finish``, ``Video`` and ``log`` of the run."""

    def __init__(self) -> None:
        super().__init__("trackio")
        self.opened: list[dict[str, Any]] = []
        self.logged: list[tuple[int, dict[str, Any]]] = []
        self.finished = 0

    def init(self, **settings: Any) -> FakeTrackio:
        self.opened.append(settings)
        return self

    def log(self, metrics: dict[str, Any], step: int) -> None:
        self.logged.append((step, metrics))

    def finish(self) -> None:
        self.finished += 1

    def Video(self, path: str, format: str) -> tuple[str, str]:  # noqa: N802
        return path, format


class FakeMlflow(ModuleType):
    """Fake of ``mlflow``: one server, with the methods of ``MlflowClient``."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.experiments: dict[str, str] = {}
        self.runs: list[SimpleNamespace] = []
        self.entities = SimpleNamespace(
            Param=lambda key, value: (key, value), Metric=lambda key, value, timestamp, step: (key, value, step)
        )

    def MlflowClient(self, tracking_uri: str | None) -> FakeMlflow:  # noqa: N802
        return self

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        return SimpleNamespace(experiment_id=self.experiments[name]) if name in self.experiments else None

    def create_experiment(self, name: str) -> str:
        return self.experiments.setdefault(name, str(len(self.experiments)))

    def search_runs(self, experiment_ids: list[str], filter_string: str, max_results: int) -> list[SimpleNamespace]:
        return [run for run in self.runs if all(repr(tag) in filter_string for tag in run.tags.values())]

    def create_run(self, experiment_id: str, tags: dict[str, str], run_name: str) -> SimpleNamespace:
        info = SimpleNamespace(run_id=str(len(self.runs)))
        self.runs.append(SimpleNamespace(info=info, tags=tags, params=[], metrics=[], artifacts=[], status="RUNNING"))
        return self.runs[-1]

    def update_run(self, run_id: str, status: str) -> None:
        self.runs[int(run_id)].status = status

    def log_batch(self, run_id: str, metrics: Sequence[Any] = (), params: Sequence[Any] = ()) -> None:
        assert self.runs[int(run_id)].status == "RUNNING" and len(params) <= 100
        self.runs[int(run_id)].metrics += metrics
        self.runs[int(run_id)].params += params

    def log_artifact(self, run_id: str, local_path: str) -> None:
        self.runs[int(run_id)].artifacts.append(local_path)

    def set_terminated(self, run_id: str, status: str) -> None:
        self.runs[int(run_id)].status = status


def test_every_sink_gets_the_metrics_and_the_replay_of_a_resumed_run(
    tmp_path: Path, sections: Sections, monkeypatch: pytest.MonkeyPatch, wandb: StandIn
) -> None:
    from PIL import Image
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trackio, mlflow = FakeTrackio(), FakeMlflow()
    monkeypatch.setitem(sys.modules, "trackio", trackio)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    choices = ["tensorboard=true", "trackio={project: p}", "mlflow={experiment: e}", "wandb={project: p}"]
    config = load_config(sections(), [f"saving.{choice}" for choice in choices])
    run = RunFolder(tmp_path / "echo" / "1")
    run.path.mkdir(parents=True)
    gif = run.path / "replay.gif"
    Image.new("P", (20, 10)).save(gif, save_all=True, append_images=[Image.new("P", (20, 10), 1)])
    for go_on_after, status in ((0, "interrupted"), (100, "finished")):
        run.summary.write_text(f'{{"status": "{status}"}}')
        with open_sinks(config, run, go_on_after) as sinks:
            for sink in sinks:
                sink.add(go_on_after + 100, {"losses/entropy/even": 0.5, "charts/episodic_return/even": math.nan})
        assert mlflow.runs[0].status == {"interrupted": "KILLED", "finished": "FINISHED"}[status]
        assert wandb.runs[-1].exit_code == {"interrupted": 130, "finished": 0}[status]
    log_replay(config, run, 200, gif)

    events = EventAccumulator(str(run.path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("losses/entropy/even")] == [(100, 0.5), (200, 0.5)]
    (image,) = events.Images("replay")
    assert (image.step, image.width, image.height) == (200, 20, 10)
    assert image.encoded_image_string == gif.read_bytes()
    assert {opened["name"] for opened in trackio.opened} == {"echo-1"} and trackio.finished == 3
    metrics = {"losses/entropy/even": 0.5}
    assert trackio.logged == [(100, metrics), (200, metrics), (200, {"replay": (str(gif), "gif")})]
    (there,) = mlflow.runs
    assert there.metrics == [("losses/entropy/even", 0.5, 100), ("losses/entropy/even", 0.5, 200)]
    assert dict(there.params)["policy.even.lr"] == "0.01" and there.status == "FINISHED"
    assert there.artifacts == [str(gif)] and mlflow.experiments == {"e": "0"}
    assert wandb.runs[-1].logged == [{"env_steps": 200, "replay": (str(gif), "gif")}]


def test_sinks_are_closed_when_another_cannot_be_opened(
    tmp_path: Path, sections: Sections, monkeypatch: pytest.MonkeyPatch, wandb: StandIn
) -> None:
    mlflow = FakeMlflow()
    monkeypatch.setattr(mlflow, "create_run", lambda *_, **__: 1 // 0)  # its server is down
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    config = load_config(sections(), ["saving.wandb={project: p}", "saving.mlflow={}"])
    with (
        pytest.raises(ConfigError, match=r"saving\.mlflow: cannot be opened: ZeroDivisionError"),
        open_sinks(config, RunFolder(tmp_path), 0),
    ):
        pass
    assert wandb.runs[0].finished


def test_a_run_whose_sinks_cannot_be_opened_leaves_no_folder(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch, wandb: StandIn
) -> None:
    before = trainer_of(sections(total_steps=200)).train().run_folder
    monkeypatch.setattr(wandb, "init", lambda **_: 1 // 0)  # without an account
    with pytest.raises(ConfigError, match=r"saving\.wandb: cannot be opened"):
        trainer_of(sections(), CHOICE).train()
    with pytest.raises(ConfigError, match=r"saving\.wandb: cannot be opened"):
        Trainer.resume(before, [CHOICE, "trainer.total_steps=400"]).train()
    assert list(before.parent.iterdir()) == [before] and (before / "summary.json").exists()


def test_a_sink_that_fails_ends_no_training(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch, wandb: StandIn
) -> None:
    monkeypatch.setattr(StandInRun, "log", lambda *_: 1 // 0)
    monkeypatch.setattr(StandInRun, "finish", lambda *_: 1 // 0)
    with pytest.warns(UserWarning, match="Weights & Biases") as warned:
        summary = trainer_of(sections(), CHOICE).train()
    assert summary.status == "finished"
    (first, last) = [str(warning.message) for warning in warned]
    assert first.startswith("metrics are no longer logged in Weights & Biases, but in ") and "ended" in last


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("saving.wandb={}", r"saving\.wandb\.project: missing"),
        ("saving.wandb={project: tag, teem: lab}", r"saving\.wandb\.teem: unknown key, expected one of project"),
        ("saving.wandb.mode=onlin", r"saving\.wandb\.mode: found 'onlin'.*Did you mean 'online'"),
    ],
)
def test_mistakes_are_told(sections: Sections, override: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_config(sections(), [override])
