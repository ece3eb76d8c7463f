"""Periodic evaluation: results, no effect on training, and the best checkpoint."""

from __future__ import annotations

import json
import math
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from games import TAGS
from logged_metrics import rows_of
from paths import SUPPORT

import warpdrive as wd
from warpdrive.errors import CheckpointError, ConfigError
from warpdrive.training.checkpoint.best import BestCheckpoint
from warpdrive.training.checkpoint.checkpoint import find_checkpoint, read_checkpoint
from warpdrive.training.cli.main import main
from warpdrive.training.config.load import load_config
from warpdrive.training.evaluation import EvaluationResult, Evaluator, OnProgress
from warpdrive.training.reports import EvaluationReport, UpdateReport
from warpdrive.training.run import log, periodic_evaluation
from warpdrive.training.runtime.host_copy import HostCopy
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]

EVERY_SECOND = ("trainer.evaluation.every=2", "trainer.evaluation.num_episodes=30", "saving.checkpoint_every=3")


def without_evaluation(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{name: cell for name, cell in row.items() if not name.startswith("eval/")} for row in rows]


class Reports(wd.Callback):
    """Notes every evaluation, and what ``trainer.evaluate`` finds at the same moment."""

    def __init__(self) -> None:
        self.reports: list[EvaluationReport] = []

    def on_evaluate(self, trainer: Trainer, report: EvaluationReport) -> None:
        self.reports.append(report)


@pytest.mark.parametrize("how", ["between updates", "beside"])
def test_each_row_has_what_its_own_weights_reach(sections: Sections, trainer_of: TrainerOf, how: str) -> None:
    """Every evaluation again, from the checkpoints of the weights it names."""
    overrides = (*EVERY_SECOND, "saving.checkpoint_every=1", "saving.keep_last=20")
    beside = f"trainer.evaluation.beside={how == 'beside'}"
    seen = Reports()
    run = trainer_of(sections(total_steps=1400), *overrides, beside).train(callbacks=[seen]).run_folder
    rows = rows_of(run)
    assert [report.update for report in seen.reports] == [2, 4, 6]
    assert [row["env_steps"] for row in rows if row["eval/episodes"]] == ["400", "800", "1200"]
    for report in seen.reports:
        again = Trainer.load(run / "checkpoints" / f"step_{report.env_steps}").evaluate()
        assert again == report.result
        (row,) = (row for row in rows if row["env_steps"] == str(report.env_steps))
        assert float(row["eval/episodic_return/odd"]) == again.mean_return["odd"]
        assert float(row["eval/episodic_return_std/even"]) == again.std_return["even"]
        assert (float(row["eval/episodic_length"]), float(row["eval/episodes"])) == (8.0, 30.0)


OTHERS = {
    "aimer": "{algorithm: ddpg, learning_starts: 300, noise: {type: ornstein_uhlenbeck}}",
    "chooser": "{algorithm: dqn, learning_starts: 300, repeat: 0.5}",
}


@pytest.mark.parametrize("game", ["Leave", "Aim"])
def test_training_is_the_same_with_and_without(sections: Sections, trainer_of: TrainerOf, game: str) -> None:
    """Also with noise and repeated actions, which have state between steps."""
    policies = [f"policy.{tag}={OTHERS[tag]}" for tag in TAGS[game] if tag in OTHERS]
    runs = [
        trainer_of(sections(game, TAGS[game], total_steps=1000), *policies, *overrides).train().run_folder
        for overrides in ((), EVERY_SECOND, (*EVERY_SECOND, "trainer.evaluation.beside=true"))
    ]
    without, between, beside = map(rows_of, runs)
    assert without_evaluation(between) == without
    assert beside == between


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("stops", [(2, 5), (3, 4)])
def test_an_interrupted_run_equals_one_that_was_not(
    sections: Sections, trainer_of: TrainerOf, beside: bool, stops: tuple[int, ...]
) -> None:
    """Stopped right after evaluations, and between them."""

    def stop_after(update: int) -> Callable[[UpdateReport], None]:
        return lambda report: signal.raise_signal(signal.SIGINT) if report.update >= update else None

    overrides = (*EVERY_SECOND, f"trainer.evaluation.beside={beside}")
    expected = trainer_of(sections(total_steps=1400), *overrides).train()
    summary = trainer_of(sections(total_steps=1400), *overrides).train(stop_after(stops[0]))
    summary = Trainer.resume(summary.run_folder).train(stop_after(stops[1]))
    assert (summary.status, summary.updates) == ("interrupted", stops[1])
    summary = Trainer.resume(summary.run_folder).train()
    assert rows_of(summary.run_folder) == rows_of(expected.run_folder)
    assert summary.best is not None and expected.best is not None
    assert summary.best.name == expected.best.name
    assert _same(summary.best, expected.best)


@pytest.mark.parametrize(("beside", "stop"), [(False, 2), (True, 2), (True, 3)])
def test_a_request_to_stop_abandons_an_evaluation(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch, beside: bool, stop: int
) -> None:
    """A resumed run repeats it, unless an update has changed the weights since."""

    def long_evaluation(evaluator: Evaluator, on_progress: OnProgress) -> EvaluationResult:
        if not beside:
            signal.raise_signal(signal.SIGTERM)
        for _ in range(1000):
            on_progress(0, 30)
            time.sleep(0.001)
        return play(evaluator)

    def stop_beside(report: UpdateReport) -> None:
        if beside and report.update == stop:
            signal.raise_signal(signal.SIGTERM)

    overrides = (*EVERY_SECOND, f"trainer.evaluation.beside={beside}")
    expected = rows_of(trainer_of(sections(total_steps=1000), *overrides).train().run_folder)
    play = Evaluator.play
    monkeypatch.setattr(Evaluator, "play", long_evaluation)
    monkeypatch.setattr(periodic_evaluation, "_PATIENCE", 0.0)
    summary = trainer_of(sections(total_steps=1000), *overrides).train(stop_beside)
    assert (summary.status, summary.stopped_by, summary.updates) == ("interrupted", "SIGTERM", stop)
    assert summary.checkpoint is not None and summary.checkpoint.name == f"step_{200 * stop}"
    assert not any("eval/episodes" in row for row in rows_of(summary.run_folder))
    monkeypatch.setattr(Evaluator, "play", play)
    resumed = rows_of(Trainer.resume(summary.run_folder).train().run_folder)
    assert [row["eval/episodes"] for row in resumed] == ["", "30" if stop == 2 else "", "", "30", ""]
    assert without_evaluation(resumed) == without_evaluation(expected)
    assert resumed == expected or stop == 3


def _same(one: Path, other: Path) -> bool:
    models = [read_checkpoint(path).models for path in (one, other)]
    return all(torch.equal(value, models[1][tag][name]) for tag in models[0] for name, value in models[0][tag].items())


def test_an_evaluation_that_was_under_way_is_made_again(sections: Sections, trainer_of: TrainerOf) -> None:
    """Simulates a kill right after the checkpoint at which an evaluation began beside training."""
    overrides = (*EVERY_SECOND, "trainer.evaluation.beside=true", "saving.keep_last=20")
    run = trainer_of(sections(total_steps=1400), *overrides).train().run_folder
    expected = rows_of(run)
    for folder in (run / "checkpoints").glob("step_*"):
        if int(folder.name.removeprefix("step_")) > 800:
            shutil.rmtree(folder)
    table = [line.split(",") for line in (run / "metrics.csv").read_text().splitlines()]
    evaluated = [index for index, name in enumerate(table[0]) if name.startswith("eval/")]
    for row in table[1:]:
        if row[0] == "800":
            for index in evaluated:
                row[index] = ""
    (run / "metrics.csv").write_text("".join(",".join(row) + "\n" for row in table))
    assert rows_of(run) != expected
    trainer = Trainer.resume(run)
    assert trainer.env_steps == 800 and trainer.run_state.evaluation_under_way
    trainer.train()
    assert rows_of(run) == expected


def test_a_checkpoint_follows_the_row_of_its_weights(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU the numbers of a row arrive later; a run that is killed after the checkpoint has the row."""

    class LateCopy(HostCopy):
        def __init__(self, tensors: Any) -> None:
            super().__init__(tensors)
            self.is_here = False

    class Rows(wd.Callback):
        def on_checkpoint(self, trainer: Trainer, path: Path) -> None:
            assert f"step_{rows_of(path.parents[1])[-1]['env_steps']}" == path.name

    monkeypatch.setattr(log, "HostCopy", LateCopy)
    trainer_of(sections(total_steps=800), *EVERY_SECOND, "trainer.evaluation.beside=true").train(callbacks=[Rows()])


def test_an_evaluation_without_a_result_is_never_the_best(tmp_path: Path) -> None:
    config = load_config("cartpole", ["saving.keep_best=true", "trainer.evaluation.every=1"])
    best = BestCheckpoint(tmp_path, config, None)
    for steps, value, is_new in ((1, math.nan, False), (2, 1.0, True), (3, math.nan, False), (4, 2.0, True)):
        result = EvaluationResult(5, {"agent": value}, {"agent": 0.0}, 10.0, 1.0)
        assert best.is_new(EvaluationReport(1, steps, result, 0.1)) == is_new


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("mode", ["max", "min"])
def test_the_best_checkpoint_is_kept(sections: Sections, trainer_of: TrainerOf, mode: str, beside: bool) -> None:
    values = sections(total_steps=20 * 200)
    choice = ("saving.best_metric=eval/episodic_return/odd", f"saving.best_mode={mode}", "saving.keep_last=1")
    summary = trainer_of(values, *EVERY_SECOND, *choice, f"trainer.evaluation.beside={beside}").train()
    found = {int(row["env_steps"]): row["eval/episodic_return/odd"] for row in rows_of(summary.run_folder)}
    returns = {env_steps: float(cell) for env_steps, cell in found.items() if cell}
    best = (max if mode == "max" else min)(returns, key=lambda env_steps: returns[env_steps])
    checkpoints = summary.run_folder / "checkpoints"
    assert summary.best == checkpoints / f"step_{best}" == find_checkpoint(summary.run_folder, "best")
    assert {path.name for path in checkpoints.iterdir()} == {f"step_{best}", "step_4000", "latest", "best"}
    assert json.loads((summary.run_folder / "summary.json").read_text())["best"] == str(summary.best)
    assert Trainer.load(summary.run_folder, which="best").evaluate(30).mean_return["odd"] == returns[best]
    policy = wd.load_policy(summary.run_folder, "odd", which="best")
    kept = read_checkpoint(checkpoints / f"step_{best}").models["odd"]
    assert all(torch.equal(value, kept[name]) for name, value in policy.model.state_dict().items())


def test_environment_steps_may_say_when(sections: Sections, trainer_of: TrainerOf) -> None:
    """Updates of 200 steps: the first ones that reach 500, 1000, ..."""
    overrides = ("trainer.evaluation={every: 500, unit: env_steps, num_episodes: 5}", "saving.log_every=4")
    run = trainer_of(sections(total_steps=2000), *overrides).train().run_folder
    rows = {row["env_steps"]: row["eval/episodes"] for row in rows_of(run)}
    assert [steps for steps, episodes in rows.items() if episodes] == ["600", "1000", "1600", "2000"]
    assert [steps for steps, episodes in rows.items() if not episodes] == ["800"]


def test_deterministic_evaluations(sections: Sections, trainer_of: TrainerOf) -> None:
    seen = Reports()
    trainer = trainer_of(sections(), "trainer.evaluation={every: 3, num_episodes: 50, deterministic: true}")
    trainer.train(callbacks=[seen])
    sampled, likeliest = (trainer.evaluate(deterministic=how) for how in (False, True))
    assert sampled != likeliest == seen.reports[0].result == trainer.evaluate()


def test_the_command(
    sections: Sections, trainer_of: TrainerOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An untrained policy is the best one where little is best."""
    overrides = ("trainer.evaluation={every: 1, num_episodes: 100}", "saving.best_mode=min")
    summary = trainer_of(sections(total_steps=6000, train_batch_size=600), *overrides).train()
    assert summary.best is not None and summary.best.name == "step_600"
    tables = []
    for options in ((), ("--best",)):
        assert main(["evaluate", str(summary.run_folder), *options]) == 0
        tables.append(capsys.readouterr().out)
    assert tables[0] != tables[1]
    run_folder, recorded, exported = str(summary.run_folder), tmp_path / "best.npz", tmp_path / "odd.pt2"
    assert main(["replay", run_folder, "--best", "-o", str(recorded), "--seed", "3"]) == 0
    episode = Trainer.load(run_folder, which="best").fetch_episode(seed=3)
    torch.testing.assert_close(wd.Recording.load(recorded).actions, episode.actions)
    assert main(["export", run_folder, "--best", "--tag", "odd", "-o", str(exported)]) == 0
    seen = torch.eye(8)[:, : wd.load_policy(run_folder, "odd").observation_space.shape[0]]  # type: ignore[index]
    logits = wd.load_policy(run_folder, "odd", which="best").model.logits(seen)
    torch.testing.assert_close(torch.export.load(exported).module()(seen)[1], logits)
    run = trainer_of(sections(total_steps=200)).train().run_folder
    assert main(["evaluate", str(run), "--best"]) == 2
    assert "the run has no best checkpoint" in capsys.readouterr().err
    with pytest.raises(CheckpointError, match=r"which = 'bets', expected 'latest' or 'best'"):
        Trainer.load(run, which="bets")  # type: ignore[arg-type]


def test_a_metric_that_no_evaluation_has(sections: Sections) -> None:
    told = r"saving.best_metric: found 'eval/episodic_return/eve'.*Did you mean 'eval/episodic_return/even'\?"
    with pytest.raises(ConfigError, match=told):
        load_config(sections(), ["saving.best_metric=eval/episodic_return/eve"])


def test_opponents_are_evaluated_with_the_policies(sections: Sections, trainer_of: TrainerOf) -> None:
    """A function, which has no weights to copy: it always says what is right."""
    bots = SUPPORT / "bots.py"
    function = f"policy.odd={{algorithm: function, function: {bots}:say_what_is_wanted}}"
    seen = Reports()
    trainer_of(sections(), function, "trainer.evaluation={every: 2, num_episodes: 5}").train(callbacks=[seen])
    assert seen.reports[0].result.mean_return["odd"] == 8.0
