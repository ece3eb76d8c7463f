"""Environments and models of the guides train."""

from __future__ import annotations

from pathlib import Path

import pytest
from exhaustive import exhaustive
from pages import blocks_of, write_files
from paths import ROOT

import warpdrive as wd
from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import make_env

GUIDES = ROOT / "docs" / "guides"


def code_with(guide: str, text: str) -> str:
    """Return the Python block of a guide that contains ``text``."""
    (code,) = [block.code for block in blocks_of((GUIDES / guide).read_text(), "python") if text in block.code]
    return code


@pytest.mark.parametrize(
    ("name", "tags"), exhaustive([("Carriers", ["carrier"]), ("Sheepdog", ["dog", "sheep"])], ("Sheepdog",))
)
def test_an_environment_trains(name: str, tags: list[str], tmp_path: Path) -> None:
    (tmp_path / "game.py").write_text(code_with("authoring.md", f"class {name}("))
    config = load_config(
        {
            "env": {"name": f"{tmp_path / 'game.py'}:{name}"},
            "trainer": {"num_envs": 50, "train_batch_size": 1000, "total_steps": 2000, "env_backend": "cpu"},
            "policy": {tag: {"algorithm": "ppo", "model": {"hidden": [16]}} for tag in tags},
        }
    )
    trainer = wd.Trainer(make_env(config), config)
    for _ in range(2):
        trainer.collect()
        assert all(loss.isfinite() for loss in trainer.update().values())
    assert trainer.evaluate(num_episodes=60).episodes == 60  # in other replicas than before


def test_an_environment_in_cuda_c_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files((GUIDES / "cuda_c.md").read_text(), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WARPDRIVE_CUDA_ON_HOST", "1")
    config = load_config("gather.yaml", ["trainer.total_steps=30000", "trainer.torch_threads=1"])
    trainer = wd.Trainer(make_env(config), config)
    trainer.train()
    trained, random = (trainer.evaluate(100, random=who) for who in ((), ("gatherer",)))
    assert trained.mean_length < 0.7 * random.mean_length


@pytest.mark.parametrize("name", ["Gated", "Trace"])
def test_a_model_trains_and_its_rollouts_can_be_replayed(name: str, tmp_path: Path) -> None:
    code = "\n".join(code_with("models.md", f"class {each}(") for each in ("Gated", "Trace"))
    (tmp_path / "page_models.py").write_text(code)
    model = {"type": f"{tmp_path / 'page_models.py'}:{name}", "check_device": True}
    config = load_config(
        {
            "env": {"name": "cartpole"},
            "trainer": {"num_envs": 16, "train_batch_size": 160, "total_steps": 320, "env_backend": "cpu"},
            "policy": {"agent": {"algorithm": "ppo", "model": model}},
        }
    )
    trainer = wd.Trainer(make_env(config), config)
    for _ in range(2):
        trainer.collect()
        assert all(loss.isfinite() for loss in trainer.update().values())
    trainer.collect()
    policy = trainer.policies["agent"]
    assert (policy.replay(trainer.rollout).log_probabilities - trainer.rollout.log_probabilities).abs().max() < 1e-6
    assert policy.model.state_size == (4 if name == "Trace" else 0)
