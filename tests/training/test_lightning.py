"""Training by PyTorch Lightning's Trainer is bitwise equal to the library's."""

from __future__ import annotations

import importlib.util
import logging
import math
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from warpdrive.errors import ConfigError, TrainingError
from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import Trainer, make_env

# Lightning takes seconds to import: only the process that runs these tests does, not each that collects them.
if TYPE_CHECKING:
    import lightning

    from warpdrive.training.lightning import WarpDriveModule

pytestmark = pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="the extra `lightning`")

TINY = (
    "env.grid_length=6",
    "env.episode_length=20",
    "trainer.num_envs=20",
    "trainer.train_batch_size=200",
    "trainer.total_steps=800",
    "trainer.torch_threads=1",
    "trainer.update=torch",
)
PENDULUM = (
    "trainer.update=torch",
    "env.episode_length=20",
    "trainer.num_envs=4",
    "trainer.train_batch_size=40",
    "trainer.total_steps=160",
    "trainer.torch_threads=1",
    "policy.agent.learning_starts=40",
    "policy.agent.gradient_steps=2",
    "policy.agent.buffer_size=1000",
)


@pytest.fixture(autouse=True)
def without_warnings():
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def module_of(source: str, overrides: Sequence[str]) -> WarpDriveModule:
    from warpdrive.training.lightning import WarpDriveModule

    return WarpDriveModule(source, overrides)


def fit(module: WarpDriveModule, ckpt_path: Path | None = None, after_update=None, **options) -> lightning.Trainer:
    """Train; ``after_update(trainer, module, outputs, batch, batch_idx)`` is called after each update."""
    import lightning
    from lightning.pytorch.callbacks import LambdaCallback

    from warpdrive.training.lightning import RolloutData

    quiet = ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing")
    callbacks = [LambdaCallback(on_train_batch_end=after_update)] if after_update else []
    options |= {"callbacks": callbacks, **dict.fromkeys(quiet, False)}
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", **options)
    trainer.fit(module, RolloutData(module), ckpt_path=ckpt_path)
    return trainer


def own_training(source: str, overrides: tuple[str, ...]) -> tuple[Trainer, list[dict[str, float]]]:
    config = load_config(source, overrides)
    trainer, losses = Trainer(make_env(config), config), []
    while trainer.env_steps < config.trainer.total_steps:
        trainer.collect()
        losses.append(numbers(trainer.update()))
        trainer.env.episode_statistics()  # which are logged
    return trainer, losses


def numbers(metrics: Mapping[str, torch.Tensor]) -> dict[str, float]:
    return {name: value.item() for name, value in metrics.items()}


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {
        f"{tag}.{name}": value
        for tag, policy in trainer.policies.items()
        for name, value in policy.model.state_dict().items()
    }


def assert_same_bits(found: Trainer, expected: Trainer) -> None:
    there, wanted = weights(found), weights(expected)
    assert there.keys() == wanted.keys()
    assert all(torch.equal(there[name], wanted[name]) for name in wanted)
    assert torch.equal(found.env.ctx.save_state(), expected.env.ctx.save_state())


CRITIC = tuple(f"policy.{{tag}}.{key}" for key in ("centralized_critic=true", "critic_lr=3e-3", "target_kl=0.02"))


@pytest.mark.parametrize(
    ("source", "overrides"),
    [("tag_gridworld", (*TINY, *(option.format(tag="tagger") for option in CRITIC))), ("pendulum_sac", PENDULUM)],
)
def test_the_same_as_our_own_trainer_bit_for_bit(source, overrides):
    """Two policies that learn by PPO, one with a critic of its own, and three optimizers of one that learns by SAC."""
    logged, module = [], module_of(source, overrides)
    fit(module, after_update=lambda trainer, *_: logged.append(numbers(trainer.callback_metrics)))
    expected, wanted = own_training(source, overrides)
    assert module.engine.updates == expected.updates == 4
    assert_same_bits(module.engine, expected)
    for of_theirs, of_ours in zip(logged, wanted, strict=True):
        assert of_ours.items() <= of_theirs.items()
    assert math.isfinite(logged[-1]["charts/episodic_length"])
    assert logged[-1]["env_steps"] == module.engine.env_steps


def test_a_checkpoint_of_lightnings_goes_on_as_if_nothing_had_happened(tmp_path):
    whole, on = (module_of("tag_gridworld", TINY) for _ in range(2))

    def save(trainer, module, outputs, batch, batch_idx):
        if batch_idx == 1:
            trainer.save_checkpoint(tmp_path / "half.ckpt")

    fit(whole, after_update=save)
    fit(on, ckpt_path=tmp_path / "half.ckpt")
    assert on.engine.updates == 4
    assert_same_bits(on.engine, whole.engine)


def test_bfloat16_is_lightnings_business():
    module, threads = module_of("tag_gridworld", [*TINY, "trainer.total_steps=200"]), set()
    torch.set_num_threads(2)
    fit(module, precision="bf16-mixed", after_update=lambda *_: threads.add(torch.get_num_threads()))
    assert threads == {1} and torch.get_num_threads() == 2, "trainer.torch_threads, and what was before"
    torch.set_num_threads(1)
    expected = own_training("tag_gridworld", (*TINY, "trainer.total_steps=200"))[0]
    there, wanted = weights(module.engine), weights(expected)
    differences = [(there[name] - wanted[name]).abs().max() for name in wanted]
    assert 0 < max(differences) < 0.05


def test_the_number_of_threads_is_restored_after_an_exception():
    def fail(*_):
        raise ArithmeticError(f"in {torch.get_num_threads()} thread")

    torch.set_num_threads(2)
    with pytest.raises(ArithmeticError, match="in 1 thread"):
        fit(module_of("tag_gridworld", TINY), after_update=fail)
    assert torch.get_num_threads() == 2


WHOLE_BATCHES = (*TINY[1:], "policy.agent.normalize_advantage=false", "policy.agent.minibatches=1")
IN_TWO = """
import sys, torch
sys.path.insert(0, {folder!r})
from test_lightning import WHOLE_BATCHES, fit, module_of, weights
torch.set_num_threads(1)
module = module_of("cartpole", [*WHOLE_BATCHES, *{options!r}])
fit(module, devices=2, strategy={strategy!r})
statistics = module.engine.policies["agent"].algorithm.returns.state_dict()
torch.save({{**weights(module.engine), **statistics}}, {path!r} + str(module.trainer.global_rank))
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("options", "strategy"),
    [
        (("policy.agent.model.normalize_observations=true", "policy.agent.normalize_returns=true"), "ddp"),
        pytest.param(
            tuple(option.format(tag="agent") for option in CRITIC),
            "ddp_find_unused_parameters_true",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_two_processes_train_as_one(tmp_path, options, strategy):
    """Without normalisation or sampling within a process, the mean gradient is that of all rows."""
    folder = str(Path(__file__).parent)
    program = IN_TWO.format(folder=folder, path=f"{tmp_path}/rank_", options=options, strategy=strategy)
    (tmp_path / "program.py").write_text(program)
    subprocess.run([sys.executable, str(tmp_path / "program.py")], check=True, capture_output=True, timeout=400)
    trainer = own_training("cartpole", (*WHOLE_BATCHES, *options))[0]
    ours = {**weights(trainer), **trainer.policies["agent"].algorithm.returns.state_dict()}
    for rank in range(2):
        theirs = torch.load(tmp_path / f"rank_{rank}")
        assert theirs.keys() == ours.keys()
        assert all(torch.allclose(theirs[name], ours[name], atol=1e-5) for name in ours)


def test_mistakes():
    with pytest.raises(TrainingError, match=r"not created before lightning.Trainer.fit"):
        module_of("tag_gridworld", TINY).engine  # noqa: B018
    with pytest.raises(ConfigError, match="found precision '64-true', expected 32-true or bf16-mixed"):
        fit(module_of("tag_gridworld", TINY), precision="64-true")
