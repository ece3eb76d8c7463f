"""Checks compare the backends that the machine can run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.backends.pycuda import ON_HOST_VARIABLE, PyCudaBackend
from warpdrive.checks.agreement import allowed_actions
from warpdrive.checks.backends import comparable_backends
from warpdrive.checks.complete import check_environment
from warpdrive.spaces import action_arrays
from warpdrive.training.cli.main import main


@wd.kernel
def count_plain(count, rewards, actions):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    count[env, agent] += 1
    rewards[env, agent] = actions[env, agent]


@wd.kernel
def draw(count, rng, rewards, actions):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    count[env, agent] = wd.random.integer(rng, env, agent, 40)
    rewards[env, agent] = actions[env, agent]


@wd.kernel
def tell(count, observations):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = count[env, agent]


class Counters(wd.Environment):
    """Agents count their steps."""

    name = "counters"
    step, observe = count_plain, tell
    twins = {  # noqa: RUF012
        name: wd.cuda_kernel("../twins/differing.cu", name) for name in ("count_plain", "count_double", "tell", "draw")
    }

    def __init__(self, double: bool = False, cuda_only: bool = False) -> None:
        self.num_agents, self.episode_length = 3, 20
        self.policy_tags = {"all": range(3)}
        self.observation_space = spaces.Box(0, 50, (1,), np.float32)
        self.action_space = spaces.Discrete(4)
        self.cuda_twins = self.twins | {"count_plain": self.twins["count_double" if double else "count_plain"]}  # type: ignore[misc]
        if cuda_only:
            self.step, self.observe = self.cuda_twins["count_plain"], self.cuda_twins["tell"]

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"count": np.zeros(3, np.int32)}


def test_all_that_run_an_environment_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Includes CUDA C on the host, which is not requested."""
    monkeypatch.delenv(ON_HOST_VARIABLE, raising=False)
    names = [backend.name for backend in comparable_backends(Counters())]
    assert names[0] == "cpu" and names[-2:] == ["pycuda", "interpreter"]
    assert [backend.name for backend in comparable_backends(Counters(cuda_only=True))] == ["pycuda"]
    assert "pycuda" not in [backend.name for backend in comparable_backends(wd.make("pendulum"))]


def test_what_differs_is_told_with_values() -> None:
    report = check_environment(Counters(double=True), steps=10, kernel_steps=2)
    (finding,) = report.backends
    assert [*report] == [finding]
    assert finding.array == "count" and "count[0] is" in finding.message
    assert "on 'cpu' and on 'pycuda'; so differ" in finding.message and "observations" in finding.message
    wd.testing.check_environment(Counters(double=True), steps=10, kernel_steps=2, backends=["cpu"])


class Gamblers(Counters):
    """Agents whose two versions draw differently often."""

    name = "gamblers"
    step = draw

    def __init__(self) -> None:
        super().__init__()
        self.cuda_twins = self.twins


def test_other_random_numbers_are_told_before_what_follows_from_them() -> None:
    (finding,) = check_environment(Gamblers(), backends=["cpu", PyCudaBackend(on_host=True)]).backends
    assert finding.array == "rng" and re.search(r"rng\[\d, 3\] is 1 and 2, on 'cpu' and on 'pycuda'", finding.message)
    assert "count" in finding.message and "draws more random numbers than the other" in finding.advice
    assert [Path(line.rpartition(":")[0]).suffix for line in finding.lines] == [".py", ".cu"]


def test_the_command_line_compares_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{__file__}:Counters", "--steps", "2"]) == 0
    assert "compared backends (cpu, pycuda, interpreter)." in " ".join(capsys.readouterr().out.split())
    assert main(["check", f"{__file__}:Counters", "--steps", "2", "double=true"]) == 1
    assert "on 'cpu' and on 'pycuda'" in " ".join(capsys.readouterr().out.split())


def test_cuda_c_alone_is_played_and_not_run_access_by_access(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{__file__}:Counters", "cuda_only=true"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "counters: clean. Ran 50 steps" in printed and "replicas with" not in printed
    assert "note: its kernels are CUDA C: they were not interpreted" in printed


@wd.kernel
def obey(actions, action_mask, rewards, ruled):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if not action_mask[env, agent, actions[env, agent]]:
        ruled[env, agent] = 1
    rewards[env, agent] = 0


@wd.kernel
def rule(actions, action_mask, observations, ruled):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = ruled[env, agent]
    for choice in range(4):
        action_mask[env, agent, choice] = choice != actions[env, agent]


class Obedient(Counters):
    """Notes whether an agent ever does what it may not: the same twice."""

    name = "obedient"
    step, observe = obey, rule

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"ruled": np.zeros(3, np.int32)}


def test_masked_actions_are_not_taken() -> None:
    environment = Obedient()
    environment.observation_space = spaces.Box(0, 0, (1,), np.float32)  # 1 would be outside of it
    wd.testing.check_environment(environment, steps=20, kernel_steps=4)
    rng = np.random.default_rng(0)
    masks = rng.random((50, 3, 4)) < 0.5
    masks[..., 2] |= ~masks.any(axis=2)
    chosen = allowed_actions(action_arrays(environment)[0], masks, rng)
    assert np.take_along_axis(masks, chosen[..., None], axis=2).all()
    assert set(chosen.ravel()) == {0, 1, 2, 3}
