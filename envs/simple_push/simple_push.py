"""An adversary pushes a good agent away from its goal (``simple_push`` of the package ``mpe2``)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

import warpdrive as wd
from warpdrive.envs.particles import dynamics

LOW, HIGH = np.float32(0.1), np.float32(0.9)
LOW_OF_AGENT, HIGH_OF_AGENT = np.float32(0.25), np.float32(0.75)


def _step(push: Any) -> Any:
    """Return the step kernel for actions whose direction is computed by ``push``."""

    @wd.kernel
    def step(
        # state
        loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, goal,
        # actions
        actions,
        # constants
        num_agents, acceleration, size, time_step, kept_velocity, inverse_mass, contact_force, contact_margin,
        inverse_margin,
        # out
        rewards,
    ):  # fmt: skip
        """Move both agents; then compare their distances from the goal."""
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        push_x, push_y = push(actions, env, agent)
        force_x, force_y = dynamics.with_contacts(
            acceleration * push_x, acceleration * push_y, env, agent, loc_x, loc_y, size, loc_x, loc_y, num_agents,
            size, contact_force, contact_margin, inverse_margin,
        )  # fmt: skip
        cuda.syncthreads()
        dynamics.advance(
            env, agent, loc_x, loc_y, velocity_x, velocity_y, force_x, force_y, time_step, kept_velocity, inverse_mass
        )
        cuda.syncthreads()

        there = goal[env, 0]
        of_adversary = wd.math.sqrt(dynamics.squared_distance(env, 0, loc_x, loc_y, there, landmark_x, landmark_y))
        of_good_agent = wd.math.sqrt(dynamics.squared_distance(env, 1, loc_x, loc_y, there, landmark_x, landmark_y))
        rewards[env, agent] = of_good_agent - of_adversary if agent == 0 else -of_good_agent

    return step


discrete_step, continuous_step = _step(dynamics.discrete_push), _step(dynamics.continuous_push)


@wd.kernel
def observe(
    # state
    loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, goal,
    # constants
    num_agents, num_landmarks,
    # out
    observations_adversary, observations_good_agent,
):  # fmt: skip
    """Write the observations of an agent; the colours of landmarks are constants, that of the agent is its goal's."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, y = loc_x[env, agent], loc_y[env, agent]
    own_x, own_y = velocity_x[env, agent], velocity_y[env, agent]
    if agent == 0:
        seen = observations_adversary
        i = dynamics.write(seen, env, 0, 0, own_x, own_y)
        i = dynamics.write_offsets(seen, env, 0, i, x, y, landmark_x, landmark_y, num_landmarks)
        dynamics.write_others(seen, env, 0, i, agent, loc_x, loc_y, num_agents)
    else:
        to, there = observations_good_agent, goal[env, 0]
        i = dynamics.write(to, env, 0, 0, own_x, own_y)
        i = dynamics.write(to, env, 0, i, landmark_x[env, there] - x, landmark_y[env, there] - y)
        i = dynamics.write_colour(to, env, 0, i, there + 1, LOW_OF_AGENT, HIGH_OF_AGENT)
        i = dynamics.write_offsets(to, env, 0, i, x, y, landmark_x, landmark_y, num_landmarks)
        for landmark in range(num_landmarks):
            i = dynamics.write_colour(to, env, 0, i, landmark + 1, LOW, HIGH)
        dynamics.write_others(to, env, 0, i, agent, loc_x, loc_y, num_agents)


class SimplePush(dynamics.Scenario):
    """Reach a landmark that an adversary defends, or, as the adversary, push the other agent away from it.

    ## Description

    One of two landmarks is the goal. The good agent (policy tag `good_agent`) knows it, and is rewarded for being near
    it; the adversary (`adversary`) is rewarded for being nearer to it than the good agent. The environment is
    `simple_push_v3` of `mpe2`, the multi-agent particle environments of Lowe et al. (2017), in float32, with the same
    constants. Agent 0 is the adversary, agent 1 the good agent.

    The dynamics are those of [`simple_spread`](simple_spread.md).

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

    One `Box` for each policy tag, float32: of shape `(19,)` for the good agent and `(8,)` for the adversary.

    | Index of good agent | of adversary | Observation | Min | Max |
    | --- | --- | --- | --- | --- |
    | 0, 1 | 0, 1 | own velocity x, y | -inf | inf |
    | 2, 3 | | position x, y of the goal, relative to the agent | -inf | inf |
    | 4 to 6 | | colour of the goal: 0.75 at its index + 1, 0.25 elsewhere | -inf | inf |
    | 7 to 10 | 2 to 5 | position x, y of each landmark, relative to the agent | -inf | inf |
    | 11 to 16 | | colour of each landmark: 0.9 at its index + 1, 0.1 elsewhere | -inf | inf |
    | 17, 18 | 6, 7 | position x, y of the other agent, relative to the agent | -inf | inf |

    ## Rewards

    - Good agent: -(its distance from the goal).
    - Adversary: the distance of the good agent from the goal, less its own.

    ## Starting State

    All agents are at rest. Both coordinates of each agent and landmark are drawn uniformly from [-1, 1), and the
    goal is one of the landmarks, on the device.

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
    - mpe2, [Simple Push](https://mpe2.farama.org/environments/simple_push/).

    See also the [agreement](index.md#agreement-with-reference-implementations) with the class of `mpe2`.
    """

    name = "simple_push"
    parity = dynamics.parity_with("simple_push")
    step, observe, reset, draw = discrete_step, observe, dynamics.reset_places_and_goals, dynamics.draw
    draw_things = dynamics.draw_landmarks_and_goals
    num_goals = 1

    def __init__(self, continuous_actions: bool = False, episode_length: int = 25) -> None:
        self._set_physics(continuous_actions=continuous_actions, episode_length=episode_length)
        self.num_landmarks = 2
        self._set_appearance([wd.draw.RED, wd.draw.BLUE])
        self.step = continuous_step if self.continuous_actions else discrete_step
        self.policy_tags = {"adversary": [0], "good_agent": [1]}
        self.observation_space = {"adversary": dynamics.unbounded(8), "good_agent": dynamics.unbounded(19)}
