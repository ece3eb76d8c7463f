"""A mountain car whose force is a number, and which pays for it (Gymnasium's ``MountainCarContinuous-v0``)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import parameters
from warpdrive.envs.continuous_mountain_car import reference
from warpdrive.envs.mountain_car.reference import step as gymnasium_step
from warpdrive.envs.mountain_car.valley import Valley, roll

if TYPE_CHECKING:
    from gymnasium.envs.classic_control import Continuous_MountainCarEnv

ZERO = np.float32(0)


@wd.kernel
def step(
    position,
    velocity,
    actions,
    rewards,
    terminated,
    power,
    largest_action,
    action_cost,
    goal_reward,
    gravity,
    min_position,
    max_position,
    max_speed,
    goal_position,
    goal_velocity,
):
    """Roll for one step under motor force and gravity; the cost is quadratic in the unclipped action."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    action = actions[env, agent, 0]
    push = min(max(action, -largest_action), largest_action) * power
    x, v = roll(position[env], velocity[env], push, gravity, min_position, max_position, max_speed)
    position[env], velocity[env] = x, v
    at_goal = x >= goal_position and v >= goal_velocity
    terminated[env] = at_goal
    rewards[env, agent] = (goal_reward if at_goal else ZERO) - action_cost * action * action


class ContinuousMountainCar(Valley):
    """A car in a valley must reach the hill on the right with little force, gathering speed on the left.

    One agent, whose action is the force. All constants are those of ``MountainCarContinuous-v0``; velocities are per
    step.

    Args:
        power: change of velocity by an action of 1, 0 or more.
        largest_action: actions are clipped to [-largest_action, largest_action], greater than 0.
        action_cost: cost of the square of an action, 0 or more.
        goal_reward: reward of the step that reaches the goal, 0 or more.
        gravity: change of velocity by the slope where it is steepest, 0 or more.
        min_position: left end of the valley.
        max_position: right end of the valley, greater than ``min_position``.
        max_speed: limit of the velocity, greater than 0.
        goal_position: position from which on the episode terminates, if the car is fast enough.
        goal_velocity: minimum velocity at the goal.
        start_low: lower end of the start positions, from ``min_position`` to ``max_position``.
        start_high: upper end of the start positions, from ``start_low`` to ``max_position``.
        episode_length: steps after which an episode is truncated, 1 or more.

    Raises:
        DefinitionError: a parameter has the wrong type, sign or range.
    """

    name = "continuous_mountain_car"
    step = step

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

    @cached_property
    def _gymnasium(self) -> Continuous_MountainCarEnv:
        return reference.twin(self)

    def reference_step(self, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
        """Return the state after ``actions`` (float, ``[1, 1]``), computed by Gymnasium's own class."""
        return gymnasium_step(self._gymnasium, state, np.asarray(actions[0], np.float64))
