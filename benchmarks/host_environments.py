"""Measure a step of ``wd.HostEnv`` in a rollout, compared with the same step of the environment's own library.

python benchmarks/host_environments.py
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

STEPS = 128


def of_host_env(env: wd.HostEnv) -> Callable[[], float]:
    """Return a benchmark of the wall time of a sampled and recorded step, in microseconds."""
    rollout = env.allocate_rollout(STEPS)

    def measure() -> float:
        rollout.begin()
        start = time.perf_counter()
        for _ in range(STEPS):
            env.step_rollout(rollout)
        return (time.perf_counter() - start) / STEPS * 1e6

    return measure


def of_library(envs: Any, num_choices: int, num_envs: int) -> Callable[[], float]:
    """Return a benchmark of the wall time of a step with random actions, in microseconds."""
    actions = np.random.default_rng(0).integers(0, num_choices, (STEPS, num_envs))
    envs.reset()

    def measure() -> float:
        start = time.perf_counter()
        for step in range(STEPS):
            envs.step(actions[step])
        return (time.perf_counter() - start) / STEPS * 1e6

    return measure


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each candidate (default: 7)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Callable[[], float]] = {}
    for num_envs in (16, 1024):
        title = f"CartPole-v1, {num_envs} replicas"
        theirs = gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="vector_entry_point")
        found[f"{title}: Gymnasium's vectorization"] = of_library(theirs, 2, num_envs)
        found[f"{title}: HostEnv"] = of_host_env(wd.HostEnv(gymnasium="CartPole-v1", num_envs=num_envs))
        if find_spec("envpool"):
            import envpool

            pool = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=num_envs, num_threads=1)
            found[f"{title}: EnvPool, 1 thread"] = of_library(pool, 2, num_envs)
            env = wd.HostEnv(envpool="CartPole-v1", num_envs=num_envs, num_threads=1)
            found[f"{title}: HostEnv of EnvPool"] = of_host_env(env)
    title = "Acrobot-v1, 16 replicas"
    theirs = gymnasium.make_vec("Acrobot-v1", 16, vectorization_mode="sync")
    found[f"{title}: Gymnasium's SyncVectorEnv"] = of_library(theirs, 3, 16)
    for workers in (0, 2):
        env = wd.HostEnv(gymnasium="Acrobot-v1", num_envs=16, workers=workers)
        found[f"{title}: HostEnv, {workers} workers"] = of_host_env(env)
    results = medians(found, options.rounds)
    print(machine())
    print(f"microseconds per step of all replicas, medians of {options.rounds}\n")
    for name, value in results.items():
        print(f"{name:55} {value:8.1f}")


if __name__ == "__main__":
    main()
