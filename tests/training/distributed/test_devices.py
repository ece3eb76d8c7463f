"""Learner, rollout and evaluation on devices of their own.

A machine without GPUs has one device: that weights and rollouts are copied is forced there with ``trainer.copy_model``.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
import torch
from logged_metrics import rows_of

import warpdrive as wd
from warpdrive.errors import ConfigError
from warpdrive.training.config.load import load_config
from warpdrive.training.distributed.rendezvous import backends
from warpdrive.training.reports import UpdateReport
from warpdrive.training.rollout.actor_copies import at
from warpdrive.training.runtime.host_copy import HostCopy
from warpdrive.training.trainer import Trainer, make_env

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]

ALL_ON_THE_CPU = [f"trainer.{who}_device=cpu" for who in ("learner", "rollout", "eval")]
COPIED = [*ALL_ON_THE_CPU, "trainer.copy_model=true"]
NOISY = "{algorithm: td3, learning_starts: 300, noise: {type: ornstein_uhlenbeck}}"
DQN = "{algorithm: dqn, learning_starts: 300, repeat: 0.5}"
GRU = "{algorithm: ppo, minibatches: 2, model: {type: gru, hidden: [8], units: 8}}"
NORMALISED = "{algorithm: a2c, model: {hidden: [8], normalize_observations: true}}"
GAMES = {
    "Echo": {
        "even": "{algorithm: self_play, of: odd, snapshot_every: 1, at_once: 2}",
        "odd": "{algorithm: ppo, minibatches: 2, model: {hidden: [16]}}",
    },
    "Leave": {"outer": GRU, "inner": NORMALISED},  # masks, agents that leave, state, running statistics
    "Aim": {"aimer": NOISY, "chooser": DQN},  # observations and actions by tag; noise that goes on
}


def run_of(sections: Sections, trainer_of: TrainerOf, game: str, *overrides: str) -> Trainer:
    policies = [f"policy.{tag}={how}" for tag, how in GAMES[game].items()]
    evaluated = "trainer.evaluation={every: 2, num_episodes: 10}"
    return trainer_of(sections(game, tuple(GAMES[game]), total_steps=1000), *policies, evaluated, *overrides)


@pytest.mark.parametrize("game", GAMES)
def test_copies_change_nothing(sections: Sections, trainer_of: TrainerOf, game: str) -> None:
    """Also of an interrupted run, and with evaluations beside training."""
    expected = rows_of(run_of(sections, trainer_of, game).train().run_folder)
    assert len(expected) == 5

    def stop(report: UpdateReport) -> None:
        if report.update == 3:
            signal.raise_signal(signal.SIGINT)

    trainer = run_of(sections, trainer_of, game, *COPIED, "trainer.evaluation.beside=true")
    for tag, policy in trainer.policies.items():
        assert trainer.actors[tag] is not policy.actor
    run = trainer.train(stop).run_folder
    Trainer.resume(run).train()
    assert rows_of(run) == expected


def test_what_acts_is_owned_by_the_rollout(sections: Sections, trainer_of: TrainerOf) -> None:
    """Weights that change are seen in the next rollout, and not before."""
    trainer = trainer_of(sections(), *COPIED)
    trainer.collect()
    models = trainer.policies["odd"].model, trainer.actors["odd"]
    weight, copy = (next(model.parameters()) for model in models)
    assert torch.equal(weight, copy) and weight.data_ptr() != copy.data_ptr()
    before, address = copy.clone(), copy.data_ptr()
    trainer.update()
    assert torch.equal(copy, before) and not torch.equal(copy, weight)
    trainer.collect()
    assert torch.equal(copy, weight) and copy.data_ptr() == address, "a captured step finds them where they were"


def test_policies_learn_from_the_copy_of_the_rollout(sections: Sections, trainer_of: TrainerOf) -> None:
    """Replicas can step while policies learn, which read the copy."""

    def losses(overwritten: bool) -> dict[str, torch.Tensor]:
        trainer = trainer_of(sections(), *COPIED)
        trainer.collect()
        policy_update = trainer.policies["even"].update

        def update(rollout: wd.Rollout) -> dict[str, torch.Tensor]:
            assert rollout is not trainer.rollout and rollout.steps_recorded == rollout.num_steps
            if overwritten:
                trainer.rollout.rewards.fill_(1e6)
            return policy_update(rollout)

        trainer.policies["even"].update = update  # type: ignore[method-assign]
        return trainer.update()

    torch.testing.assert_close(losses(True), losses(False), rtol=0, atol=0)


def test_training_with_copies_stays_on_its_device(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = run_of(sections, trainer_of, "Leave", *COPIED)
    for _ in range(2):
        with wd.no_host_transfers(trainer.env.device):
            trainer.collect()
            trainer.update()


def test_tensors_go_together_through_host_memory() -> None:
    """To ``meta``, a device without memory that every machine has: values are lost, all else is as it should be."""
    tensors = [torch.zeros(2, 3), torch.tensor(5), torch.ones(4, dtype=torch.bool), torch.zeros(())]
    moved = at(tensors, torch.device("meta"))
    assert [(t.shape, t.dtype, t.device.type) for t in moved] == [(t.shape, t.dtype, "meta") for t in tensors]
    assert at(tensors, torch.device("cpu")) is tensors


def test_numbers_of_several_devices_are_read_by_name() -> None:
    read = HostCopy({"a": torch.tensor([1.0, 2.0]), "b": torch.tensor(3)}).read()
    assert read == {"a": [1.0, 2.0], "b": [3.0]}


@pytest.mark.parametrize("who", ["learner", "rollout", "eval"])
@pytest.mark.parametrize(
    ("device", "told"),
    [
        ("meta", r"found 'meta' \(a string\), expected cpu, cuda, or cuda:<number>"),
        ("gpu", r"found 'gpu' \(a string\), expected cpu, cuda"),
        ("0", r"found 0 \(an integer\), expected cpu, cuda"),
        ("cuda", "found 'cuda', .*"),
        ("cuda:17", "found 'cuda:17', .*"),
    ],
)
def test_devices_that_do_not_exist(sections: Sections, who: str, device: str, told: str) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(ConfigError, match=rf"trainer\.{who}_device: {told}"):
        config = load_config(sections(env_backend="auto"), [f"trainer.{who}_device={device}"])
        Trainer(make_env(config), config)


def test_a_backend_that_is_for_another_device(sections: Sections) -> None:
    config = load_config(sections(env_backend="cpu"), ["trainer.rollout_device=cuda"])
    with pytest.raises(ConfigError, match=r"rollout_device: found 'cuda', but the backend 'cpu' here is on cpu"):
        make_env(config)


def test_replicas_that_are_elsewhere(sections: Sections) -> None:
    values = sections(env_backend="auto", rollout_device="cuda")
    env = make_env(load_config(sections()))
    with pytest.raises(ConfigError, match=r"rollout_device: found 'cuda', but the environment is on cpu"):
        Trainer(env, values)


@pytest.mark.parametrize(
    ("gpus", "processes", "expected"),
    [(0, 2, "gloo"), (2, 2, "cpu:gloo,cuda:nccl"), (1, 2, "cpu:gloo,cuda:gloo")],
)
def test_processes_that_share_a_gpu_use_gloo(
    monkeypatch: pytest.MonkeyPatch, gpus: int, processes: int, expected: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert backends(processes) == expected
