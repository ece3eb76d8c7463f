"""Training from a configuration to a run folder: learning, reproducibility, stopping, resuming."""

from __future__ import annotations

import csv
import json
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from games import TAGS
from logged_metrics import rows_of
from paths import ROOT
from resuming import changed_manifest, interrupt_after
from torch.nn.utils import parameters_to_vector

import warpdrive as wd
from warpdrive.errors import CheckpointError, ConfigError, DefinitionError
from warpdrive.training.checkpoint.checkpoint import write_checkpoint
from warpdrive.training.cli.main import main
from warpdrive.training.config.load import load_config
from warpdrive.training.reports import UpdateReport
from warpdrive.training.trainer import Trainer, make_env

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]


def parameters_of(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {
        f"{tag}.{name}": value.clone()
        for tag, policy in trainer.policies.items()
        for name, value in policy.model.state_dict().items()
    }


def test_every_tag_learns_its_own_task(sections: Sections, trainer_of: TrainerOf) -> None:
    """At random 8/3 of 8 are right, and seeds 0 to 19 all end above 7.5.

    A failure by chance is less likely than 1 in 20, and not possible while the seed stays, since runs repeat.
    """
    trainer = trainer_of(sections(total_steps=20 * 1600, train_batch_size=1600, num_envs=100))
    before = trainer.evaluate(num_episodes=200)
    summary = trainer.train()
    after = trainer.evaluate(num_episodes=200)
    assert summary.status == "finished"
    for tag in ("even", "odd"):
        assert before.mean_return[tag] < 4 and after.mean_return[tag] > 6.5
    half_random = trainer.evaluate(num_episodes=200, random=["odd"])
    assert half_random.mean_return["even"] > 6.5 and half_random.mean_return["odd"] < 4
    assert trainer.evaluate(num_episodes=200, deterministic=True).mean_return["even"] >= after.mean_return["even"]


def test_continuous_actions_are_learned_beside_discrete_ones(sections: Sections, trainer_of: TrainerOf) -> None:
    """At random ``aimer`` loses 8 times 1.08 on average: each of two components is t**2 / 2 + 1/2 off, |t| < 1/2."""
    values = sections("Aim", ("aimer", "chooser"), total_steps=40 * 1600, train_batch_size=1600, num_envs=100)
    trainer = trainer_of(values)
    random = trainer.evaluate(num_episodes=500, random=["aimer", "chooser"])
    assert random.mean_return["aimer"] == pytest.approx(-8 * (1 + 1 / 12), abs=0.25)  # 6 standard errors
    assert random.mean_return["chooser"] == pytest.approx(4, abs=0.3)
    trainer.train()
    after = trainer.evaluate(num_episodes=200, deterministic=True)
    assert after.mean_return["aimer"] > -1.5 and after.mean_return["chooser"] > 7


def test_staggered_replicas_end_their_first_episodes_at_other_times(sections: Sections, trainer_of: TrainerOf) -> None:
    """An episode has 8 steps. By chance no two of 100 replicas would begin apart once in 8**99 times."""
    values = sections(total_steps=1600, train_batch_size=1600, num_envs=100)
    trainer = trainer_of(values, "trainer.stagger_episodes=true")
    begun = trainer.env.ctx["timestep"].clone()
    assert set(begun.tolist()) == set(range(8))
    trainer.collect()
    ends = trainer.rollout.truncated.int()
    assert ends[:8].sum(0).tolist() == [1] * 100
    torch.testing.assert_close(ends[:8].argmax(0), 7 - begun.long())
    torch.testing.assert_close(ends[8:], ends[:8])
    assert torch.equal(trainer_of(values, "trainer.stagger_episodes=true").env.ctx["timestep"], begun)
    assert not trainer_of(values).env.ctx["timestep"].any()


def test_first_episodes_of_staggered_replicas_are_not_counted(sections: Sections, trainer_of: TrainerOf) -> None:
    """They are not whole: counting them would lower the mean return."""
    values = sections(total_steps=800, train_batch_size=400, num_envs=100)
    trainer = trainer_of(values, "trainer.stagger_episodes=true")
    begun = trainer.env.ctx["timestep"].clone()
    counted, total, rewards = 0, torch.zeros(4), []
    for _ in range(5):  # rollouts of 4 steps; episodes have 8
        trainer.collect()
        rewards.append(trainer.rollout.rewards.clone())
        noted = trainer.episode_statistics()
        assert noted["length"] == 8 * noted["episodes"]
        counted, total = counted + int(noted["episodes"]), total + noted["return"]
    earned, expected, whole = torch.cat(rewards), torch.zeros(4), 0
    for replica, first in enumerate((8 - begun).tolist()):
        for start in range(first, 20 - 7, 8):
            expected, whole = expected + earned[start : start + 8, replica].sum(0), whole + 1
    assert counted == whole > 100
    torch.testing.assert_close(total, expected)


def test_training_begins_episodes_as_varied_as_those_of_evaluations(sections: Sections, trainer_of: TrainerOf) -> None:
    """Echo draws 81 start states; a pool of one, which evaluations do not use, would teach one of them."""
    values = sections(num_envs=100, train_batch_size=800)
    del values["trainer"]["reset_pool_size"]
    trainer = trainer_of(values)
    assert trainer.config.trainer.reset_pool_size is None and trainer.env.reset_pool_size == 500
    assert len({tuple(start) for start in trainer.env.ctx["target"].tolist()}) > 30  # 57 of 100 on average


def test_dict_observations_are_learned_from_together(sections: Sections, trainer_of: TrainerOf) -> None:
    """At random, and knowing one key alone, 8/3 of 8 are right. Not possible to fail by chance while the seed stays."""
    values = sections("Spell", ("outer", "inner"), total_steps=45 * 1600, train_batch_size=1600, num_envs=100)
    options = [
        f"policy.{tag}.model.{key}" for tag in ("outer", "inner") for key in ("scale_observations=true", "hidden=[32]")
    ]
    trainer = trainer_of(values, *options)
    before = trainer.evaluate(num_episodes=200)
    trainer.train()
    after = trainer.evaluate(num_episodes=200)
    for tag in ("outer", "inner"):
        assert before.mean_return[tag] < 4 and after.mean_return[tag] > 5


def test_a_run_folder_is_complete(sections: Sections, trainer_of: TrainerOf) -> None:
    reports: list[UpdateReport] = []
    trainer = trainer_of(sections(), "saving.checkpoint_every=2", "saving.tensorboard=true")
    summary = trainer.train(on_update=reports.append)
    run = summary.run_folder
    assert load_config(run / "config.yaml") == trainer.config
    assert json.loads((run / "summary.json").read_text())["status"] == "finished"
    assert (run / "checkpoints" / "latest").read_text() == "step_600\n"
    assert {path.name for path in (run / "checkpoints").glob("step_*")} == {"step_400", "step_600"}
    assert list((run / "tensorboard").iterdir())
    assert [row["env_steps"] for row in rows_of(run)] == ["200", "400", "600"]
    assert [report.update for report in reports] == [1, 2, 3]
    assert [report.env_steps for report in reports] == [200, 400, 600]
    assert reports[-1].seconds_left == 0.0 and reports[0].total_steps == 600
    assert reports[0].returns["odd"] == reports[0].metrics["charts/episodic_return/odd"]


def test_metrics_have_the_names_of_the_field(sections: Sections, trainer_of: TrainerOf) -> None:
    run = trainer_of(sections(), "policy.odd={algorithm: random}").train().run_folder
    with (run / "metrics.csv").open() as file:
        columns = next(csv.reader(file))
    terms = ["policy_loss", "value_loss", "entropy", "approx_kl", "clipfrac", "explained_variance", "grad_norm"]
    assert columns[0] == "env_steps"
    assert {f"losses/{term}/even" for term in terms} == {name for name in columns if name.startswith("losses/")}
    assert {"charts/episodic_return/even", "charts/episodic_return/odd", "charts/episodic_length"} <= set(columns)
    assert "charts/learning_rate/even" in columns and "charts/learning_rate/odd" not in columns
    assert {f"perf/{name}" for name in ("env_steps_per_second", "agent_steps_per_second", "rollout_seconds")} <= set(
        columns
    )


def test_docs_metrics_explains_every_metric(sections: Sections, trainer_of: TrainerOf) -> None:
    ppo = "policy.even={algorithm: ppo, clip: [[0, 0.2], [600, 0.1]]}"
    dqn = "policy.odd={algorithm: dqn, learning_starts: 0, buffer_size: 5000}"
    run = trainer_of(sections(), ppo, dqn).train().run_folder
    explained = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    with (run / "metrics.csv").open() as file:
        for name in next(csv.reader(file)):
            known = name.replace("/even", "/<tag>").replace("/odd", "/<tag>")
            scheduled = known in ("charts/clip/<tag>", "charts/epsilon/<tag>")
            assert f"`{'charts/<coefficient>/<tag>' if scheduled else known}`" in explained


def test_returns_are_means_over_episodes_and_agents(sections: Sections, trainer_of: TrainerOf) -> None:
    # Fuse: agent i earns i + 1 a step, so tag 'one' earns the length of an episode and 'others' 2.5 times as much
    run = trainer_of(sections("Fuse", ("one", "others"))).train().run_folder
    for row in rows_of(run):
        length = float(row["charts/episodic_length"])
        assert float(row["charts/episodic_return/one"]) == pytest.approx(length)
        assert float(row["charts/episodic_return/others"]) == pytest.approx(2.5 * length)


@pytest.mark.parametrize("deterministic", [True, False])
def test_returns_leave_out_nan_of_agents_out_of_the_episode(
    sections: Sections, trainer_of: TrainerOf, deterministic: bool
) -> None:
    # Vanish: agents 0 and 2 return 2 and 4, agent 1 returns 3
    trainer = trainer_of(sections("Vanish", TAGS["Vanish"]))
    for row in rows_of(trainer.train().run_folder):
        assert {float(row[f"charts/episodic_return/{tag}"]) for tag in TAGS["Vanish"]} == {3.0}
    result = trainer.evaluate(10, deterministic=deterministic)
    assert result.mean_return == {"outer": 3.0, "inner": 3.0} and result.std_return == {"outer": 0.0, "inner": 0.0}


def test_coefficients_follow_their_schedules(sections: Sections, trainer_of: TrainerOf) -> None:
    """Each is what its schedule says at the beginning of the rollout, and what happens is what that number does."""
    numbers = trainer_of(sections())
    schedules = [
        "lr=[[0, 0.01], [200, 0.01], [400, 0.005]]",
        "gamma={schedule: linear, start: 0.99, end: 0.39, steps: 600}",
        "entropy_coef={schedule: cosine, start: 0.01, end: 0}",
        "max_grad_norm=[[300, 0.5]]",
        "clip=[[0, 0.2], [200, 0.2], [400, 0.3]]",
    ]
    scheduled = trainer_of(sections(), *(f"policy.even.{schedule}" for schedule in schedules))
    for trainer in (numbers, scheduled):
        trainer.collect()
        trainer.update()
    torch.testing.assert_close(parameters_of(scheduled), parameters_of(numbers), rtol=0, atol=0)
    told = []
    for _ in range(2):
        scheduled.collect()
        scheduled.update()
        told.append(scheduled.policies["even"].coefficients())
    names = ("learning_rate", "gamma", "entropy_coef", "max_grad_norm", "clip")
    assert [tuple(one[name] for name in names) for one in told] == [
        pytest.approx((0.01, 0.79, 0.0075, 0.5, 0.2)),
        pytest.approx((0.005, 0.59, 0.0025, 0.5, 0.3)),
    ]
    # the same three updates with numbers that are changed by hand
    policy = numbers.policies["even"].algorithm
    by_hand = [
        {"gamma": 0.79, "entropy_coef": 0.0075},
        {"gamma": 0.59, "entropy_coef": 0.0025, "lr": 0.005, "clip": 0.3},
    ]
    for values in by_hand:
        policy.schedules = policy.schedules.model_copy(update=values)  # type: ignore[attr-defined]
        numbers.collect()
        numbers.update()
    torch.testing.assert_close(parameters_of(scheduled), parameters_of(numbers), rtol=1e-5, atol=1e-6)


def test_scheduled_coefficients_are_logged_and_go_on_in_a_resumed_run(
    sections: Sections, trainer_of: TrainerOf
) -> None:
    """From 0.03 to 0 in 600 steps, then resumed to 1200 steps: 0.015 on resumption, not 0."""
    overrides = ("policy.even.lr={schedule: linear, start: 0.03, end: 0}", "policy.odd.clip=[[0, 0.2], [400, 0.1]]")
    run = trainer_of(sections(), *overrides).train().run_folder
    Trainer.resume(run, ["trainer.total_steps=1200"]).train()
    rows = rows_of(run)
    rates = [float(row["charts/learning_rate/even"]) for row in rows]
    assert rates == pytest.approx([0.03, 0.02, 0.01, 0.015, 0.01, 0.005])
    assert [float(row["charts/learning_rate/odd"]) for row in rows] == [0.01] * 6
    assert [float(row["charts/clip/odd"]) for row in rows] == pytest.approx([0.2, 0.15, 0.1, 0.1, 0.1, 0.1])
    assert "charts/clip/even" not in rows[0]


def test_intervals_without_a_finished_episode_report_no_return(sections: Sections, trainer_of: TrainerOf) -> None:
    reports: list[UpdateReport] = []
    run = trainer_of(sections(train_batch_size=100), "env.episode_length=12").train(on_update=reports.append).run_folder
    assert [report.returns["even"] is None for report in reports] == [True, True, False, True, False, True]
    assert rows_of(run)[0]["charts/episodic_return/even"] == ""


def test_the_same_seed_gives_the_same_run(sections: Sections, trainer_of: TrainerOf) -> None:
    torch.manual_seed(1)
    one = trainer_of(sections())
    torch.manual_seed(2)  # PyTorch's global state plays no part
    same, other = trainer_of(sections()), trainer_of(sections(seed=1))
    runs = [rows_of(trainer.train().run_folder) for trainer in (one, same, other)]
    assert runs[0] == runs[1] != runs[2]
    torch.testing.assert_close(parameters_of(one), parameters_of(same), rtol=0, atol=0)


def test_ctrl_c_leaves_a_checkpoint_and_a_readable_folder(sections: Sections, trainer_of: TrainerOf) -> None:
    before = signal.getsignal(signal.SIGINT)
    summary = trainer_of(sections()).train(on_update=interrupt_after(2))
    assert signal.getsignal(signal.SIGINT) is before
    assert summary.status == "interrupted" and summary.env_steps < 600
    assert summary.checkpoint is not None and summary.checkpoint.is_dir()
    assert json.loads((summary.run_folder / "summary.json").read_text())["status"] == "interrupted"
    assert len(rows_of(summary.run_folder)) == summary.updates


def test_an_interrupt_raised_by_the_callback_counts_too(sections: Sections, trainer_of: TrainerOf) -> None:
    def on_update(report: UpdateReport) -> None:
        raise KeyboardInterrupt

    summary = trainer_of(sections()).train(on_update=on_update)
    assert (summary.status, summary.updates) == ("interrupted", 1)
    assert summary.checkpoint is not None and summary.checkpoint.name == "step_200"


def test_a_second_ctrl_c_stops_at_once(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(sections())

    def two_presses() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(trainer.learner, "update", two_presses)
    summary = trainer.train()
    assert summary.status == "interrupted" and summary.checkpoint is None
    assert summary.run_folder.joinpath("summary.json").is_file()


def test_a_saved_trainer_is_loaded_by_folder_run_and_name(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(sections())
    run = trainer.train().run_folder
    trainer.save(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / "mine", run, run / "checkpoints" / "step_600", "runs/echo", "echo"):
        loaded = Trainer.load(path)
        torch.testing.assert_close(parameters_of(loaded), parameters_of(trainer), rtol=0, atol=0)
        assert torch.equal(loaded.env.ctx.save_state(), trainer.env.ctx.save_state())
    assert loaded.evaluate(num_episodes=30) == trainer.evaluate(num_episodes=30)


def test_evaluations_and_replays_need_no_state_of_the_training(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = trainer_of(sections()).train()
    run, state = str(summary.run_folder), summary.run_folder / "checkpoints" / "step_600" / "trainer.pt"
    assert main(["evaluate", run, "--episodes", "20"]) == 0
    expected = capsys.readouterr().out
    state.write_bytes(state.read_bytes()[:500])
    assert main(["evaluate", run, "--episodes", "20"]) == 0
    assert capsys.readouterr().out == expected
    assert main(["replay", run, "-o", str(tmp_path / "episode.npz")]) == 0
    with pytest.raises(CheckpointError, match=r"trainer\.pt: damaged"):
        Trainer.load(run)
    assert main(["train", "--resume", run]) == 2
    assert "trainer.pt: damaged" in capsys.readouterr().err


def test_policies_that_are_not_trained_stay_as_they_are(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections(), "policy.odd.to_train=false")
    before = parameters_of(trainer)
    trainer.train()
    after = parameters_of(trainer)
    for name in before:
        assert torch.equal(before[name], after[name]) == name.startswith("odd")


def test_a_finished_run_has_nothing_left_to_train(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections())
    first = trainer.train()
    again = trainer.train()
    assert (again.status, again.updates) == ("finished", 3) and again.run_folder != first.run_folder
    assert Trainer.load(again.run_folder).env_steps == 600


def test_initial_parameters_differ_between_tags_and_seeds(sections: Sections, trainer_of: TrainerOf) -> None:
    """Tag i of seed s must not begin as tag i + 1 of seed s - 1: all parameters of two tags, four seeds differ."""
    found = []
    for seed in range(4):
        models = trainer_of(sections(), f"trainer.seed={seed}").models
        found += [parameters_to_vector(model.parameters()) for model in models.values()]
    assert not any(torch.equal(one, other) for one, other in combinations(found, 2))


def test_impossible_evaluations_are_refused(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections())
    with pytest.raises(ConfigError, match=r"unknown policy tag 'evn', expected one of even, odd\. Did you mean 'even'"):
        trainer.evaluate(random=["evn"])
    with pytest.raises(ConfigError, match=r"found random = 'even', expected a list of policy tags: \['even'\]"):
        trainer.evaluate(random="even")
    with pytest.raises(ConfigError, match="found num_episodes = 0, expected 1 or more"):
        trainer.evaluate(num_episodes=0)


def test_replicas_of_evaluations_and_recordings_are_closed(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, made, like = trainer_of(sections()), [], wd.EnvWrapper.like

    def recorded(*args: Any, **options: Any) -> wd.EnvWrapper:
        made.append(like(*args, **options))
        return made[-1]

    monkeypatch.setattr(wd.EnvWrapper, "like", recorded)
    assert trainer.evaluate(num_episodes=10).episodes == 10
    assert trainer.fetch_episode(2).replicas.tolist() == [0, 1]
    assert len(made) == 2
    for env in made:
        with pytest.raises(DefinitionError, match="it was closed"):
            env.reset()
    trainer.env.reset()


def test_evaluation_does_not_disturb_training(sections: Sections, trainer_of: TrainerOf) -> None:
    undisturbed, evaluated = trainer_of(sections()), trainer_of(sections())
    rows = rows_of(undisturbed.train().run_folder)
    again = evaluated.train(on_update=lambda report: evaluated.evaluate(num_episodes=10) and None)
    assert rows_of(again.run_folder) == rows


def test_an_own_environment_needs_few_settings(sections: Sections, tmp_path: Path) -> None:
    values = sections()
    env = make_env(load_config(values))
    short = {**values, "trainer": {"train_batch_size": 200, "total_steps": 200}}
    del short["env"], short["name"]
    trainer = wd.Trainer(env, short, policy_tag_to_agent_id_map={"even": [0, 2], "odd": [1, 3]})
    assert trainer.config.name == "echo" and trainer.config.trainer.num_envs == 20
    run = trainer.train().run_folder
    with pytest.raises(ConfigError, match="pass it as env="):
        Trainer.load(run)
    assert Trainer.load(run, env=env).updates == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"num_devices": 2}, "found num_devices = 2, but there is 1 process"),
        ({"policy_tag_to_agent_id_map": {"all": [0, 1, 2, 3]}}, "change policy_tags in the environment"),
        ({"policy_tag_to_agent_id_map": [0, 1, 2, 3]}, "expected a dict"),
        ({"policy_tag_to_agent_id_map": {"even": 0, "odd": 1}}, "expected lists of agent ids by policy tag"),
        ({"config": "tag_gridworld"}, "found the configuration 'tag_gridworld', expected a dictionary"),
        ({"env": "tag_gridworld"}, "found 'tag_gridworld', expected the replicas of an environment"),
    ],
)
def test_arguments_that_do_not_fit_the_environment(sections: Sections, options: dict[str, Any], told: str) -> None:
    values = sections()
    env = make_env(load_config(values))
    with pytest.raises(ConfigError, match=told):
        Trainer(**{"env": env, "config": values, **options})


def test_replicas_without_auto_reset_are_refused(sections: Sections) -> None:
    values = sections()
    game = make_env(load_config(values)).env
    with pytest.raises(ConfigError, match="auto_reset=False, expected True"):
        Trainer(wd.EnvWrapper(game, num_envs=20, auto_reset=False), values)


def test_replicas_and_tags_must_be_those_of_the_environment(sections: Sections) -> None:
    values = sections()
    env = make_env(load_config(values))
    with pytest.raises(ConfigError, match=r"trainer.num_envs: found 10, expected 20"):
        Trainer(env, {**values, "trainer": {**values["trainer"], "num_envs": 10}})
    with pytest.raises(ConfigError, match=r"policy.evn: unknown policy tag.*Did you mean 'even'"):
        Trainer(env, {**values, "env": None, "policy": {**values["policy"], "evn": {"algorithm": "ppo"}}})


def test_a_checkpoint_of_another_environment_is_refused(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path
) -> None:
    trainer_of(sections()).save(tmp_path / "echo")
    with changed_manifest(tmp_path / "echo") as manifest:
        manifest["config"]["policy"]["even"]["model"]["hidden"] = [4]
    with pytest.raises(CheckpointError, match="does not match the current environment"):
        Trainer.load(tmp_path / "echo")


def test_a_simulation_of_the_same_size_with_other_arrays_is_refused(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path
) -> None:
    trainer = trainer_of(sections())
    state = trainer.checkpoint()
    (name, kind), *rest = state.state["layout"].items()
    for found in (("other", kind), (name, "float32 [9]")):
        layout = dict([found, *rest])
        write_checkpoint(tmp_path / "run", replace(state, state={**state.state, "layout": layout}))
        told = f"found the array '{found[0]}' {found[1]}, expected '{name}' {kind}"
        with pytest.raises(CheckpointError, match=re.escape(told)):
            Trainer.load(tmp_path / "run")


def test_arguments_of_other_types_are_told(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections())
    with pytest.raises(DefinitionError, match="deterministic is 'no', expected a bool"):
        trainer.fetch_episode(1, deterministic="no")
    with pytest.raises(DefinitionError, match="path is 3, expected a str or a Path"):
        trainer.save(3)
