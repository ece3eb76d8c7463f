"""The CUDA C twins of environments do what their Python kernels do, and compile for GPUs without float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch

import warpdrive as wd
from warpdrive.backends.pycuda import PyCudaBackend
from warpdrive.backends.pycuda.nvrtc import compile_fused
from warpdrive.checks.agreement import Setting, compare
from warpdrive.kernels.fusion import Fusion


def environment(name: str, config: Mapping[str, Any]) -> wd.Environment:
    return wd.make(name, **{"episode_length": 20, **config})


@pytest.mark.exhaustive
def test_agents_that_observe_more_places_than_there_are_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over whole episodes with resets from a pool; `test_tag_continuous.py` has as many agents, places and steps."""
    monkeypatch.setenv("WARPDRIVE_CUDA_ON_HOST", "1")
    config = {"num_runners": 3, "use_full_observation": False, "num_other_agents_observed": 6}
    settings = Setting("cpu", 60), Setting("pycuda", 60)
    make = partial(environment, "tag_continuous", config)
    found = compare(make, *settings, 0.0, 45, sampled=False, same_states=False)
    assert not found.wrong
    assert found.episodes >= 60


class Compiler(PyCudaBackend):
    """Compiles fused kernels for GPUs and runs none."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.compiled: dict[str, list[Any]] = {}

    def bind(self, fusion: Fusion, arguments: Mapping[str, Any], blocks: int, threads: int) -> Callable[[], None]:
        for capability in ((8, 0), (9, 0)):
            code, _ = compile_fused(fusion, arguments, blocks, threads, capability)
            self.compiled.setdefault(fusion.name, []).append(code)
        return lambda: None


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("tag_gridworld", {}),
        pytest.param("tag_gridworld", {"num_taggers": 40, "use_full_observation": False}, marks=pytest.mark.exhaustive),
        pytest.param("tag_continuous", {"num_taggers": 5, "num_runners": 105}, marks=pytest.mark.exhaustive),
        ("tag_continuous", {"num_runners": 20, "use_full_observation": False, "num_other_agents_observed": 5}),
        ("cartpole", {}),
        pytest.param("flock", {"num_boids": 100}, marks=pytest.mark.exhaustive),
    ],
)
def test_twins_compile_for_gpus_without_float64(name: str, config: Mapping[str, Any]) -> None:
    backend = Compiler()
    env = wd.EnvWrapper(environment(name, config), 100, backend)
    env.step(env.ctx["actions"])
    env.allocate_rollout(3)
    assert {kernel: len(codes) for kernel, codes in backend.compiled.items()} == {f"{name}_reset": 2, f"{name}_step": 4}
    for code in (code for codes in backend.compiled.values() for code in codes):
        assert ".f64" not in code.ptx
        # a few spilled numbers; the lists of the nearest agents are longer, and live in registers
        assert code.resources.local_bytes <= 32
        assert code.resources.registers <= 64
