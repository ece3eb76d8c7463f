"""Extents of arrays that are constants of fused kernels."""

from __future__ import annotations

import numpy as np
import pytest

import warpdrive as wd
from warpdrive.backends.shared.arguments import baked_extents


@pytest.mark.parametrize(
    ("name", "shape", "extents"),
    [
        ("position", (3, 5, 2), (None, 5, 2)),
        ("pool__position", (8, 3), (None, 3)),
        ("rollout__rewards", (8, 3, 3), (None, None, 3)),
        ("rollout__rewards", (3, 3, 3), (None, None, 3)),
        ("rollout__final_count", (3,), (None,)),
        ("scale", (), ()),
    ],
)
def test_lengths_that_are_constants_of_the_code(name, shape, extents):
    assert baked_extents(name, shape) == extents


def test_any_numbers_of_replicas_steps_and_start_states_run_the_same_code(monkeypatch):
    def play(replicas, steps, starts):
        env = wd.EnvWrapper(
            env_name="tag_gridworld", env_config={"num_taggers": 2}, num_envs=replicas, reset_pool_size=starts
        )
        env.step(np.zeros((replicas, 3), np.int32))
        env.step_rollout(env.allocate_rollout(steps))

    play(7, 4, 8)
    monkeypatch.setattr("warpdrive.backends.cpu.compile._compile", None)
    for replicas, steps, starts in ((3, 4, 8), (4, 4, 8), (5, 4, 5)):  # 3: as many as agents
        play(replicas, steps, starts)
