"""``flock``, compared with its reference in NumPy and with results by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import warpdrive as wd
from warpdrive.envs.flock import reference

OTHERS = {
    "num_boids": 70,  # three batches, the last of which is not full
    "num_neighbours": 4,
    "world_size": 7.0,
    "max_turn": 3.1,
    "min_speed": 0.0,
    "max_speed": 6.5,
    "max_acceleration": 3.0,
    "cohesion_weight": 2.0,
    "separation_weight": 0.5,
    "episode_length": 3,
}
"""Parameters with which boids travel around the torus in a step, and all have other neighbours."""


def test_steps_agree_with_the_reference():
    env = wd.make("flock", **OTHERS)
    found = wd.testing.check_parity(env, episodes=80, steps=300, whole_episodes=False)
    assert found
    assert found.largest <= env.parity["tolerance"]
    assert found.steps >= 300 and found.episodes >= 80


def test_neighbours_are_the_nearest_after_a_reset_and_after_steps(replicas_of):
    env = wd.make("flock", **OTHERS)
    replicas = replicas_of(env, 3)
    for _ in range(5):  # through a reset
        for replica in range(3):
            state = replicas.state(replica)
            expected = reference.neighbours_of(env, state["loc_x"], state["loc_y"])
            np.testing.assert_array_equal(state["neighbours"], expected)
        replicas.wrapper.step(np.ones((3, env.num_agents, 2), np.float32))


def test_two_boids_by_hand():
    """They are 0.5 apart across the border of the torus, and head away from each other at a right angle."""
    env = wd.make("flock", num_boids=2, num_neighbours=1, world_size=10.0, min_speed=0.0)
    state = {
        "loc_x": np.array([0.25, 9.75], np.float32),
        "loc_y": np.array([3.0, 3.0], np.float32),
        "direction": np.array([0.0, math.pi / 2], np.float32),
        "speed": np.array([0.0, 0.0], np.float32),
        "neighbours": np.array([[1], [0]], np.int32),
    }
    expected = [[-0.125, 0.0, 0.0, 0.0, 0.0], [0.0, -0.125, 0.0, 0.0, 0.0]]
    np.testing.assert_allclose(env.reference_observe(state), expected, atol=1e-7)
    after = env.reference_step({**state, "timestep": 0}, np.zeros((2, 2)))
    np.testing.assert_allclose(after["rewards"], (1 - 0.5 / 4) + math.cos(math.pi / 2) - 4 * 0.5**2, atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"num_boids": 5}, "num_neighbours is 7, but it must be a whole number from 1 to 4"),
        ({"min_speed": 0.4}, "min_speed is 0.4, but max_speed is only 0.3"),
        ({"world_size": 0.2}, "max_speed is 0.3, but it must be"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(wd.WarpDriveError, match=message):
        wd.make("flock", **parameters)
