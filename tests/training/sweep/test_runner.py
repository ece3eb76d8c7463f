"""Trials of a sweep: their numbers in a resumed one, and those that are pruned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from warpdrive.errors import ConfigError
from warpdrive.training.distributed.placement import places
from warpdrive.training.sweep import runner as runner_module
from warpdrive.training.sweep.engines import FixedTrials
from warpdrive.training.sweep.runner import Plan, Runner


def runner_of(folder: Path, rates: Sequence[float], engine: type[FixedTrials] = FixedTrials) -> Runner:
    """Return the runner of a sweep of cartpole in ``folder``, with a trial for each learning rate."""
    values = [{"policy.agent.lr": rate} for rate in rates]
    return Runner(Plan(folder, "cartpole", [], "agent", None), engine(values), places(1, gpus=0), lambda trials: None)


def write_trial(folder: Path, number: int, lr: float, result: Any) -> Path:
    trial = folder / f"trial_{number:03d}"
    trial.mkdir()
    (trial / "trial.json").write_text(json.dumps({"values": {"policy.agent.lr": lr}}))
    (trial / "result.json").write_text(json.dumps(result))
    return trial


def test_a_resumed_sweep_keeps_the_numbers_of_its_trials(tmp_path):
    """Trial 1 has an invalid value, so that it has no folder; names of four digits are sorted as numbers."""
    rates = [1e-3] * 1002
    rates[1] = -1.0
    for number in (0, *range(2, 1002)):
        write_trial(tmp_path, number, 1e-3, {"status": "finished", "returns": {"agent": float(number)}})
    runner = runner_of(tmp_path, rates)
    assert runner.run()
    assert {trial.number: trial.folder.name for trial in runner.trials}[1001] == "trial_1001"
    assert sorted(trial.number for trial in runner.trials) == list(range(1002))
    assert all(trial.score == trial.number for trial in runner.trials if trial.number != 1)
    (failed,) = (trial for trial in runner.trials if trial.status == "failed")
    assert failed.number == 1 and "policy.agent.lr" in failed.reason
    assert not list(tmp_path.glob("trial_*/trial.yaml")), "no trial was prepared anew"


@pytest.mark.parametrize("text", ["", "[]", '{"values": 3}'])
def test_a_damaged_trial_is_told(tmp_path, text):
    (write_trial(tmp_path, 0, 1e-3, {}) / "trial.json").write_text(text)
    with pytest.raises(ConfigError, match=r"trial_000.trial\.json: found .*, expected a trial"):
        runner_of(tmp_path, [1e-3]).run()


@pytest.mark.parametrize("result", [[], {"returns": {"agent": 1.0}}, {"status": "interrupted", "returns": None}])
def test_results_that_no_trial_wrote_are_those_of_unfinished_ones(tmp_path, monkeypatch, result):
    write_trial(tmp_path, 0, 1e-3, result)
    monkeypatch.setattr(runner_module.subprocess, "Popen", Ended)
    runner = runner_of(tmp_path, [1e-3])
    assert runner.run()
    assert [(trial.status, trial.score) for trial in runner.trials] == [("finished", 2.5)]


class Ended:
    """Stand-in for the process of a trial: has finished."""

    pid, returncode = 2**30, 0

    def __init__(self, command: Sequence[str], **_: Any) -> None:
        self.folder = Path(next(part for part in command if "trial_" in part))
        (self.folder / "result.json").write_text('{"status": "finished", "returns": {"agent": 2.5}}')

    def poll(self) -> int | None:
        return 0


class Training:
    """Stand-in for the process of a trial: reports progress, and ends some time after the first signal."""

    pid, returncode = 2**30, 0

    def __init__(self, command: Sequence[str], **_: Any) -> None:
        self.folder = Path(next(part for part in command if "trial_" in part))
        self.steps, self.signals, self.since = 0, 0, 0

    def send_signal(self, number: int) -> None:
        self.signals += 1

    def poll(self) -> int | None:
        if self.signals > 1:  # a second Ctrl-C ends it at once, without a result
            self.returncode = -2
            return self.returncode
        self.steps, self.since = self.steps + 1, self.since + self.signals
        progress = {"env_steps": self.steps, "total_steps": 1000, "returns": {"agent": 0.0}}
        (self.folder / "progress.json").write_text(json.dumps(progress))
        if self.since < 4:
            return None
        (self.folder / "result.json").write_text('{"status": "interrupted"}')
        return 0

    def kill(self) -> None:
        pass


class Pruning(FixedTrials):
    """Engine that prunes every trial at its first report."""

    def should_stop(self, number: int, env_steps: int, score: float) -> bool:
        return True


def test_a_pruned_trial_is_asked_once_to_stop(tmp_path, monkeypatch):
    monkeypatch.setattr(runner_module.subprocess, "Popen", Training)
    runner = runner_of(tmp_path, [1e-3], Pruning)
    assert runner.run()
    (trial,) = runner.trials
    assert trial.status == "pruned", trial.reason
    assert json.loads((trial.folder / "result.json").read_text()) == {"status": "pruned"}
