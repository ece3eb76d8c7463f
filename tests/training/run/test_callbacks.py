"""Events of callbacks, and exceptions in them, which lose no data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import warpdrive as wd
from warpdrive.errors import ConfigError, TrainingError
from warpdrive.training.checkpoint.checkpoint import read_checkpoint
from warpdrive.training.reports import EvaluationReport, TrainingSummary, UpdateReport
from warpdrive.training.run.callbacks import Callback
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]
EVALUATED = ("trainer.evaluation={every: 2, num_episodes: 5}", "saving.checkpoint_every=2")


class Diary(wd.Callback):
    """Writes down all that happens."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []

    def on_rollout_start(self, trainer: Trainer) -> None:
        self.entries.append(("start", trainer.env_steps))

    def on_rollout(self, trainer: Trainer) -> None:
        assert self.entries[-1] == ("start", trainer.env_steps - 200)
        del self.entries[-1]
        assert trainer.rollout.steps_recorded == trainer.rollout.num_steps
        self.entries.append(("rollout", trainer.env_steps, trainer.updates))

    def on_update(self, trainer: Trainer, report: UpdateReport) -> None:
        assert "losses/policy_loss/odd" in report.metrics
        self.entries.append(("update", report.env_steps, report.update))

    def on_evaluate(self, trainer: Trainer, report: EvaluationReport) -> None:
        assert report.result.episodes == 5 and report.seconds > 0
        self.entries.append(("evaluate", report.env_steps, report.update))

    def on_checkpoint(self, trainer: Trainer, path: Path) -> None:
        assert read_checkpoint(path).state["updates"] == trainer.updates
        self.entries.append(("checkpoint", int(path.name.removeprefix("step_")), trainer.updates))

    def on_end(self, trainer: Trainer, summary: TrainingSummary) -> None:
        assert json.loads((summary.run_folder / "summary.json").read_text())["status"] == summary.status
        self.entries.append(("end", summary.env_steps, summary.status))


def test_everything_is_told_in_order(sections: Sections, trainer_of: TrainerOf) -> None:
    diary = Diary()
    trainer_of(sections(), *EVALUATED, "saving.log_every=3", "saving.keep_best=false").train(callbacks=[diary])
    assert diary.entries == [
        *[("rollout", 200, 0), ("rollout", 400, 1), ("evaluate", 400, 2), ("update", 400, 2), ("checkpoint", 400, 2)],
        *[("rollout", 600, 2), ("update", 600, 3), ("checkpoint", 600, 3), ("end", 600, "finished")],
    ]


@pytest.mark.parametrize("method", ["on_rollout", "on_update", "on_evaluate", "on_checkpoint"])
def test_what_a_callback_raises_ends_the_run_with_everything_saved(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    class Clumsy(wd.Callback):
        pass

    def fall(self: Clumsy, trainer: Trainer, *event: Any) -> None:
        trains.append(trainer)
        raise ZeroDivisionError("oh")

    trains: list[Trainer] = []
    monkeypatch.setattr(Clumsy, method, fall, raising=False)
    diary = Diary()
    trainer = trainer_of(sections(total_steps=2000), *EVALUATED, "saving.keep_best=false")
    with pytest.raises(ZeroDivisionError, match="oh"):
        trainer.train(callbacks=[Clumsy(), diary])
    happened, env_steps, status = diary.entries[-1]
    assert (happened, status) == ("end", "failed") and env_steps == (
        200 if method in ("on_rollout", "on_update") else 400
    )
    run = sorted(Path(sections()["saving"]["folder"], "echo").iterdir())[-1]
    summary = json.loads((run / "summary.json").read_text())
    assert summary["message"] == f"Clumsy.{method} raised ZeroDivisionError: oh"
    assert summary["checkpoint"] == str(run / "checkpoints" / f"step_{env_steps}")
    went_on = Trainer.resume(run)
    assert went_on.env_steps == env_steps
    # training continues unaffected
    went_on.train()
    whole = trainer_of(sections(total_steps=2000), *EVALUATED, "saving.keep_best=false")
    whole.train()
    for tag, policy in whole.policies.items():
        for name, value in policy.model.state_dict().items():
            assert torch.equal(value, went_on.policies[tag].model.state_dict()[name])


def test_what_is_raised_at_the_end_is_raised_too(sections: Sections, trainer_of: TrainerOf) -> None:
    class Late(wd.Callback):
        def on_end(self, trainer: Trainer, summary: TrainingSummary) -> None:
            raise OSError("the mail did not go out")

    trainer = trainer_of(sections(total_steps=200))
    with pytest.raises(OSError, match="mail"):
        trainer.train(callbacks=[Late(), diary := Diary()])
    assert diary.entries[-1] == ("end", 200, "finished"), "others are told all the same"


def test_a_run_that_fails_by_itself_tells_so(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(sections())
    monkeypatch.setattr(trainer.learner, "update", lambda: {"losses/policy_loss/odd": torch.tensor(torch.inf)})
    with pytest.raises(TrainingError):
        trainer.train(callbacks=[diary := Diary()])
    assert diary.entries[-1] == ("end", 200, "failed")


def test_a_callback_can_stop_the_run(sections: Sections, trainer_of: TrainerOf) -> None:
    class Enough(wd.Callback):
        def on_update(self, trainer: Trainer, report: UpdateReport) -> None:
            if report.update == 2:
                raise KeyboardInterrupt

    summary = trainer_of(sections(total_steps=1000)).train(callbacks=[Enough()])
    assert (summary.status, summary.updates) == ("interrupted", 2)
    assert summary.checkpoint is not None and summary.checkpoint.name == "step_400"


def test_replicas_are_put_into_stored_states_before_a_rollout(sections: Sections, trainer_of: TrainerOf) -> None:
    """States of the end of an episode, in every second rollout: its first step is then the last of an episode."""

    class Seed(wd.Callback):
        def __init__(self) -> None:
            self.stored: Any = None
            self.ends: list[bool] = []

        def on_rollout_start(self, trainer: Trainer) -> None:
            if self.stored is not None and trainer.updates % 2 == 1:
                trainer.env.ctx.load_state(self.stored, range(20), keep=trainer.env.own_arrays)
                trainer.env.ctx["timestep"].fill_(trainer.env.env.episode_length - 1)
            self.stored = trainer.env.ctx.save_state()

        def on_rollout(self, trainer: Trainer) -> None:
            self.ends.append(bool(trainer.rollout.truncated[0].all()))

    seed = Seed()
    trainer_of(sections()).train(callbacks=[seed])
    assert seed.ends == [False, True, False]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"callbacks": [print]}, "in callbacks, expected a wd.Callback object, or on_update="),
        ({"callbacks": [Callback]}, "in callbacks, expected a wd.Callback object"),
        ({"callbacks": Callback()}, "expected a list of wd.Callback objects"),
        ({"on_update": 3}, "found on_update = 3, expected a function of a report"),
    ],
)
def test_what_is_no_callback_is_told_before_the_run(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path, arguments: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        trainer_of(sections()).train(**arguments)
    assert not (tmp_path / "runs").exists()
