"""Configurations of the tag environments that several commands measure, and a benchmark of their NumPy references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import warpdrive as wd
from harness.measure import rate

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
"""Registered name, number of replicas and environment parameters, by title."""


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
