"""Swing-up and balancing of a rod with a weak motor (Gymnasium's ``Pendulum-v1``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import drawing, parameters
from warpdrive.envs.common.angles import wrapped
from warpdrive.envs.common.gymnasium_step import gymnasium_step
from warpdrive.envs.pendulum import reference
from warpdrive.scene.scene import Scene

ONE, ONE_AND_A_HALF, TWO, THREE = np.float32(1), np.float32(1.5), np.float32(2), np.float32(3)
HALF_PI, LARGEST_SWEEP = np.float32(math.pi / 2), np.float32(math.radians(150))
SPEED_COST, TORQUE_COST = np.float32(0.1), np.float32(0.001)


@wd.kernel
def reset(angle, velocity, rng, largest_start_angle, largest_start_velocity):
    """Sample the angle and the velocity, each uniform within its range around 0."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    u, v, _, _ = wd.random.four_uniforms(rng, env, agent)
    angle[env] = (TWO * u - ONE) * largest_start_angle
    velocity[env] = (TWO * v - ONE) * largest_start_velocity


@wd.kernel
def step(
    # state
    angle, velocity,
    # actions
    actions,
    # constants
    gravity, mass, length, largest_torque, largest_velocity, time_step,
    # out
    rewards,
):  # fmt: skip
    """Compute the cost of state and torque, then rotate: the angle is updated with the new velocity."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    theta, omega = angle[env], velocity[env]
    torque = min(max(actions[env, agent, 0], -largest_torque), largest_torque)
    off = wrapped(theta)
    rewards[env, agent] = -(off * off + SPEED_COST * omega * omega + TORQUE_COST * torque * torque)

    acceleration = ONE_AND_A_HALF * gravity / length * wd.math.sin(theta) + THREE / (mass * length * length) * torque
    omega = min(max(omega + acceleration * time_step, -largest_velocity), largest_velocity)
    angle[env] = theta + omega * time_step
    velocity[env] = omega


@wd.kernel
def observe(angle, velocity, observations):
    """Write ``observations [3]``: cosine and sine of the angle, and the velocity."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = wd.math.cos(angle[env])
    observations[env, agent, 1] = wd.math.sin(angle[env])
    observations[env, agent, 2] = velocity[env]


@wd.kernel
def draw(shapes, angle, actions, length, largest_torque):
    """Draw the torque as a sector from the top, 150 degrees at most, the rod, its end with the path, and the joint."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, y = -length * wd.math.sin(angle[env]), length * wd.math.cos(angle[env])
    torque = min(max(actions[env, agent, 0], -largest_torque), largest_torque)
    sweep = LARGEST_SWEEP * torque / largest_torque
    if torque != 0.0:
        wd.draw.sector(shapes, 0, 0.0, 0.0, 0.35 * length, HALF_PI + 0.5 * sweep, abs(sweep), wd.draw.SKY)
    wd.draw.line(shapes, 1, 0.0, 0.0, x, y, 0.12 * length, wd.draw.BLUE)
    wd.draw.circle(shapes, 2, x, y, 0.1 * length, wd.draw.GREEN if y > 0.98 * length else wd.draw.ORANGE)
    wd.draw.trail(shapes, 2, 20)
    wd.draw.circle(shapes, 3, 0.0, 0.0, 0.04 * length, wd.draw.INK)


class Pendulum(wd.Environment):
    """Swing up a rod with a motor that is too weak to lift it directly, and balance it upright.

    ## Description

    A rod hangs from a joint with a motor, whose torque is too small to lift the rod without swinging. The environment
    is Gymnasium's `Pendulum-v1` in float32; the defaults of all constants are those of `Pendulum-v1`. There is one
    agent; its policy tag is `agent`.

    With the angle theta from upright, the torque u, the gravity g, and the mass m and length l of the rod:

        theta' = clip(theta' + (3 g / (2 l) sin(theta) + 3 / (m l^2) u) time_step)
        theta  = theta + theta' time_step

    The angular velocity is clipped to [-`largest_velocity`, `largest_velocity`], and the angle is updated with the new
    velocity.

    ## Action Space

    `Box` of shape `(1,)`, stored as `actions[env, agent, 0]` (float32) and clipped to the bounds.

    | Index | Action | Min | Max |
    | --- | --- | --- | --- |
    | 0 | torque u (N m) | -`largest_torque` (-2) | `largest_torque` (2) |

    ## Observation Space

    `Box` of shape `(3,)`, float32.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0 | cos(theta) | -1 | 1 |
    | 1 | sin(theta) | -1 | 1 |
    | 2 | angular velocity theta' (rad/s) | -`largest_velocity` (-8) | `largest_velocity` (8) |

    ## Rewards

    -(theta^2 + 0.1 theta'^2 + 0.001 u^2) of the state before the step, with theta wrapped to [-pi, pi] and u clipped.

    ## Starting State

    theta is drawn uniformly from [-`largest_start_angle`, `largest_start_angle`) and theta' from
    [-`largest_start_velocity`, `largest_start_velocity`), on the device.

    ## Episode End

    - Termination: never.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        gravity: Gravitational acceleration in m/s^2, 0 or more.
        mass: Mass of the rod in kg, greater than 0.
        length: Length of the rod in m, greater than 0.
        largest_torque: Bound of the absolute torque in N m, greater than 0.
        largest_velocity: Limit of the absolute angular velocity in rad/s, greater than 0.
        time_step: Integration step in s, greater than 0.
        largest_start_angle: Bound of the uniform distribution of the start angle from upright in rad, from 0 to pi.
        largest_start_velocity: Bound of the uniform distribution of the start velocity in rad/s, 0 or more.
        episode_length: Number of steps after which an episode is truncated, 1 or more.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - Gymnasium, [Pendulum](https://gymnasium.farama.org/environments/classic_control/pendulum/).

    `reference_step` calls Gymnasium's `PendulumEnv` in float64; see the
    [agreement with reference implementations](index.md#agreement-with-reference-implementations).
    """

    name = "pendulum"
    parity: ClassVar[Mapping[str, Any]] = {
        "title": "Gymnasium's PendulumEnv",
        "tolerance": 1e-5,
        "episode_tolerance": 1e-3,
        "act_in_episodes": reference.braking,
    }
    step, observe, reset, draw = step, observe, reset, draw
    _gymnasium = cached_property(reference.twin)
    reference_observe = staticmethod(reference.observe)
    shapes_per_agent = 4

    def __init__(
        self,
        gravity: float = 10.0,
        mass: float = 1.0,
        length: float = 1.0,
        largest_torque: float = 2.0,
        largest_velocity: float = 8.0,
        time_step: float = 0.05,
        largest_start_angle: float = math.pi,
        largest_start_velocity: float = 1.0,
        episode_length: int = 200,
    ) -> None:
        real = parameters.real
        self.gravity = real("gravity", gravity, at_least=0)
        self.mass = real("mass", mass, above=0)
        self.length = real("length", length, above=0)
        self.largest_torque = real("largest_torque", largest_torque, above=0)
        self.largest_velocity = real("largest_velocity", largest_velocity, above=0)
        self.time_step = real("time_step", time_step, above=0)
        self.largest_start_angle = real("largest_start_angle", largest_start_angle, at_least=0, at_most=math.pi)
        self.largest_start_velocity = real("largest_start_velocity", largest_start_velocity, at_least=0)
        self.episode_length = parameters.whole("episode_length", episode_length, at_least=1)

        reach = 1.3 * self.length
        self.view = (-reach, reach, -reach, reach)
        self.num_agents = 1
        self.policy_tags = {"agent": [0]}
        self.action_space = spaces.Box(-self.largest_torque, self.largest_torque, (1,), np.float32)
        self.controls = {"left": {0: self.largest_torque}, "right": {0: -self.largest_torque}}
        bounds = np.array([1, 1, self.largest_velocity], np.float32)
        self.observation_space = spaces.Box(-bounds, bounds)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return ``angle`` and ``velocity`` at rest upright, float32; ``reset`` draws the start on the device."""
        return {"angle": np.zeros((), np.float32), "velocity": np.zeros((), np.float32)}

    def reference_step(self, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
        """Return the state after ``actions`` (float, ``[1, 1]``), computed by Gymnasium's ``PendulumEnv``."""
        action = np.asarray(actions[0], np.float64)
        return gymnasium_step(self._gymnasium, ("angle", "velocity"), state, action)

    @cached_property
    def _goal(self) -> Scene:
        mark = drawing.disc(0, self.length, 0.15 * self.length, -1, wd.draw.YELLOW, 0.03 * self.length)
        return Scene(self.view, polygons=[mark])

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the position of the end of the upright rod."""
        return self._goal
