"""Balancing of a pole on a cart (Barto, Sutton and Anderson 1983; Gymnasium's ``CartPole-v1``)."""

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
from warpdrive.envs.cartpole import reference
from warpdrive.envs.common import drawing, parameters
from warpdrive.envs.common.gymnasium_step import gymnasium_step
from warpdrive.scene.scene import Scene

FOUR_THIRDS = np.float32(4 / 3)
TWO, ONE, ZERO = np.float32(2), np.float32(1), np.float32(0)
PI = np.float32(math.pi)


@wd.kernel
def reset(position, velocity, angle, angular_velocity, rng, start_range):
    """Sample the start state, each number uniform in [-start_range, start_range)."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    u, v, w, z = wd.random.four_uniforms(rng, env, agent)
    position[env] = (TWO * u - ONE) * start_range
    velocity[env] = (TWO * v - ONE) * start_range
    angle[env] = (TWO * w - ONE) * start_range
    angular_velocity[env] = (TWO * z - ONE) * start_range


@wd.kernel
def step(
    # state
    position, velocity, angle, angular_velocity,
    # actions
    actions,
    # constants
    gravity, total_mass, pole_mass, pole_half_length, pole_moment, push_force, time_step, largest_position,
    largest_angle,
    # out
    rewards, terminated,
):  # fmt: skip
    """Push the cart and take one step of Euler's method: positions are updated with the previous velocities."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, v, theta, omega = position[env], velocity[env], angle[env], angular_velocity[env]
    force = push_force if actions[env, agent] == 1 else -push_force

    sine, cosine = wd.math.sin(theta), wd.math.cos(theta)
    push = (force + pole_moment * omega * omega * sine) / total_mass
    angular_acceleration = (gravity * sine - cosine * push) / (
        pole_half_length * (FOUR_THIRDS - pole_mass * cosine * cosine / total_mass)
    )
    acceleration = push - pole_moment * angular_acceleration * cosine / total_mass

    x += time_step * v
    v += time_step * acceleration
    theta += time_step * omega
    omega += time_step * angular_acceleration
    position[env], velocity[env], angle[env], angular_velocity[env] = x, v, theta, omega
    rewards[env, agent] = ONE
    terminated[env] = abs(x) > largest_position or abs(theta) > largest_angle


@wd.kernel
def observe(position, velocity, angle, angular_velocity, observations, see_velocities):
    """Write ``observations [4]``: the state, or zeros in place of velocities."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = position[env]
    observations[env, agent, 1] = velocity[env] if see_velocities else ZERO
    observations[env, agent, 2] = angle[env]
    observations[env, agent, 3] = angular_velocity[env] if see_velocities else ZERO


@wd.kernel
def draw(shapes, position, angle, actions, pole_half_length):
    """Draw the cart, the pole and its joint, and the direction of the push."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, length = position[env], TWO * pole_half_length
    side = 1.0 if actions[env, agent] == 1 else -1.0
    tip_x, tip_y = x + length * wd.math.sin(angle[env]), length * wd.math.cos(angle[env])
    wd.draw.rectangle(shapes, 0, x, 0.0, 0.5, 0.24, 0.0, wd.draw.BLUE)
    wd.draw.triangle(shapes, 1, x + 0.4 * side, 0.0, 0.2, 0.0 if side > 0.0 else PI, wd.draw.SKY)
    wd.draw.line(shapes, 2, x, 0.0, tip_x, tip_y, 0.09, wd.draw.ORANGE)
    wd.draw.circle(shapes, 3, x, 0.0, 0.05, wd.draw.INK)


class CartPole(wd.Environment):
    """Balance a pole on a cart by pushing the cart to the left or to the right.

    ## Description

    A pole is attached by an unactuated joint to a cart that moves along a track. In each step the cart is pushed with a
    fixed force, and the pole has to stay upright. The environment is Gymnasium's `CartPole-v1` in float32; the defaults
    of all constants are those of `CartPole-v1`. There is one agent; its policy tag is `agent`.

    With the position x, the angle theta from upright, the force F, the total mass M, and the mass m and half-length l
    of the pole:

        push    = (F + m l theta'^2 sin(theta)) / M
        theta'' = (g sin(theta) - cos(theta) push) / (l (4/3 - m cos(theta)^2 / M))
        x''     = push - m l theta'' cos(theta) / M

    The equations are integrated with the explicit Euler method: positions are updated with the velocities from before
    the step.

    ## Action Space

    `Discrete(2)`, stored as `actions[env, agent]` (int32).

    | Action | Meaning |
    | --- | --- |
    | 0 | push the cart to the left with `push_force` |
    | 1 | push the cart to the right with `push_force` |

    ## Observation Space

    `Box` of shape `(4,)`, float32.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0 | cart position x (m) | -2 `largest_position` (-4.8) | 2 `largest_position` (4.8) |
    | 1 | cart velocity x' (m/s) | -inf | inf |
    | 2 | pole angle theta (rad) | -2 `largest_angle` (about -0.419) | 2 `largest_angle` (about 0.419) |
    | 3 | pole angular velocity theta' (rad/s) | -inf | inf |

    With `see_velocities=False` the entries 1 and 3 are 0, and the velocities can only be inferred from earlier
    observations: the run configuration `cartpole_recurrent` trains an LSTM on this variant.

    ## Rewards

    1 in every step, including the step that terminates the episode.

    ## Starting State

    All four state variables are drawn uniformly from [-`start_range`, `start_range`), on the device.

    ## Episode End

    - Termination: the absolute value of x exceeds `largest_position`, or that of theta exceeds `largest_angle`.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        gravity: Gravitational acceleration in m/s^2, 0 or more.
        cart_mass: Mass of the cart in kg, greater than 0.
        pole_mass: Mass of the pole in kg, greater than 0.
        pole_half_length: Distance from the joint to the pole's centre of mass in m, greater than 0.
        push_force: Magnitude of the force on the cart in N, 0 or more.
        time_step: Integration step in s, greater than 0.
        largest_position: Absolute position in m beyond which the episode terminates, greater than 0.
        largest_angle: Absolute angle from upright in rad beyond which the episode terminates, greater than 0 and at
            most pi.
        start_range: Bound of the uniform distribution of the start state, 0 or more.
        episode_length: Number of steps after which an episode is truncated, 1 or more.
        see_velocities: If True, velocities are observed; otherwise their entries are 0.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - A. G. Barto, R. S. Sutton and C. W. Anderson (1983), "Neuronlike adaptive elements that can solve difficult
      learning control problems".
    - Gymnasium, [Cart Pole](https://gymnasium.farama.org/environments/classic_control/cart_pole/).

    `reference_step` calls Gymnasium's `CartPoleEnv` in float64; see the
    [agreement with reference implementations](index.md#agreement-with-reference-implementations).
    """

    name = "cartpole"
    parity: ClassVar[Mapping[str, Any]] = {
        "title": "Gymnasium's CartPoleEnv",
        "tolerance": 1e-6,
        "episode_tolerance": 1e-3,
    }
    termination_meaning: ClassVar[str] = "the pole fell or the cart left the track"
    step, observe, reset, draw = step, observe, reset, draw
    _gymnasium = cached_property(reference.twin)
    shapes_per_agent = 4
    cuda_twins: ClassVar[Mapping[str, wd.CudaKernel]] = {
        name: wd.cuda_kernel("cartpole.cu", name) for name in ("step", "observe", "reset")
    }

    def __init__(
        self,
        gravity: float = 9.8,
        cart_mass: float = 1.0,
        pole_mass: float = 0.1,
        pole_half_length: float = 0.5,
        push_force: float = 10.0,
        time_step: float = 0.02,
        largest_position: float = 2.4,
        largest_angle: float = math.radians(12),
        start_range: float = 0.05,
        episode_length: int = 500,
        see_velocities: bool = True,
    ) -> None:
        real = parameters.real
        self.gravity = real("gravity", gravity, at_least=0)
        self.cart_mass = real("cart_mass", cart_mass, above=0)
        self.pole_mass = real("pole_mass", pole_mass, above=0)
        self.pole_half_length = real("pole_half_length", pole_half_length, above=0)
        self.push_force = real("push_force", push_force, at_least=0)
        self.time_step = real("time_step", time_step, above=0)
        self.largest_position = real("largest_position", largest_position, above=0)
        self.largest_angle = real("largest_angle", largest_angle, above=0, at_most=math.pi)
        self.start_range = real("start_range", start_range, at_least=0)
        self.episode_length = parameters.whole("episode_length", episode_length, at_least=1)
        self.see_velocities = parameters.flag("see_velocities", see_velocities)
        self.total_mass = self.cart_mass + self.pole_mass
        self.pole_moment = self.pole_mass * self.pole_half_length
        width = 1.15 * self.largest_position
        self.view = (-width, width, -0.5, 2 * self.pole_half_length + 0.4)

        self.num_agents = 1
        self.policy_tags = {"agent": [0]}
        self.action_space = spaces.Discrete(2)
        self.controls = {"left": 0, "right": 1}
        bounds = np.array([2 * self.largest_position, np.inf, 2 * self.largest_angle, np.inf], np.float32)
        self.observation_space = spaces.Box(-bounds, bounds)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return the state at rest, each array float32 of one number; ``reset`` draws the start state on the device."""
        names = ("position", "velocity", "angle", "angular_velocity")
        return {name: np.zeros((), np.float32) for name in names}

    def reference_step(self, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
        """Return the state after ``actions`` (int, ``[1]``), computed by Gymnasium's ``CartPoleEnv``."""
        original = self._gymnasium
        original.steps_beyond_terminated = None  # the reward is that of the step that ends an episode
        after = gymnasium_step(original, reference.STATE, state, int(actions[0]))
        return {**after, "observations": reference.observe(after, self.see_velocities)}

    def reference_observe(self, state: dict[str, Any]) -> npt.NDArray[np.float32]:
        """Return the observations of ``state``, ``[1, 4]``."""
        return reference.observe(state, self.see_velocities)

    @cached_property
    def _track(self) -> Scene:
        (low, high), end = self.view[:2], self.largest_position
        track = drawing.stroke(low, 0, high, 0, 0.02, wd.draw.INK)
        ends = [drawing.stroke(x, -0.14, x, 0.14, 0.04, wd.draw.GREY) for x in (-end, end)]
        return Scene(self.view, polygons=[track, *ends])

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the track and the positions at which the episode ends."""
        return self._track
