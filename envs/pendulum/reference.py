"""Reference of ``pendulum`` by Gymnasium's own class, in float64, for tests of the kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gymnasium.envs.classic_control import PendulumEnv

    from warpdrive.envs.pendulum.pendulum import Pendulum


def twin(env: Pendulum) -> PendulumEnv:
    """Return Gymnasium's environment with the constants of ``env``."""
    from gymnasium.envs.classic_control import PendulumEnv

    other = PendulumEnv(g=env.gravity)
    other.m, other.l, other.dt = env.mass, env.length, env.time_step
    other.max_torque = env.largest_torque
    other.max_speed = env.largest_velocity  # type: ignore[assignment]  # is an int where it is made
    return other


def observe(state: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Return the observations of ``state``, ``[1, 3]``."""
    angle = float(state["angle"])
    return np.array([[math.cos(angle), math.sin(angle), state["velocity"]]], np.float32)


def braking(env: Pendulum, observations: dict[str, npt.NDArray[Any]], rng: np.random.Generator) -> npt.NDArray[Any]:
    """Return actions ``[replicas, 1, 1]``: a torque against the velocity plus noise, so that it soon hangs down."""
    velocity = observations["observations"][..., 2:]
    noise = 0.25 * rng.uniform(-env.largest_torque, env.largest_torque, velocity.shape)
    torque: npt.NDArray[Any] = np.clip(noise - velocity, -env.largest_torque, env.largest_torque).astype(np.float32)
    return torque
