"""Reference of ``acrobot`` by Gymnasium's own class, in float64, for tests of the kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gymnasium.envs.classic_control import AcrobotEnv

    from warpdrive.envs.acrobot.acrobot import Acrobot

STATE = ("angle_1", "angle_2", "velocity_1", "velocity_2")


def twin(env: Acrobot) -> AcrobotEnv:
    """Return Gymnasium's environment with the constants of ``env``, except gravity, which is fixed at 9.8."""
    from gymnasium.envs.classic_control import AcrobotEnv

    if env.gravity != 9.8:
        raise NotImplementedError(f"the reference has a gravity of 9.8, and this environment of {env.gravity}")
    other = AcrobotEnv()
    other.AVAIL_TORQUE = [float(torque) for torque in env.torques]
    other.LINK_LENGTH_1, other.LINK_LENGTH_2 = env.length_1, env.length_2
    other.LINK_MASS_1, other.LINK_MASS_2 = env.mass_1, env.mass_2
    other.LINK_COM_POS_1, other.LINK_COM_POS_2 = env.com_1, env.com_2
    other.LINK_MOI, other.dt = env.inertia, env.time_step
    other.MAX_VEL_1, other.MAX_VEL_2 = env.largest_velocity_1, env.largest_velocity_2
    return other


def observe(state: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Return the observations of ``state``, ``[1, 6]``."""
    p, q, v, w = (float(state[name]) for name in STATE)
    return np.array([[math.cos(p), math.sin(p), math.cos(q), math.sin(q), v, w]], np.float32)


def against_the_swing(
    env: Acrobot, observations: dict[str, npt.NDArray[Any]], rng: np.random.Generator
) -> npt.NDArray[Any]:
    """Return actions ``[replicas, 1]``, mostly a torque against the first link's velocity, which makes it swing."""
    against = np.where(observations["observations"][..., 4] >= 0, 0, 2)
    actions = np.where(rng.random(against.shape) < 0.8, against, rng.integers(len(env.torques), size=against.shape))
    return actions.astype(np.int32)
