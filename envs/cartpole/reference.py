"""Reference of ``cartpole`` by Gymnasium's own class, in float64, for tests of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from gymnasium.envs.classic_control import CartPoleEnv

    from warpdrive.envs.cartpole.cartpole import CartPole

STATE = ("position", "velocity", "angle", "angular_velocity")


def twin(env: CartPole) -> CartPoleEnv:
    """Return Gymnasium's environment with the constants of ``env``."""
    from gymnasium.envs.classic_control import CartPoleEnv

    other = CartPoleEnv()
    other.gravity, other.force_mag, other.tau = env.gravity, env.push_force, env.time_step
    other.masscart, other.masspole, other.length = env.cart_mass, env.pole_mass, env.pole_half_length
    other.total_mass = env.cart_mass + env.pole_mass
    other.polemass_length = env.pole_mass * env.pole_half_length
    other.x_threshold, other.theta_threshold_radians = env.largest_position, env.largest_angle
    return other


def observe(state: dict[str, Any], see_velocities: bool) -> npt.NDArray[np.float32]:
    """Return the observations of ``state``, ``[1, 4]``."""
    seen = STATE if see_velocities else ("position", "angle")
    return np.array([[state[name] if name in seen else 0.0 for name in STATE]], np.float32)
