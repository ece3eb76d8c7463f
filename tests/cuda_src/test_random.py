"""Random numbers and functions of the CUDA C library, on the host: published vectors, and the CPU backend's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from float32_errors import sample
from numba import cuda

import warpdrive as wd
from warpdrive.backends.pycuda import PyCudaBackend
from warpdrive.backends.pycuda.nvrtc import compile_fused
from warpdrive.kernels.fusion import Call, Fusion
from warpdrive.random import initial_rng

DRAWS = Path(__file__).parent / "draws.cu"

# philox4x32-10 in kat_vectors of the Random123 library (Salmon et al., SC 2011): counter, key, result
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@wd.kernel
def draw_all(rng, stream, floats, integers, of_replica, n):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for k in range(floats.shape[2]):
        floats[env, agent, k, 0] = wd.random.uniform(rng, env, agent)
        floats[env, agent, k, 1] = wd.random.normal(rng, env, agent)
        a, b, c, d = wd.random.four_uniforms(rng, env, agent)
        floats[env, agent, k, 2], floats[env, agent, k, 3] = a, b
        floats[env, agent, k, 4], floats[env, agent, k, 5] = c, d
        integers[env, agent, k] = wd.random.integer(rng, env, agent, n)
        if agent == 0:
            of_replica[env, k] = wd.random.replica_integer(stream, env, n)


@wd.kernel
def sines(x, out):
    i = cuda.blockIdx.x
    out[i, 0] = out[i, 2] = wd.math.sin(x[i])
    out[i, 1] = out[i, 3] = wd.math.cos(x[i])
    out[i, 4] = wd.math.tan(x[i])


@pytest.fixture
def run_draws(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a function that runs a function of draws.cu on the host, with arrays and numbers by name."""
    monkeypatch.setenv("WARPDRIVE_CUDA_ON_HOST", "1")

    def run(name: str, replicas: int, agents: int, **values: Any) -> None:
        kernel = wd.cuda_kernel(DRAWS, name)
        arguments = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in values.items()}
        fusion = Fusion(name, kernel.parameters, (Call(kernel, kernel.parameters),))
        assert ".f64" not in compile_fused(fusion, arguments, replicas, agents, (9, 0))[0].ptx
        PyCudaBackend().bind(fusion, arguments, replicas, agents)()

    return run


def test_philox_gives_the_published_answers(run_draws: Any) -> None:
    counters, keys, expected = (
        np.array([[int(word, 16) for word in answer[part].split()] for answer in KNOWN_ANSWERS], np.uint32)
        for part in range(3)
    )
    words = np.zeros_like(expected)
    run_draws("philox", len(KNOWN_ANSWERS), 1, counters=counters, keys=keys, words=words)
    np.testing.assert_array_equal(words, expected)


def test_draws_have_the_bits_of_the_cpu_backend(run_draws: Any) -> None:
    envs, agents, count, seed = 50, 7, 100, (7 << 32) + 11

    def arrays() -> dict[str, Any]:
        return {
            "rng": initial_rng(seed, 5, envs, agents),
            "stream": initial_rng(seed, 5, envs, 1)[:, 0].copy(),
            "floats": np.zeros((envs, agents, count, 6), np.float32),
            "integers": np.zeros((envs, agents, count), np.int32),
            "of_replica": np.zeros((envs, count), np.int32),
            "n": np.int32(1000),
        }

    found, expected = arrays(), arrays()
    run_draws("draw_all", envs, agents, **found)
    draw_all[envs, agents](*expected.values())
    for name, value in expected.items():
        assert np.asarray(found[name]).tobytes() == np.asarray(value).tobytes(), name
    assert len(np.unique(found["floats"])) > 0.9 * found["floats"].size  # they were drawn, and are not all the same


def test_sine_and_cosine(run_draws: Any) -> None:
    """``sinf`` and the like are those of ``wd.math``."""
    x = sample(np.random.default_rng(0))
    found, expected = np.zeros((len(x), 5), np.float32), np.zeros((len(x), 5), np.float32)
    run_draws("sines", len(x), 1, x=x, out=found)
    sines[len(x), 1](x, expected)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("replicas", [1, 3, 4])  # as many as agents, and as another axis has elements
def test_indices_of_any_rank(run_draws: Any, replicas: int) -> None:
    out = np.zeros((replicas, 3, 4, 2), np.int64)
    run_draws("places", replicas, 3, out=out)
    env, agent, i, j = np.indices(out.shape)
    expected = 1000 * env + 100 * agent + 10 * i + j
    expected[..., 0] = -1
    np.testing.assert_array_equal(out, expected)
