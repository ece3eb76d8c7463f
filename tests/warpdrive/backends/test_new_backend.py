"""A backend consists of a class and an entry in one table."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from reference_backend import ENTRY, ReferenceBackend

import warpdrive as wd
from warpdrive.backends import loading
from warpdrive.backends.interface import Backend
from warpdrive.backends.system_info import this_machine
from warpdrive.doctor import diagnosis
from warpdrive.errors import ConfigError
from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import make_env


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(loading.TABLE, "reference", ENTRY)


def test_it_is_a_backend_like_the_others() -> None:
    backend = loading.load_backend("reference")
    assert isinstance(backend, ReferenceBackend) and isinstance(backend, Backend)
    assert "reference" in loading.usable_backends()
    assert diagnosis(this_machine())["backends"]["reference"] == {"usable": True, "lacks": []}
    with pytest.raises(wd.WarpDriveError, match=r"'referense'.*Did you mean 'reference'"):
        loading.load_backend("referense")
    with pytest.raises(ConfigError, match=r"found 'referense'.*Did you mean 'reference'"):
        load_config("cartpole", ["trainer.env_backend=referense"])


def test_training_on_it_is_training_on_the_cpu_backend() -> None:
    def trained(backend: str) -> dict[str, Any]:
        settings = ["num_envs=3", "train_batch_size=24", "total_steps=48", "reset_pool_size=2"]
        config = load_config("cartpole", [f"trainer.env_backend={backend}", *(f"trainer.{key}" for key in settings)])
        trainer = wd.Trainer(make_env(config), config)
        losses = {}
        for _ in range(2):
            trainer.collect()
            losses = trainer.update()
        rollout = {name: getattr(trainer.rollout, name) for name in ("observations", "actions", "rewards")}
        return {**losses, **rollout, **next(iter(trainer.models.values())).state_dict()}

    ours, expected = trained("reference"), trained("cpu")
    assert ours.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(ours[name], tensor, rtol=0, atol=0, msg=name)
