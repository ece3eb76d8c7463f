"""Adversaries chase faster good agents around obstacles (``simple_tag`` of the package ``mpe2``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import drawing, parameters
from warpdrive.envs.particles import dynamics
from warpdrive.scene.scene import Scene

ZERO, ONE = np.float32(0), np.float32(1)
VIEW = 1.3
"""Largest coordinate in pictures; beyond 1 good agents are penalised."""


@wd.kernel
def reset(
    # state
    loc_x, loc_y, obstacle_x, obstacle_y,
    # random stream
    rng,
    # constants
    num_agents, num_obstacles, start_range, obstacle_range,
):  # fmt: skip
    """Sample the positions of the agents and the obstacles."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    loc_x[env, agent], loc_y[env, agent] = dynamics.random_place(rng, env, agent, start_range)
    for i in range(agent, num_obstacles, num_agents):
        obstacle_x[env, i], obstacle_y[env, i] = dynamics.random_place(rng, env, agent, obstacle_range)


def _step(push: Any) -> Any:
    """Return the step kernel for actions whose direction is computed by ``push``."""

    @wd.kernel
    def step(
        # state
        loc_x, loc_y, velocity_x, velocity_y, obstacle_x, obstacle_y,
        # actions
        actions,
        # constants
        num_agents, num_adversaries, num_obstacles, size, acceleration, largest_speed, obstacle_sizes, time_step,
        kept_velocity, inverse_mass, contact_force, contact_margin, inverse_margin, tag_reward, tag_penalty,
        leaving_penalty, terminate_on_success,
        # out
        rewards, terminated,
    ):  # fmt: skip
        """Move all agents; then compute the contacts of adversaries and the penalties for leaving the square."""
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        tags = cuda.shared.array(num_agents, np.float32)
        push_x, push_y = push(actions, env, agent)
        force_x, force_y = acceleration[agent] * push_x, acceleration[agent] * push_y
        force_x, force_y = dynamics.with_contacts(
            force_x, force_y, env, agent, loc_x, loc_y, size, loc_x, loc_y, num_agents, size, contact_force,
            contact_margin, inverse_margin,
        )  # fmt: skip
        force_x, force_y = dynamics.with_contacts(
            force_x, force_y, env, agent, loc_x, loc_y, size, obstacle_x, obstacle_y, num_obstacles, obstacle_sizes,
            contact_force, contact_margin, inverse_margin,
        )  # fmt: skip
        cuda.syncthreads()
        dynamics.advance(
            env, agent, loc_x, loc_y, velocity_x, velocity_y, force_x, force_y, time_step, kept_velocity, inverse_mass
        )
        dynamics.limit_speed(env, agent, velocity_x, velocity_y, largest_speed[agent])
        cuda.syncthreads()

        if agent >= num_adversaries:
            count = ZERO
            for other in range(num_adversaries):
                squared = dynamics.squared_distance(env, agent, loc_x, loc_y, other, loc_x, loc_y)
                touching = size[agent] + size[other]
                count += ONE if squared < touching * touching else ZERO
            tags[agent] = count
            leaving = dynamics.charge_for_leaving(loc_x[env, agent]) + dynamics.charge_for_leaving(loc_y[env, agent])
            rewards[env, agent] = -(tag_penalty * count + leaving_penalty * leaving)
        cuda.syncthreads()

        if agent < num_adversaries:
            total = ZERO
            for other in range(num_adversaries, num_agents):
                total += tags[other]
            rewards[env, agent] = tag_reward * total
        if terminate_on_success and agent == 0:
            all_are_touched = True
            for other in range(num_adversaries, num_agents):
                all_are_touched = all_are_touched and tags[other] > ZERO
            terminated[env] = all_are_touched

    return step


discrete_step, continuous_step = _step(dynamics.discrete_push), _step(dynamics.continuous_push)


@wd.device_function
def observe_as(
    # out
    observations,
    # indices
    env, row, agent,
    # state
    loc_x, loc_y, velocity_x, velocity_y, obstacle_x, obstacle_y,
    # constants
    num_agents, num_adversaries, num_obstacles, nearest_agents, nearest_landmarks,
):  # fmt: skip
    """Write the observations of an agent into a row of its team's array."""
    x, y = loc_x[env, agent], loc_y[env, agent]
    i = dynamics.write(observations, env, row, 0, velocity_x[env, agent], velocity_y[env, agent])
    i = dynamics.write(observations, env, row, i, x, y)
    i = dynamics.write_seen(
        observations, env, row, i, x, y, -1, obstacle_x, obstacle_y, num_obstacles, nearest_landmarks
    )
    i = dynamics.write_seen(observations, env, row, i, x, y, agent, loc_x, loc_y, num_agents, nearest_agents)
    if nearest_agents == 0:
        for other in range(num_adversaries, num_agents):
            if other != agent:
                i = dynamics.write(observations, env, row, i, velocity_x[env, other], velocity_y[env, other])
    else:
        for other in range(num_agents):
            rank = dynamics.rank_by_distance(env, other, x, y, agent, loc_x, loc_y, num_agents)
            if other != agent and rank < nearest_agents:
                its_x = velocity_x[env, other] if other >= num_adversaries else ZERO
                its_y = velocity_y[env, other] if other >= num_adversaries else ZERO
                dynamics.write(observations, env, row, i + 2 * rank, its_x, its_y)


@wd.kernel
def observe(
    # state
    loc_x, loc_y, velocity_x, velocity_y, obstacle_x, obstacle_y,
    # constants
    num_agents, num_adversaries, num_obstacles, nearest_agents, nearest_landmarks,
    # out
    observations_adversary, observations_good_agent,
):  # fmt: skip
    """Write the observations of an agent; a good agent's list of good agents' velocities excludes its own."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent < num_adversaries:
        observe_as(
            observations_adversary, env, agent, agent, loc_x, loc_y, velocity_x, velocity_y, obstacle_x, obstacle_y,
            num_agents, num_adversaries, num_obstacles, nearest_agents, nearest_landmarks,
        )  # fmt: skip
    else:
        observe_as(
            observations_good_agent, env, agent - num_adversaries, agent, loc_x, loc_y, velocity_x, velocity_y,
            obstacle_x, obstacle_y, num_agents, num_adversaries, num_obstacles, nearest_agents, nearest_landmarks,
        )  # fmt: skip


@wd.kernel
def draw(shapes, loc_x, loc_y, num_adversaries, size):
    """Draw an agent as a disc, with a ring around good agents that are touched."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, y, touched = loc_x[env, agent], loc_y[env, agent], False
    if agent >= num_adversaries:
        for other in range(num_adversaries):
            dx, dy, touching = loc_x[env, other] - x, loc_y[env, other] - y, size[agent] + size[other]
            touched = touched or dx * dx + dy * dy < touching * touching
    wd.draw.circle(shapes, 0, x, y, size[agent], wd.draw.RED if agent < num_adversaries else wd.draw.BLUE)
    wd.draw.trail(shapes, 0, 12)
    if touched:
        wd.draw.circle(shapes, 1, x, y, 1.8 * size[agent], wd.draw.YELLOW)
        wd.draw.style(shapes, 1, 1.0, -1, -1)


@wd.kernel
def draw_obstacles(things, obstacle_x, obstacle_y, obstacle_sizes, num_agents, num_obstacles):
    """Draw the obstacles, distributed over the threads."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for i in range(agent, num_obstacles, num_agents):
        wd.draw.circle(things, i // num_agents, obstacle_x[env, i], obstacle_y[env, i], obstacle_sizes[i], wd.draw.GREY)


class SimpleTag(dynamics.ParticleWorld):
    """Chase faster good agents around obstacles as adversaries, or evade the adversaries as good agents.

    ## Description

    Adversaries (policy tag `adversary`) are rewarded for touching good agents (`good_agent`), which are by default
    smaller, faster and more agile. Good agents are penalised for contacts and for leaving the square from -1 to 1. The
    environment is `simple_tag_v3` of `mpe2`, the multi-agent particle environments of Lowe et al. (2017), in float32;
    the defaults of all constants are those of `simple_tag_v3`. Agents `0 .. num_adversaries - 1` are the adversaries,
    the others are the good agents.

    The dynamics are those of [`simple_spread`](simple_spread.md), and the speed of each team is limited. Obstacles are
    discs that do not move and exert contact forces on agents.

    ## Action Space

    `Discrete(5)`, stored as `actions[env, agent]` (int32). An action other than 0 exerts a force of
    `adversary_acceleration` or `good_agent_acceleration`.

    | Action | Meaning |
    | --- | --- |
    | 0 | no force |
    | 1 | left (-x) |
    | 2 | right (+x) |
    | 3 | down (-y) |
    | 4 | up (+y) |

    With `continuous_actions=True` it is a `Box` of shape `(5,)`, stored as `actions[env, agent, index]` (float32) and
    clipped to the bounds: the magnitude of the force in each direction, in multiples of the acceleration.

    | Index | Action | Min | Max |
    | --- | --- | --- | --- |
    | 0 | unused | 0 | 1 |
    | 1 | left (-x) | 0 | 1 |
    | 2 | right (+x) | 0 | 1 |
    | 3 | down (-y) | 0 | 1 |
    | 4 | up (+y) | 0 | 1 |

    ## Observation Space

    One `Box` for each policy tag, float32, of different lengths. For N agents, G of them good, and O obstacles the
    shape is `(4 + 2 O + 2 (N - 1) + 2 G,)` for adversaries, `(16,)` by default, and 2 less for good agents, `(14,)` by
    default.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0, 1 | own velocity x, y | -inf | inf |
    | 2, 3 | own position x, y | -inf | inf |
    | next 2 O | position x, y of each obstacle, relative to the agent | -inf | inf |
    | next 2 (N - 1) | position x, y of each other agent in id order, relative to the agent | -inf | inf |
    | the rest | velocity x, y of each good agent other than oneself | -inf | inf |

    With `num_agent_neighbors` = K and `num_landmark_neighbors`, the K nearest other agents and the nearest obstacles
    are observed, in the order of their distance, then the K velocities of the same agents, which are 0 for adversaries.
    Numbers of agents or obstacles that do not exist are 0.

    ## Rewards

    | Event | Adversary | Good agent |
    | --- | --- | --- |
    | an adversary touches a good agent | `tag_reward` for every adversary | -`tag_penalty` for the agent touched |
    | a coordinate has an absolute value a, 0.9 <= a < 1 | | -`leaving_penalty` * 10 (a - 0.9) |
    | a coordinate has an absolute value a of 1 or more | | -`leaving_penalty` * min(exp(2 a - 2), 10) |

    A contact is counted in every step in which the distance is below the sum of the two radii. The costs of both
    coordinates of a good agent are added.

    ## Starting State

    All agents are at rest. Both coordinates of each agent are drawn uniformly from [-`start_range`, `start_range`),
    those of each obstacle from [-`obstacle_range`, `obstacle_range`), on the device.

    ## Episode End

    - Termination: never, or with `terminate_on_success` when adversaries touch all good agents.
    - Truncation: after `episode_length` steps. If the last step also terminates the episode, `mpe2` reports only the
      truncation.

    ## Arguments

    Args:
        num_adversaries: Number of adversaries, 1 or more: the agents from 0 on.
        num_good_agents: Number of good agents, 1 or more: the agents after them.
        num_obstacles: Number of obstacles, 0 or more.
        continuous_actions: If True, an action is the magnitude of the force in each direction, otherwise one direction.
        tag_reward: Reward of every adversary for each contact of an adversary and a good agent, 0 or more.
        tag_penalty: Cost of a good agent for each contact with an adversary, 0 or more.
        leaving_penalty: Factor on the cost of a good agent for leaving the square, 0 or more.
        adversary_size: Radius of an adversary, greater than 0.
        good_agent_size: Radius of a good agent, greater than 0.
        obstacle_size: Radius of an obstacle, greater than 0.
        adversary_acceleration: Force of an adversary's action, 0 or more.
        good_agent_acceleration: Force of a good agent's action, 0 or more.
        adversary_speed: Maximum speed of an adversary, greater than 0.
        good_agent_speed: Maximum speed of a good agent, greater than 0.
        mass: Mass of an agent, greater than 0.
        damping: Fraction of its velocity that an agent loses in a step, from 0 to 1.
        contact_force: Force between discs per unit of overlap, 0 or more.
        contact_margin: Width of the smooth transition of the contact force, greater than 0.
        time_step: Integration step, greater than 0.
        start_range: Bound of the uniform distribution of the agents' start coordinates, greater than 0.
        obstacle_range: Bound of the uniform distribution of the obstacles' coordinates, greater than 0.
        episode_length: Number of steps after which an episode is truncated, 1 or more.
        num_agent_neighbors: Number of nearest other agents that an agent observes, 1 or more; None for all.
        num_landmark_neighbors: Number of nearest obstacles that an agent observes, 1 or more; None for all.
        terminate_on_success: If True, an episode ends when adversaries touch all good agents at the same time.

    `mpe2` calls `num_good_agents` num_good and `episode_length` max_cycles. The first stages of its curriculum have
    half and three quarters of `good_agent_speed` and `good_agent_acceleration`.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - R. Lowe et al. (2017), "Multi-agent actor-critic for mixed cooperative-competitive environments",
      [arXiv 1706.02275](https://arxiv.org/abs/1706.02275).
    - mpe2, [Simple Tag](https://mpe2.farama.org/environments/simple_tag/).

    See also the [agreement](index.md#agreement-with-reference-implementations) with the class of `mpe2`.
    """

    name = "simple_tag"
    original_names: ClassVar[Mapping[str, str]] = {
        **dynamics.ParticleWorld.original_names,
        "num_good": "num_good_agents",
        "curriculum": "Its first stages have a lower good_agent_speed and good_agent_acceleration.",
    }
    parity = dynamics.parity_with("simple_tag")
    step, observe, reset, draw = discrete_step, observe, reset, draw
    draw_things = draw_obstacles
    shapes_per_agent = 2

    def __init__(
        self,
        num_adversaries: int = 3,
        num_good_agents: int = 1,
        num_obstacles: int = 2,
        continuous_actions: bool = False,
        tag_reward: float = 10.0,
        tag_penalty: float = 10.0,
        leaving_penalty: float = 1.0,
        adversary_size: float = 0.075,
        good_agent_size: float = 0.05,
        obstacle_size: float = 0.2,
        adversary_acceleration: float = 3.0,
        good_agent_acceleration: float = 4.0,
        adversary_speed: float = 1.0,
        good_agent_speed: float = 1.3,
        mass: float = 1.0,
        damping: float = 0.25,
        contact_force: float = 100.0,
        contact_margin: float = 0.001,
        time_step: float = 0.1,
        start_range: float = 1.0,
        obstacle_range: float = 0.9,
        episode_length: int = 25,
        num_agent_neighbors: int | None = None,
        num_landmark_neighbors: int | None = None,
        terminate_on_success: bool = False,
    ) -> None:
        whole, real = parameters.whole, parameters.real
        self.num_adversaries = whole("num_adversaries", num_adversaries, at_least=1)
        self.num_good_agents = whole("num_good_agents", num_good_agents, at_least=1)
        self.num_obstacles = whole("num_obstacles", num_obstacles, at_least=0)
        self.tag_reward = real("tag_reward", tag_reward, at_least=0)
        self.tag_penalty = real("tag_penalty", tag_penalty, at_least=0)
        self.leaving_penalty = real("leaving_penalty", leaving_penalty, at_least=0)
        self.adversary_size = real("adversary_size", adversary_size, above=0)
        self.good_agent_size = real("good_agent_size", good_agent_size, above=0)
        self.obstacle_size = real("obstacle_size", obstacle_size, above=0)
        self.adversary_acceleration = real("adversary_acceleration", adversary_acceleration, at_least=0)
        self.good_agent_acceleration = real("good_agent_acceleration", good_agent_acceleration, at_least=0)
        self.adversary_speed = real("adversary_speed", adversary_speed, above=0)
        self.good_agent_speed = real("good_agent_speed", good_agent_speed, above=0)
        self.obstacle_range = real("obstacle_range", obstacle_range, above=0)
        self.terminate_on_success = parameters.flag("terminate_on_success", terminate_on_success)
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

        self.num_agents = self.num_adversaries + self.num_good_agents
        self.size = self._of_both(self.adversary_size, self.good_agent_size)
        self.obstacle_sizes = np.full(self.num_obstacles, self.obstacle_size, np.float32)
        self.things_per_agent = max(1, -(-self.num_obstacles // self.num_agents))
        self.acceleration = self._of_both(self.adversary_acceleration, self.good_agent_acceleration)
        self.largest_speed = self._of_both(self.adversary_speed, self.good_agent_speed)

        self.view = (-VIEW, VIEW, -VIEW, VIEW)
        self.step = continuous_step if self.continuous_actions else discrete_step
        self.policy_tags = {
            "adversary": range(self.num_adversaries),
            "good_agent": range(self.num_adversaries, self.num_agents),
        }
        self._set_sight(num_agent_neighbors, num_landmark_neighbors)
        others, seen = self.num_agents - 1, self.nearest_agents
        length = 4 + 2 * (self.nearest_landmarks or self.num_obstacles) + 2 * (seen or others)
        good_agents = {"adversary": self.num_good_agents, "good_agent": self.num_good_agents - 1}
        lengths = {tag: length + 2 * (seen or number) for tag, number in good_agents.items()}
        self.observation_space = {tag: dynamics.unbounded(length) for tag, length in lengths.items()}

    def _of_both(self, of_adversary: float, of_good_agent: float) -> npt.NDArray[np.float32]:
        return np.repeat(
            np.array([of_adversary, of_good_agent], np.float32), [self.num_adversaries, self.num_good_agents]
        )

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return all agents at rest at the origin, float32; ``reset`` draws the positions on the device.

        Per agent: ``loc_x``, ``loc_y``, ``velocity_x``, ``velocity_y``. Per obstacle: ``obstacle_x``, ``obstacle_y``.
        """
        return self._at_rest("obstacle", self.num_obstacles)

    def original_parameters(self) -> Mapping[str, Any]:
        """Return the arguments of the class of ``mpe2`` other than ``continuous_actions``."""
        return {
            "num_good": self.num_good_agents,
            "num_adversaries": self.num_adversaries,
            "num_obstacles": self.num_obstacles,
            **self._original_sight(),
            "terminate_on_success": self.terminate_on_success,
        }

    def adapt_original(self, original: Any) -> None:
        """Give an instance of the class of ``mpe2`` the constants that are not arguments of its constructor."""
        world, scenario = original.world, original.scenario
        of_adversaries = self.adversary_size, self.adversary_acceleration, self.adversary_speed
        of_good_agents = self.good_agent_size, self.good_agent_acceleration, self.good_agent_speed
        for agent in world.agents:
            agent.size, agent.accel, agent.max_speed = of_adversaries if agent.adversary else of_good_agents
        for obstacle in world.landmarks:
            obstacle.size = self.obstacle_size
        self._share_physics(world)
        of_adversary, of_good_agent = scenario.adversary_reward, scenario.agent_reward

        def agent_reward(agent: Any, world: Any) -> float:
            contacts = sum(scenario.is_collision(other, agent) for other in scenario.adversaries(world))
            leaving = of_good_agent(agent, world) + 10 * contacts
            return float(self.leaving_penalty * leaving - self.tag_penalty * contacts)

        scenario.agent_reward = agent_reward
        scenario.adversary_reward = lambda agent, world: self.tag_reward / 10 * of_adversary(agent, world)

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the square without penalties."""
        return Scene(self.view, polygons=[drawing.box(-1, 1, -1, 1, wd.draw.PAPER)])
