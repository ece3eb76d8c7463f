"""Fixtures of the tests of training: the games of ``games.py``, and small runs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from paths import SUPPORT

from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import Trainer, make_env

GAMES = SUPPORT / "games.py"


@pytest.fixture(autouse=True)
def one_torch_thread() -> Iterator[None]:
    """Small tensors gain nothing from more, and a busy machine loses much."""
    former = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(former)


@pytest.fixture
def sections(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Makes the run configuration of a game: PPO for every tag, three updates."""

    def make(game: str = "Echo", tags: tuple[str, ...] = ("even", "odd"), **trainer: Any) -> dict[str, Any]:
        ppo = {"algorithm": "ppo", "lr": 0.01, "minibatches": 2, "model": {"hidden": [16]}}
        return {
            "name": game.lower(),
            "env": {"name": f"{GAMES}:{game}"},
            "trainer": {
                "num_envs": 20,
                "train_batch_size": 200,
                "total_steps": 600,
                "env_backend": "cpu",  # on a machine with a GPU, too: what is tested on one says so
                "reset_pool_size": 50,
                "seed": 0,
                **trainer,
            },
            "policy": {tag: dict(ppo) for tag in tags},
            "saving": {"folder": str(tmp_path / "runs"), "tensorboard": False},
        }

    return make


@pytest.fixture
def trainer_of() -> Callable[..., Trainer]:
    """Makes a trainer of a run configuration and overrides."""

    def make(values: dict[str, Any], *overrides: str) -> Trainer:
        config = load_config(values, overrides)
        return Trainer(make_env(config), config)

    return make
