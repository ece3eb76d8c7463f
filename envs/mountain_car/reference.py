"""Reference of ``mountain_car`` by Gymnasium's own class, in float64, for tests of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

if TYPE_CHECKING:
    from gymnasium.envs.classic_control import MountainCarEnv

    from warpdrive.envs.mountain_car.mountain_car import MountainCar
    from warpdrive.envs.mountain_car.valley import Valley


STATE = ("position", "velocity")


def twin(env: MountainCar) -> MountainCarEnv:
    """Return Gymnasium's environment with the constants of ``env``."""
    from gymnasium.envs.classic_control import MountainCarEnv

    other = MountainCarEnv(goal_velocity=env.goal_velocity)
    other.force, other.gravity = env.force, env.gravity
    other.min_position, other.max_position = env.min_position, env.max_position
    other.max_speed, other.goal_position = env.max_speed, env.goal_position
    return other


def observe(state: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Return the observations of ``state``, ``[1, 2]``."""
    return np.array([[state["position"], state["velocity"]]], np.float32)


def along_the_velocity(
    env: Valley, observations: dict[str, npt.NDArray[Any]], rng: np.random.Generator
) -> npt.NDArray[Any]:
    """Return actions, mostly in the direction of motion, which drives the car up the hill."""
    velocity = observations["observations"][..., 1]
    keeps, space = rng.random(velocity.shape) < 0.8, env.action_space
    if isinstance(space, spaces.Box):
        own, size = np.where(velocity >= 0, space.high, space.low), (*velocity.shape, 1)
        actions = np.where(keeps, own, rng.uniform(space.low, space.high, velocity.shape)).reshape(size)
        return actions.astype(np.float32)
    return np.where(keeps, np.where(velocity >= 0, 2, 0), rng.integers(3, size=velocity.shape)).astype(np.int32)
