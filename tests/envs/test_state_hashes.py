"""The environments compute the same bits on every backend over 10,000 steps, through many episodes."""

from __future__ import annotations

import pytest
from gpu_code import GpuCode
from state_hash import state_hash

import warpdrive as wd

REPLICAS, STEPS = 100, 10_000
TWINS = ("cartpole", "tag_continuous", "tag_gridworld")
MANY_AGENTS = {
    **dict.fromkeys(("tag_continuous", "tag_gridworld", "simple_tag", "simple_spread"), 500),
    **dict.fromkeys(("battle", "flock"), 200),
}
"""The numbers of steps of GPU code, which the host runs thread after thread."""
PARAMETERS = {
    "battle": {"agents_per_team": 20, "map_size": 15, "random_starts": True, "minimap": True},
    "flock": {"num_boids": 10, "num_neighbours": 3, "world_size": 6.0},
}
"""Parameters of environments, so that all of their functions run, with few agents."""


@pytest.mark.parametrize("name", TWINS)
def test_cuda_c(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPDRIVE_CUDA_ON_HOST", "1")
    env = wd.make(name)
    assert state_hash(env, "pycuda", REPLICAS, STEPS) == state_hash(env, "cpu", REPLICAS, STEPS)


@pytest.mark.parametrize("name", wd.registered_names())
def test_gpu_code(name: str) -> None:
    """Kernels become GPU code, which computes in float32 alone, and the same bits as the CPU's."""
    num_steps, backend = MANY_AGENTS.get(name, STEPS), GpuCode(linked=True)
    env = wd.make(name, **PARAMETERS.get(name, {}))
    assert state_hash(env, backend, REPLICAS, num_steps) == state_hash(env, "cpu", REPLICAS, num_steps)
    assert len(backend.compiled) == 2
    for kernel, code in backend.compiled.items():
        assert ".f64" not in code.ptx, f"{kernel} computes in float64"
        assert code.image[:4] == b"\x7fELF"
        assert code.resources is not None and 0 < code.resources.registers <= 255


def test_another_seed_has_another_hash() -> None:
    env = wd.make("cartpole")
    assert state_hash(env, "cpu", REPLICAS, 800, seed=1) != state_hash(env, "cpu", REPLICAS, 800, seed=2)
