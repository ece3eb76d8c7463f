"""Comparisons of backends find differences that were put there, and only count decisions that fall within rounding."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.backends.cpu import CpuBackend
from warpdrive.checks.agreement import Agreement, Setting, compare
from warpdrive.environment import Environment
from warpdrive.kernels.fusion import Fusion


@wd.kernel
def climb(level, height, actions, rewards, terminated, rng):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    level[env, agent] += actions[env, agent] - 1
    height[env, agent] += np.float32(0.25) * wd.random.uniform(rng, env, agent)
    cuda.syncthreads()
    rewards[env, agent] = height[env, agent] - height[env, 1 - agent]
    if agent == 0 and level[env, 0] + level[env, 1] > 3:
        terminated[env] = True


CLIMB = """
WD_KERNEL void climb(int *level, float *height, const int *actions, float *rewards, bool *terminated,
                     unsigned int *rng) {
    const int env = wd_env(), agent = wd_agent();
    level[wd_index(level, env, agent)] += actions[wd_index(actions, env, agent)] - 1;
    height[wd_index(height, env, agent)] += 0.25f * wd_uniform(rng, env, agent);
    wd_barrier();
    rewards[wd_index(rewards, env, agent)] =
        height[wd_index(height, env, agent)] - height[wd_index(height, env, 1 - agent)];
    if (agent == 0 && level[wd_index(level, env, 0)] + level[wd_index(level, env, 1)] > 3) terminated[env] = true;
}
"""


class Climbers(wd.Environment):
    name = "climbers"
    step = climb
    num_agents, episode_length = 2, 13

    def __init__(self) -> None:
        self.policy_tags = {"all": [0, 1]}
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(3)

    def initial_state(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"level": np.zeros(2, np.int32), "height": rng.random(2, dtype=np.float32)}


@pytest.mark.parametrize(
    ("found", "planted", "differs"),
    [
        ("", "", ""),
        ("agent)] - 1;", "agent)] - 1 + (agent == 1 && env == 5);", "level"),
        *exhaustive(
            [
                ("0.25f", "0.2502f", "height"),
                ("wd_uniform(rng, env, agent)", "wd_four_uniforms(rng, env, agent).y", "height"),
                ("wd_uniform(rng, env, agent)", "(wd_uniform(rng, env, agent), wd_uniform(rng, env, agent))", "rng"),
                ("> 3", ">= 3", "terminated"),
                ("1 - agent)];", "agent)];", "rewards"),
            ],
            (),
        ),
    ],
)
def test_mistakes_of_a_twin(tmp_path: Path, found: str, planted: str, differs: str) -> None:
    assert found in CLIMB
    file = tmp_path / "climb.cu"
    file.write_text(CLIMB.replace(found, planted) if found else CLIMB)

    def make() -> Environment:
        environment = Climbers()
        environment.cuda_twins = {"climb": wd.cuda_kernel(file, "climb")}
        return environment

    result = compare(make, Setting("cpu", 30), Setting("pycuda", 30), 1e-5, 30, sampled=False, same_states=True, seed=2)
    assert result.episodes > 30 and not result.doubtful
    assert bool(result.wrong) == bool(differs)
    assert differs in " ".join(map(str, result.wrong))


class Meddler(CpuBackend):
    """Changes an element of an array after some launches, as a mistake in the library's own kernels would."""

    def __init__(self, array: str, change: Callable[[torch.Tensor], None]) -> None:
        super().__init__()
        self.array, self.change = array, change

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        launch = super().bind(fusion, arguments, blocks, threads)
        launches = itertools.count()

        def meddle() -> None:
            launch()
            if next(launches) == 20 and self.array in arguments:
                self.change(arguments[self.array])

        return meddle


def add_one(array: torch.Tensor) -> None:
    array.view(torch.int32).add_(1)


def invert(array: torch.Tensor) -> None:
    array.logical_not_()


def nudge(array: torch.Tensor) -> None:
    array += 1e-3


@pytest.mark.parametrize(
    ("array", "change", "differs"),
    [
        ("sampler__rng", add_one, "sampler.rng"),
        ("rng", add_one, "rng"),
        ("reset__stream", add_one, "reset.stream"),
        ("episode__episodes", add_one, "episode.episodes"),
        ("terminated", invert, "terminated"),
        ("height", nudge, "height"),
        ("episode__running_return", nudge, "episode.running_return"),
        ("rollout__rewards", nudge, "recorded.rewards"),
        ("rollout__actions__rows", add_one, "recorded.actions"),
        ("rollout__log_probabilities", nudge, "recorded.log_probabilities"),
    ],
)
def test_mistakes_of_the_library(array: str, change: Callable[[torch.Tensor], None], differs: str) -> None:
    backend = Meddler(array, change)
    result = compare(Climbers, Setting("cpu", 9), Setting(backend, 9), 1e-5, 30, sampled=True, same_states=True)
    assert len(result.wrong) == 9 and not result.doubtful
    assert all(differs in str(wrong) for wrong in result.wrong)


def poles(*, largest_angle: float, tolerance: float) -> Agreement:
    """Compare a pole that falls with one that falls at another angle."""
    angles = iter([0.2, largest_angle, 0.2])

    def make() -> Environment:
        return wd.make("cartpole", largest_angle=next(angles))

    settings = Setting("cpu", 300), Setting("cpu", 300)
    return compare(make, *settings, tolerance, 60, sampled=False, same_states=True)


def test_decisions_within_rounding_are_counted_and_others_are_mistakes() -> None:
    """Of 300 poles that fall at 0.02 in a step, one or more come within 1e-3 of the angle where they have fallen."""
    within = poles(largest_angle=0.2002, tolerance=1e-3)
    assert within.doubtful and not within.wrong
    assert "terminated" in within.doubtful[0].arrays
    beyond = poles(largest_angle=0.2002, tolerance=1e-6)
    assert beyond.wrong and not beyond.doubtful
    assert len(beyond.wrong) == len(within.doubtful)


def test_an_error_that_grows_is_found_in_episodes() -> None:
    """Each step is within the tolerance, the episode is not."""
    gravities = itertools.cycle([9.8, 9.8003])

    def make() -> Environment:
        return wd.make("cartpole", gravity=next(gravities))

    settings = Setting("cpu", 20), Setting("cpu", 20)
    assert not compare(make, *settings, 1e-4, 15, sampled=False, same_states=True).wrong
    assert compare(make, *settings, 1e-7, 15, sampled=False, same_states=True).wrong
    assert compare(make, *settings, 1e-5, 15, sampled=False, same_states=False).wrong
