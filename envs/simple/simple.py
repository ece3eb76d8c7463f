"""A single agent moves to a landmark (``simple`` of the package ``mpe2``)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

import warpdrive as wd
from warpdrive.envs.particles import dynamics

ZERO = np.float32(0)


def _step(push: Any) -> Any:
    """Return the step kernel for actions whose direction is computed by ``push``."""

    @wd.kernel
    def step(
        # state
        loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y,
        # actions
        actions,
        # constants
        acceleration, time_step, kept_velocity, inverse_mass,
        # out
        rewards,
    ):  # fmt: skip
        """Move the agent; the cost is its squared distance from the landmark."""
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        push_x, push_y = push(actions, env, agent)
        dynamics.advance(
            env, agent, loc_x, loc_y, velocity_x, velocity_y, acceleration * push_x, acceleration * push_y,
            time_step, kept_velocity, inverse_mass,
        )  # fmt: skip
        rewards[env, agent] = -dynamics.squared_distance(env, agent, loc_x, loc_y, 0, landmark_x, landmark_y)

    return step


discrete_step, continuous_step = _step(dynamics.discrete_push), _step(dynamics.continuous_push)


@wd.kernel
def observe(
    # state
    loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y,
    # out
    observations,
):  # fmt: skip
    """Write the velocity of the agent and the position of the landmark relative to it."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    i = dynamics.write(observations, env, agent, 0, velocity_x[env, agent], velocity_y[env, agent])
    x, y = loc_x[env, agent], loc_y[env, agent]
    dynamics.write_offsets(observations, env, agent, i, x, y, landmark_x, landmark_y, 1)


class Simple(dynamics.Scenario):
    """Move a single agent to a landmark: the simplest of the particle environments.

    ## Description

    The environment is `simple_v3` of `mpe2`, the multi-agent particle environments of Lowe et al. (2017), in float32,
    with the same constants. It has one agent, with the policy tag `agent`, which is rewarded for being near a landmark.
    The dynamics are those of [`simple_spread`](simple_spread.md), without contact forces.

    ## Action Space

    `Discrete(5)`, stored as `actions[env, agent]` (int32): no force, left (-x), right (+x), down (-y), up (+y). With
    `continuous_actions=True` a `Box` of shape `(5,)`, stored as `actions[env, agent, index]` (float32) and clipped to
    the bounds: the magnitude of the force in each direction.

    | Action or index | Meaning | Min | Max |
    | --- | --- | --- | --- |
    | 0 | no force; unused if continuous | 0 | 1 |
    | 1, 2 | left (-x), right (+x) | 0 | 1 |
    | 3, 4 | down (-y), up (+y) | 0 | 1 |

    ## Observation Space

    `Box` of shape `(4,)`, float32.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0, 1 | own velocity x, y | -inf | inf |
    | 2, 3 | position x, y of the landmark, relative to the agent | -inf | inf |

    ## Rewards

    -d^2, where d is the distance of the agent from the landmark.

    ## Starting State

    The agent is at rest. Both coordinates of the agent and of the landmark are drawn uniformly from [-1, 1), on the
    device.

    ## Episode End

    - Termination: never.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        continuous_actions: If True, an action is the magnitude of the force in each direction, otherwise one direction.
        episode_length: Number of steps after which an episode is truncated, 1 or more.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - R. Lowe et al. (2017), "Multi-agent actor-critic for mixed cooperative-competitive environments",
      [arXiv 1706.02275](https://arxiv.org/abs/1706.02275).
    - mpe2, [Simple](https://mpe2.farama.org/environments/simple/).

    See also the [agreement](index.md#agreement-with-reference-implementations) with the class of `mpe2`.
    """

    name = "simple"
    parity = dynamics.parity_with("simple")
    step, observe, reset, draw = discrete_step, observe, dynamics.reset_places, dynamics.draw
    landmark_colours = (wd.draw.GREEN,)

    def __init__(self, continuous_actions: bool = False, episode_length: int = 25) -> None:
        self._set_physics(continuous_actions=continuous_actions, episode_length=episode_length)
        self.num_landmarks = 1
        self._set_appearance([wd.draw.BLUE])
        self.step = continuous_step if self.continuous_actions else discrete_step
        self.policy_tags = {"agent": [0]}
        self.observation_space = dynamics.unbounded(4)
