"""The programs of examples/ train cartpole, in small: a random policy has a mean return of about 22."""

from __future__ import annotations

import runpy

import pytest
from paths import ROOT


def train(name: str, *arguments: int) -> object:
    return runpy.run_path(str(ROOT / "examples" / f"{name}_ppo.py"))["train"](*arguments)


def test_cleanrl() -> None:
    means = train("cleanrl", 40_000)
    assert means[0] < 30 < means[-1]


@pytest.mark.exhaustive  # the interface to each has tests of its own
@pytest.mark.parametrize("name", ["stable_baselines3", "rsl_rl", "skrl", "torchrl"])
def test_libraries(name: str) -> None:
    pytest.importorskip(name)
    steps = {"stable_baselines3": 20_000, "rsl_rl": 40_000, "skrl": 40_000, "torchrl": 60_000}[name]
    assert train(name, steps) > 40


@pytest.mark.exhaustive
def test_benchmarl() -> None:
    pytest.importorskip("benchmarl", exc_type=ImportError)
    path = ROOT / "examples" / "benchmarl_mappo.py"
    assert -40 < runpy.run_path(str(path))["train"](12_000) < -15  # -27 at random
