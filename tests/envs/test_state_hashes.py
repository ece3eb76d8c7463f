"""The environments compute the same bits on every backend over 10,000 steps, through many episodes."""

from __future__ import annotations

from typing import Any

import pytest
from environment_parameters import CONFIGURATIONS, UNLIKE
from exhaustive import exhaustive
from gpu_code import GpuCode
from state_hash import state_hash

import warpdrive as wd

REPLICAS, STEPS = 100, 10_000
TWINS = ("cartpole", "tag_continuous", "tag_gridworld")
SEVERAL = {
    **dict.fromkeys([name for name in wd.registered_names() if name.startswith("simple_")], 200),
    **dict.fromkeys(("flock", "lbf", "matrix_game", "overcooked", "rware"), 500),
    **dict.fromkeys(("simple_spread", "simple_tag", "tag_continuous", "tag_gridworld"), 500),
    "battle": 200,
}
"""Numbers of steps of GPU code with several agents, which the host runs thread after thread, in 25 replicas."""
PARAMETERS = {name: configurations[0] for name, configurations in CONFIGURATIONS.items()}
LINKED = ("battle", "cartpole", "matrix_game", "overcooked")
"""Environments whose PTX is linked, too: few, as that takes as long as the compilation."""
MANY_AGENTS: dict[str, dict[str, Any]] = {
    "tag_continuous": {},  # 105
}
"""Parameters of environments with more agents than a warp has threads."""


@pytest.mark.parametrize("name", exhaustive(TWINS, ("cartpole",)))
def test_cuda_c(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``test_agreement.py`` compares fewer steps of all of them."""
    monkeypatch.setenv("WARPDRIVE_CUDA_ON_HOST", "1")
    env = wd.make(name, **PARAMETERS[name])
    assert state_hash(env, "pycuda", REPLICAS, STEPS) == state_hash(env, "cpu", REPLICAS, STEPS)


@pytest.mark.parametrize("name", exhaustive(UNLIKE, ("matrix_game",)))
def test_gpu_code(name: str) -> None:
    """Kernels become GPU code, which computes in float32 alone, and the same bits as the CPU's."""
    sizes = (25, SEVERAL[name]) if name in SEVERAL else (REPLICAS, STEPS)
    backend = GpuCode(linked=name in LINKED)
    env = wd.make(name, **MANY_AGENTS.get(name, PARAMETERS[name]))
    assert state_hash(env, backend, *sizes) == state_hash(env, "cpu", *sizes)
    assert len(backend.compiled) == 2
    for kernel, code in backend.compiled.items():
        assert ".f64" not in code.ptx, f"{kernel} computes in float64"
        if name in LINKED:
            assert code.image[:4] == b"\x7fELF"
            assert code.resources is not None and 0 < code.resources.registers <= 255


def test_another_seed_has_another_hash() -> None:
    env = wd.make("cartpole", **PARAMETERS["cartpole"])
    assert state_hash(env, "cpu", REPLICAS, 800, seed=1) != state_hash(env, "cpu", REPLICAS, 800, seed=2)
