"""Reference of ``continuous_mountain_car``: Gymnasium's own class, in float64, for tests of the kernels.

It stores its state as float32 between steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gymnasium.envs.classic_control import Continuous_MountainCarEnv

    from warpdrive.envs.continuous_mountain_car.continuous_mountain_car import ContinuousMountainCar

FIXED = {"gravity": 0.0025, "action_cost": 0.1, "goal_reward": 100.0}
"""Parameters of the environment that are constants in Gymnasium."""


def twin(env: ContinuousMountainCar) -> Continuous_MountainCarEnv:
    """Return Gymnasium's environment with the constants of ``env``."""
    from gymnasium.envs.classic_control import Continuous_MountainCarEnv

    for name, value in FIXED.items():
        if getattr(env, name) != value:
            raise NotImplementedError(f"the reference has {name} {value}, and this environment {getattr(env, name)}")
    other = Continuous_MountainCarEnv(goal_velocity=env.goal_velocity)
    other.power, other.min_action, other.max_action = env.power, -env.largest_action, env.largest_action
    other.min_position, other.max_position = env.min_position, env.max_position
    other.max_speed, other.goal_position = env.max_speed, env.goal_position
    return other
