"""Extents of arrays that are constants of fused kernels."""

from __future__ import annotations

import numpy as np
import pytest

import warpdrive as wd
from warpdrive.backends.shared.arguments import baked_extents


@pytest.mark.parametrize(
    ("shape", "extents"),
    [
        ((3, 5, 2), (None, 5, 2)),
        ((3, 3, 3), (None, 3, 3)),
        ((8, 3, 2), (None, None, 2)),
        ((8, 3, 3), (None, None, 3)),
        ((8, 2, 3), (None, 2, 3)),
        ((3,), (None,)),
        ((), ()),
    ],
)
def test_lengths_that_are_constants_of_the_code_for_three_replicas(shape, extents):
    assert baked_extents(shape, replicas=3) == extents


def test_as_many_replicas_as_agents_run_the_same_code(monkeypatch):
    def play(replicas, steps):
        env = wd.EnvWrapper(
            env_name="tag_gridworld", env_config={"num_taggers": 2}, num_envs=replicas, reset_pool_size=3
        )
        env.step(np.zeros((replicas, 3), np.int32))
        env.step_rollout(env.allocate_rollout(steps))

    play(7, 4)
    monkeypatch.setattr("warpdrive.backends.cpu.compile._compile", None)
    play(3, 4)
