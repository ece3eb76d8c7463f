"""``warpdrive sweep``: parallel runs, a failing one, Ctrl-C, and resumption."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from PIL import Image

from warpdrive.training.cli.main import main
from warpdrive.training.config.load import load_config
from warpdrive.training.distributed.placement import places

TINY = (
    "env.episode_length=20",
    "trainer.num_envs=20",
    "trainer.train_batch_size=200",
    "trainer.total_steps=400",
    "trainer.evaluation.num_episodes=5",
    "saving.tensorboard=false",
)


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> tuple[Path, str]:
    """Three trials, of which the last one cannot train: its folder, and what was printed."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "failing.py").write_text(
        "from warpdrive.envs.cartpole import CartPole\n"
        "class Failing(CartPole):\n"
        "    def initial_state(self, rng):\n"
        "        assert self.push_force < 50, 'too strong'\n"
        "        return super().initial_state(rng)\n"
    )
    arguments = ["cartpole", "env.name=failing.py:Failing", "env.push_force=[5.0,10.0,100.0]", *TINY, "--parallel", "3"]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.chdir(folder)
        code = main(["sweep", *arguments])
    assert code == 0, printed.getvalue()
    (sweep,) = (folder / "runs" / "cartpole_sweep").iterdir()
    return sweep, printed.getvalue()


def test_each_trial_is_a_run_and_one_that_fails_ends_no_other(swept):
    sweep, printed = swept
    for number, force in ((0, 5.0), (1, 10.0)):
        (run,) = (path.parent for path in sweep.glob(f"trial_{number:03d}/*/config.yaml"))
        assert load_config(run / "config.yaml").env.parameters["push_force"] == force
        assert json.loads((run / "summary.json").read_text())["status"] == "finished"
    assert "too strong" in printed and "failed" in printed


def test_one_table_and_one_picture_at_the_end(swept):
    sweep, printed = swept
    rows = list(csv.DictReader((sweep / "results.csv").open()))
    assert [row["status"] for row in rows] == ["finished", "finished", "failed"]
    assert float(rows[0]["return/agent"]) >= float(rows[1]["return/agent"]), "the best is first"
    assert f"best: trial {rows[0]['trial']}, env.push_force" in printed
    with Image.open(sweep / "sweep.png") as picture:
        assert picture.width > 500


def test_ctrl_c_ends_all_and_resume_goes_on(tmp_path, monkeypatch):
    arguments = ["cartpole", "trainer.seed=[0,1]", *TINY, "trainer.total_steps=1e9", "--parallel", "2"]
    with subprocess.Popen(
        [sys.executable, "-m", "warpdrive", "sweep", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        until = time.monotonic() + 300
        while len(list(tmp_path.glob("runs/*/*/trial_*/progress.json"))) < 2 and time.monotonic() < until:
            time.sleep(0.1)
        os.kill(process.pid, signal.SIGINT)
        printed = process.communicate(timeout=300)[0]
    assert process.returncode == 130, printed
    (sweep,) = tmp_path.glob("runs/cartpole_sweep/*")
    summaries = [json.loads(path.read_text()) for path in sweep.glob("trial_*/*/summary.json")]
    assert [summary["status"] for summary in summaries] == ["interrupted"] * 2
    assert f"sweep --resume {sweep.relative_to(tmp_path)}" in printed and (sweep / "results.csv").is_file()
    # shorten the trials, as an impatient user would, and resume
    request = json.loads((sweep / "sweep.json").read_text())
    request["arguments"] = [text.replace("1e9", "400") for text in request["arguments"]]
    (sweep / "sweep.json").write_text(json.dumps(request))
    for path in (*sweep.glob("trial_*/trial.yaml"), *sweep.glob("trial_*/*/config.yaml")):
        path.write_text(path.read_text().replace("total_steps: 1000000000", "total_steps: 400"))
    for path in sweep.glob("trial_*/*/checkpoints"):
        path.rename(path.with_name("former"))  # made for the longer run
        path.with_name("summary.json").unlink()  # of a run whose checkpoints must be there
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", "--resume", str(sweep)]) == 0
    rows = list(csv.DictReader((sweep / "results.csv").open()))
    assert sorted(row["trial"] for row in rows) == ["0", "1"]
    assert {row["status"] for row in rows} == {"finished"}
    assert len(list(sweep.glob("trial_*/*/config.yaml"))) == 2, "a trial went on in its own run folder"


def test_places():
    (one,) = places(1, gpus=0)
    assert int(one.variables["OMP_NUM_THREADS"]) == len(os.sched_getaffinity(0)) == len(one.cores)
    many = places(1000, gpus=0)
    assert len(many) == 1000 and many[0].variables["OMP_NUM_THREADS"] == "1" and not many[0].cores


def test_places_on_gpus(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [place.variables["CUDA_VISIBLE_DEVICES"] for place in places(3, gpus=2)] == ["0", "1", "0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-abc")
    assert [place.variables["CUDA_VISIBLE_DEVICES"] for place in places(None, gpus=2)] == ["4", "GPU-abc"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["cartpole"], "nothing to vary"),
        (["cartpole", "policy.agent.lrr=[1e-3]"], "Did you mean 'lr'?"),
        (["cartpole", "policy.agent.lr=[1e-3,-1]"], "policy.agent.lr"),
        (["cartpole", "policy.agent.lr=[1e-3]", "--tag", "agnet"], "Did you mean 'agent'?"),
        (["--resume", "nowhere"], "found no sweep in 'nowhere'"),
        ([], "either an environment or YAML file, or --resume <sweep>"),
    ],
)
def test_mistakes_are_told_in_a_line_before_anything_is_trained(arguments, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(["sweep", *arguments])
    except SystemExit as stop:
        code = stop.code
    error = capsys.readouterr().err
    assert code == 2 and told in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("source", 3),
        ("arguments", "trainer.seed=[0,1]"),
        ("arguments", [3]),
        ("engine", ["grid"]),
        ("trials", "2"),
        ("trials", 0),
        ("seed", None),
        ("minimise", "no"),
        ("tag", 0),
    ],
)
def test_a_damaged_sweep_is_told(key, value, tmp_path, capsys):
    request = {"source": "cartpole", "arguments": ["trainer.seed=[0,1]"], "engine": None, "trials": None}
    request |= {"seed": 0, "minimise": False, "tag": None, key: value}
    (tmp_path / "sweep.json").write_text(json.dumps(request))
    assert main(["sweep", "--resume", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"sweep.json is damaged: found {key} = {value!r}" in error and error.count("\n") == 1
