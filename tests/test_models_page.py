"""The models of docs/guides/models.md train, keep recurrent state and pass the checks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from paths import ROOT

from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import Trainer, make_env

PAGE = (ROOT / "docs" / "guides" / "models.md").read_text()


@pytest.mark.parametrize("name", ["Gated", "Trace"])
def test_a_model_of_the_page_trains(name: str, tmp_path: Path) -> None:
    blocks = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "class " in block]
    (tmp_path / "page_models.py").write_text("\n".join(blocks))
    model = {"type": f"{tmp_path / 'page_models.py'}:{name}", "check_device": True}
    config = load_config(
        {
            "env": {"name": "cartpole"},
            "trainer": {"num_envs": 16, "train_batch_size": 160, "total_steps": 320, "env_backend": "cpu"},
            "policy": {"agent": {"algorithm": "ppo", "model": model}},
        }
    )
    trainer = Trainer(make_env(config), config)
    for _ in range(2):
        trainer.collect()
        assert all(loss.isfinite() for loss in trainer.update().values())
    trainer.collect()
    policy = trainer.policies["agent"]
    assert (policy.replay(trainer.rollout).log_probabilities - trainer.rollout.log_probabilities).abs().max() < 1e-6
    assert policy.model.state_size == (4 if name == "Trace" else 0)
