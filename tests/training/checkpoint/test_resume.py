"""Runs that were stopped or killed resume as if never interrupted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from exhaustive import exhaustive
from logged_metrics import rows_of
from paths import SUPPORT
from resuming import changed_manifest, interrupt_after

from warpdrive.errors import CheckpointError, ConfigError
from warpdrive.training.checkpoint.checkpoint import last_undamaged, remove_incomplete
from warpdrive.training.checkpoint.run_folder import RunFolder
from warpdrive.training.cli.main import main
from warpdrive.training.config.load import check_resumable, load_config
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]


def same_state(one: Any, other: Any) -> bool:
    """Return True if two checkpoints are bitwise equal."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_state(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same_state, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else bool(one == other)


TAGS = {"Echo": ("even", "odd"), "Leave": ("inner", "outer"), "Aim": ("aimer", "chooser")}


@pytest.mark.parametrize(
    ("game", "algorithm"),
    [
        ("Echo", "ppo"),
        ("Leave", "a2c"),
        *exhaustive([("Leave", "ppo"), ("Aim", "ppo")], ()),
        ("Aim", "dqn"),
        ("Leave", "ppo, model: {type: lstm}"),
        pytest.param("Leave", "ppo, model: {type: mingru}", marks=pytest.mark.exhaustive),
    ],
)
def test_an_interrupted_run_equals_one_that_was_not(
    sections: Sections, trainer_of: TrainerOf, game: str, algorithm: str
) -> None:
    values = sections(game, TAGS[game], total_steps=1400)
    learns = {tag: f"{{algorithm: {algorithm}}}" for tag in TAGS[game]}
    if algorithm == "dqn":  # which learns from what is older than the checkpoint, of discrete actions
        dqn = "{algorithm: dqn, learning_starts: 300, buffer_size: 5000, target_update_every: 3}"
        learns = {"aimer": "{algorithm: ppo}", "chooser": dqn}
    overrides = [f"policy.{tag}={how}" for tag, how in learns.items()]
    whole = trainer_of(values, *overrides)
    expected = whole.train()
    stopped = trainer_of(values, *overrides).train(on_update=interrupt_after(2))
    assert (stopped.status, stopped.updates) == ("interrupted", 2)
    again = Trainer.resume(stopped.run_folder).train(on_update=interrupt_after(5))
    assert (again.status, again.updates) == ("interrupted", 5)
    last = Trainer.resume(stopped.run_folder)
    summary = last.train()
    assert summary.run_folder == stopped.run_folder and summary.status == "finished"
    assert rows_of(summary.run_folder) == rows_of(expected.run_folder)
    assert summary.returns == expected.returns
    ends = [run.checkpoint for run in (whole, last)]
    assert same_state(ends[0]().state, ends[1]().state) and same_state(ends[0]().models, ends[1]().models)


def test_being_stopped_between_two_logged_updates_leaves_no_trace(sections: Sections, trainer_of: TrainerOf) -> None:
    values = sections(total_steps=2400)
    overrides = ("saving.log_every=4", "saving.checkpoint_every=5", "policy.even.lr=[[600, 0.01], [2400, 0]]")
    expected = rows_of(trainer_of(values, *overrides).train().run_folder)
    assert [int(row["env_steps"]) // 200 for row in expected] == [4, 5, 8, 10, 12]
    trainer = trainer_of(values, *overrides)
    update = trainer.learner.update

    def interrupted() -> dict[str, torch.Tensor]:
        if trainer.updates == 5:
            signal.raise_signal(signal.SIGINT)
        return update()

    trainer.learner.update = interrupted  # type: ignore[method-assign]
    stopped = trainer.train()
    assert stopped.updates == 6 and stopped.checkpoint is not None and stopped.checkpoint.name == "step_1200"
    Trainer.resume(stopped.run_folder).train()
    assert rows_of(stopped.run_folder) == expected


def test_a_run_that_is_killed_again_and_again_equals_one_that_was_not() -> None:
    """After a while and at an access to a file, at random: `python tests/support/kill_often.py 50` has more kills."""
    script = SUPPORT / "kill_often.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, script, "2"], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("the same metrics, policies and simulation, bit for bit\n")


def test_a_run_without_a_checkpoint_begins_anew_in_its_folder(sections: Sections, trainer_of: TrainerOf) -> None:
    expected = rows_of(trainer_of(sections()).train().run_folder)
    run = RunFolder.create(load_config(sections()))
    run.metrics.write_text("env_steps,charts/episodes\n200,5\n400,")
    assert Trainer.resume(run.path).train().run_folder == run.path
    assert rows_of(run.path) == expected


def test_the_last_whole_checkpoint_is_where_a_run_goes_on(sections: Sections, trainer_of: TrainerOf) -> None:
    run = trainer_of(sections(total_steps=1000), "saving.checkpoint_every=1").train().run_folder
    expected = rows_of(run)
    checkpoints = run / "checkpoints"
    (checkpoints / "step_1000" / "trainer.pt").write_bytes(b"half of it")
    shutil.copytree(checkpoints / "step_800", checkpoints / ".step_1000.1.part")
    for name in (".metrics.csv.1.part", "checkpoints/.latest.1.part"):
        (run / name).write_text("half of it")
    trainer = Trainer.resume(run)
    assert trainer.env_steps == 800
    trainer.train()
    assert rows_of(run) == expected
    assert {path.name for path in checkpoints.iterdir()} == {"step_600", "step_800", "step_1000", "latest"}
    assert not list(run.glob(".*"))
    for name in ("step_600", "step_800", "step_1000"):
        (checkpoints / name / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match=r"step_1000/manifest\.json: missing"):
        Trainer.resume(run)


def test_a_run_can_go_on_beyond_its_end(sections: Sections, trainer_of: TrainerOf) -> None:
    expected = rows_of(trainer_of(sections(total_steps=1000)).train().run_folder)
    run = trainer_of(sections(total_steps=600)).train().run_folder
    assert Trainer.resume(run).train().updates == 3, "nothing was left to do"
    Trainer.resume(run, ["trainer.total_steps=1000"]).train()
    assert rows_of(run) == expected
    assert load_config(run / "config.yaml").trainer.total_steps == 1000


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("trainer.num_envs=40", r"trainer\.num_envs: found 40, but the run to resume has 20"),
        ("trainer.seed=1", r"trainer\.seed: found 1"),
        ("policy.odd.model.hidden=[8]", r"policy\.odd\.model\.hidden: found \[8\]"),
        ("policy.odd.algorithm=a2c", r"policy\.odd\.algorithm: found 'a2c'"),
        ("policy.odd.lrr=1", r"policy\.odd\.lrr: unknown key"),
    ],
)
def test_what_has_been_decided_cannot_change(
    sections: Sections, trainer_of: TrainerOf, override: str, told: str
) -> None:
    run = trainer_of(sections(total_steps=200)).train().run_folder
    with pytest.raises(ConfigError, match=told):
        Trainer.resume(run, [override])


@pytest.mark.parametrize(
    ("section", "override"),
    [
        ("{algorithm: dqn}", "buffer_size=200000"),
        ("{algorithm: dqn}", "n_step=3"),
        ("{algorithm: dqn}", "returns_after_leaving=false"),
        ("{algorithm: qmix}", "returns_after_leaving=false"),
        ("{algorithm: a2c, steps_per_update: 40}", "steps_per_update=20"),
        ("{algorithm: a2c}", "steps_per_update=40"),
        ("{algorithm: ppo}", "centralized_critic=true"),
        ("{algorithm: ppo, centralized_critic: true}", "recurrent_critic=true"),
        ("{algorithm: ppo, centralized_critic: true}", "critic_input=agent_specific"),
        ("{algorithm: ppo, centralized_critic: true}", "critic_lr=1e-3"),
        ("{algorithm: ppo, centralized_critic: true, critic_max_grad_norm: 1.0}", "critic_max_grad_norm=null"),
        ("{algorithm: qmix}", "mixing_units=16"),
        ("{algorithm: qmix}", "hypernetwork_units=null"),
        ("{algorithm: qmix}", "mixer_input=observations"),
    ],
)
def test_what_the_state_of_an_algorithm_is_made_for_cannot_change(section: str, override: str) -> None:
    sizes = ["trainer.num_envs=20", "trainer.train_batch_size=200", f"policy.agent={section}"]
    before = load_config("cartpole", sizes)
    with pytest.raises(ConfigError, match=rf"policy\.agent\.{override.partition('=')[0]}: found .* to resume has"):
        check_resumable(before, load_config("cartpole", [*sizes, f"policy.agent.{override}"]))


def test_what_the_state_of_an_algorithm_does_not_depend_on_can_change() -> None:
    section = "{algorithm: ppo, centralized_critic: true, critic_lr: 1e-3}"
    sizes = ["trainer.num_envs=20", "trainer.train_batch_size=200", f"policy.agent={section}"]
    changes = ["critic_lr=1e-4", "critic_max_grad_norm=1.0", "lr=1e-4", "epochs=2", "clip=0.1"]
    changes.append("returns_after_leaving=false")
    after = load_config("cartpole", [*sizes, *(f"policy.agent.{change}" for change in changes)])
    check_resumable(load_config("cartpole", sizes), after)


def test_runs_of_versions_with_fewer_keys_resume(sections: Sections, trainer_of: TrainerOf) -> None:
    expected = rows_of(trainer_of(sections(total_steps=1000)).train().run_folder)
    run = trainer_of(sections(total_steps=600)).train().run_folder
    for path in (run / "checkpoints").glob("step_*"):
        with changed_manifest(path) as manifest:
            for section in manifest["config"]["policy"].values():
                del section["agent_ids"], section["parameter_sharing"], section["model"]["initialization"]
    Trainer.resume(run, ["trainer.total_steps=1000"]).train()
    assert rows_of(run) == expected


def test_an_environment_in_place_of_its_replicas_is_an_error(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections(total_steps=200))
    run = trainer.train().run_folder
    for load in (Trainer.resume, Trainer.load):
        with pytest.raises(ConfigError, match=r"expected the replicas of an environment \(an EnvWrapper\)"):
            load(run, env=trainer.env.env)  # type: ignore[arg-type]


def test_nobody_goes_on_twice_from_one_place(sections: Sections, trainer_of: TrainerOf) -> None:
    stopped = trainer_of(sections(), "saving.checkpoint_every=1").train(on_update=interrupt_after(1))
    one, other = (Trainer.resume(stopped.run_folder) for _ in range(2))
    with RunFolder(stopped.run_folder).lock(), pytest.raises(CheckpointError, match="another process is training"):
        other.train()
    other = Trainer.resume(stopped.run_folder)
    one.train()
    with pytest.raises(CheckpointError, match=r"step_400: the run has continued to this checkpoint"):
        other.train()
    with pytest.raises(CheckpointError, match=r"the run has continued since, to .*step_600"):
        Trainer.resume(stopped.run_folder / "checkpoints" / "step_200")
    assert rows_of(stopped.run_folder)[-1]["env_steps"] == "600"


def test_the_command(
    sections: Sections, trainer_of: TrainerOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    expected = rows_of(trainer_of(sections(total_steps=1000)).train().run_folder)
    run = trainer_of(sections(total_steps=1000)).train(on_update=interrupt_after(2)).run_folder
    assert main(["train", "--resume", str(run), "trainer.evaluation.num_episodes=5", "--no-replay"]) == 0
    assert "resuming at 400 of 1000 environment steps" in capsys.readouterr().out
    assert rows_of(run) == expected
    assert json.loads((run / "summary.json").read_text())["status"] == "finished"
    assert main(["train", "--resume", str(run), "trainer.evaluation.num_episodes=5", "--no-replay"]) == 0
    assert "nothing is left to train: set trainer.total_steps" in capsys.readouterr().out
    assert rows_of(run) == expected
    assert main(["train", "--resume", str(tmp_path / "nowhere")]) == 2
    assert "neither a run folder" in capsys.readouterr().err


def test_tidying_up_leaves_what_is_whole(tmp_path: Path) -> None:
    remove_incomplete(tmp_path / "checkpoints", 100)
    assert last_undamaged(tmp_path / "checkpoints") is None
