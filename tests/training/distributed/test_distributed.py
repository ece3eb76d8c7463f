"""Several processes equal one; checkpoints do not depend on their number; failures are reported."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from exhaustive import exhaustive
from logged_metrics import assert_close, metrics_of
from paths import SUPPORT

from warpdrive.errors import ConfigError, TeamError
from warpdrive.importing import module_command
from warpdrive.training.cli.main import main
from warpdrive.training.config.load import load_config
from warpdrive.training.distributed.bootstrap import join
from warpdrive.training.distributed.launch import _Processes, launch
from warpdrive.training.distributed.process_group import SINGLE_PROCESS, UNSHARDED, ProcessGroup, Sharding, Share
from warpdrive.training.run.metrics import read_metrics
from warpdrive.training.runtime.interrupts import Stopped
from warpdrive.training.trainer import Trainer, make_env

Sections = Callable[..., dict[str, Any]]
SCRIPT = SUPPORT / "in_processes.py"
OWN = SUPPORT / "own_updates.py"
OWN_MODELS = SUPPORT / "own_models.py"
REPLICAS = 17  # which neither two nor three processes can share equally
STEPS = 10 * REPLICAS  # of a rollout
# Each share is larger than the number of agents, so that all processes run the same machine code: compiled once.
USUAL = ("gradients-opponents", "rollouts-sac")
"""Runs on and off the policy, and both ways to learn together."""


def test_replicas_are_shared_out_in_order() -> None:
    shares = [ProcessGroup.of(rank, 3).share(8) for rank in range(3)]
    assert [(share.first, share.count, share.total) for share in shares] == [(0, 3, 8), (3, 3, 8), (6, 2, 8)]
    assert SINGLE_PROCESS.share(8) == Share(0, 8, 8)
    with pytest.raises(ConfigError, match=r"num_envs: found 2, expected at least 3"):
        ProcessGroup.of(0, 3).share(2)


def test_each_process_finds_its_own_rows() -> None:
    steps, replicas, agents = 4, 5, 3
    rows = torch.arange(steps * replicas * agents).view(steps, replicas, agents)
    chosen = torch.randperm(rows.numel(), generator=torch.Generator().manual_seed(0))[:23]
    found = []
    for share in (Share(0, 2, 5), Share(2, 3, 5)):
        sharding, own = Sharding(SINGLE_PROCESS, share, agents), rows[:, share.rows].flatten()
        assert sharding.total(len(own)) == rows.numel()
        found.append(own[sharding.own(chosen)])
        assert found[-1].tolist() == [row for row in chosen.tolist() if row in own.tolist()]
    assert sorted(torch.cat(found).tolist()) == sorted(chosen.tolist())
    assert torch.equal(UNSHARDED.own(chosen), chosen)


@pytest.fixture
def runs(sections: Sections) -> dict[str, dict[str, Any]]:
    """Runs of every kind of algorithm, model and opponent, with both ways to learn together."""

    def run(game: str, policies: dict[str, Any], **trainer: Any) -> dict[str, Any]:
        settings = {"num_envs": REPLICAS, "train_batch_size": STEPS, "total_steps": 3 * STEPS, "check_weights": True}
        values = sections(game, tuple(policies), **{**settings, **trainer})
        return {**values, "policy": policies}

    gru = {"type": "gru", "units": 4, "hidden": [8], "normalize_observations": True}
    ppo = {"algorithm": "ppo", "minibatches": 5, "model": gru, "normalize_returns": True, "target_kl": 0.02}
    old = {"learning_starts": STEPS, "gradient_steps": 2, "batch_size": 33, "model": {"hidden": [8]}}
    noise = {"type": "ornstein_uhlenbeck"}
    past = {"algorithm": "self_play", "of": "even", "snapshot_every": 1, "at_once": 5}
    groups = {"algorithm": "a2c", "normalize_returns": True, "model": {"hidden": [8], "normalize_observations": True}}
    made = {}
    for sync in ("gradients", "rollouts"):
        critic = {"centralized_critic": True, "recurrent_critic": True}
        central = {**ppo, **critic, "lr": 0.01, "model": {"hidden": [8]}}
        evaluated = {"every": 1, "num_episodes": 4, "beside": sync == "rollouts"}
        settings = {"evaluation": evaluated, "stagger_episodes": True, "copy_model": sync == "rollouts"}
        made[f"{sync}-opponents"] = run("Revealed", {"even": central, "odd": past}, sync=sync, **settings)
        # a group of all replicas, and groups of five, of which a process has none
        groups_of = {"inner": {**groups, "steps_per_update": 50}, "outer": {**groups, "steps_per_update": 150}}
        made[f"{sync}-groups"] = run("Spell", groups_of, sync=sync, num_envs=15, train_batch_size=150, total_steps=450)
        made[f"{sync}-recurrent"] = run("Leave", {"inner": ppo, "outer": {"algorithm": "a2c"}}, sync=sync)
        sac = {"algorithm": "sac", **old}
        made[f"{sync}-sac"] = run("Aim", {"aimer": sac, "chooser": {"algorithm": "dqn", **old}}, sync=sync)
    td3 = {"algorithm": "td3", "noise": noise, **old}
    own = {"algorithm": "custom", "function": f"{OWN}:Reinforce", "lr": 0.02, "entropy_coef": 0.1, "model": gru}
    climb = {"algorithm": "custom", "function": f"{OWN}:Climb", "sigma": 0.2}
    made["rollouts-own"] = run("Leave", {"inner": own, "outer": climb}, sync="rollouts")
    statistics = {"algorithm": "reinforce", "model": {"type": f"{OWN_MODELS}:OwnStatistics"}}
    made["gradients-td3"] = run("Aim", {"aimer": td3, "chooser": statistics})
    return made


@pytest.mark.parametrize("part", exhaustive(("usual", "other"), ("usual",)))
def test_any_number_of_processes_trains_as_one(runs: dict[str, Any], tmp_path: Path, part: str) -> None:
    """Two train for two updates, three for another, and one for the last: see also what is in the script."""
    runs = {name: values for name, values in runs.items() if (name in USUAL) == (part == "usual")}
    file, several = tmp_path / "runs.json", tmp_path / "several"
    for updates, processes in ((2, 2), (3, 3)):
        for values in runs.values():
            values["trainer"]["total_steps"] = updates * values["trainer"]["train_batch_size"]
        file.write_text(json.dumps(runs))
        launch([str(SCRIPT), str(file), str(several)], processes)
    for name, values in runs.items():
        last = [f"trainer.total_steps={4 * values['trainer']['train_batch_size']}"]
        config = load_config(values, [f"saving.folder={tmp_path}/one/{name}", *last])
        Trainer(make_env(config), config).train()
        Trainer.resume(next((several / name).glob("*/*/config.yaml")).parent, last).train()
        one, found = metrics_of(tmp_path / "one" / name), metrics_of(several / name)
        assert len(one) == 4
        assert_close(one, found, name)
        alone, collective = (
            [row.get("perf/communication_seconds") for _, row in read_metrics(next(runs.glob("*/*/metrics.csv")))]
            for runs in (tmp_path / "one" / name, several / name)
        )
        assert alone == [None] * 4 and collective[3] is None and min(collective[:3]) > 0  # the last update was of one


@pytest.mark.parametrize("what", ["resume", "source"])
def test_the_command_is_the_same_in_all_processes(
    sections: Sections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    launched: list[Any] = []
    monkeypatch.setattr("warpdrive.training.distributed.launch.launch", lambda *given: launched.append(given))
    file = tmp_path / "run.yaml"
    file.write_text(json.dumps(sections()))
    run = ["--resume", "my_run"] if what == "resume" else [str(file)]
    settings = ["trainer.total_steps=180", "trainer.seed=3"]
    assert main(["train", *run, *settings, "--no-replay", "--num_processes", "3", "--max_restarts", "2"]) == 0
    assert [(given[:3]) for given in launched] == [
        ([*module_command("warpdrive")[1:], "train", *run, *settings, "--no-replay"], 3, 2)
    ]


def test_a_killed_process_is_named_and_the_run_restarts(sections: Sections, tmp_path: Path) -> None:
    values = sections(total_steps=4000)
    file, log = tmp_path / "run.yaml", tmp_path / "log"
    file.write_text(json.dumps(values | {"saving": values["saving"] | {"checkpoint_every": 1}}))
    train = [sys.executable, "-m", "warpdrive", "train", str(file), "--no-replay", "trainer.evaluation.num_episodes=2"]
    train += ["--num_processes", "2", "--max_restarts", "1", "trainer.process_timeout=5"]
    with log.open("w") as output:
        job = subprocess.Popen(train, stdout=output, stderr=output, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        os.kill(wait_for(r"rank 1 is process (\d+)", log, job, tmp_path), signal.SIGKILL)
        assert wait_for(r"resuming at (\d+) of 4000", log, job, tmp_path) > 0
        os.kill(wait_for(r"rank 1 is process (\d+)", log, job, tmp_path, nth=1), signal.SIGSTOP)
        assert job.wait(300) == 2
    finally:
        job.kill()
    told = log.read_text()
    (summary,) = tmp_path.glob("runs/*/*/summary.json")
    assert json.loads(summary.read_text())["status"] == "failed"
    assert "has sent no heartbeat for 4 seconds: rank 0 exits" in told
    assert re.search(r"warpdrive train: rank 1 \(process \d+\) was killed by SIGKILL at .*, after 1 restart", told)


def test_ctrl_c_saves_and_ends_all_processes(sections: Sections, tmp_path: Path) -> None:
    """A terminal sends it to the command alone, or to all of its group, which the processes do not belong to."""
    values = sections(total_steps=10**9)
    file, log = tmp_path / "run.yaml", tmp_path / "log"
    file.write_text(json.dumps(values | {"saving": values["saving"] | {"checkpoint_every": 1}}))
    train = [sys.executable, "-m", "warpdrive", "train", str(file), "--num_processes", "2", "--max_restarts", "1"]
    with log.open("w") as output:
        job = subprocess.Popen(train, stdout=output, stderr=output, start_new_session=True)
    try:
        wait_for(r"rank 1 is process (\d+)", log, job, tmp_path)
        os.killpg(job.pid, signal.SIGINT)
        assert job.wait(300) == 130
    finally:
        job.kill()
    assert "Traceback" not in log.read_text()
    (summary,) = tmp_path.glob("runs/*/*/summary.json")
    told = json.loads(summary.read_text())
    assert told["status"] == "interrupted"
    assert Path(told["checkpoint"]).name == f"step_{told['env_steps']}"


def test_a_signal_reaches_processes_that_start_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    start = _Processes._start

    def start_interrupted(self: _Processes, rank: int) -> subprocess.Popen[bytes]:
        if rank == 1:
            signal.raise_signal(signal.SIGTERM)
        return start(self, rank)

    monkeypatch.setattr(_Processes, "_start", start_interrupted)
    began = time.monotonic()
    with pytest.raises(Stopped) as stopped:
        launch(["-c", "import time; time.sleep(300)"], 3)
    assert stopped.value.number == signal.SIGTERM and time.monotonic() - began < 200


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("WORLD_SIZE", "two", "WORLD_SIZE is 'two', expected a number of at least 1"),
        ("RANK", "2", "RANK is '2', expected a number from 0 to 1"),
        ("RANK", "-1", "RANK is '-1', expected a number from 0 to 1"),
        ("LOCAL_WORLD_SIZE", "0", "LOCAL_WORLD_SIZE is '0', expected a number of at least 1"),
        ("MASTER_PORT", "65536", "MASTER_PORT: found '65536', expected a number from 1 to 65535"),
        ("MASTER_ADDR", "", "MASTER_ADDR not set"),
    ],
)
def test_invalid_variables_are_told(variable: str, text: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    valid = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    for name, value in (valid | {variable: text}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("warpdrive.training.distributed.bootstrap._process_group", None)  # of other tests
    for function in ("_share_cores", "mark_output"):  # which act on the whole process
        monkeypatch.setattr(f"warpdrive.training.distributed.rendezvous.{function}", lambda *given: None)
    with pytest.raises(TeamError, match=expected):
        join()


def test_processes_that_differ_are_told(sections: Sections, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """``in_processes.py`` has more that may differ."""
    file = tmp_path / "run.yaml"
    file.write_text(json.dumps(sections()))
    seed = "'trainer.seed=' + os.environ['RANK']"
    program = f"import os; from warpdrive.training.cli.main import main; exit(main(['train', {str(file)!r}, {seed}]))"
    with pytest.raises(TeamError, match=r"rank \d \(process \d+\) exited with code 2"):
        launch(["-c", program], 2)
    told = capfd.readouterr().err
    assert "warpdrive train: trainer.seed: rank 0 has 0, but rank 1 has 1; all processes of a run must agree" in told
    assert "Traceback" not in told


def test_more_devices_than_there_are(sections: Sections, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(json.dumps(sections()))
    assert main(["train", str(file), "-n", "2"]) == 2
    assert "--num_processes N starts N processes" in capsys.readouterr().err
    if not torch.cuda.is_available():
        assert main(["train", str(file), "-n", "2", "trainer.env_backend=auto"]) == 2
        assert "--num_gpus: found 2, but this machine has 0 GPUs" in capsys.readouterr().err


def wait_for(pattern: str, log: Path, job: subprocess.Popen[bytes], folder: Path, nth: int = 0) -> int:
    """Return the number in the n-th matching line, once there is a checkpoint to resume from."""
    until = time.monotonic() + 180
    while time.monotonic() < until and job.poll() is None:
        found = re.findall(pattern, log.read_text())
        if len(found) > nth and any(folder.glob("runs/*/*/checkpoints/step_*")):
            return int(found[nth])
        time.sleep(0.1)
    raise AssertionError(log.read_text())
