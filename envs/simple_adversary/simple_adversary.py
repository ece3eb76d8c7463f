"""Good agents hide their goal from an adversary (``simple_adversary`` of the package ``mpe2``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import parameters
from warpdrive.envs.particles import dynamics

INFINITY = np.float32(np.inf)


def _step(push: Any) -> Any:
    """Return the step kernel for actions whose direction is computed by ``push``."""

    @wd.kernel
    def step(
        # state
        loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, goal,
        # actions
        actions,
        # constants
        num_agents, acceleration, time_step, kept_velocity, inverse_mass,
        # out
        rewards,
    ):  # fmt: skip
        """Move all agents; then compare the distances of both teams from the goal."""
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        push_x, push_y = push(actions, env, agent)
        dynamics.advance(
            env, agent, loc_x, loc_y, velocity_x, velocity_y, acceleration * push_x, acceleration * push_y,
            time_step, kept_velocity, inverse_mass,
        )  # fmt: skip
        cuda.syncthreads()

        of_adversary = dynamics.squared_distance(env, 0, loc_x, loc_y, goal[env, 0], landmark_x, landmark_y)
        of_adversary = wd.math.sqrt(of_adversary)
        nearest = INFINITY
        for other in range(1, num_agents):
            squared = dynamics.squared_distance(env, other, loc_x, loc_y, goal[env, 0], landmark_x, landmark_y)
            nearest = min(nearest, squared)
        rewards[env, agent] = -of_adversary if agent == 0 else of_adversary - wd.math.sqrt(nearest)

    return step


discrete_step, continuous_step = _step(dynamics.discrete_push), _step(dynamics.continuous_push)


@wd.kernel
def observe(
    # state
    loc_x, loc_y, landmark_x, landmark_y, goal,
    # constants
    num_agents, num_landmarks, nearest_agents, nearest_landmarks,
    # out
    observations_adversary, observations_good_agent,
):  # fmt: skip
    """Write the goal for good agents, then the landmarks and the other agents, all relative to the agent."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, y = loc_x[env, agent], loc_y[env, agent]
    if agent == 0:
        seen = observations_adversary
        i = dynamics.write_seen(seen, env, 0, 0, x, y, -1, landmark_x, landmark_y, num_landmarks, nearest_landmarks)
        dynamics.write_seen(seen, env, 0, i, x, y, agent, loc_x, loc_y, num_agents, nearest_agents)
    else:
        to, row = observations_good_agent, agent - 1
        there = goal[env, 0]
        i = dynamics.write(to, env, row, 0, landmark_x[env, there] - x, landmark_y[env, there] - y)
        i = dynamics.write_seen(to, env, row, i, x, y, -1, landmark_x, landmark_y, num_landmarks, nearest_landmarks)
        dynamics.write_seen(to, env, row, i, x, y, agent, loc_x, loc_y, num_agents, nearest_agents)


class SimpleAdversary(dynamics.Scenario):
    """Move to a goal that an adversary does not know, or, as the adversary, find the goal.

    ## Description

    One of the landmarks is the goal. Good agents (policy tag `good_agent`) know it, and are rewarded for being near it
    and for keeping the adversary (`adversary`) away, so that they must cover the other landmarks, too. The environment
    is `simple_adversary_v3` of `mpe2`, the multi-agent particle environments of Lowe et al. (2017), in float32, with
    the same constants. Agent 0 is the adversary.

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

    One `Box` for each policy tag, float32. For N good agents, which are as many as landmarks, the shape is
    `(2 + 4 N,)` for good agents, `(10,)` by default, and `(4 N,)` for the adversary, `(8,)` by default.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0, 1, of good agents only | position x, y of the goal, relative to the agent | -inf | inf |
    | next 2 N | position x, y of each landmark, relative to the agent | -inf | inf |
    | last 2 N | position x, y of each other agent in id order, relative to the agent | -inf | inf |

    With `num_agent_neighbors` and `num_landmark_neighbors`, the numbers of other agents and of landmarks are these, and
    the nearest ones are observed, in the order of their distance. Numbers of agents or landmarks that do not exist
    are 0. Good agents always observe the goal.

    ## Rewards

    - Adversary: -(its distance from the goal).
    - Good agents, all the same: the distance of the adversary from the goal, less that of the nearest good agent.

    ## Starting State

    All agents are at rest. Both coordinates of each agent and landmark are drawn uniformly from [-1, 1), and the
    goal is one of the landmarks, on the device.

    ## Episode End

    - Termination: never.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        num_good_agents: Number of good agents and of landmarks, 1 or more; `N` in `mpe2`.
        continuous_actions: If True, an action is the magnitude of the force in each direction, otherwise one direction.
        episode_length: Number of steps after which an episode is truncated, 1 or more.
        num_agent_neighbors: Number of nearest other agents that an agent observes, 1 or more; None for all.
        num_landmark_neighbors: Number of nearest landmarks that an agent observes, 1 or more; None for all.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - R. Lowe et al. (2017), "Multi-agent actor-critic for mixed cooperative-competitive environments",
      [arXiv 1706.02275](https://arxiv.org/abs/1706.02275).
    - mpe2, [Simple Adversary](https://mpe2.farama.org/environments/simple_adversary/).

    See also the [agreement](index.md#agreement-with-reference-implementations) with the class of `mpe2`.
    """

    name = "simple_adversary"
    original_names: ClassVar[Mapping[str, str]] = {**dynamics.ParticleWorld.original_names, "N": "num_good_agents"}
    parity = dynamics.parity_with("simple_adversary")
    step, observe, reset, draw = discrete_step, observe, dynamics.reset_places_and_goals, dynamics.draw
    draw_things = dynamics.draw_landmarks_and_goals
    num_goals = 1

    def __init__(
        self,
        num_good_agents: int = 2,
        continuous_actions: bool = False,
        episode_length: int = 25,
        num_agent_neighbors: int | None = None,
        num_landmark_neighbors: int | None = None,
    ) -> None:
        self.num_good_agents = parameters.whole("num_good_agents", num_good_agents, at_least=1)
        self._set_physics(continuous_actions=continuous_actions, episode_length=episode_length)
        n = self.num_landmarks = self.num_good_agents
        self._set_appearance([wd.draw.RED, *[wd.draw.BLUE] * n], size=0.15, landmark_size=0.08)
        self.step = continuous_step if self.continuous_actions else discrete_step
        self.policy_tags = {"adversary": [0], "good_agent": range(1, self.num_agents)}
        self._set_sight(num_agent_neighbors, num_landmark_neighbors)
        length = 2 * (self.nearest_landmarks or n) + 2 * (self.nearest_agents or n)
        self.observation_space = {"adversary": dynamics.unbounded(length), "good_agent": dynamics.unbounded(2 + length)}

    def original_parameters(self) -> Mapping[str, Any]:
        """Return the arguments of the class of ``mpe2`` other than ``continuous_actions``."""
        return {"N": self.num_good_agents, **self._original_sight()}
