"""The CUDA C twins of environments do what their Python kernels do, and compile for GPUs without float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import warpdrive as wd
from warpdrive.backends.pycuda import PyCudaBackend
from warpdrive.backends.pycuda.nvrtc import compile_fused
from warpdrive.checks.agreement import Setting, compare
from warpdrive.kernels.fusion import Fusion

TAG = {"num_taggers": 2, "num_runners": 5, "grid_length": 3.0, "tagging_distance": 0.1}

# beside those of test_agreement.py: penalties, roles and sizes that take other ways through the code
CONFIGURATIONS = [
    ("tag_gridworld", {"num_taggers": 1, "grid_length": 3, "random_starts": True, "wall_hit_penalty": 0.7}),
    ("tag_gridworld", {"num_taggers": 40, "grid_length": 9, "use_full_observation": False, "random_starts": True}),
    ("tag_continuous", {**TAG, "runner_exits_game_after_tagged": False, "edge_hit_penalty": -0.5}),
    ("tag_continuous", {**TAG, "max_turn": 2.5, "min_turn": -7.0, "skill_level_tagger": 2.0, "seed": 4}),
    ("tag_continuous", {"num_runners": 2, "use_full_observation": False, "num_other_agents_observed": 6}),
    ("cartpole", {"pole_mass": 0.3, "start_range": 0.15, "time_step": 0.05, "see_velocities": False}),
]


def environment(name: str, config: Mapping[str, Any]) -> wd.Environment:
    return wd.make(name, **{"episode_length": 20, **config})


@pytest.mark.parametrize(("name", "config"), CONFIGURATIONS)
def test_twins_agree_with_python(name: str, config: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Over whole episodes with resets from a pool and sampled actions; each side goes its own way."""
    monkeypatch.setenv("WARPDRIVE_CUDA_ON_HOST", "1")
    settings = Setting("cpu", 60), Setting("pycuda", 60)
    found = compare(partial(environment, name, config), *settings, 0.0, 45, sampled=True, same_states=False)
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
        ("tag_gridworld", {"num_taggers": 40, "use_full_observation": False}),
        ("tag_continuous", {"num_taggers": 5, "num_runners": 105}),
        ("tag_continuous", {"num_runners": 20, "use_full_observation": False, "num_other_agents_observed": 5}),
        ("cartpole", {}),
    ],
)
def test_twins_compile_for_gpus_without_float64(name: str, config: Mapping[str, Any]) -> None:
    backend = Compiler()
    env = wd.EnvWrapper(environment(name, config), 100, backend)
    env.step(np.zeros(env.ctx["actions"].shape, np.int32))
    env.allocate_rollout(3)
    assert {kernel: len(codes) for kernel, codes in backend.compiled.items()} == {f"{name}_reset": 2, f"{name}_step": 4}
    for code in (code for codes in backend.compiled.values() for code in codes):
        assert ".f64" not in code.ptx
        # a few spilled numbers; the lists of the nearest agents are longer, and live in registers
        assert code.resources.local_bytes <= 32
        assert code.resources.registers <= 64
