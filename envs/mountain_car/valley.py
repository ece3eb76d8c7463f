"""Base class of both mountain cars: the valley, the dynamics, start states, observations and rendering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import parameters
from warpdrive.envs.mountain_car import reference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ZERO, THREE = np.float32(0), np.float32(3)


@wd.kernel
def reset(position, velocity, rng, start_low, start_high):
    """Draw the position of the car, at rest."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    position[env] = start_low + (start_high - start_low) * wd.random.uniform(rng, env, agent)
    velocity[env] = ZERO


@wd.device_function
def roll(
    # state
    x, v,
    # action
    push,
    # constants
    gravity, min_position, max_position, max_speed,
):  # fmt: skip
    """Return position and velocity after a step; a car that hits the left end stops.

    Args:
        x: Position.
        v: Velocity per step.
        push: Acceleration by the motor, per step.
        gravity: Acceleration of gravity, per step.
        min_position: Left end of the valley.
        max_position: Right end of the valley.
        max_speed: Largest speed, per step.

    Returns:
        Position and velocity (float32).
    """
    v = min(max(v + push - gravity * wd.math.cos(THREE * x), -max_speed), max_speed)
    x = min(max(x + v, min_position), max_position)
    return x, max(v, ZERO) if x == min_position else v


@wd.kernel
def observe(position, velocity, observations):
    """Write ``observations [2]``: position and velocity."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    observations[env, agent, 0] = position[env]
    observations[env, agent, 1] = velocity[env]


class Valley(wd.Environment):
    """A valley of height sin(3 position) with a car in it; subclasses define the motor.

    Args:
        gravity: Acceleration of gravity, per step.
        min_position: Left end of the valley.
        max_position: Right end of the valley.
        max_speed: Largest speed, per step.
        goal_position: Position of the goal.
        goal_velocity: Lowest velocity at the goal.
        start_low: Lower end of the range of start positions.
        start_high: Upper end of this range.
        episode_length: Maximum number of steps.
    """

    termination_meaning: ClassVar[str] = "the car reached the goal"
    observe, reset = observe, reset

    def __init__(
        self,
        gravity: float,
        min_position: float,
        max_position: float,
        max_speed: float,
        goal_position: float,
        goal_velocity: float,
        start_low: float,
        start_high: float,
        episode_length: int,
    ) -> None:
        real = parameters.real
        self.gravity = real("gravity", gravity, at_least=0)
        self.min_position = real("min_position", min_position)
        self.max_position = real("max_position", max_position, above=self.min_position)
        self.max_speed = real("max_speed", max_speed, above=0)
        self.goal_position = real("goal_position", goal_position)
        self.goal_velocity = real("goal_velocity", goal_velocity)
        self.start_low = real("start_low", start_low, at_least=self.min_position, at_most=self.max_position)
        self.start_high = real("start_high", start_high, at_least=self.start_low, at_most=self.max_position)
        self.episode_length = parameters.whole("episode_length", episode_length, at_least=1)

        self.num_agents = 1
        self.policy_tags = {"agent": [0]}
        low = np.array([self.min_position, -self.max_speed], np.float32)
        high = np.array([self.max_position, self.max_speed], np.float32)
        self.observation_space = spaces.Box(low, high)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return ``position`` and ``velocity`` of a car at rest, float32; ``reset`` draws the start on the device."""
        return {"position": np.zeros((), np.float32), "velocity": np.zeros((), np.float32)}

    def reference_observe(self, state: dict[str, Any]) -> npt.NDArray[np.float32]:
        """Return the observations of ``state``, ``[1, 2]``."""
        return reference.observe(state)

    def render(self, state: dict[str, Any], trail: Sequence[dict[str, Any]] = ()) -> Figure:
        """Return a figure of ``state``; ``trail`` is ignored."""
        from warpdrive.envs.mountain_car.render import draw

        return draw(self, state)
