"""The examples of docs/guides/authoring.md print the output shown below them, and train."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from paths import ROOT

from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import Trainer, make_env

PAGE = (ROOT / "docs" / "guides" / "authoring.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
NAMES = [re.findall(r"class (\w+)", code)[0] for code, _ in EXAMPLES]


@pytest.mark.parametrize(("code", "printed"), EXAMPLES, ids=NAMES)
def test_an_example_prints_what_the_page_says(
    code: str, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "game.py"
    path.write_text(code)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(("code", "name"), [(code, name) for (code, _), name in zip(EXAMPLES, NAMES, strict=True)])
def test_an_example_trains(code: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "game.py"
    path.write_text(code)
    tags = {"Carriers": ["carrier"], "Sheepdog": ["dog", "sheep"]}[name]
    config = load_config(
        {
            "env": {"name": f"{path}:{name}"},
            "trainer": {"num_envs": 50, "train_batch_size": 1000, "total_steps": 2000, "env_backend": "cpu"},
            "policy": {tag: {"algorithm": "ppo", "model": {"hidden": [16]}} for tag in tags},
        }
    )
    trainer = Trainer(make_env(config), config)
    for _ in range(2):
        trainer.collect()
        assert all(loss.isfinite() for loss in trainer.update().values())
    assert trainer.evaluate(num_episodes=60).episodes == 60  # in other replicas than before


def test_the_links_of_the_page_lead_to_its_sections() -> None:
    sections = {
        re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in re.findall(r"^## (.*)$", PAGE, re.M)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) == sections
