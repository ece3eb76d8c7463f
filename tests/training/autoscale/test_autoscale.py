"""Autoscaling: real probes with limited memory, and the outputs of a search."""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from warpdrive.errors import TrainingError
from warpdrive.training.autoscale import find
from warpdrive.training.autoscale.prober import Prober, Survey
from warpdrive.training.autoscale.size import Outcome, Size
from warpdrive.training.autoscale.starter import NewProcesses, Starter
from warpdrive.training.autoscale.watch import Ended, watch
from warpdrive.training.cli.main import main
from warpdrive.training.config.load import load_config

SMALL = (
    "env.grid_length=6",
    "env.episode_length=20",
    "trainer.num_envs=50",
    "trainer.train_batch_size=1000",
    "trainer.torch_threads=1",
    "trainer.evaluation.num_episodes=20",
)


@contextmanager
def address_space(size: int, prober: Prober) -> Iterator[None]:
    """Probes started in the block have so many bytes of address space."""
    former = resource.prlimit(prober._starter.pid, resource.RLIMIT_AS)
    resource.prlimit(prober._starter.pid, resource.RLIMIT_AS, (size, former[1]))
    try:
        yield
    finally:
        resource.prlimit(prober._starter.pid, resource.RLIMIT_AS, former)


@pytest.fixture(scope="module")
def prober() -> Iterator[Prober]:
    with closing(Prober(load_config("tag_gridworld", SMALL), seconds=0.05, time_limit=120.0)) as prober:
        yield prober


def test_the_first_probe_works(prober):
    """Earlier systems had auto-scalers whose first probe always failed."""
    outcome = prober(Size(50, 20))
    assert outcome.fits, outcome.reason
    assert outcome.speed > 0 and 0.1 < outcome.memory / 2**30 < 4


def test_memory_is_known_beforehand(prober):
    """Compared with what the arrays of a real environment take."""
    from warpdrive.training.trainer import Trainer, make_env

    config = load_config("tag_gridworld", [*SMALL, "trainer.num_envs=33", "trainer.train_batch_size=330"])
    trainer = Trainer(make_env(config), config)
    taken = sum(trainer.env.ctx.memory_report().values()) + trainer.rollout.nbytes
    assert prober.survey.arrays(Size(33, 10)) == pytest.approx(taken, rel=0.01)
    assert prober.survey.at_once == len(os.sched_getaffinity(0))


def test_what_cannot_fit_is_not_tried(prober, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    outcome = prober(Size(10**9, 20))
    assert outcome.failure == "refused" and "its arrays alone take" in outcome.reason


def test_out_of_memory_is_an_outcome(prober, monkeypatch):
    """Limits the address space, of which training needs about 1.5 GB without any replicas."""
    size = Size(2_000_000, 20)
    monkeypatch.setattr(prober, "survey", replace(prober.survey, available=math.inf))  # so that it is tried
    with address_space(5 * 2**30, prober):
        outcome = prober(size)
    assert outcome.failure == "memory", outcome
    again = prober(Size(2_000_000, 40))
    assert again.failure == "refused" and "2000000 replicas x 20 steps did not fit" in again.reason


def test_a_process_that_takes_too_long_or_is_killed_is_an_outcome(tmp_path):
    def watched(code: str, time_limit: float = 60.0, memory: float | None = None) -> Ended:
        process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        (tmp_path / "printed").write_text("")
        return watch(process, tmp_path / "printed", time_limit, memory)

    assert watched("import time; time.sleep(60)", time_limit=0.2)[:2] == ("time", "took longer than 0 s")
    killed = watched("import os; os.kill(os.getpid(), 9)")
    assert killed.failure == "memory" and "killed by the system" in killed.reason
    assert watched("import os; os.abort()")[:2] == ("crash", "crashed with SIGABRT")
    assert watched("x = bytearray(b'1') * 400_000_000; import time; time.sleep(60)", memory=3e8).failure == "memory"


def test_a_probe_ends_with_whoever_asked_for_it(tmp_path):
    os.mkfifo(tmp_path / "request.json")  # which the probe waits for
    with Starter() as starter:
        probe = starter.start(tmp_path)
        assert probe.poll() is None and Path(f"/proc/{probe.pid}").exists()
        starter._process.stdin.close()
        until = time.monotonic() + 30
        while Path(f"/proc/{probe.pid}").exists() and time.monotonic() < until:
            time.sleep(0.02)
        assert not Path(f"/proc/{probe.pid}").exists()


def test_an_environment_that_cannot_be_made_is_told_at_once(tmp_path):
    (tmp_path / "broken.py").write_text(
        "from warpdrive.envs.cartpole import CartPole\n"
        "class Broken(CartPole):\n"
        "    def initial_state(self, rng):\n"
        "        raise RuntimeError('no state today')\n"
    )
    config = {
        "name": "broken",
        "env": {"name": f"{tmp_path / 'broken.py'}:Broken"},
        "trainer": {"num_envs": 2, "train_batch_size": 4, "total_steps": 8},
        "policy": {"agent": {"algorithm": "ppo", "minibatches": 1}},
    }
    with pytest.raises(TrainingError, match=r"no size of 'broken' could be tried: .*no state today"):
        Prober(load_config(config), seconds=0.1, time_limit=60.0)


# --- what a search leaves behind, with probes that are made up ---


class MadeUpProber:
    """Speed grows with the batch; there is room for 20,000 steps. Training to the end needs twice as much."""

    survey = Survey("cpu", "cpu", 5, 2, 100, 20, 30, 1000, 1e9, "free memory", 5e8)
    room = 20_000

    def __init__(self, config, seconds, time_limit, memory, devices) -> None:
        pass

    def close(self) -> None:
        pass

    def limit(self) -> tuple[float, str]:
        return 1e9, "free memory"

    def __call__(self, size: Size) -> Outcome:
        if size.batch > self.room:
            return Outcome(size, failure="memory", reason="no room")
        return Outcome(size, size.batch / (1 + size.batch / 1000), 6e8 + 1e4 * size.batch, 0.1, 0.2)

    def train(self, config_file, size: Size, grows: float) -> Outcome:
        if size.batch <= self.room / 2:
            return Outcome(size, speed=1000.0)
        return Outcome(size, failure="memory", reason="no room to evaluate")


@pytest.fixture
def made_up(monkeypatch, tmp_path):
    monkeypatch.setattr(find, "Prober", MadeUpProber)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_configuration_that_is_written_differs_in_size_only(made_up, capsys):
    assert main(["autoscale", "tag_gridworld", *SMALL, "trainer.total_steps=200000"]) == 0
    before = load_config("tag_gridworld", [*SMALL, "trainer.total_steps=200000"]).model_dump()
    after = load_config(made_up / "tag_gridworld_autoscaled.yaml").model_dump()
    sizes = ("num_envs", "train_batch_size")
    assert 5000 < after["trainer"]["train_batch_size"] <= 10_000, "what is found must train to the end"
    for name in sizes:
        del before["trainer"][name], after["trainer"][name]
    assert before == after
    printed = capsys.readouterr().out
    assert "no room to evaluate" in printed and "<- selected" in printed
    assert "Learning changes with the batch" in printed and "Unchanged: epochs, lr, minibatches" in printed
    assert "Few updates" in printed
    assert json.loads((made_up / "tag_gridworld_autoscaled.json").read_text())["before"]["num_envs"] == 50
    with Image.open(made_up / "tag_gridworld_autoscaled.png") as picture:
        assert picture.width > 500


def test_ctrl_c_keeps_what_is_best_so_far(made_up, monkeypatch, capsys):
    calls = []

    def interrupted(prober, size, call=MadeUpProber.__call__):
        calls.append(call(prober, size))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return calls[-1]

    monkeypatch.setattr(MadeUpProber, "__call__", interrupted)
    assert main(["autoscale", "tag_gridworld", *SMALL]) == 130
    best = max(calls[:3], key=lambda outcome: outcome.speed)
    assert load_config(made_up / "tag_gridworld_autoscaled.yaml").trainer.train_batch_size == best.size.batch
    assert "stopped by Ctrl-C" in capsys.readouterr().out
    calls.clear()
    assert main(["train", "tag_gridworld", *SMALL, "-a"]) == 130, "nobody wants to train now"
    assert not (made_up / "runs").exists()


def test_only_its_own_files_are_written_over(made_up, capsys):
    for _ in range(2):
        assert main(["autoscale", "tag_gridworld", *SMALL, "-o", "mine.yaml"]) == 0
    (made_up / "mine.yaml").write_text("# my own\n")
    assert main(["autoscale", "tag_gridworld", *SMALL, "-o", "mine.yaml"]) == 2
    assert "'mine.yaml' already exists" in capsys.readouterr().err
    assert (made_up / "mine.yaml").read_text() == "# my own\n"


@pytest.mark.exhaustive
def test_a_run_that_follows_is_left_some_updates(made_up, capsys):
    assert main(["train", "tag_gridworld", *SMALL, "trainer.total_steps=4000", "-a", "--no-replay"]) == 0
    (run,) = (made_up / "runs" / "tag_gridworld").iterdir()
    assert 8 <= load_config(run / "config.yaml").trainer.train_batch_size <= 4000 / 50


def test_several_devices_get_what_is_best_on_one(made_up, monkeypatch, capsys):
    from warpdrive.training.distributed import launch

    started = []
    monkeypatch.setattr(launch, "launch", lambda arguments, processes, *_: started.append((arguments, processes)))
    given = ["train", "tag_gridworld", *SMALL, "trainer.total_steps=900000", "--auto_scale", "--num_processes", "3"]
    assert main(given) == 0
    ((arguments, processes),) = started
    assert processes == 3 and arguments[-2:] == ["train", "tag_gridworld_autoscaled.yaml"]
    batch = load_config(made_up / "tag_gridworld_autoscaled.yaml").trainer.train_batch_size
    assert batch % 3 == 0 and 5000 < batch / 3 <= 10_000
    assert "--num_processes" not in capsys.readouterr().err


def test_where_nothing_fits_the_reason_is_told(made_up, monkeypatch, capsys):
    monkeypatch.setattr(MadeUpProber, "room", 0)
    assert main(["autoscale", "tag_gridworld", *SMALL]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "no size fits, not even 1 replicas x 8 steps: no room" in told
    assert not list(made_up.glob("*.yaml"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--memory", "much"], "--memory: found 'much', expected a size such as 2GiB"),
        (["-o", "found.txt"], "--output: found 'found.txt', expected the name of a YAML file"),
        (["-o", "nowhere/found.yaml"], "--output: found 'nowhere/found.yaml', but the folder 'nowhere' does not exist"),
        (["-o", "mine.yaml"], "--output: 'mine.json' already exists and was not written by autoscale"),
        (["--min_updates", "999999999"], "which do not fit into"),
    ],
)
def test_wrong_options_are_told_in_a_line(made_up, capsys, options, told):
    (made_up / "mine.json").touch()
    assert main(["autoscale", "tag_gridworld", *SMALL, *options]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1


@pytest.mark.exhaustive
def test_probes_of_systems_that_cannot_fork(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "killpg")
    ended = watch(NewProcesses().start(tmp_path), tmp_path / "printed", 300, None)
    assert ended.failure == "crash" and "request.json" in ended.reason
