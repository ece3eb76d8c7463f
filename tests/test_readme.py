"""The examples of the README and of some pages of docs/ run as they stand, and the links lead somewhere."""

from __future__ import annotations

import re

import pytest
from paths import ROOT

from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import Trainer, make_env

README = (ROOT / "README.md").read_text()


def run_example(text, folder, number=0):
    example = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[number]
    # Kernels are read from their source, so the example has to be a file.
    path = folder / "example.py"
    path.write_text(example)
    names = {"__name__": "example", "__file__": str(path)}
    exec(compile(example, path, "exec"), names)
    return names


def test_the_example_of_a_kernel_runs(tmp_path):
    names = run_example((ROOT / "docs" / "reference" / "kernels.md").read_text(), tmp_path)
    assert names["sums"].tolist() == [128] * 7 + [1000 - 7 * 128]


def test_the_example_runs(tmp_path):
    names = run_example(README, tmp_path)
    assert tuple(names["observations"].shape) == (1000, 3, 3)
    assert names["rewards"].any(), "in one of 1000 replicas a hunter has met the runner"


def test_the_example_of_a_trained_policy_runs(tmp_path, monkeypatch):
    config = load_config("cartpole", ["trainer.total_steps=2048", f"saving.folder={tmp_path / 'runs'}"])
    Trainer(make_env(config), config).train()
    monkeypatch.chdir(tmp_path)
    names = run_example(README, tmp_path, number=1)
    assert names["env"].observation_space.contains(names["observation"])


def test_the_examples_of_recording_and_replaying_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "environments" / "index.md").read_text()
    playing, recording = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = run_example(f"```python\n{playing}{recording}```", tmp_path)
    assert names["episode"].states["loc_x"].shape == (names["episode"].num_steps + 1, 2, 11)
    for name in ("tag.html", "tag.npz", "tag.gif"):
        assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_the_links_lead_somewhere(target):
    assert (ROOT / target).exists()
