"""Adversaries with a leader chase good agents among forests (``simple_world_comm`` of the package ``mpe2``)."""

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

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
INFINITY = np.float32(np.inf)
NUM_WORDS, LEADER = 4, 0
TOUCH, FOOD, FAR_FROM_FOOD, FAR_FROM_GOOD_AGENT = np.float32(5), np.float32(2), np.float32(0.05), np.float32(0.1)
MOST_FORESTS = 31
"""Forests around an agent are the bits of an int32."""


def _step(push: Any, push_of_leader: Any, say: Any) -> Any:
    """Return the step kernel for actions whose directions are computed by ``push``, and words by ``say``."""

    @wd.kernel
    def step(
        # state
        loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, communication,
        # actions
        actions_leader, actions_adversary, actions_good_agent,
        # constants
        num_agents, num_adversaries, num_obstacles, num_food, size, landmark_size, acceleration, largest_speed,
        time_step, kept_velocity, inverse_mass, contact_force, contact_margin, inverse_margin,
        # out
        rewards,
    ):  # fmt: skip
        """Move all agents; then compute contacts of adversaries, distances to food and the costs of leaving."""
        env, agent = cuda.blockIdx.x, cuda.threadIdx.x
        tags = cuda.shared.array(num_agents, np.float32)
        if agent == LEADER:
            push_x, push_y = push_of_leader(actions_leader, env, 0)
            for word in range(NUM_WORDS):
                communication[env, 0, word] = say(actions_leader, env, 0, dynamics.NUM_ACTIONS, word)
        elif agent < num_adversaries:
            push_x, push_y = push(actions_adversary, env, agent - 1)
        else:
            push_x, push_y = push(actions_good_agent, env, agent - num_adversaries)
        force_x, force_y = acceleration[agent] * push_x, acceleration[agent] * push_y
        force_x, force_y = dynamics.with_contacts(
            force_x, force_y, env, agent, loc_x, loc_y, size, loc_x, loc_y, num_agents, size, contact_force,
            contact_margin, inverse_margin,
        )  # fmt: skip
        force_x, force_y = dynamics.with_contacts(
            force_x, force_y, env, agent, loc_x, loc_y, size, landmark_x, landmark_y, num_obstacles, landmark_size,
            contact_force, contact_margin, inverse_margin,
        )  # fmt: skip
        cuda.syncthreads()
        dynamics.advance(
            env, agent, loc_x, loc_y, velocity_x, velocity_y, force_x, force_y, time_step, kept_velocity, inverse_mass
        )
        dynamics.limit_speed(env, agent, velocity_x, velocity_y, largest_speed[agent])
        cuda.syncthreads()

        nearest = INFINITY
        if agent >= num_adversaries:
            count, eaten = ZERO, ZERO
            for other in range(num_adversaries):
                squared = dynamics.squared_distance(env, agent, loc_x, loc_y, other, loc_x, loc_y)
                touching = size[agent] + size[other]
                count += ONE if squared < touching * touching else ZERO
            for food in range(num_obstacles, num_obstacles + num_food):
                squared = dynamics.squared_distance(env, agent, loc_x, loc_y, food, landmark_x, landmark_y)
                touching = size[agent] + landmark_size[food]
                eaten += ONE if squared < touching * touching else ZERO
                nearest = min(nearest, squared)
            tags[agent] = count
            leaving = dynamics.charge_for_leaving(loc_x[env, agent]) + dynamics.charge_for_leaving(loc_y[env, agent])
            rewards[env, agent] = FOOD * eaten - TOUCH * count - TWO * leaving - FAR_FROM_FOOD * wd.math.sqrt(nearest)
        cuda.syncthreads()

        if agent < num_adversaries:
            total = ZERO
            for other in range(num_adversaries, num_agents):
                total += tags[other]
                nearest = min(nearest, dynamics.squared_distance(env, agent, loc_x, loc_y, other, loc_x, loc_y))
            rewards[env, agent] = TOUCH * total - FAR_FROM_GOOD_AGENT * wd.math.sqrt(nearest)

    return step


discrete_step = _step(dynamics.discrete_push, dynamics.discrete_push_of_speaker, dynamics.discrete_word)
continuous_step = _step(dynamics.continuous_push, dynamics.continuous_push, dynamics.continuous_word)


@wd.device_function
def observe_as(
    # out
    observations,
    # indices
    env, row, agent,
    # forests around all agents
    forests,
    # state
    loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, communication,
    # constants
    num_agents, num_adversaries, num_landmarks, num_forests,
):  # fmt: skip
    """Write the observations of an agent into a row of its team's array; other agents may be hidden by forests."""
    x, y = loc_x[env, agent], loc_y[env, agent]
    own = forests[agent]
    i = dynamics.write(observations, env, row, 0, velocity_x[env, agent], velocity_y[env, agent])
    i = dynamics.write(observations, env, row, i, x, y)
    i = dynamics.write_offsets(observations, env, row, i, x, y, landmark_x, landmark_y, num_landmarks)
    is_good = agent >= num_adversaries
    of_forests = i + 2 * (num_agents - 1)
    of_velocities = of_forests + (num_forests if is_good else 0)
    for other in range(num_agents):
        if other != agent:
            same = own & forests[other] != 0
            visible = agent == LEADER or same or (own == 0 and forests[other] == 0)
            dx, dy = loc_x[env, other] - x, loc_y[env, other] - y
            i = dynamics.write(observations, env, row, i, dx if visible else ZERO, dy if visible else ZERO)
            if other >= num_adversaries:
                its_x, its_y = velocity_x[env, other], velocity_y[env, other]
                of_velocities = dynamics.write(
                    observations, env, row, of_velocities, its_x if visible else ZERO, its_y if visible else ZERO
                )
    if not is_good:
        of_forests = of_velocities
    for forest in range(num_forests):
        observations[env, row, of_forests + forest] = ONE if own >> forest & 1 else -ONE
    if not is_good:
        dynamics.write_words(observations, env, row, of_forests + num_forests, communication, 0, NUM_WORDS)


@wd.kernel
def observe(
    # state
    loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y, communication,
    # constants
    num_agents, num_adversaries, num_landmarks, num_forests, size, landmark_size,
    # out
    observations_leader, observations_adversary, observations_good_agent,
):  # fmt: skip
    """Find the forests around each agent; then write the observations."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    forests = cuda.shared.array(num_agents, np.int32)
    own = np.int32(0)
    for forest in range(num_forests):
        landmark = num_landmarks - num_forests + forest
        squared = dynamics.squared_distance(env, agent, loc_x, loc_y, landmark, landmark_x, landmark_y)
        touching = size[agent] + landmark_size[landmark]
        own |= np.int32(1) << forest if squared < touching * touching else np.int32(0)
    forests[agent] = own
    cuda.syncthreads()

    if agent == LEADER:
        observe_as(
            observations_leader, env, 0, agent, forests, loc_x, loc_y, velocity_x, velocity_y, landmark_x, landmark_y,
            communication, num_agents, num_adversaries, num_landmarks, num_forests,
        )  # fmt: skip
    elif agent < num_adversaries:
        observe_as(
            observations_adversary, env, agent - 1, agent, forests, loc_x, loc_y, velocity_x, velocity_y, landmark_x,
            landmark_y, communication, num_agents, num_adversaries, num_landmarks, num_forests,
        )  # fmt: skip
    else:
        observe_as(
            observations_good_agent, env, agent - num_adversaries, agent, forests, loc_x, loc_y, velocity_x,
            velocity_y, landmark_x, landmark_y, communication, num_agents, num_adversaries, num_landmarks, num_forests,
        )  # fmt: skip


@wd.kernel
def reset(loc_x, loc_y, landmark_x, landmark_y, rng, num_agents, num_landmarks, start_range, landmark_range):
    """Sample the positions of the agents and the landmarks."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    loc_x[env, agent], loc_y[env, agent] = dynamics.random_place(rng, env, agent, start_range)
    for i in range(agent, num_landmarks, num_agents):
        landmark_x[env, i], landmark_y[env, i] = dynamics.random_place(rng, env, agent, landmark_range)


class SimpleWorldComm(dynamics.Scenario):
    """Chase good agents that eat and hide in forests, guided by a leader, or evade the adversaries as good agents.

    ## Description

    Like [`simple_tag`](simple_tag.md), with food near which good agents (policy tag `good_agent`) are rewarded, forests
    that hide agents, and a leader of the adversaries (`leader`), who sees all agents and speaks to the other
    adversaries (`adversary`). The environment is `simple_world_comm_v3` of `mpe2`, the multi-agent particle
    environments of Lowe et al. (2017), in float32, with the same constants. Agent 0 is the leader, agents
    `1 .. num_adversaries - 1` are the other adversaries, and good agents follow.

    The dynamics are those of [`simple_spread`](simple_spread.md). Adversaries and good agents have accelerations of 3
    and 4, radii of 0.075 and 0.045, and speeds of at most 1 and 1.3. Obstacles with the radius 0.2 exert contact
    forces, food (0.03) and forests (0.3) do not. An agent is in a forest if the distance is below the sum of the radii.
    Two agents see each other if they are in a common forest, or if neither is in any.

    ## Action Space

    For adversaries and good agents `Discrete(5)`, stored as `actions_adversary[env, row]` and
    `actions_good_agent[env, row]` (int32). For the leader `Discrete(20)`, stored as `actions_leader[env, 0]`:
    `action % 5` is a move, `action // 5` the word that it says. With `continuous_actions=True` a `Box` of shape `(5,)`,
    for the leader `(9,)`, float32 and clipped to the bounds.

    | Move or index | Meaning | Min | Max |
    | --- | --- | --- | --- |
    | 0 | no force; unused if continuous | 0 | 1 |
    | 1, 2 | left (-x), right (+x) | 0 | 1 |
    | 3, 4 | down (-y), up (+y) | 0 | 1 |
    | 5 to 8, of the leader if continuous | words | 0 | 1 |

    ## Observation Space

    One `Box` for each policy tag, float32. For N agents, G of them good, L obstacles, food and forests together, and F
    forests, the shape is `(8 + 2 L + 2 (N - 1) + 2 G + F,)` for the leader and the adversaries, `(34,)` by default, and
    `(4 + 2 L + 2 (N - 1) + 2 (G - 1) + F,)` for good agents, `(28,)` by default. What an agent does not see is 0.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0, 1 | own velocity x, y | -inf | inf |
    | 2, 3 | own position x, y | -inf | inf |
    | next 2 L | position x, y of each obstacle, food and forest, relative to the agent | -inf | inf |
    | next 2 (N - 1) | position x, y of each other agent in id order, relative to the agent | -inf | inf |
    | next F, of good agents | 1 for each forest that the agent is in, -1 for others | -inf | inf |
    | next 2 G, or 2 (G - 1) | velocity x, y of each good agent other than oneself | -inf | inf |
    | next F, of adversaries | 1 for each forest that the agent is in, -1 for others | -inf | inf |
    | last 4, of adversaries | words of the leader in the last step | -inf | inf |

    ## Rewards

    | Event | Adversaries and leader | Good agent |
    | --- | --- | --- |
    | an adversary touches a good agent | 5 for every adversary | -5 for the agent touched |
    | a good agent touches food | | 2 |
    | every step | -0.1 times the distance to the nearest good agent | -0.05 times the distance to the nearest food |
    | a coordinate has an absolute value a, 0.9 <= a < 1 | | -20 (a - 0.9) |
    | a coordinate has an absolute value a of 1 or more | | -2 min(exp(2 a - 2), 10) |

    ## Starting State

    All agents are at rest, and the leader has said nothing. Both coordinates of each agent are drawn uniformly from
    [-1, 1), those of obstacles, food and forests from [-0.9, 0.9), on the device.

    ## Episode End

    - Termination: never.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        num_good_agents: Number of good agents, 1 or more; `num_good` in `mpe2`.
        num_adversaries: Number of adversaries with the leader, 1 or more. If there are no others, there is no policy
            tag `adversary`.
        num_obstacles: Number of obstacles, 0 or more.
        num_food: Number of places with food, 1 or more.
        num_forests: Number of forests, from 0 to 31.
        continuous_actions: If True, an action is the magnitude of each direction and word, otherwise one of them.
        episode_length: Number of steps after which an episode is truncated, 1 or more.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - R. Lowe et al. (2017), "Multi-agent actor-critic for mixed cooperative-competitive environments",
      [arXiv 1706.02275](https://arxiv.org/abs/1706.02275).
    - mpe2, [Simple World Comm](https://mpe2.farama.org/environments/simple_world_comm/).

    See also the [agreement](index.md#agreement-with-reference-implementations) with the class of `mpe2`.
    """

    name = "simple_world_comm"
    original_names: ClassVar[Mapping[str, str]] = {
        **dynamics.ParticleWorld.original_names,
        "num_good": "num_good_agents",
    }
    parity = dynamics.parity_with("simple_world_comm")
    step, observe, reset, draw, shapes_per_agent = discrete_step, observe, reset, dynamics.draw_speakers, 2
    landmark_range = 0.9

    def __init__(
        self,
        num_good_agents: int = 2,
        num_adversaries: int = 4,
        num_obstacles: int = 1,
        num_food: int = 2,
        num_forests: int = 2,
        continuous_actions: bool = False,
        episode_length: int = 25,
    ) -> None:
        whole = parameters.whole
        good = self.num_good_agents = whole("num_good_agents", num_good_agents, at_least=1)
        bad = self.num_adversaries = whole("num_adversaries", num_adversaries, at_least=1)
        self.num_obstacles = whole("num_obstacles", num_obstacles, at_least=0)
        self.num_food = whole("num_food", num_food, at_least=1)
        self.num_forests = whole("num_forests", num_forests, at_least=0, at_most=MOST_FORESTS)
        self._set_physics(continuous_actions=continuous_actions, episode_length=episode_length)
        kinds = [self.num_obstacles, self.num_food, self.num_forests]
        self.num_landmarks, self.num_agents = sum(kinds), bad + good
        self.landmark_size = np.repeat(np.array([0.2, 0.03, 0.3], np.float32), kinds)
        self.landmark_colours = list(np.repeat([wd.draw.GREY, wd.draw.YELLOW, wd.draw.GREEN], kinds))
        self._set_things()
        self.colour = np.array([wd.draw.ORANGE, *[wd.draw.RED] * (bad - 1), *[wd.draw.BLUE] * good], np.int32)
        self.size, self.acceleration, self.largest_speed = (
            np.repeat(np.array(of_both, np.float32), [bad, good]) for of_both in ((0.075, 0.045), (3, 4), (1, 1.3))
        )

        self.step = continuous_step if self.continuous_actions else discrete_step
        tags = {"leader": [LEADER], "adversary": range(1, bad), "good_agent": range(bad, self.num_agents)}
        self.policy_tags = {tag: members for tag, members in tags.items() if len(members)}
        length = 4 + 2 * self.num_landmarks + 2 * (self.num_agents - 1) + 2 * good + self.num_forests
        of_tags = {"leader": length + NUM_WORDS, "adversary": length + NUM_WORDS, "good_agent": length - 2}
        self.observation_space = {tag: dynamics.unbounded(of_tags[tag]) for tag in self.policy_tags}
        self.action_space = {
            tag: dynamics.action_space(self.continuous_actions, words=NUM_WORDS if tag == "leader" else 0)
            for tag in self.policy_tags
        }

    def original_parameters(self) -> Mapping[str, Any]:
        """Return the arguments of the class of ``mpe2`` other than ``continuous_actions``."""
        names = ("num_adversaries", "num_obstacles", "num_food", "num_forests")
        return {"num_good": self.num_good_agents, **{name: getattr(self, name) for name in names}}

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return the state of the base class, and ``communication``, ``[1, 4]`` float32, what the leader said.

        Landmarks are the obstacles, the food and the forests.
        """
        state = {**super().initial_state(rng), "communication": np.zeros((1, NUM_WORDS), np.float32)}
        if self.num_adversaries == 1:  # kernels name the arrays of the tag that is absent
            unused = np.zeros((1, 1), np.float32)
            actions = np.zeros((1, dynamics.NUM_ACTIONS), np.float32)
            state["observations_adversary"] = unused
            state["actions_adversary"] = actions if self.continuous_actions else np.zeros(1, np.int32)
        return state

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the square without penalties."""
        return Scene(self.view, polygons=[drawing.box(-1, 1, -1, 1, wd.draw.PAPER)])
