"""Swing-up of two linked rods (Sutton 1996, with the book's dynamics; Gymnasium's ``Acrobot-v1``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.acrobot import reference
from warpdrive.envs.common import drawing, parameters
from warpdrive.envs.common.angles import wrapped
from warpdrive.envs.common.gymnasium_step import gymnasium_step
from warpdrive.scene.scene import Scene

HALF, ONE, TWO, SIXTH = np.float32(0.5), np.float32(1), np.float32(2), np.float32(1 / 6)


@wd.kernel
def reset(angle_1, angle_2, velocity_1, velocity_2, rng, start_range):
    """Sample the start state, each number uniform in [-start_range, start_range)."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    u, v, w, z = wd.random.four_uniforms(rng, env, agent)
    angle_1[env] = (TWO * u - ONE) * start_range
    angle_2[env] = (TWO * v - ONE) * start_range
    velocity_1[env] = (TWO * w - ONE) * start_range
    velocity_2[env] = (TWO * z - ONE) * start_range


@wd.device_function
def accelerations(
    # state
    theta_1, theta_2, omega_1, omega_2,
    # action
    torque,
    # constants
    gravity, length_1, mass_1, mass_2, com_1, com_2, inertia,
):  # fmt: skip
    """Return the angular accelerations of both links; the second one's angle is relative to the first.

    Args:
        theta_1: Angle of the first link from the vertical, in rad.
        theta_2: Angle of the second link relative to the first, in rad.
        omega_1: Angular velocity of the first link, in rad/s.
        omega_2: Angular velocity of the second link, in rad/s.
        torque: Torque at the joint between the links.
        gravity: Acceleration of gravity.
        length_1: Length of the first link.
        mass_1: Mass of the first link.
        mass_2: Mass of the second link.
        com_1: Distance of the first link's centre of mass from its joint.
        com_2: Distance of the second link's centre of mass from its joint.
        inertia: Moment of inertia of each link.

    Returns:
        The accelerations of both links, in rad/s^2 (float32).
    """
    cosine, sine = wd.math.cos(theta_2), wd.math.sin(theta_2)
    coupling = mass_2 * length_1 * com_2
    d_1 = (
        mass_1 * com_1 * com_1
        + mass_2 * (length_1 * length_1 + com_2 * com_2 + TWO * length_1 * com_2 * cosine)
        + TWO * inertia
    )
    d_2 = mass_2 * (com_2 * com_2 + length_1 * com_2 * cosine) + inertia
    phi_2 = mass_2 * com_2 * gravity * wd.math.sin(theta_1 + theta_2)
    phi_1 = (
        -coupling * omega_2 * omega_2 * sine
        - TWO * coupling * omega_2 * omega_1 * sine
        + (mass_1 * com_1 + mass_2 * length_1) * gravity * wd.math.sin(theta_1)
        + phi_2
    )
    acceleration_2 = (torque + d_2 / d_1 * phi_1 - coupling * omega_1 * omega_1 * sine - phi_2) / (
        mass_2 * com_2 * com_2 + inertia - d_2 * d_2 / d_1
    )
    return -(d_2 * acceleration_2 + phi_1) / d_1, acceleration_2


@wd.kernel
def step(
    # state
    angle_1, angle_2, velocity_1, velocity_2,
    # actions
    actions,
    # constants
    torques, num_torques, gravity, length_1, mass_1, mass_2, com_1, com_2, inertia, largest_velocity_1,
    largest_velocity_2, time_step,
    # out
    rewards, terminated,
):  # fmt: skip
    """Integrate one ``time_step`` with the fourth-order Runge-Kutta method, and check the height of the free end."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    # torques[action] would keep a CPU from vectorising over replicas; the size of an array is a constant of the code
    given = cuda.local.array(num_torques, np.float32)
    for i in range(num_torques):
        given[i] = torques[i]
    torque = given[0]
    for i in range(1, num_torques):
        torque = given[i] if i == actions[env, agent] else torque
    p, q, v, w = angle_1[env], angle_2[env], velocity_1[env], velocity_2[env]

    # the slopes of p and q are the velocities; a and b are those of v and w
    half = HALF * time_step
    a_1, b_1 = accelerations(p, q, v, w, torque, gravity, length_1, mass_1, mass_2, com_1, com_2, inertia)
    v_2, w_2 = v + half * a_1, w + half * b_1
    a_2, b_2 = accelerations(
        p + half * v, q + half * w, v_2, w_2, torque, gravity, length_1, mass_1, mass_2, com_1, com_2, inertia
    )
    v_3, w_3 = v + half * a_2, w + half * b_2
    a_3, b_3 = accelerations(
        p + half * v_2, q + half * w_2, v_3, w_3, torque, gravity, length_1, mass_1, mass_2, com_1, com_2, inertia
    )
    v_4, w_4 = v + time_step * a_3, w + time_step * b_3
    a_4, b_4 = accelerations(
        p + time_step * v_3,
        q + time_step * w_3,
        v_4,
        w_4,
        torque,
        gravity,
        length_1,
        mass_1,
        mass_2,
        com_1,
        com_2,
        inertia,
    )
    sixth = SIXTH * time_step
    p = wrapped(p + sixth * (v + TWO * v_2 + TWO * v_3 + v_4))
    q = wrapped(q + sixth * (w + TWO * w_2 + TWO * w_3 + w_4))
    v += sixth * (a_1 + TWO * a_2 + TWO * a_3 + a_4)
    w += sixth * (b_1 + TWO * b_2 + TWO * b_3 + b_4)

    angle_1[env], angle_2[env] = p, q
    velocity_1[env] = min(max(v, -largest_velocity_1), largest_velocity_1)
    velocity_2[env] = min(max(w, -largest_velocity_2), largest_velocity_2)
    is_up = -wd.math.cos(p) - wd.math.cos(p + q) > ONE
    terminated[env] = is_up
    rewards[env, agent] = np.float32(0) if is_up else -ONE


@wd.kernel
def observe(angle_1, angle_2, velocity_1, velocity_2, observations):
    """Write ``observations [6]``: cosine and sine of both angles, then both velocities."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = wd.math.cos(angle_1[env])
    observations[env, agent, 1] = wd.math.sin(angle_1[env])
    observations[env, agent, 2] = wd.math.cos(angle_2[env])
    observations[env, agent, 3] = wd.math.sin(angle_2[env])
    observations[env, agent, 4] = velocity_1[env]
    observations[env, agent, 5] = velocity_2[env]


@wd.kernel
def draw(shapes, angle_1, angle_2, length_1, length_2):
    """Draw both links, the joint between them, and the free end with its path."""
    env = cuda.blockIdx.x
    p, q = angle_1[env], angle_1[env] + angle_2[env]
    x, y = length_1 * wd.math.sin(p), -length_1 * wd.math.cos(p)
    end_x, end_y = x + length_2 * wd.math.sin(q), y - length_2 * wd.math.cos(q)
    is_up = -wd.math.cos(p) - wd.math.cos(q) > 1.0
    wd.draw.line(shapes, 0, 0.0, 0.0, x, y, 0.14, wd.draw.BLUE)
    wd.draw.line(shapes, 1, x, y, end_x, end_y, 0.14, wd.draw.SKY)
    wd.draw.circle(shapes, 2, x, y, 0.05, wd.draw.INK)
    wd.draw.circle(shapes, 3, end_x, end_y, 0.1, wd.draw.GREEN if is_up else wd.draw.ORANGE)
    wd.draw.trail(shapes, 3, 12)


class Acrobot(wd.Environment):
    """Swing the free end of two linked rods above a given height by a motor in the joint between them.

    ## Description

    Two links hang from a fixed joint; only the joint between them is actuated. The environment is Gymnasium's
    `Acrobot-v1` with the dynamics of Sutton and Barto's book, in float32; the defaults of all constants are those of
    `Acrobot-v1`. There is one agent; its policy tag is `agent`.

    The angle theta1 of the first link is measured from hanging straight down, the angle theta2 of the second link
    relative to the first. The angular accelerations (`accelerations` in `envs/acrobot/acrobot.py`) are integrated over
    `time_step` with the fourth-order Runge-Kutta method; then the angles are wrapped to [-pi, pi] and the velocities
    are clipped.

    ## Action Space

    `Discrete(len(torques))`, stored as `actions[env, agent]` (int32): the index of the torque in `torques`. By default:

    | Action | Meaning |
    | --- | --- |
    | 0 | apply a torque of -1 N m to the actuated joint |
    | 1 | apply no torque |
    | 2 | apply a torque of 1 N m to the actuated joint |

    ## Observation Space

    `Box` of shape `(6,)`, float32.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0 | cos(theta1) | -1 | 1 |
    | 1 | sin(theta1) | -1 | 1 |
    | 2 | cos(theta2) | -1 | 1 |
    | 3 | sin(theta2) | -1 | 1 |
    | 4 | angular velocity theta1' (rad/s) | -`largest_velocity_1` (-4 pi) | `largest_velocity_1` (4 pi) |
    | 5 | angular velocity theta2' (rad/s) | -`largest_velocity_2` (-9 pi) | `largest_velocity_2` (9 pi) |

    ## Rewards

    -1 in every step, and 0 in the step that terminates the episode.

    ## Starting State

    Both angles and both angular velocities are drawn uniformly from [-`start_range`, `start_range`), on the device.

    ## Episode End

    - Termination: the free end is high enough, -cos(theta1) - cos(theta1 + theta2) > 1.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        torques: Torque on the second joint in N m for each action; a sequence of one number or more.
        gravity: Gravitational acceleration in m/s^2, 0 or more.
        length_1: Length of the first link in m, greater than 0.
        length_2: Length of the second link in m, greater than 0; used for rendering only.
        mass_1: Mass of the first link in kg, greater than 0.
        mass_2: Mass of the second link in kg, greater than 0.
        com_1: Distance from the first joint to the first link's centre of mass in m, greater than 0.
        com_2: Distance from the second joint to the second link's centre of mass in m, greater than 0.
        inertia: Moment of inertia of either link about its centre of mass in kg m^2, greater than 0.
        largest_velocity_1: Limit of the first link's angular velocity in rad/s, greater than 0.
        largest_velocity_2: Limit of the second link's angular velocity in rad/s, greater than 0.
        time_step: Integration step in s, greater than 0.
        start_range: Bound of the uniform distribution of the start state, 0 or more.
        episode_length: Number of steps after which an episode is truncated, 1 or more.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - R. S. Sutton (1996), "Generalization in reinforcement learning: Successful examples using sparse coarse coding".
    - R. S. Sutton and A. G. Barto, "Reinforcement Learning: An Introduction": the dynamics.
    - Gymnasium, [Acrobot](https://gymnasium.farama.org/environments/classic_control/acrobot/).

    `reference_step` calls Gymnasium's `AcrobotEnv` in float64, whose gravity is fixed at 9.8; see the
    [agreement with reference implementations](index.md#agreement-with-reference-implementations).
    """

    name = "acrobot"
    parity: ClassVar[Mapping[str, Any]] = {
        "title": "Gymnasium's AcrobotEnv",
        "tolerance": 1e-5,
        "act": reference.against_the_swing,
    }
    termination_meaning: ClassVar[str] = "the free end swung up"
    step, observe, reset, draw = step, observe, reset, draw
    _gymnasium = cached_property(reference.twin)
    reference_observe = staticmethod(reference.observe)
    shapes_per_agent = 4

    def __init__(
        self,
        torques: Sequence[float] = (-1.0, 0.0, 1.0),
        gravity: float = 9.8,
        length_1: float = 1.0,
        length_2: float = 1.0,
        mass_1: float = 1.0,
        mass_2: float = 1.0,
        com_1: float = 0.5,
        com_2: float = 0.5,
        inertia: float = 1.0,
        largest_velocity_1: float = 4 * math.pi,
        largest_velocity_2: float = 9 * math.pi,
        time_step: float = 0.2,
        start_range: float = 0.1,
        episode_length: int = 500,
    ) -> None:
        real = parameters.real
        self.torques = parameters.reals("torques", torques)
        self.num_torques = len(self.torques)
        self.gravity = real("gravity", gravity, at_least=0)
        self.length_1 = real("length_1", length_1, above=0)
        self.length_2 = real("length_2", length_2, above=0)
        self.mass_1 = real("mass_1", mass_1, above=0)
        self.mass_2 = real("mass_2", mass_2, above=0)
        self.com_1 = real("com_1", com_1, above=0)
        self.com_2 = real("com_2", com_2, above=0)
        self.inertia = real("inertia", inertia, above=0)
        self.largest_velocity_1 = real("largest_velocity_1", largest_velocity_1, above=0)
        self.largest_velocity_2 = real("largest_velocity_2", largest_velocity_2, above=0)
        self.time_step = real("time_step", time_step, above=0)
        self.start_range = real("start_range", start_range, at_least=0)
        self.episode_length = parameters.whole("episode_length", episode_length, at_least=1)

        self.num_agents = 1
        self.policy_tags = {"agent": [0]}
        self.action_space = spaces.Discrete(len(self.torques))
        self.controls = {"": len(self.torques) // 2, "left": 0, "right": len(self.torques) - 1}
        reach = 1.15 * (self.length_1 + self.length_2)
        self.view = (-reach, reach, -reach, reach)
        bounds = np.array([1, 1, 1, 1, self.largest_velocity_1, self.largest_velocity_2], np.float32)
        self.observation_space = spaces.Box(-bounds, bounds)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return the state at rest, each array float32 of one number; ``reset`` draws the start state on the device."""
        names = ("angle_1", "angle_2", "velocity_1", "velocity_2")
        return {name: np.zeros((), np.float32) for name in names}

    def reference_step(self, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
        """Return the state after ``actions`` (int, ``[1]``), computed by Gymnasium's ``AcrobotEnv``."""
        return gymnasium_step(self._gymnasium, reference.STATE, state, int(actions[0]))

    @cached_property
    def _goal(self) -> Scene:
        low, high = self.view[:2]
        fixed = drawing.disc(0, 0, 0.12, wd.draw.GREY)
        return Scene(self.view, polygons=[drawing.stroke(low, 1, high, 1, 0.03, wd.draw.YELLOW), fixed])

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the target height of the free end, and the fixed joint."""
        return self._goal
