"""Mountain car with a continuous force and a quadratic cost (Gymnasium's ``MountainCarContinuous-v0``)."""

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
from warpdrive.envs.continuous_mountain_car import reference
from warpdrive.envs.mountain_car.reference import STATE, along_the_velocity
from warpdrive.envs.mountain_car.valley import Valley, roll

ZERO = np.float32(0)


@wd.kernel
def step(
    # state
    position, velocity,
    # actions
    actions,
    # constants
    power, largest_action, action_cost, goal_reward, gravity, min_position, max_position, max_speed, goal_position,
    goal_velocity,
    # out
    rewards, terminated,
):  # fmt: skip
    """Move the car by motor force and gravity; the cost is quadratic in the unclipped action."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    action = actions[env, agent, 0]
    push = min(max(action, -largest_action), largest_action) * power
    x, v = roll(position[env], velocity[env], push, gravity, min_position, max_position, max_speed)
    position[env], velocity[env] = x, v
    at_goal = x >= goal_position and v >= goal_velocity
    terminated[env] = at_goal
    rewards[env, agent] = (goal_reward if at_goal else ZERO) - action_cost * action * action


class ContinuousMountainCar(Valley):
    """Drive an underpowered car out of a valley with a continuous force that has a quadratic cost.

    ## Description

    The valley and the car are those of [`mountain_car`](mountain_car.md), but the force is continuous and each action
    has a cost; by default the goal is a little nearer. The environment is Gymnasium's `MountainCarContinuous-v0` in
    float32; the defaults of all constants are those of `MountainCarContinuous-v0`. There is one agent; its policy tag
    is `agent`. Velocities are per step.

    In each step

        push     = clip(action, -largest_action, largest_action) * power
        velocity = clip(velocity + push - gravity * cos(3 * position), -max_speed, max_speed)
        position = clip(position + velocity, min_position, max_position)

    A car that reaches `min_position` with a negative velocity stops there.

    ## Action Space

    `Box` of shape `(1,)`, stored as `actions[env, agent, 0]` (float32) and clipped to the bounds.

    | Index | Action | Min | Max |
    | --- | --- | --- | --- |
    | 0 | force on the car, in multiples of `power` | -`largest_action` (-1) | `largest_action` (1) |

    ## Observation Space

    `Box` of shape `(2,)`, float32.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0 | position | `min_position` (-1.2) | `max_position` (0.6) |
    | 1 | velocity | -`max_speed` (-0.07) | `max_speed` (0.07) |

    ## Rewards

    -`action_cost` (0.1) times the square of the action in every step, plus `goal_reward` (100) in the step that reaches
    the goal. Doing nothing yields a return of 0, a local optimum.

    ## Starting State

    The car is at rest at a position drawn uniformly from [`start_low`, `start_high`), on the device.

    ## Episode End

    - Termination: the position is `goal_position` or more and the velocity is `goal_velocity` or more.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        power: Change of velocity by an action of 1, 0 or more.
        largest_action: Bound of the absolute value of an action, greater than 0.
        action_cost: Coefficient of the squared action in the cost, 0 or more.
        goal_reward: Reward of the step that reaches the goal, 0 or more.
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
    - Gymnasium,
      [Mountain Car Continuous](https://gymnasium.farama.org/environments/classic_control/mountain_car_continuous/).

    `reference_step` calls Gymnasium's `Continuous_MountainCarEnv` in float64, whose gravity, goal reward and
    action cost are fixed; see the
    [agreement with reference implementations](index.md#agreement-with-reference-implementations).
    """

    name = "continuous_mountain_car"
    parity: ClassVar[Mapping[str, Any]] = {
        "title": "Gymnasium's Continuous_MountainCarEnv",
        "tolerance": 1e-6,
        "episode_tolerance": 1e-3,
        "act": along_the_velocity,
    }
    step = step
    _gymnasium = cached_property(reference.twin)

    def __init__(
        self,
        power: float = 0.0015,
        largest_action: float = 1.0,
        action_cost: float = 0.1,
        goal_reward: float = 100.0,
        gravity: float = 0.0025,
        min_position: float = -1.2,
        max_position: float = 0.6,
        max_speed: float = 0.07,
        goal_position: float = 0.45,
        goal_velocity: float = 0.0,
        start_low: float = -0.6,
        start_high: float = -0.4,
        episode_length: int = 999,
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
        self.power = parameters.real("power", power, at_least=0)
        self.largest_action = parameters.real("largest_action", largest_action, above=0)
        self.action_cost = parameters.real("action_cost", action_cost, at_least=0)
        self.goal_reward = parameters.real("goal_reward", goal_reward, at_least=0)
        self.action_space = spaces.Box(-self.largest_action, self.largest_action, (1,), np.float32)
        self.controls = {"left": {0: -self.largest_action}, "right": {0: self.largest_action}}

    def reference_step(self, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
        """Return the state after ``actions`` (float, ``[1, 1]``), computed by Gymnasium's own class."""
        return gymnasium_step(self._gymnasium, STATE, state, np.asarray(actions[0], np.float64))
