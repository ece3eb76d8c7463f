"""Base class of both mountain cars: the valley, the dynamics, start states, observations and pictures."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import drawing, parameters
from warpdrive.envs.mountain_car import reference
from warpdrive.scene.scene import Polygon, Scene

ZERO, ONE, THREE = np.float32(0), np.float32(1), np.float32(3)
HEIGHT = np.float32(0.45)
"""Height of the hills in pictures."""


@wd.kernel
def reset(position, velocity, rng, start_low, start_high):
    """Sample the position of the car, at rest."""
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


@wd.kernel
def draw(shapes, position):
    """Draw the car on the slope: body, cabin and wheels."""
    env = cuda.blockIdx.x
    x, y = position[env], HEIGHT * wd.math.sin(THREE * position[env])
    rise = THREE * HEIGHT * wd.math.cos(THREE * x)
    along = 1.0 / wd.math.sqrt(1.0 + rise * rise)
    up = rise * along  # (along, up) is the direction of the slope
    slope = wd.math.atan2(rise, ONE)
    wd.draw.rectangle(
        shapes, 0, x - 0.1 * up - 0.02 * along, y + 0.1 * along - 0.02 * up, 0.1, 0.06, slope, wd.draw.SKY
    )
    wd.draw.rectangle(shapes, 1, x - 0.055 * up, y + 0.055 * along, 0.2, 0.05, slope, wd.draw.BLUE)
    wd.draw.circle(shapes, 2, x - 0.06 * along - 0.03 * up, y - 0.06 * up + 0.03 * along, 0.03, wd.draw.INK)
    wd.draw.circle(shapes, 3, x + 0.06 * along - 0.03 * up, y + 0.06 * up + 0.03 * along, 0.03, wd.draw.INK)


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
    observe, reset, draw = observe, reset, draw
    reference_observe = staticmethod(reference.observe)
    shapes_per_agent = 4

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

        self.view = (self.min_position - 0.06, self.max_position + 0.06, -0.57, 0.75)
        self.num_agents = 1
        self.policy_tags = {"agent": [0]}
        low = np.array([self.min_position, -self.max_speed], np.float32)
        high = np.array([self.max_position, self.max_speed], np.float32)
        self.observation_space = spaces.Box(low, high)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return ``position`` and ``velocity`` of a car at rest, float32; ``reset`` draws the start on the device."""
        return {"position": np.zeros((), np.float32), "velocity": np.zeros((), np.float32)}

    @cached_property
    def _hills(self) -> Scene:
        low_x, high_x, low_y, _ = self.view
        x, goal, foot = np.linspace(low_x, high_x, 100), self.goal_position, HEIGHT * math.sin(3 * self.goal_position)
        top = np.stack([x, HEIGHT * np.sin(3 * x)], axis=1)
        earth = np.concatenate([top, [[high_x, low_y], [low_x, low_y]]]).astype(np.float32)
        cloth = np.array([[goal, foot + 0.22], [goal + 0.1, foot + 0.185], [goal, foot + 0.15]], np.float32)
        flag = [drawing.stroke(goal, foot, goal, foot + 0.22, 0.012, wd.draw.INK), Polygon(cloth, wd.draw.YELLOW)]
        hills = [Polygon(earth, wd.draw.GREY), Polygon(earth[:-2], -1, wd.draw.INK, 0.01)]
        return Scene(self.view, polygons=[*flag, *hills])

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the hills, and a flag at the goal."""
        return self._hills
