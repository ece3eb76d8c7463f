"""Measure the overhead of a step through the interfaces of other libraries, compared with ``env.step``.

python benchmarks/interop.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np
import torch

import warpdrive as wd
from harness.measure import machine, medians
from warpdrive.backends.host import workers

CALLS = 1000


def microseconds(step: Callable[[Any], Any], actions: list[Any]) -> Callable[[], float]:
    """Return a benchmark of the CPU time of a call in microseconds, with random actions."""

    def measure() -> float:
        start = time.thread_time()
        for call in range(CALLS):
            step(actions[call % len(actions)])
        return (time.thread_time() - start) / CALLS * 1e6

    return measure


def candidates(num_envs: int) -> dict[str, Callable[[], float]]:
    """Return the benchmarks by name."""
    arrays = [np.random.default_rng(index).integers(0, 2, num_envs) for index in range(64)]
    tensors = [torch.from_numpy(array) for array in arrays]
    env = wd.EnvWrapper(env_name="cartpole", num_envs=num_envs, env_backend="cpu")

    def step_and_copy(actions: Any) -> None:
        observations, rewards, terminated, truncated, _ = env.step(actions)
        for tensor in (observations, rewards, terminated, truncated):
            tensor.numpy().copy()

    found = {
        "env.step": microseconds(env.step, [tensor[:, None] for tensor in tensors]),
        "env.step and copies": microseconds(step_and_copy, [tensor[:, None] for tensor in tensors]),
    }
    for mode in ("SameStep", "NextStep"):
        envs = wd.to_gymnasium("cartpole", num_envs, autoreset_mode=mode, env_backend="cpu")
        envs.reset(seed=0)
        found[f"to_gymnasium, {mode}"] = microseconds(envs.step, arrays)
    envs = wd.to_gymnasium("cartpole", num_envs, output="torch", env_backend="cpu")
    envs.reset(seed=0)
    found["to_gymnasium, SameStep, torch"] = microseconds(envs.step, tensors)
    if find_spec("stable_baselines3"):
        vec_env = wd.to_stable_baselines3("cartpole", num_envs, env_backend="cpu")
        vec_env.reset()
        found["to_stable_baselines3"] = microseconds(vec_env.step, arrays)
    if find_spec("rsl_rl"):
        outputs = [torch.rand(num_envs, 2) for _ in range(64)]
        found["to_rsl_rl"] = microseconds(wd.to_rsl_rl("cartpole", num_envs, env_backend="cpu").step, outputs)
    if find_spec("skrl"):
        wrapped = wd.to_skrl("cartpole", num_envs, env_backend="cpu")
        wrapped.reset()
        found["to_skrl"] = microseconds(wrapped.step, [tensor[:, None] for tensor in tensors])
    theirs = gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="vector_entry_point")
    theirs.reset(seed=0)
    found["Gymnasium's own vectorized CartPole"] = microseconds(theirs.step, arrays)
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each candidate (default: 7)")
    parser.add_argument("--num-envs", type=int, default=1024, help="number of replicas (default: 1024)")
    options = parser.parse_args()
    workers.set_num_threads(1)  # CPU time is that of one thread
    torch.set_num_threads(1)
    print(machine())
    print(f"cartpole, {options.num_envs} replicas: microseconds of CPU time per call, medians of {options.rounds}\n")
    figures = medians(candidates(options.num_envs), options.rounds)
    copied = figures["env.step and copies"]
    for name, figure in figures.items():
        print(f"{name:40} {figure:8.1f}   ({figure - copied:+.1f} to env.step and copies)")


if __name__ == "__main__":
    main()
