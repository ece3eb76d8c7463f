"""Compare steps of environments on the CPU backend with hand-written loops compiled with ``njit(parallel=True)``.

    python benchmarks/kernels.py

The loops are the same steps of environments, split at barriers by hand (harness/kernels/); numba_cuda_kernels.py has
other kernels. Also measured: the overhead of a launch, and the time to compile the largest fused step.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from numba import cuda

import warpdrive as wd
from harness.environments.tag import CONFIGURATIONS
from harness.kernels import tag_continuous_by_hand
from harness.kernels.cartpole_by_hand import cartpole, cartpole_by_hand
from harness.measure import machine, medians
from harness.new_process import compiling, seconds
from warpdrive.backends.cpu.launch import bind
from warpdrive.backends.host import workers

REST = 0.3


def microseconds(launch: Callable[[], Any], calls: int) -> Callable[[], float]:
    """Return a benchmark of one call of ``launch``.

    It starts once the threads of the previous candidate are asleep: numba's threads spin for a while after their work.
    """

    def measure() -> float:
        time.sleep(REST)
        for _ in range(max(1, calls // 10)):
            launch()
        start = time.perf_counter()
        for _ in range(calls):
            launch()
        return (time.perf_counter() - start) / calls * 1e6

    return measure


def pairs() -> dict[str, tuple[Callable[[], Any], Callable[[], Any], int]]:
    """Return the launches to compare: the kernel, the hand-written loop, and the number of calls per measurement."""
    rng = np.random.default_rng(0)
    poles = [_cart_and_pole(rng) for _ in range(2)]
    launches = {
        "cartpole, 16384 blocks of 1 thread": (
            bind(cartpole, dict(zip(cartpole.parameters, poles[0], strict=True)), 16384, 1),
            lambda: cartpole_by_hand(*poles[1]),
            300,
        ),
        tag_continuous_by_hand.TITLE: (*tag_continuous_by_hand.pair()[:2], 20),
    }
    for ours, by_hand, _ in launches.values():
        ours()
        by_hand()
    np.testing.assert_allclose(poles[0][0], poles[1][0], rtol=1e-5)
    return launches


def _cart_and_pole(rng: np.random.Generator) -> list[Any]:
    numbers = [np.zeros(16384, np.float32) for _ in range(5)]
    return [*numbers[:4], rng.integers(0, 2, 16384, dtype=np.int32), numbers[4], np.zeros(16384, np.bool_)]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each candidate (default: 7)")
    options = parser.parse_args()
    print(machine())
    print("microseconds a launch, medians of", options.rounds, "alternating measurements, each after a rest\n")
    for cores in sorted({1, workers.get_num_threads()}):
        workers.set_num_threads(cores)
        numba.set_num_threads(cores)
        print(f"{f'{cores} cores':88}{'ours':>10}{'by hand':>12}{'speed, by hand = 1':>22}")
        for name, (ours, by_hand, calls) in pairs().items():
            figures = medians(
                {"ours": microseconds(ours, calls), "by hand": microseconds(by_hand, calls)}, options.rounds
            )
            speed = figures["by hand"] / figures["ours"]
            print(f"  {name:86}{figures['ours']:10.1f}{figures['by hand']:12.1f}{speed:22.2f}")
        print()
    launches()
    compile_times()


@wd.kernel
def touch(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15):
    """A nearly empty kernel with sixteen array arguments."""
    i = cuda.grid(1)
    a0[i] = a1[i]


def launches() -> None:
    """Print the cost of ``k[blocks, threads](...)`` for different kinds of arguments."""
    kinds: dict[str, list[list[Any]]] = {
        "the same arrays again": [[np.zeros(32, np.float32) for _ in range(16)]],
        "other arrays each time": [[np.zeros(32, np.float32) for _ in range(16)] for _ in range(2)],
        "arrays of other dtypes each time": [[np.zeros(32, dtype) for _ in range(16)] for dtype in ("f4", "f8")],
        "other tensors each time": [[torch.zeros(32) for _ in range(16)] for _ in range(2)],
        "2 arrays and 14 numbers": [[*np.zeros((2, 32)), *(float(n) for n in range(14))]],
    }
    candidates = {}
    for name, arguments in kinds.items():
        turns = itertools.cycle(arguments)
        candidates[name] = microseconds(lambda turns=turns: touch[1, 32](*next(turns)), 1000)  # type: ignore[misc]
    print("microseconds of k[blocks, threads](...) with 16 arguments, nearly no work")
    for name, figure in medians(candidates, 5).items():
        print(f"  {name:86}{figure:10.1f}")
    print()


COMPILE = """
import time
import warpdrive as wd
env = wd.EnvWrapper(env_name={name!r}, env_config={config!r}, num_envs={num_envs}, env_backend="cpu")
actions = env.ctx["actions"].clone()
start = time.perf_counter()
env.step(actions)
print(time.perf_counter() - start)
"""


def compile_times() -> None:
    """Print the time to compile the fused step, and to load it from the cache, in new processes."""
    name, num_envs, config = CONFIGURATIONS[tag_continuous_by_hand.TITLE]
    program = COMPILE.format(name=name, config=config, num_envs=num_envs)
    print("seconds of the first env.step of tag_continuous, everything imported")
    with tempfile.TemporaryDirectory() as cache:
        figures = medians(
            {"compiling": lambda: compiling(program), "from the cache": lambda: seconds(program, cache)}, 3
        )
    for kind, figure in figures.items():
        print(f"  {kind:86}{figure:10.2f}")


if __name__ == "__main__":
    main()
