"""Nothing between two logging points touches the host: collecting and updating under ``wd.no_host_transfers``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import warpdrive as wd
from warpdrive.training.trainer import Trainer

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
    sections: Sections, trainer_of: TrainerOf, backend: str, game: str, algorithm: str
) -> None:
    overrides = [f"policy.{tag}.algorithm={algorithm}" for tag in TAGS[game]]
    trainer = trainer_of(sections(game, TAGS[game], env_backend=backend), *overrides)
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


def test_between_two_logging_points_a_run_stays_on_the_device(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole loop, but for what logs and saves: of five updates, the second and fourth are logged."""
    trainer = trainer_of(sections(total_steps=1000), "saving.log_every=2")
    collect, update = trainer.collect, trainer.update
    guards: list[Any] = []

    def guarded_collect() -> None:
        if len(guards) % 2 == 0:  # from here to the end of the next update
            guard = wd.no_host_transfers(trainer.env.device)
            guard.__enter__()
            guards.append(guard)
        else:
            guards.append(None)
        collect()

    def guarded_update() -> dict[str, torch.Tensor]:
        losses = update()
        if len(guards) % 2 == 0 or trainer.env_steps >= 1000:
            next(guard for guard in reversed(guards) if guard is not None).__exit__(None, None, None)
        return losses

    monkeypatch.setattr(trainer, "collect", guarded_collect)
    monkeypatch.setattr(trainer, "update", guarded_update)
    summary = trainer.train()
    assert summary.status == "finished" and len(guards) == 5
