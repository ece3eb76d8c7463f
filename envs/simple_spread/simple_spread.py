"""Agents spread over landmarks without bumping into each other (``simple_spread`` of the package ``mpe2``)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import parameters
from warpdrive.envs.particles import dynamics

ZERO, ONE = np.float32(0), np.float32(1)
COVERED = np.float32(0.1)
"""Distance within which an agent covers a landmark."""
INFINITY = np.float32(np.inf)
COVERED_SQUARED = COVERED * COVERED


def _step(push: Any) -> Any:
    """Return the step kernel for actions whose direction is computed by ``push``."""

    @wd.kernel
    def step(
        # state
        loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y,
        # actions
        actions,
        # constants
        num_agents, num_landmarks, time_step, kept_velocity, acceleration, inverse_mass, size,
        touching_distance, contact_force, contact_margin, inverse_margin, landmark_weight, collision_weight,
        terminate_on_success,
        # out
        rewards, terminated,
    ):  # fmt: skip
        """Move all agents; then compute the shared cost of landmark distances and the individual cost of collisions."""
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        distances = cuda.shared.array(num_landmarks, np.float32)
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

        for i in range(agent, num_landmarks, num_agents):
            nearest = INFINITY
            for other in range(num_agents):
                squared = dynamics.squared_distance(env, other, loc_x, loc_y, i, landmark_x, landmark_y)
                nearest = min(nearest, squared)
            distances[i] = wd.math.sqrt(nearest)
        collisions = -ONE  # corrects for the agent's contact with itself
        for other in range(num_agents):
            squared = dynamics.squared_distance(env, other, loc_x, loc_y, agent, loc_x, loc_y)
            collisions += ONE if squared < touching_distance * touching_distance else ZERO
        cuda.syncthreads()

        total, farthest = ZERO, ZERO
        for i in range(num_landmarks):
            total += distances[i]
            farthest = max(farthest, distances[i])
        if terminate_on_success and agent == 0:
            terminated[env] = farthest < COVERED
        rewards[env, agent] = -(landmark_weight * total + collision_weight * collisions)

    return step


discrete_step, continuous_step = _step(dynamics.discrete_push), _step(dynamics.continuous_push)


@wd.kernel
def observe(
    # state
    loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y,
    # constants
    num_agents, num_landmarks, nearest_agents, nearest_landmarks,
    # out
    observations,
):  # fmt: skip
    """Write the observations of an agent; the last numbers, the communication, stay 0."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, y = loc_x[env, agent], loc_y[env, agent]
    i = dynamics.write(observations, env, agent, 0, velocity_x[env, agent], velocity_y[env, agent])
    i = dynamics.write(observations, env, agent, i, x, y)
    i = dynamics.write_seen(
        observations, env, agent, i, x, y, -1, landmark_x, landmark_y, num_landmarks, nearest_landmarks
    )
    dynamics.write_seen(observations, env, agent, i, x, y, agent, loc_x, loc_y, num_agents, nearest_agents)


@wd.kernel
def draw(shapes, loc_x, loc_y, num_agents, agent_size, touching_distance):
    """Draw an agent as a disc, with a ring if it touches another one."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, y = loc_x[env, agent], loc_y[env, agent]
    touches = False
    for other in range(num_agents):
        dx, dy = loc_x[env, other] - x, loc_y[env, other] - y
        touches = touches or (other != agent and dx * dx + dy * dy < touching_distance * touching_distance)
    wd.draw.circle(shapes, 0, x, y, agent_size, wd.draw.BLUE)
    wd.draw.trail(shapes, 0, 12)
    if touches:
        wd.draw.circle(shapes, 1, x, y, 1.2 * agent_size, wd.draw.ORANGE)
        wd.draw.style(shapes, 1, 1.0, -1, -1)


@wd.kernel
def draw_landmarks(things, loc_x, loc_y, landmark_x, landmark_y, agent_size, num_agents, num_landmarks):
    """Draw the landmarks, covered or not, distributed over the threads."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for landmark in range(agent, num_landmarks, num_agents):
        x, y = landmark_x[env, landmark], landmark_y[env, landmark]
        colour = wd.draw.YELLOW
        for other in range(num_agents):
            away_x, away_y = loc_x[env, other] - x, loc_y[env, other] - y
            if away_x * away_x + away_y * away_y < COVERED_SQUARED:
                colour = wd.draw.GREEN
        place = 3 * (landmark // num_agents)
        wd.draw.circle(things, place, x, y, np.float32(1.59) * agent_size, colour)
        wd.draw.circle(things, place + 1, x, y, np.float32(1.41) * agent_size, wd.draw.GROUND)
        wd.draw.circle(things, place + 2, x, y, np.float32(0.18) * agent_size, colour)


class SimpleSpread(dynamics.ParticleWorld):
    """Cover all landmarks cooperatively while avoiding collisions with other agents.

    ## Description

    Agents share a reward for covering the landmarks, and each agent is penalised for its collisions. The environment is
    `simple_spread_v3` of `mpe2`, the multi-agent particle environments of Lowe et al. (2017), in float32; the defaults
    of all constants are those of `simple_spread_v3`. All agents share the policy tag `agent`.

    Agents are discs with a mass. In each step, with the sum F of the forces of the action and of contacts,

        position = position + velocity * time_step
        velocity = velocity * (1 - damping) + F / mass * time_step

    Agents that overlap repel each other: discs at distance d that touch at distance D exert a force of
    `contact_force * contact_margin * softplus((D - d) / contact_margin)`, a smooth version of
    `contact_force * max(D - d, 0)`. Landmarks are points without contact forces, and there are no walls.

    Unlike in `mpe2`, which computes NaN there, discs at the same position exert no force on each other.

    ## Action Space

    `Discrete(5)`, stored as `actions[env, agent]` (int32). An action other than 0 exerts a force of `acceleration`.

    | Action | Meaning |
    | --- | --- |
    | 0 | no force |
    | 1 | left (-x) |
    | 2 | right (+x) |
    | 3 | down (-y) |
    | 4 | up (+y) |

    With `continuous_actions=True` it is a `Box` of shape `(5,)`, stored as `actions[env, agent, index]` (float32) and
    clipped to the bounds: the magnitude of the force in each direction, in multiples of `acceleration`.

    | Index | Action | Min | Max |
    | --- | --- | --- | --- |
    | 0 | unused | 0 | 1 |
    | 1 | left (-x) | 0 | 1 |
    | 2 | right (+x) | 0 | 1 |
    | 3 | down (-y) | 0 | 1 |
    | 4 | up (+y) | 0 | 1 |

    ## Observation Space

    `Box` of shape `(4 + 2 L + 4 (N - 1),)` for N agents and L landmarks, float32; `(18,)` by default.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0, 1 | own velocity x, y | -inf | inf |
    | 2, 3 | own position x, y | -inf | inf |
    | next 2 L | position x, y of each landmark, relative to the agent | -inf | inf |
    | next 2 (N - 1) | position x, y of each other agent in id order, relative to the agent | -inf | inf |
    | last 2 (N - 1) | communication of the other agents: 0, since agents are silent | -inf | inf |

    With `num_agent_neighbors` and `num_landmark_neighbors`, the numbers of other agents and of landmarks are these, and
    the nearest ones are observed, in the order of their distance. Numbers of agents or landmarks that do not exist
    are 0.

    ## Rewards

    The sum of two terms:

    - shared by all agents: -(1 - `local_ratio`) times the sum over the landmarks of the distance to the nearest agent;
    - individual: -`local_ratio` * `collision_penalty` for each other agent nearer than 2 `agent_size`.

    ## Starting State

    All agents are at rest. Both coordinates of each agent and landmark are drawn uniformly from
    [-`start_range`, `start_range`), on the device.

    ## Episode End

    - Termination: never, or with `terminate_on_success` when there is an agent within 0.1 of each landmark.
    - Truncation: after `episode_length` steps. If the last step also terminates the episode, `mpe2` reports only the
      truncation.

    ## Arguments

    Args:
        num_agents: Number of agents N, 1 or more.
        num_landmarks: Number of landmarks L, 1 or more.
        local_ratio: Weight of an agent's own collisions in its reward, from 0 to 1; the shared reward has the weight
            1 - local_ratio.
        continuous_actions: If True, an action is the magnitude of the force in each direction, otherwise one direction.
        collision_penalty: Cost of each contact with another agent, 0 or more.
        agent_size: Radius of an agent, greater than 0.
        acceleration: Force of an action, 0 or more.
        mass: Mass of an agent, greater than 0.
        damping: Fraction of its velocity that an agent loses in a step, from 0 to 1.
        contact_force: Force between agents per unit of overlap, 0 or more.
        contact_margin: Width of the smooth transition of the contact force, greater than 0.
        time_step: Integration step, greater than 0.
        start_range: Bound of the uniform distribution of start coordinates, greater than 0.
        episode_length: Number of steps after which an episode is truncated, 1 or more.
        num_agent_neighbors: Number of nearest other agents that an agent observes, 1 or more; None for all.
        num_landmark_neighbors: Number of nearest landmarks that an agent observes, 1 or more; None for all.
        terminate_on_success: If True, an episode ends when all landmarks are covered.

    `mpe2` calls `num_agents` N and `episode_length` max_cycles. The first stage of its curriculum is
    `collision_penalty=0`.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - R. Lowe et al. (2017), "Multi-agent actor-critic for mixed cooperative-competitive environments",
      [arXiv 1706.02275](https://arxiv.org/abs/1706.02275).
    - mpe2, [Simple Spread](https://mpe2.farama.org/environments/simple_spread/).

    See also the [agreement](index.md#agreement-with-reference-implementations) with the class of `mpe2`.
    """

    name = "simple_spread"
    original_names: ClassVar[Mapping[str, str]] = {
        **dynamics.ParticleWorld.original_names,
        "N": "num_agents",
        "curriculum": "Its first stage is collision_penalty=0.",
    }
    parity = dynamics.parity_with("simple_spread")
    step, observe, reset, draw = discrete_step, observe, dynamics.reset_places, draw
    draw_things = draw_landmarks
    shapes_per_agent = 2

    def __init__(
        self,
        num_agents: int = 3,
        num_landmarks: int = 3,
        local_ratio: float = 0.5,
        continuous_actions: bool = False,
        collision_penalty: float = 1.0,
        agent_size: float = 0.15,
        acceleration: float = 5.0,
        mass: float = 1.0,
        damping: float = 0.25,
        contact_force: float = 100.0,
        contact_margin: float = 0.001,
        time_step: float = 0.1,
        start_range: float = 1.0,
        episode_length: int = 25,
        num_agent_neighbors: int | None = None,
        num_landmark_neighbors: int | None = None,
        terminate_on_success: bool = False,
    ) -> None:
        real = parameters.real
        self.num_agents = parameters.whole("num_agents", num_agents, at_least=1)
        self.num_landmarks = parameters.whole("num_landmarks", num_landmarks, at_least=1)
        self.local_ratio = real("local_ratio", local_ratio, at_least=0, at_most=1)
        self.collision_penalty = real("collision_penalty", collision_penalty, at_least=0)
        self.agent_size = real("agent_size", agent_size, above=0)
        self.terminate_on_success = parameters.flag("terminate_on_success", terminate_on_success)
        self.acceleration = real("acceleration", acceleration, at_least=0)
        self._set_physics(
            mass=mass,
            damping=damping,
            contact_force=contact_force,
            contact_margin=contact_margin,
            time_step=time_step,
            start_range=start_range,
            episode_length=episode_length,
            continuous_actions=continuous_actions,
        )
        self.size = np.full(self.num_agents, self.agent_size, np.float32)
        self.touching_distance = 2 * self.agent_size
        self.landmark_weight = 1 - self.local_ratio
        self.things_per_agent = 3 * -(-self.num_landmarks // self.num_agents)
        self.collision_weight = self.local_ratio * self.collision_penalty

        self.view = (-1.35 * self.start_range, 1.35 * self.start_range) * 2
        self.step = continuous_step if self.continuous_actions else discrete_step
        self.policy_tags = {"agent": range(self.num_agents)}
        self._set_sight(num_agent_neighbors, num_landmark_neighbors)
        length = 4 + 2 * (self.nearest_landmarks or self.num_landmarks)
        length += 4 * (self.nearest_agents or self.num_agents - 1)
        self.observation_space = dynamics.unbounded(length)

    def original_parameters(self) -> Mapping[str, Any]:
        """Return the arguments of the class of ``mpe2`` other than ``continuous_actions``."""
        return {
            "N": self.num_agents,
            "local_ratio": self.local_ratio,
            **self._original_sight(),
            "terminate_on_success": self.terminate_on_success,
        }

    def adapt_original(self, original: Any) -> None:
        """Give an instance of the class of ``mpe2`` the constants that are not arguments of its constructor."""
        world, of_collisions = original.world, original.scenario.reward
        while len(world.landmarks) < self.num_landmarks:
            world.landmarks.append(copy.deepcopy(world.landmarks[0]))
        del world.landmarks[self.num_landmarks :]
        for agent in world.agents:
            agent.size, agent.accel = self.agent_size, self.acceleration
        self._share_physics(world)
        original.scenario.reward = lambda agent, world: self.collision_penalty * of_collisions(agent, world)
