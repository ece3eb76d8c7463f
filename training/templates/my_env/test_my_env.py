"""Run with `python -m pytest`."""

from __future__ import annotations

import numpy as np
import pytest
from my_env import MyEnv

import warpdrive as wd


@pytest.mark.parametrize("num_hunters", [1, 2])
def test_environment_passes_the_checks(num_hunters):
    wd.testing.check_environment(MyEnv(num_hunters=num_hunters))


def test_a_hunter_beside_the_runner_catches_it():
    env = wd.EnvWrapper(MyEnv(num_hunters=1), num_envs=1, auto_reset=False)
    env.reset()
    env.ctx["position"][0] = env.ctx["position"].new_tensor([4, 5])
    actions = np.array([[2, 1]], np.int32)  # the hunter moves right, the runner stays
    _, rewards, terminated, _, _ = env.step(actions)
    assert terminated.tolist() == [True]
    assert rewards.tolist() == [[1.0, -1.0]]
