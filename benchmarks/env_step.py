"""Measure environment steps per second of ``env.step`` on one core and on all, compared with the NumPy references.

python benchmarks/env_step.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import warpdrive as wd
from harness.environments.tag import CONFIGURATIONS, reference
from harness.measure import machine, medians
from warpdrive.backends.host import workers


def stepping(name: str, num_envs: int, config: dict[str, Any], cores: int) -> Callable[[], float]:
    """Return a benchmark of ``env.step`` over whole random episodes, with new actions every step."""
    env = wd.EnvWrapper(env_name=name, env_config=config, num_envs=num_envs, env_backend="cpu")
    space = env.ctx["actions"]
    choices = [int(n) for n in np.ravel(getattr(env.env.action_space, "nvec", getattr(env.env.action_space, "n", 0)))]
    columns = [torch.randint(0, n, (64, *space.shape[:2]), dtype=torch.int32) for n in choices]
    actions = columns[0] if space.dim() == 2 else torch.stack(columns, dim=-1)

    def measure() -> float:
        """Measure a whole episode: its later steps are cheaper as agents leave."""
        workers.set_num_threads(cores)
        env.reset()
        start = time.perf_counter()
        for t in range(env.env.episode_length):
            env.step(actions[t % 64])
        return env.env.episode_length * num_envs / (time.perf_counter() - start)

    return measure


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each candidate (default: 7)")
    options = parser.parse_args()
    print(machine())
    print("environment steps per second, medians of", options.rounds, "alternating runs of a whole episode\n")
    all_cores = workers.get_num_threads()
    for title, (name, num_envs, config) in CONFIGURATIONS.items():
        agents = wd.make(name, **config).num_agents
        figures = medians(
            {
                f"env.step, {all_cores} cores": stepping(name, num_envs, config, all_cores),
                "env.step, 1 core": stepping(name, num_envs, config, 1),
                "NumPy reference": reference(name, config),
            },
            options.rounds,
        )
        print(title)
        for candidate, figure in figures.items():
            print(f"  {candidate:20} {figure:14,.0f}   ({figure * agents:,.0f} agent steps)")
        print()


if __name__ == "__main__":
    main()
