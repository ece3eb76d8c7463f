"""Underpowered car in a valley (Moore 1990; Gymnasium's ``MountainCar-v0``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import parameters
from warpdrive.envs.common.gymnasium_step import gymnasium_step
from warpdrive.envs.mountain_car import reference
from warpdrive.envs.mountain_car.valley import Valley, roll

MINUS_ONE = np.float32(-1)


@wd.kernel
def step(
    # state
    position, velocity,
    # actions
    actions,
    # constants
    force, gravity, min_position, max_position, max_speed, goal_position, goal_velocity,
    # out
    rewards, terminated,
):  # fmt: skip
    """Move the car by motor force and gravity; every step costs 1."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    push = np.float32(actions[env, agent] - 1) * force
    x, v = roll(position[env], velocity[env], push, gravity, min_position, max_position, max_speed)
    position[env], velocity[env] = x, v
    terminated[env] = x >= goal_position and v >= goal_velocity
    rewards[env, agent] = MINUS_ONE


class MountainCar(Valley):
    """Drive an underpowered car out of a valley by building up momentum on the opposite slope.

    ## Description

    A car in a valley of height sin(3 position) must reach the hill on the right, which is too steep for its motor: it
    has to gain speed on the left slope first. The environment is Gymnasium's `MountainCar-v0` in float32; the defaults
    of all constants are those of `MountainCar-v0`. There is one agent; its policy tag is `agent`. Velocities are per
    step.

    In each step

        velocity = clip(velocity + (action - 1) * force - gravity * cos(3 * position), -max_speed, max_speed)
        position = clip(position + velocity, min_position, max_position)

    A car that reaches `min_position` with a negative velocity stops there.

    ## Action Space

    `Discrete(3)`, stored as `actions[env, agent]` (int32).

    | Action | Meaning |
    | --- | --- |
    | 0 | accelerate to the left |
    | 1 | do not accelerate |
    | 2 | accelerate to the right |

    ## Observation Space

    `Box` of shape `(2,)`, float32.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0 | position | `min_position` (-1.2) | `max_position` (0.6) |
    | 1 | velocity | -`max_speed` (-0.07) | `max_speed` (0.07) |

    ## Rewards

    -1 in every step.

    ## Starting State

    The car is at rest at a position drawn uniformly from [`start_low`, `start_high`), on the device.

    ## Episode End

    - Termination: the position is `goal_position` or more and the velocity is `goal_velocity` or more.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        force: Change of velocity by an action, 0 or more.
        gravity: Change of velocity by gravity where the slope is steepest, 0 or more.
        min_position: Left end of the valley.
        max_position: Right end of the valley, greater than `min_position`.
        max_speed: Limit of the absolute velocity, greater than 0.
        goal_position: Position from which on the episode terminates, given a velocity of `goal_velocity` or more.
        goal_velocity: Minimum velocity at the goal.
        start_low: Lower bound of the start positions, from `min_position` to `max_position`.
        start_high: Upper bound of the start positions, from `start_low` to `max_position`.
        episode_length: Number of steps after which an episode is truncated, 1 or more.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - A. W. Moore (1990), "Efficient memory-based learning for robot control".
    - Gymnasium, [Mountain Car](https://gymnasium.farama.org/environments/classic_control/mountain_car/).

    `reference_step` calls Gymnasium's `MountainCarEnv` in float64; see the
    [agreement with reference implementations](index.md#agreement-with-reference-implementations).
    """

    name = "mountain_car"
    parity: ClassVar[Mapping[str, Any]] = {
        "title": "Gymnasium's MountainCarEnv",
        "tolerance": 1e-6,
        "episode_tolerance": 1e-3,
        "act": reference.along_the_velocity,
    }
    step = step
    _gymnasium = cached_property(reference.twin)

    def __init__(
        self,
        force: float = 0.001,
        gravity: float = 0.0025,
        min_position: float = -1.2,
        max_position: float = 0.6,
        max_speed: float = 0.07,
        goal_position: float = 0.5,
        goal_velocity: float = 0.0,
        start_low: float = -0.6,
        start_high: float = -0.4,
        episode_length: int = 200,
    ) -> None:
        super().__init__(
            gravity=gravity,
            min_position=min_position,
            max_position=max_position,
            max_speed=max_speed,
            goal_position=goal_position,
            goal_velocity=goal_velocity,
            start_low=start_low,
            start_high=start_high,
            episode_length=episode_length,
        )
        self.force = parameters.real("force", force, at_least=0)
        self.action_space = spaces.Discrete(3)
        self.controls = {"": 1, "left": 0, "right": 2}

    def reference_step(self, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
        """Return the state after ``actions`` (int, ``[1]``), computed by Gymnasium's ``MountainCarEnv``."""
        return gymnasium_step(self._gymnasium, reference.STATE, state, int(actions[0]))
