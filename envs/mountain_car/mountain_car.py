"""A car too weak for its hill gathers speed on the one opposite (Moore 1990; Gymnasium's ``MountainCar-v0``)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import parameters
from warpdrive.envs.mountain_car import reference
from warpdrive.envs.mountain_car.valley import Valley, roll

if TYPE_CHECKING:
    from gymnasium.envs.classic_control import MountainCarEnv

MINUS_ONE = np.float32(-1)


@wd.kernel
def step(
    position,
    velocity,
    actions,
    rewards,
    terminated,
    force,
    gravity,
    min_position,
    max_position,
    max_speed,
    goal_position,
    goal_velocity,
):
    """Roll for one step under motor force and gravity; every step costs 1."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    push = np.float32(actions[env, agent] - 1) * force
    x, v = roll(position[env], velocity[env], push, gravity, min_position, max_position, max_speed)
    position[env], velocity[env] = x, v
    terminated[env] = x >= goal_position and v >= goal_velocity
    rewards[env, agent] = MINUS_ONE


class MountainCar(Valley):
    """A car in a valley must reach the hill on the right, too steep for it unless it gathers speed on the left.

    One agent. Actions: 0 push to the left, 1 do nothing, 2 push to the right. All constants are those of
    ``MountainCar-v0``; velocities are per step.

    Args:
        force: change of velocity by a push, 0 or more.
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

    name = "mountain_car"
    step = step

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

    @cached_property
    def _gymnasium(self) -> MountainCarEnv:
        return reference.twin(self)

    def reference_step(self, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
        """Return the state after ``actions`` (int, ``[1]``), computed by Gymnasium's ``MountainCarEnv``."""
        return reference.step(self._gymnasium, state, int(actions[0]))
