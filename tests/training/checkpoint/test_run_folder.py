"""Run folders: creation, lookup by name, and metrics."""

from __future__ import annotations

import csv
import json
import math
import os
import time
from pathlib import Path

import numpy as np
import pytest

from warpdrive.errors import CheckpointError
from warpdrive.training.checkpoint.run_folder import RunFolder, find_run
from warpdrive.training.config.load import load_config
from warpdrive.training.reports import TrainingSummary
from warpdrive.training.run.metrics import MetricsLog
from warpdrive.training.run.sinks.tensorboard import TensorBoardEvents
from warpdrive.training.runtime.atomic_write import write_atomically, writing


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(load_config("tag_gridworld", [f"saving.folder={tmp_path}/runs"]))


def test_a_new_folder_holds_a_configuration_that_runs_again(run: RunFolder) -> None:
    assert load_config(run.config).name == "tag_gridworld"
    assert run.path.parent.name == "tag_gridworld"


def test_runs_started_in_the_same_second_do_not_meet(run: RunFolder) -> None:
    config = load_config(run.config)
    assert len({RunFolder.create(config).path for _ in range(5)} | {run.path}) == 6


def test_a_run_is_found_by_folder_checkpoint_and_name(run: RunFolder, tmp_path: Path) -> None:
    older = tmp_path / "runs" / "tag_gridworld" / "older"
    older.mkdir()
    (older / "config.yaml").write_text(run.config.read_text())
    os.utime(older / "config.yaml", (1, 1))
    step = run.checkpoints / "step_100"
    for given in (run.path, run.config, step, tmp_path / "runs" / "tag_gridworld"):
        assert find_run(given).path == run.path
    assert find_run("tag_gridworld", tmp_path / "runs").path == run.path
    assert find_run(older).path == older


def test_a_run_is_found_beside_one_that_is_removed_meanwhile(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    glob = Path.glob
    monkeypatch.setattr(Path, "glob", lambda path, pattern: [*glob(path, pattern), path / "gone" / "config.yaml"])
    assert find_run(run.path.parent).path == run.path


def test_links_of_weights_and_biases_are_allowed(run: RunFolder) -> None:
    (run.path / "wandb" / "run-1" / "logs").mkdir(parents=True)
    (run.path / "wandb" / "latest-run").symlink_to("run-1")
    (run.path / "wandb" / "run-1" / "logs" / "debug-core.log").symlink_to(run.path.parent / "elsewhere")
    with run.lock():
        pass


def test_an_unknown_run_gets_the_nearest_name(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        find_run("tag_gridwrld", tmp_path / "runs")
    assert "Did you mean 'tag_gridworld'?" in str(caught.value) and "\n" not in str(caught.value)


def test_the_summary_is_readable(run: RunFolder) -> None:
    summary = TrainingSummary("finished", run.path, None, 2, 200, 1.5, {"tagger": 3.0, "runner": None})
    run.write_summary(summary)
    read = json.loads(run.summary.read_text())
    assert read["status"] == "finished" and read["returns"] == {"tagger": 3.0, "runner": None}
    assert read["run_folder"] == str(run.path)


def test_the_columns_of_the_metrics_are_those_of_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    with MetricsLog(path) as log:
        log.write(100, {"losses/value_loss/tagger": 0.1, "charts/episodic_return/tagger": math.nan})
        log.write(200, {"charts/episodic_return/tagger": 1 / 3, "losses/value_loss/tagger": 0.2})
        rows = list(csv.DictReader(path.open()))  # readable during the run
        log.amend(200, {"losses/value_loss/tagger": 0.5, "eval/episodes": math.nan})
    assert rows == [
        {"env_steps": "100", "losses/value_loss/tagger": "0.1", "charts/episodic_return/tagger": ""},
        {"env_steps": "200", "losses/value_loss/tagger": "0.2", "charts/episodic_return/tagger": repr(1 / 3)},
    ]
    assert path.read_text().splitlines()[2] == f"200,0.5,{1 / 3!r},"


def test_tensorboard_gets_the_same_numbers(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with MetricsLog(tmp_path / "metrics.csv", [TensorBoardEvents(tmp_path / "events")]) as log:
        log.write(100, {"losses/value_loss/tagger": 0.5, "charts/episodic_return/tagger": math.nan})
        log.write(200, {"losses/value_loss/tagger": 0.25, "charts/episodic_return/tagger": 2.0})
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("losses/value_loss/tagger")] == [(100, 0.5), (200, 0.25)]
    assert [(e.step, e.value) for e in events.Scalars("charts/episodic_return/tagger")] == [(200, 2.0)]


def test_tensorboard_gets_any_number_of_any_step(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = TensorBoardEvents(tmp_path)
    values = [0.0, -1.5, 1e-40, 1e300, math.inf, -math.inf, math.pi]
    steps = [0, 127, 128, 2**31, 2**40 + 1, 2**50, 2**62]
    for step, value in zip(steps, values, strict=True):
        events.add(step, {f"a/{'long' * 60}": value, "another": 1})
    events.close("finished")
    (name,) = (path.name for path in tmp_path.iterdir())
    assert name.startswith("events.out.tfevents.")
    read = EventAccumulator(str(tmp_path)).Reload()
    assert [e.step for e in read.Scalars("another")] == steps
    with np.errstate(over="ignore"):
        expected = [float(np.float32(value)) for value in values]
    assert [e.value for e in read.Scalars(f"a/{'long' * 60}")] == expected
    assert all(abs(e.wall_time - time.time()) < 600 for e in read.Scalars("another"))


def test_tensorboard_drops_the_steps_that_a_resumed_run_repeats(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for part, (go_on_after, steps) in enumerate([(0, (100, 200, 300)), (200, (250, 350))]):
        events = TensorBoardEvents(tmp_path / "written", go_on_after)
        for step in steps:
            events.add(step, {"value": step})
        events.close("finished")
        (file,) = (tmp_path / "written").iterdir()
        file.rename(tmp_path / f"tfevents.{part}")  # files are read in the order of their names, of whole seconds
    read = EventAccumulator(str(tmp_path)).Reload()
    assert [e.step for e in read.Scalars("value")] == [100, 200, 250, 350]


def test_nothing_is_left_of_a_text_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_atomically(tmp_path / "a", "\ud800")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_full_disk_is_told_with_the_name_of_the_file() -> None:
    full = Path("/dev/full")
    with pytest.raises(OSError, match="no space left on device: '/dev/full'"), writing(full), full.open("w") as file:
        file.write("x")
