"""Nothing between two logging points touches the host: collecting and updating under ``wd.no_host_transfers``."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from exhaustive import exhaustive
from lanes import Lanes

import warpdrive as wd
from warpdrive.backends.cpu import CpuBackend
from warpdrive.backends.pycuda import ON_HOST_VARIABLE
from warpdrive.errors import TrainingError
from warpdrive.training.config.load import load_config
from warpdrive.training.runtime.host_copy import HostCopy
from warpdrive.training.trainer import Trainer, make_env

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]

TAGS = {
    "Echo": ("even", "odd"),  # interleaved agents
    "Fuse": ("one", "others"),  # episodes that are truncated, and some that are not
    "Leave": ("outer", "inner"),  # masks, several choices, agents that leave
    "Aim": ("aimer", "chooser"),  # a Box beside choices, observations of their own
}


@pytest.mark.parametrize("game", TAGS)
@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_training_stays_on_the_device(
    sections: Sections, trainer_of: TrainerOf, python_backend: str, game: str, algorithm: str
) -> None:
    overrides = [f"policy.{tag}.algorithm={algorithm}" for tag in TAGS[game]]
    trainer = trainer_of(sections(game, TAGS[game], env_backend=python_backend), *overrides)
    before = [value.clone() for policy in trainer.policies.values() for value in policy.model.parameters()]
    for _ in range(2):  # the first update also makes what the others use again
        with wd.no_host_transfers(trainer.env.device):
            trainer.collect()
            losses = trainer.update()
            statistics = trainer.env.episode_statistics()
    after = [value for policy in trainer.policies.values() for value in policy.model.parameters()]
    assert any(not torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert all(value.device == trainer.env.device for value in (*losses.values(), *statistics.values()))
    assert trainer.env_steps == 400 and trainer.rollout.steps_recorded == trainer.rollout.num_steps


@pytest.mark.parametrize("game", ["Echo", "Fuse"])
def test_learning_from_old_experience_stays_on_the_device(
    sections: Sections, trainer_of: TrainerOf, python_backend: str, game: str
) -> None:
    dqn = "{algorithm: dqn, buffer_size: 1000, learning_starts: 0, gradient_steps: 3, target_update_every: 2}"
    overrides = [f"policy.{tag}={dqn}" for tag in TAGS[game]]
    trainer = trainer_of(sections(game, TAGS[game], env_backend=python_backend), *overrides)
    for _ in range(6):  # around the end of the buffer
        with wd.no_host_transfers(trainer.env.device):
            trainer.collect()
            losses = trainer.update()
    assert len(losses) == 6 and all(value.device == trainer.env.device for value in losses.values())


def test_random_and_untrained_policies_stay_on_the_device_too(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections(), "policy.odd={algorithm: random}", "policy.even.to_train=false")
    with wd.no_host_transfers(trainer.env.device):
        trainer.collect()
        assert trainer.update() == {}


def test_a_look_at_the_host_would_be_found(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections())
    model = trainer.policies["odd"].model
    forward = model.logits

    def looking(observations: torch.Tensor) -> torch.Tensor:
        return forward(observations * float(observations.max()))

    model.logits = looking  # type: ignore[method-assign]
    line = looking.__code__.co_firstlineno + 1
    told = rf"test_on_device.py:{line}: float\(tensor\)"
    with pytest.raises(wd.HostTransferError, match=told), wd.no_host_transfers(trainer.env.device):
        trainer.collect()


def test_the_first_thing_a_run_asks_of_the_device_is_what_it_logs(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections(total_steps=1000), "saving.log_every=5")
    told = r"host_copy.py:\d+: Tensor\.to\('cpu'\)"
    with pytest.raises(wd.HostTransferError, match=told), wd.no_host_transfers(trainer.env.device):
        trainer.train()
    assert trainer.updates == 5


class LateCopy(HostCopy):
    """Simulates a GPU: numbers arrive while the device continues."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        super().__init__(tensors)
        self.is_here = False

    def read(self) -> dict[str, list[float]]:
        self.is_here = True
        return super().read()


def test_what_arrives_late_is_logged_late_and_the_same(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def logged() -> tuple[list[list[str]], list[tuple[int, int, int]]]:
        trainer, told = trainer_of(sections(total_steps=1000), "saving.checkpoint_every=4"), []
        run = trainer.train(lambda report: told.append((report.update, report.env_steps, trainer.updates))).run_folder
        with (run / "metrics.csv").open() as file:
            rows = [[row[name] for name in row if not name.startswith("perf/")] for row in csv.DictReader(file)]
        return rows, told

    at_once, told_at_once = logged()
    monkeypatch.setattr("warpdrive.training.run.log.HostCopy", LateCopy)
    late, told_late = logged()
    assert late == at_once
    assert told_at_once == [(k, 200 * k, k) for k in (1, 2, 3, 4, 5)]
    # one update later, but for those after which a checkpoint is written
    assert told_late == [(1, 200, 2), (2, 400, 3), (3, 600, 4), (4, 800, 4), (5, 1000, 5)]


def test_what_arrives_late_and_is_not_finite_is_not_saved(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpdrive.training.run.log.HostCopy", LateCopy)
    trainer = trainer_of(sections(total_steps=1000), "saving.checkpoint_every=2")
    update = trainer.learner.update

    def breaking() -> dict[str, torch.Tensor]:
        losses = update()
        return {name: loss * (torch.nan if trainer.updates == 4 else 1.0) for name, loss in losses.items()}

    monkeypatch.setattr(trainer.learner, "update", breaking)
    with pytest.raises(TrainingError, match=r"became nan; the last good checkpoint is .*step_400"):
        trainer.train()


def trained(env: wd.EnvWrapper, values: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Return the policies after two updates, and the following rollout."""
    trainer = Trainer(env, values)
    with wd.no_host_transfers(env.device):
        for _ in range(2):
            trainer.collect()
            losses = trainer.update()
    rollout = {name: value for name, value in vars(trainer.rollout).items() if isinstance(value, torch.Tensor)}
    return {**losses, **rollout}


def test_training_with_gpu_code_run_on_the_cpu(sections: Sections) -> None:
    """Code for GPUs of numba.cuda, thread by thread: sampling, recording, agents that leave, advantages."""
    values = {**sections("Leave", TAGS["Leave"]), "env": None}
    game = make_env(load_config(sections("Leave", TAGS["Leave"]))).env
    found, expected = (trained(wd.EnvWrapper(game, 20, b, reset_pool_size=50), values) for b in (Lanes(), "cpu"))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", exhaustive(["cartpole", "tag_gridworld"], ("cartpole",)))
def test_training_with_cuda_c_on_the_host(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(ON_HOST_VARIABLE, "1")
    tags = wd.make(name).policy_tags
    policy = {tag: {"algorithm": "ppo", "minibatches": 2, "model": {"hidden": [8]}} for tag in tags}
    values = {"trainer": {"train_batch_size": 320, "total_steps": 640}, "policy": policy}
    found, expected = (
        trained(wd.EnvWrapper(env_name=name, num_envs=10, env_backend=b), values) for b in ("pycuda", "cpu")
    )
    for key in ("actions", "terminated", "truncated"):
        assert torch.equal(found[key], expected[key])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_evaluations_and_replays_run_where_the_policies_are(sections: Sections) -> None:
    """Known mistake: where a Trainer is handed replicas, its configuration does not say on which backend they are."""

    class Counting(CpuBackend):
        bound = 0

        def bind(self, *arguments: Any) -> Callable[[], None]:
            self.bound += 1
            return super().bind(*arguments)

    values = sections()
    backend = Counting()
    trainer = Trainer(wd.EnvWrapper(make_env(load_config(values)).env, 20, backend), values)
    before = backend.bound
    trainer.evaluate(num_episodes=3)
    assert backend.bound > before
    before = backend.bound
    trainer.fetch_episode()
    assert backend.bound > before
