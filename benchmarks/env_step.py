"""Environment steps per second of ``env.step``, on one core and on all, compared with the NumPy references.

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
from harness.measure import machine, medians, rate
from warpdrive.backends.host import workers

CONFIGURATIONS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "tag_continuous, 10 taggers + 100 runners, partial observation, K 10, 100 replicas": (
        "tag_continuous",
        100,
        {
            "num_taggers": 10,
            "num_runners": 100,
            "grid_length": 20.0,
            "episode_length": 500,
            "min_acceleration": -0.1,
            "max_acceleration": 0.1,
            "num_acceleration_levels": 20,
            "min_turn": -2.356,
            "max_turn": 2.356,
            "num_turn_levels": 20,
            "use_full_observation": False,
            "num_other_agents_observed": 10,
            "tagging_distance": 0.02,
        },
    ),
    "tag_gridworld, 4 taggers + 1 runner, full observation, 2000 replicas": (
        "tag_gridworld",
        2000,
        {"num_taggers": 4, "grid_length": 100, "episode_length": 100, "tag_penalty_for_runner": 5.0},
    ),
}


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


def reference(name: str, config: dict[str, Any]) -> Callable[[], float]:
    """Return a benchmark of the environment's NumPy reference, with one replica."""
    environment = wd.make(name, **config)
    rng = np.random.default_rng(0)
    start = {**environment.initial_state(rng), "timestep": 0}
    start.setdefault("active", np.ones(environment.num_agents, bool))
    state = dict(start)
    shape = (environment.num_agents, *(environment.action_space.shape or ()))

    def step() -> None:
        nonlocal state
        state = environment.reference_step(state, rng.integers(0, 5, shape, dtype=np.int32))
        if state["terminated"] or state["timestep"] >= environment.episode_length:
            state = dict(start)

    return lambda: rate(step, 1)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7, help="how often each is measured (default 7)")
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
