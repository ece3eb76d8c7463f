"""A kernel of a cart and pole, and the same loop by hand, compiled with ``njit(parallel=True)``."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, njit, prange

import warpdrive as wd

GRAVITY, POLE, MASS, LENGTH = np.float32(9.8), np.float32(0.05), np.float32(1.1), np.float32(0.5)
FORCE, TAU, FOUR_THIRDS, POLE_MASS = np.float32(10.0), np.float32(0.02), np.float32(4 / 3), np.float32(0.1)
ONE = np.float32(1.0)
X_LIMIT, ANGLE_LIMIT = np.float32(2.4), np.float32(12 * 2 * math.pi / 360)


@wd.kernel
def cartpole(x, velocity, angle, spin, actions, rewards, terminated):
    """Run one step of the cart and pole of Barto, Sutton and Anderson (1983), one thread per replica."""
    env = cuda.blockIdx.x
    force = FORCE if actions[env] == 1 else -FORCE
    cosine, sine = math.cos(angle[env]), math.sin(angle[env])
    push = (force + POLE * spin[env] * spin[env] * sine) / MASS
    turn = (GRAVITY * sine - cosine * push) / (LENGTH * (FOUR_THIRDS - POLE_MASS * cosine * cosine / MASS))
    x[env] += TAU * velocity[env]
    velocity[env] += TAU * (push - POLE * turn * cosine / MASS)
    angle[env] += TAU * spin[env]
    spin[env] += TAU * turn
    rewards[env] = ONE
    terminated[env] = abs(x[env]) > X_LIMIT or abs(angle[env]) > ANGLE_LIMIT


@njit(parallel=True, error_model="numpy")
def cartpole_by_hand(x, velocity, angle, spin, actions, rewards, terminated):
    """Run one step of the cart and pole as a parallel loop over replicas."""
    for env in prange(x.shape[0]):
        force = FORCE if actions[env] == 1 else -FORCE
        cosine, sine = math.cos(angle[env]), math.sin(angle[env])
        push = (force + POLE * spin[env] * spin[env] * sine) / MASS
        turn = (GRAVITY * sine - cosine * push) / (LENGTH * (FOUR_THIRDS - POLE_MASS * cosine * cosine / MASS))
        x[env] += TAU * velocity[env]
        velocity[env] += TAU * (push - POLE * turn * cosine / MASS)
        angle[env] += TAU * spin[env]
        spin[env] += TAU * turn
        rewards[env] = ONE
        terminated[env] = abs(x[env]) > X_LIMIT or abs(angle[env]) > ANGLE_LIMIT
