"""``warpdrive init``: the written files run unchanged."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
import warnings

import pytest

from warpdrive.training.cli.main import main

FILES = ["ant_hill.py", "ant_hill.yaml", "run_config.schema.json", "test_ant_hill.py"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("init")
    before = os.getcwd()
    os.chdir(folder)
    try:
        assert main(["init", "ant_hill"]) == 0
    finally:
        os.chdir(before)
    return folder / "ant_hill"


def test_four_files_in_a_folder_of_its_name(written):
    assert sorted(path.name for path in written.iterdir()) == FILES
    assert "class AntHill(wd.Environment)" in (written / "ant_hill.py").read_text()
    for path in written.iterdir():
        assert "my_env" not in path.read_text() and "MyEnv" not in path.read_text()


def test_its_tests_pass(written):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    result = subprocess.run(command, cwd=written, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
    assert "3 passed" in result.stdout


def test_it_is_checked_and_trained_as_the_command_says(written, monkeypatch, capsys):
    monkeypatch.chdir(written)
    assert main(["check", "ant_hill.py:AntHill", "--steps", "2"]) == 0
    assert "ant_hill: clean" in capsys.readouterr().out
    few = ["trainer.total_steps=2000", "trainer.evaluation.num_episodes=2", "env.episode_length=10"]
    assert main(["train", "ant_hill.yaml", *few]) == 0
    assert list(written.glob("runs/ant_hill/*/replay.gif"))


def test_names_outside_of_the_encoding_are_escaped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)  # which the command changes
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(sys, "argv", ["warpdrive", "init", "\u732b"])
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    assert main() == 0
    assert sys.stdout.buffer.getvalue().startswith(rb"\u732b/ contains a small")


@pytest.mark.parametrize(
    ("name", "hint"), [("Ant-Hill", "ant_hill"), ("2048", ""), ("class", ""), ("ant hill", "ant_hill")]
)
def test_names_that_cannot_be_are_refused(name, hint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", name]) == 2
    told = capsys.readouterr().err
    assert f"'{name}' is not a valid name of an environment" in told and hint in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["numpy", "random", "pytest", "__main__"])
def test_names_of_modules_are_refused(name, tmp_path, monkeypatch, capsys):
    """Its tests would import the file in place of what everything else needs."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", name]) == 2
    told = capsys.readouterr().err
    assert f"'{name}' is the name of an installed Python module" in told and f"Did you mean 'my_{name}'?" in told
    assert not list(tmp_path.iterdir())


def test_what_is_there_already_is_left_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ant_hill").mkdir()
    assert main(["init", "ant_hill"]) == 2
    assert "ant_hill: already exists" in capsys.readouterr().err
    assert not list((tmp_path / "ant_hill").iterdir())
