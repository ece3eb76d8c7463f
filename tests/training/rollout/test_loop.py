"""Rollouts of one step that is captured once and replayed: here by a recorder that needs no GPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from recorded_operations import CallRecorder
from torch import Tensor

from warpdrive.errors import WarpDriveError
from warpdrive.step_graph import StepGraphs, UseCudaGraph
from warpdrive.training.config.load import load_config
from warpdrive.training.models.fully_connected import FullyConnected
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]
TAGS = {"Echo": ("even", "odd"), "Leave": ("outer", "inner"), "Aim": ("aimer", "chooser")}


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> CallRecorder:
    """Recorder with which the test's trainers capture."""
    fake = CallRecorder()

    def graphs(device: torch.device, use: UseCudaGraph) -> StepGraphs:
        return StepGraphs(device, use, fake)

    monkeypatch.setattr("warpdrive.training.learner.StepGraphs", graphs)
    monkeypatch.setattr("warpdrive.training.learner.native_rollout", lambda *_: None)  # as on a GPU
    return fake


def outcome(trainer: Trainer) -> tuple[str, dict[str, Tensor], Any]:
    run = trainer.train().run_folder
    rows = [",".join(line.split(",")[:-5]) for line in (run / "metrics.csv").read_text().splitlines()]
    assert not rows[0].endswith("perf/env_steps_per_second")  # but for the clock, all columns are compared
    parameters = {
        f"{tag}.{name}": value for tag, p in trainer.policies.items() for name, value in p.model.state_dict().items()
    }
    return "\n".join(rows), parameters, trainer.evaluate(num_episodes=30, deterministic=True)


@pytest.mark.parametrize(("game", "model"), [*((game, "fully_connected") for game in TAGS), ("Leave", "lstm")])
def test_results_are_the_same_with_and_without(
    sections: Sections, trainer_of: TrainerOf, recorder: CallRecorder, game: str, model: str
) -> None:
    """The steps before the capture must leave no trace in replicas, draws, sums, or recurrent states."""
    values = sections(game, TAGS[game])
    for policy in values["policy"].values():
        policy["model"] = {"type": model, "hidden": [16]}
    rows, parameters, result = outcome(trainer_of(values, "trainer.use_cuda_graph=off"))
    assert recorder.recorded == 0
    rows_replayed, parameters_replayed, result_replayed = outcome(trainer_of(values))
    assert recorder.recorded == 2  # training, although parameters change, and the evaluation
    assert recorder.replayed >= 30
    assert rows == rows_replayed
    torch.testing.assert_close(parameters, parameters_replayed, rtol=0, atol=0)
    assert result == result_replayed


def test_a_rollout_of_one_step_can_be_captured(
    sections: Sections, trainer_of: TrainerOf, recorder: CallRecorder
) -> None:
    trainer = trainer_of(sections(train_batch_size=20))
    for _ in range(3):
        trainer.collect()
    assert (recorder.recorded, recorder.replayed) == (1, 3)
    assert trainer.rollout.steps_recorded == 1 and trainer.rollout.step.item() == 1


def test_other_models_are_captured_anew(sections: Sections, trainer_of: TrainerOf, recorder: CallRecorder) -> None:
    trainer = trainer_of(sections())
    trainer.collect()
    trainer.collect()
    assert recorder.recorded == 1
    policy = trainer.policies["odd"]
    with torch.no_grad():
        next(policy.model.parameters()).add_(1.0)  # in place, as an optimizer does and load_state_dict
    policy.model.load_state_dict(policy.model.state_dict())
    trainer.collect()
    assert recorder.recorded == 1
    next(policy.model.parameters()).data = next(policy.model.parameters()).detach().clone()
    trainer.collect()
    assert recorder.recorded == 2


def test_a_model_that_looks_at_the_device_is_told_of_once(
    sections: Sections, trainer_of: TrainerOf, recorder: CallRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looking(self: FullyConnected, observations: Tensor) -> Tensor:
        outputs: Tensor = self.policy(self.flatten(observations))
        return outputs if outputs.isfinite().all() else torch.zeros_like(outputs)

    monkeypatch.setattr(FullyConnected, "logits", looking)
    trainer = trainer_of(sections(), "trainer.update=torch")
    told = rf"without a CUDA graph.*{Path(__file__).name}:\d+: bool\(tensor\)"
    with pytest.warns(RuntimeWarning, match=told):
        trainer.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.collect()
        trainer.evaluate(num_episodes=5)
    assert recorder.recorded == 0


def test_on_the_cpu_a_graph_is_used_only_if_asked_for_and_then_refused(
    sections: Sections, trainer_of: TrainerOf
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer_of(sections()).collect()
    with pytest.raises(WarpDriveError, match="use_cuda_graph is 'on', but the environment runs on the CPU"):
        trainer_of(sections(), "trainer.use_cuda_graph=on")


@pytest.mark.parametrize("use", ["auto", "on", "off"])
def test_use_cuda_graph_is_written_as_yaml_has_it(sections: Sections, tmp_path: Path, use: str) -> None:
    """A bare on or off is a boolean for YAML 1.1."""
    assert load_config(sections(), [f"trainer.use_cuda_graph={use}"]).trainer.use_cuda_graph == use
    load_config(sections(use_cuda_graph=use)).save(tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml").trainer.use_cuda_graph == use


def test_what_else_use_cuda_graph_is_not(sections: Sections) -> None:
    with pytest.raises(WarpDriveError, match=r"use_cuda_graph: found 'maybe' .*expected 'auto', 'on' or 'off'"):
        load_config(sections(use_cuda_graph="maybe"))
