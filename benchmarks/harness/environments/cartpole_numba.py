"""Cartpole as a plain Numba loop over replicas: a baseline for the kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from warpdrive.envs.cartpole import CartPole


@dataclass
class Replicas:
    """State and outputs of the loop, with a row for each replica."""

    state: npt.NDArray[np.float32]  # [replicas, 4]: position, velocity, angle, angular velocity
    time: npt.NDArray[np.int32]
    random: npt.NDArray[np.uint32]
    actions: npt.NDArray[np.int32]
    rewards: npt.NDArray[np.float32]
    ended: npt.NDArray[np.bool_]

    @staticmethod
    def of(count: int, seed: int = 0) -> Replicas:
        """Return ``count`` replicas with a zero state."""
        random = np.random.default_rng(seed).integers(1, 1 << 32, count, dtype=np.uint32)
        integers, zeros = np.zeros(count, np.int32), np.zeros(count, np.float32)
        return Replicas(
            np.zeros((count, 4), np.float32), integers, random, integers.copy(), zeros, np.zeros(count, bool)
        )


def stepper(env: CartPole, parallel: bool) -> Callable[[Replicas], None]:
    """Return a function that samples an action for each replica, steps it, and resets it at the end of its episode."""
    gravity, push_force, time_step = (np.float32(x) for x in (env.gravity, env.push_force, env.time_step))
    mass, pole_mass, half_length = (np.float32(x) for x in (env.total_mass, env.pole_mass, env.pole_half_length))
    moment, start_range = np.float32(env.pole_moment), np.float32(env.start_range)
    farthest, steepest, length = np.float32(env.largest_position), np.float32(env.largest_angle), env.episode_length
    four_thirds, one, to_unit = np.float32(4 / 3), np.float32(1), np.float32(2.0**-31)
    loop = numba.prange if parallel else range

    @numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def shuffled(x: Any) -> Any:
        """Marsaglia's xorshift, a minimal random number generator."""
        x ^= np.uint32(x << np.uint32(13))
        x ^= x >> np.uint32(17)
        return np.uint32(x ^ np.uint32(x << np.uint32(5)))

    @numba.njit(parallel=parallel, error_model="numpy")  # type: ignore[untyped-decorator]
    def step(state: Any, time: Any, random: Any, actions: Any, rewards: Any, ended: Any) -> None:
        for i in loop(len(time)):
            number = shuffled(random[i])
            actions[i] = np.int32(number >> np.uint32(31))
            force = push_force if actions[i] == 1 else -push_force
            x, v, theta, omega = state[i, 0], state[i, 1], state[i, 2], state[i, 3]
            sine, cosine = math.sin(theta), math.cos(theta)
            push = (force + moment * omega * omega * sine) / mass
            resistance = half_length * (four_thirds - pole_mass * cosine * cosine / mass)
            angular_acceleration = (gravity * sine - cosine * push) / resistance
            acceleration = push - moment * angular_acceleration * cosine / mass
            x, v = x + time_step * v, v + time_step * acceleration
            theta, omega = theta + time_step * omega, omega + time_step * angular_acceleration
            time[i] += 1
            rewards[i] = one
            ended[i] = abs(x) > farthest or abs(theta) > steepest or time[i] >= length
            if ended[i]:
                time[i] = 0
                for k in range(4):
                    number = shuffled(number)
                    state[i, k] = (np.float32(number) * to_unit - one) * start_range
            else:
                state[i, 0], state[i, 1], state[i, 2], state[i, 3] = x, v, theta, omega
            random[i] = number

    return lambda r: step(r.state, r.time, r.random, r.actions, r.rewards, r.ended)
