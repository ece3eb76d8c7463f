"""The wheel holds every module and data file, and trains where there is no checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from paths import ROOT

FOLDERS = {
    "warpdrive": "warpdrive",
    "warpdrive/envs": "envs",
    "warpdrive/training": "training",
    "warpdrive/cuda_src": "cuda_src",
}
TINY_RUN = [
    "trainer.num_envs=20",
    "trainer.train_batch_size=500",
    "trainer.total_steps=1000",
    "trainer.evaluation.num_episodes=10",
    "env.episode_length=20",
]
NEEDED_TO_BUILD = ["setup.py", "pyproject.toml", "README.md", "LICENSE"]


def run(*command: object, **options: object) -> str:
    """Run ``command`` and return what it printed; fail with that output if it fails."""
    process = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert process.returncode == 0, f"{command}\n{process.stdout}\n{process.stderr}"
    return process.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    # Built from a copy: setuptools would take deleted modules along from an old build folder.
    source = tmp_path_factory.mktemp("source")
    for folder in FOLDERS.values():
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in NEEDED_TO_BUILD:
        shutil.copy(ROOT / name, source)
    output = tmp_path_factory.mktemp("wheel")
    pip_wheel = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", output)
    run(sys.executable, *pip_wheel, source)
    (path,) = output.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """An environment that holds the wheel and borrows the large dependencies; returns its folder of commands."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    commands = folder / ("Scripts" if os.name == "nt" else "bin")
    run(sys.executable, "-m", "pip", "--python", commands / "python", "install", "--no-deps", "--no-index", wheel)
    # A path in a .pth file is searched for modules, but the .pth files there (of an editable warpdrive) are not read.
    (site_packages,) = folder.rglob("site-packages")
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site_packages / "borrowed.pth").write_text("\n".join(borrowed))
    return commands


def test_the_wheel_holds_what_the_repository_holds(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    held = {name for name in names if ".dist-info/" not in name}
    expected = {
        f"{package}/{path.relative_to(ROOT / folder).as_posix()}"
        for package, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }
    assert held == expected
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_wheel_trains_away_from_the_checkout(installed, tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PYTHONSAFEPATH"] = "1"
    where = {"cwd": tmp_path, "env": environment}
    home = run(installed / "python", "-c", "import warpdrive; print(warpdrive.__file__)", **where)
    assert Path(home.strip()).is_relative_to(installed.parent)

    run(installed / "warpdrive", "train", "tag_gridworld", *TINY_RUN, "--no-replay", **where)

    (run_folder,) = (tmp_path / "runs" / "tag_gridworld").iterdir()
    assert (run_folder / "config.yaml").is_file()
    assert (run_folder / "summary.json").is_file()
    assert any((run_folder / "checkpoints").iterdir())
