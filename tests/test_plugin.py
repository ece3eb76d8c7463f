"""Entry points: an environment of an installed third-party package is available by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}-games"
version = "1.0"

[project.entry-points."warpdrive.environments"]
{name} = "{name}_games.{name}:Burrow"

[tool.setuptools]
packages = ["{name}_games"]
package-data = {{ {name}_games = ["*.yaml"] }}
"""

MODULE = '''
import numpy as np
import warpdrive as wd
from gymnasium import spaces
from numba import cuda


@wd.kernel
def step(depth, actions, rewards):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    depth[env, agent] = max(depth[env, agent] + actions[env, agent] - 1, 0)
    rewards[env, agent] = depth[env, agent] == 2


@wd.kernel
def observe(depth, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = depth[env, agent]


class Burrow(wd.Environment):
    """Moles dig to the depth where it is warm."""

    name = "burrow"
    step, observe = step, observe

    def __init__(self, num_moles: int = 2, episode_length: int = 10) -> None:
        self.num_agents, self.episode_length = num_moles, episode_length
        self.policy_tags = {"mole": range(num_moles)}
        self.observation_space = spaces.Box(0, np.inf, (1,), np.float32)
        self.action_space = spaces.Discrete(3)

    def initial_state(self, rng):
        return {"depth": np.zeros(self.num_agents, np.int32)}
'''

RUN = """
name: burrow
env: {name: burrow, num_moles: 3}
trainer: {num_envs: 20, train_batch_size: 500, total_steps: 1000, evaluation: {num_episodes: 10}}
policy: {mole: {algorithm: ppo, model: {hidden: [8]}}}
saving: {tensorboard: false}
"""

PROGRAM = """
import contextlib, io, json
import warpdrive as wd
from warpdrive.training.cli.main import main

def told(*arguments):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = main(list(arguments))
    return [code, out.getvalue()]

found = {command: told(*command.split()) for command in (
    "envs", "envs burrow", "check burrow num_moles=3 --steps 2", "train burrow", "train burrow.yaml trainer.seed=1"
)}
env = wd.EnvWrapper(env_name="burrow", env_config={"num_moles": 3}, num_envs=20)
print(json.dumps([found, list(env.reset().shape)]))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package is installed into, without a network."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    package = source / "burrow_games"
    package.mkdir()
    (source / "pyproject.toml").write_text(PYPROJECT.format(name="burrow"))
    (package / "__init__.py").touch()
    (package / "burrow.py").write_text(MODULE)
    (package / "burrow.yaml").write_text(RUN)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    done = subprocess.run([*pip, "--target", target, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def test_every_command_and_the_library_find_it_by_name(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "burrow.yaml").write_text(RUN)  # as a user writes one
    path = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found, shape = json.loads(done.stdout.splitlines()[-1])
    assert {command: code for command, (code, _) in found.items() if code} == {}
    printed = {command: " ".join(text.split()) for command, (_, text) in found.items()}
    assert "burrow Moles dig to the depth where it is warm." in printed["envs"]
    assert "burrow_games.burrow:Burrow" in printed["envs burrow"] and "num_moles 2" in printed["envs burrow"]
    assert "burrow: clean." in printed["check burrow num_moles=3 --steps 2"]
    assert shape == [20, 3, 1]
    runs = sorted((tmp_path / "runs" / "burrow").glob("*/summary.json"))
    assert len(runs) == 2
