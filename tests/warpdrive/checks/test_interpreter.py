"""The interpreter agrees with the CPU backend, and ``wd.debug`` runs the author's Python."""

from __future__ import annotations

import inspect
import math
import operator
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
import torch
from numba import cuda, float32, int64
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_dtype

import warpdrive as wd
import warpdrive.random as wd_random
from warpdrive.checks.environment import CheckingBackend
from warpdrive.checks.findings import Report
from warpdrive.kernels.fusion import Fusion


@wd.kernel
def arithmetic(x, i, u, out, whole):
    t = cuda.threadIdx.x
    out[t, 0] = x[t] * 0.5 + math.exp(x[t]) - math.atan2(x[t], np.float32(2))
    out[t, 1] = x[t] ** 2 + x[t] % 0.3 + abs(-x[t]) + min(x[t], 0.25)
    out[t, 2] = i[t] / 3 + i[t] // 2 - (-i[t]) % 7
    out[t, 3] = float32(i[t]) * np.float32(1.5) + int(x[t] * 10)
    whole[t, 0] = i[t] * 1000003 * 1000003 * 1000003
    whole[t, 1] = u[t] * u[t] + (u[t] >> 3) ^ (u[t] << 5)
    whole[t, 2] = np.uint32(u[t] * u[t]) + np.int32(i[t] - 5) + np.int8(i[t] * 100)
    whole[t, 3] = (i[t] > 2) + (x[t] > 1) + int64(u[t]) - (t == 1)
    whole[t, 4] = (7 if 0 < t <= 2 and i[t] != 3 else -7) * 10**-1 + (x[t] ** 2 == x[t] * x[t])  # float32
    whole[t, 5] = ~i[t] | (t & 3) << 2
    whole[t, 6] = -int(np.uint8(t)) + pow(i[t], 9) + divmod(i[t], -4)[1] + operator.mul(u[t], u[t])  # of 64 bits
    out[t, 4] = min(x[t], math.nan) + max(math.nan, x[t]) + max(0, math.nan, x[t])
    out[t, 4] += np.sqrt(np.uint8(t)) + (np.uint64(t) << 60) / 3 * 1e-18 + np.power(np.uint8(t), 3)
    out[t, 5] = max(math.nan, x[t], 0) if t < 8 else (math.pow(0, -1) if t < 12 else math.pow(-1e300, 2))


@wd.kernel
def random_numbers(rng, out):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    out[env, agent, 0] = wd_random.uniform(rng, env, agent)
    out[env, agent, 1] = wd_random.normal(rng, env, agent)
    out[env, agent, 2] = wd_random.integer(rng, env, agent, 100)


@wd.kernel
def reduction(x, out):
    partial = cuda.shared.array(16, float32)
    t = cuda.threadIdx.x
    partial[t] = x[cuda.grid(1)]
    half = 8
    while half > 0:
        cuda.syncthreads()
        if t < half:
            partial[t] += partial[t + half]
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = partial[0]


def launches():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 16).astype(np.float32)
    i = rng.integers(-9, 9, 16).astype(np.int32)
    u = rng.integers(0, 2**32, 16, dtype=np.uint32)
    state = wd_random.initial_rng(7, 0, 3, 4)
    return [
        (arithmetic, 1, 16, [x, i, u, np.zeros((16, 6), np.float32), np.zeros((16, 7), np.int64)]),
        (random_numbers, 3, 4, [state, np.zeros((3, 4, 3), np.float32)]),
        (reduction, 2, 16, [np.tile(x, 2), np.zeros(2, np.float32)]),
    ]


@pytest.mark.parametrize(("kernel", "blocks", "threads", "arguments"), launches())
def test_the_interpreter_agrees_with_the_cpu_backend(kernel, blocks, threads, arguments):
    interpreted, compiled = ([array.copy() for array in arguments] for _ in range(2))
    report = Report()
    named = dict(zip(kernel.parameters, interpreted, strict=True))
    CheckingBackend(report).bind(Fusion.of(kernel), named, blocks, threads)()
    kernel[blocks, threads](*compiled)
    for found, expected in zip(interpreted, compiled, strict=True):
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(found, expected)
    assert not report.races + report.order + report.bounds


def test_an_environment_behaves_as_on_the_cpu_backend(walkers):
    envs = [wd.EnvWrapper(walkers(), 2, backend, seed=3) for backend in ("cpu", CheckingBackend(Report()))]
    rollouts = [env.allocate_rollout(8) for env in envs]  # longer than an episode
    for _ in range(8):
        for env, rollout in zip(envs, rollouts, strict=True):
            env.step_rollout(rollout)
    for name in ("actions", "observations", "rewards", "terminated", "truncated", "log_probabilities"):
        compiled, interpreted = (getattr(rollout, name) for rollout in rollouts)
        torch.testing.assert_close(interpreted, compiled, rtol=1e-5, atol=1e-6)


def test_random_states_of_numba_are_checked_too():
    from numba.cuda.random import xoroshiro128p_uniform_float32

    @wd.kernel
    def draws(states, out, stride):
        t = cuda.threadIdx.x
        out[t] = xoroshiro128p_uniform_float32(states, t * stride)

    states = np.zeros(4, xoroshiro128p_dtype)
    states["s0"], states["s1"] = np.arange(1, 5), 7
    assert create_xoroshiro128p_states is not None
    assert not wd.check_launch(draws, 1, 4, states, np.zeros(4, np.float32), 1).races
    races = wd.check_launch(draws, 1, 4, states, np.zeros(4, np.float32), 0).races
    assert {race.array for race in races} == {"states"}
    assert {line.rpartition(":")[0] for race in races for line in race.lines} == {__file__}


# --- wd.debug ---


@wd.device_function
def announce(x, i):
    print("thread", i, "sees", int(x[i]))
    cuda.syncthreads()


@wd.kernel
def talkative(x):
    i = cuda.threadIdx.x
    announce(x, i)
    x[i] = x[i] + x[(i + 1) % 3]
    print(f"thread {i} is done")


def test_debug_prints_in_the_order_of_threads_and_changes_the_arrays(capsys):
    x = np.array([1, 2, 3], np.int32)
    wd.debug(talkative)[1, 3](x)
    assert capsys.readouterr().out.splitlines() == [
        *[f"thread {i} sees {i + 1}" for i in range(3)],
        *[f"thread {i} is done" for i in range(3)],
    ]
    assert x.tolist() == [3, 5, 6]


def test_debug_shows_the_authors_line_of_an_exception():
    @wd.kernel
    def fails(x):
        i = cuda.threadIdx.x
        cuda.syncthreads()
        x[i + 2] = [1, 2][i]

    with pytest.raises(IndexError) as caught:
        wd.debug(fails)[1, 4](np.zeros(9))
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno) == (__file__, inspect.getsourcelines(fails.function)[1] + 4)
    assert last.line == "x[i + 2] = [1, 2][i]"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes before Python 3.11")
@pytest.mark.parametrize(
    ("blocks", "threads", "note"),
    [(3, 4, "in thread 1 of block 2"), ((2, 2), (4, 2), "in thread (1, 0, 0) of block (1, 1, 0)")],
)
def test_debug_shows_the_thread_of_an_exception(blocks, threads, note):
    @wd.kernel
    def fails(x):
        cuda.syncthreads()
        if cuda.blockIdx.x + 2 * cuda.blockIdx.y == cuda.gridDim.x * cuda.gridDim.y - 1 and cuda.threadIdx.x == 1:
            x[9] = 1

    with pytest.raises(IndexError) as caught:
        wd.debug(fails)[blocks, threads](np.zeros(9))
    assert caught.value.__notes__ == [note]


def test_debug_stops_at_breakpoints(monkeypatch):
    stops = []
    monkeypatch.setattr("sys.breakpointhook", lambda: stops.append(inspect.currentframe().f_back))

    @wd.kernel
    def stops_here(x):
        i = cuda.grid(1)
        if i == 3:
            breakpoint()
        x[i] = i

    wd.debug(stops_here)[2, 2](np.zeros(4))
    (frame,) = stops
    assert frame.f_code.co_filename == __file__
    assert frame.f_locals["i"] == 3


SCRIPT = """
import numpy as np
import warpdrive as wd
from numba import cuda, float32

SCALE = np.array([10, 20, 30], np.float32)

@wd.device_function
def looked_up(i):
    breakpoint()
    return SCALE[i]

@wd.kernel
def reversed_and_scaled(x, count):
    tile = cuda.shared.array(3, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    cuda.syncthreads()
    mine = tile[2 - i] * looked_up(i)
    cuda.atomic.add(count, 0, 1)
    x[i] = mine

x = np.array([1, 2, 3], np.float32)
count = np.zeros(1, np.int32)
wd.debug(reversed_and_scaled)[1, 3](x, count)
print("result", x.tolist(), count[0])
"""


def test_a_debugger_steps_through_a_kernel(tmp_path):
    (tmp_path / "game.py").write_text(SCRIPT)
    typed = "where\np i\nup\np tile.tolist(), i\ndown\nreturn\nnext\nnext\np mine\nc\nc\nc\n"
    environment = {**os.environ, "PYTHONPATH": str(Path(wd.__file__).parent.parent)}
    command = [sys.executable, "game.py"]
    run = subprocess.run(command, cwd=tmp_path, env=environment, input=typed, text=True, capture_output=True)
    assert not run.stderr
    assert "-> mine = tile[2 - i] * looked_up(i)" in run.stdout
    assert "([1.0, 2.0, 3.0], 0)" in run.stdout
    assert re.search(r"\(Pdb\) (np.float32\()?30.0", run.stdout)
    assert "result [30.0, 40.0, 30.0] 3" in run.stdout


def test_debug_has_dynamic_shared_memory_and_tensors():
    @wd.kernel
    def turned(x):
        tile = cuda.shared.array(0, float32)
        i, j = cuda.threadIdx.x, cuda.threadIdx.y
        tile[2 * i + j] = x[i, j]
        cuda.syncthreads()
        x[i, j] = tile[2 * j + i]

    x = torch.arange(4.0).reshape(2, 2)
    wd.debug(turned)[1, (2, 2), 0, 16](x)
    assert x.tolist() == [[0.0, 2.0], [1.0, 3.0]]


def test_debug_refuses_a_wrong_launch():
    with pytest.raises(wd.KernelError, match="is launched as"):
        wd.debug(talkative)[3]
    with pytest.raises(wd.KernelError, match="positive number of threads"):
        wd.debug(talkative)[1, 0]
