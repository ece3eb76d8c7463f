"""Kernels compiled to WebAssembly compute what those of the CPU backend compute, bit for bit."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from numba import cuda

import warpdrive as wd
from warpdrive.backends.interface import Backend
from warpdrive.backends.loading import load_backend, portable_compiler
from warpdrive.backends.wasm.functions import replaced
from warpdrive.kernels.errors import KernelError
from warpdrive.kernels.fusion import Fusion

REPLICAS = 5


@wd.device_function
def neighbour(values, env, agent, count):
    return values[env, (agent + 1) % count]


@wd.kernel
def shared_and_atomic(values, totals, counts, num_agents):
    """Barriers, shared memory, local arrays, atomics, integers of 64 bits, and float64."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    board = cuda.shared.array(8, np.float32)
    own = cuda.local.array(4, np.int64)
    board[agent] = values[env, agent] * np.float32(1.5)
    cuda.syncthreads()
    total = 0.0
    for other in range(num_agents):
        total += board[other] / (1.0 + other)
        own[other % 4] = np.int64(board[other] * 1000.0) << (other % 40)
    cuda.syncthreads()
    values[env, agent] = neighbour(values, env, agent, num_agents) % np.float32(0.7)
    cuda.atomic.add(totals, env, np.float32(total))
    cuda.atomic.max(counts, (env, agent % 2), own[agent % 4] // 3)
    if cuda.syncthreads_count(values[env, agent] > np.float32(0.3)) > 2:
        cuda.atomic.add(counts, (env, 0), 1)


@wd.kernel
def extremes(values, others, found):
    """Minima and maxima with NaN, and of zeros with different signs."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, y = values[env, agent], others[env, agent]
    found[env, agent, 0] = max(x, y)
    found[env, agent, 1] = min(x, y)
    found[env, agent, 2] = max(x, np.float32(0))
    found[env, agent, 3] = min(np.float32(0), x)
    found[env, agent, 4] = min(x, np.float32(env - agent))
    found[env, agent, 5] = max(np.float32(agent - env), x)
    found[env, agent, 6] = min(max(x, -y), y)
    found[env, agent, 7] = max(min(np.float32(0), x), max(y, np.float32(0)))


@wd.kernel
def with_functions_of_math(values, found):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x = values[env, agent]
    found[env, agent, 0] = wd.math.sin(x) + wd.math.atan2(x, np.float32(0.7))
    found[env, agent, 1] = math.sin(x) + math.atan2(x, np.float32(0.7))


@wd.kernel
def with_sine(values):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    values[env, agent] = math.sin(values[env, agent] * 0.5)


@wd.kernel
def with_assertion(values):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    assert values[env, agent] < 5.0, "values are below 5"
    values[env, agent] += np.float32(1)


@wd.kernel
def waits_for_another(values, flags):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent == 0:
        while cuda.atomic.add(flags, env, 0) == 0:
            pass
    else:
        cuda.atomic.add(flags, env, 1)
    values[env, agent] = np.float32(1)


def launch(backend: Backend, kernel: Any, arguments: dict[str, Any]) -> Callable[[], None]:
    return backend.bind(Fusion.of(kernel), arguments, REPLICAS, 6)


def values() -> torch.Tensor:
    return torch.rand(REPLICAS, 6, generator=torch.Generator().manual_seed(1))


def test_barriers_shared_memory_and_atomics(wasm: Backend) -> None:
    results = []
    for backend in (load_backend("cpu"), wasm):
        arguments = {
            "values": values(),
            "totals": torch.zeros(REPLICAS),
            "counts": torch.zeros(REPLICAS, 2, dtype=torch.int64),
        }
        run = launch(backend, shared_and_atomic, arguments | {"num_agents": np.int32(6)})
        for _ in range(20):
            run()
        results.append([array.numpy().tobytes() for array in arguments.values()])
    assert results[0] == results[1]
    assert results[0][2] != bytes(len(results[0][2]))


def test_extremes_have_the_same_signs_and_leave_out_nan(wasm: Backend) -> None:
    numbers = torch.tensor([0.0, -0.0, 1.0, -1.0, math.nan, math.inf])
    results = []
    for backend in (load_backend("cpu"), wasm):
        found = torch.zeros(REPLICAS, 6, 8)
        others = torch.stack([numbers.roll(shift) for shift in range(REPLICAS)])
        launch(backend, extremes, {"values": numbers.repeat(REPLICAS, 1), "others": others, "found": found})()
        results.append(found)
    assert results[0].numpy().tobytes() == results[1].numpy().tobytes()
    assert results[1][..., :2].isnan().sum() == 2  # those of two NaN


def test_functions_of_math_are_those_of_wd_math(wasm: Backend) -> None:
    found = torch.zeros(REPLICAS, 6, 2)
    arguments = {"values": values(), "found": found}
    launch(wasm, with_functions_of_math, arguments)()
    assert found[..., 0].numpy().tobytes() == found[..., 1].numpy().tobytes() != bytes(found[..., 0].nbytes)
    code = portable_compiler().portable(Fusion.of(with_functions_of_math), arguments, REPLICAS, 6)
    line = inspect.getsourcelines(with_functions_of_math)[1] + 5
    assert replaced(code) == {name: f"{__file__}:{line}" for name in ("sin", "atan2")}


def test_what_it_lacks_is_refused_with_file_and_line(wasm: Backend) -> None:
    with pytest.raises(
        KernelError, match=r"test_wasm\.py:\d+: sin: WebAssembly has no such function of this type: use .* wd\.math"
    ):
        launch(wasm, with_sine, {"values": values()})
    with pytest.raises(KernelError, match=r"test_wasm\.py:\d+.*: threads wait for each other"):
        launch(wasm, waits_for_another, {"values": values(), "flags": torch.zeros(REPLICAS, dtype=torch.int32)})


def test_a_failed_assertion_ends_the_launch(wasm: Backend) -> None:
    given = values()
    run = launch(wasm, with_assertion, {"values": given})
    for _ in range(4):
        run()
    with pytest.raises(KernelError, match=r"test_wasm\.py:\d+: the assertion failed: values are below 5"):
        for _ in range(3):
            run()


@pytest.mark.parametrize(("name", "steps"), exhaustive([("cartpole", 600), ("tag_gridworld", 300)], ("cartpole",)))
def test_environments_are_those_of_the_cpu(wasm: Backend, name: str, steps: int) -> None:
    """Drawn actions, resets and final observations included; all arrays are compared after each step."""
    envs = [
        wd.EnvWrapper(name, num_envs=REPLICAS, seed=3, env_backend=backend, reset_pool_size=3)
        for backend in ("cpu", wasm)
    ]
    for step in range(steps):
        for env in envs:
            env.step()
        native, portable = (env.ctx for env in envs)
        different = [n for n in native if native[n].numpy().tobytes() != portable[n].numpy().tobytes()]
        assert different == [], f"step {step}"
    assert int(envs[0].episode_statistics()["episodes"]) > 0
