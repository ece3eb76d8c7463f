"""Taggers and runners on a continuous square (a Tag game of WarpDrive, arXiv 2108.13976)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import parameters
from warpdrive.envs.tag_continuous import reference

ZERO = np.float32(0.0)
ONE = np.float32(1.0)
TWO_PI = np.float32(2.0 * math.pi)
INFINITY = np.float32(np.inf)


@wd.kernel
def step(
    # state
    loc_x, loc_y, speed, direction, acceleration, in_game, active, runners_left, timestep,
    # actions
    actions,
    # constants
    acceleration_table, turn_table, top_speed, step_reward, is_runner, tagger_ids, num_taggers, grid_length,
    episode_length, edge_hit_penalty, squared_tagging_distance, tag_reward_for_tagger, tag_penalty_for_runner,
    end_of_game_reward_for_runner, runner_exits_game_after_tagged,
    # out
    rewards, terminated,
):  # fmt: skip
    """Move every agent; once all have moved, check which runners in the game are tagged."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x

    playing = active[env, agent]
    in_game[env, agent] = playing
    s = ONE if playing else ZERO

    new_acceleration = acceleration[env, agent] + acceleration_table[actions[env, agent, 0]]
    new_direction = ((direction[env, agent] + turn_table[actions[env, agent, 1]]) % TWO_PI) * s
    limit = top_speed[agent]
    new_speed = min(max(speed[env, agent] + new_acceleration, ZERO), limit) * s
    if new_speed <= ZERO or new_speed >= limit:
        new_acceleration = ZERO
    x = loc_x[env, agent] + new_speed * wd.math.cos(new_direction)
    y = loc_y[env, agent] + new_speed * wd.math.sin(new_direction)
    inside_x = min(max(x, ZERO), grid_length)
    inside_y = min(max(y, ZERO), grid_length)
    reward = step_reward[agent]
    if inside_x != x or inside_y != y:
        reward += edge_hit_penalty

    acceleration[env, agent] = new_acceleration
    direction[env, agent] = new_direction
    speed[env, agent] = new_speed
    loc_x[env, agent] = inside_x
    loc_y[env, agent] = inside_y
    rewards[env, agent] = reward * s
    cuda.syncthreads()

    if is_runner[agent] and in_game[env, agent]:
        tagger = -1
        nearest = squared_tagging_distance
        for i in range(num_taggers):
            dx = loc_x[env, tagger_ids[i]] - loc_x[env, agent]
            dy = loc_y[env, tagger_ids[i]] - loc_y[env, agent]
            squared_distance = dx * dx + dy * dy
            if squared_distance < nearest:
                nearest = squared_distance
                tagger = tagger_ids[i]
        if tagger >= 0:
            rewards[env, agent] += tag_penalty_for_runner
            cuda.atomic.add(rewards, (env, tagger), tag_reward_for_tagger)
            if runner_exits_game_after_tagged:
                active[env, agent] = False
                cuda.atomic.add(runners_left, env, -1)
        if active[env, agent] and timestep[env] == episode_length:
            rewards[env, agent] += end_of_game_reward_for_runner
    cuda.syncthreads()

    if agent == 0:
        terminated[env] = runners_left[env] == 0


@wd.kernel
def observe_all(
    # state
    loc_x, loc_y, speed, direction, acceleration, in_game, timestep,
    # constants
    is_runner, num_agents, location_scale, speed_scale, direction_scale, time_scale,
    # out
    observations,
):  # fmt: skip
    """Write ``observations [7 * (num_agents - 1) + 1]``: seven blocks of the other agents in id order, and the time."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    block = num_agents - 1
    s = ONE if in_game[env, agent] else ZERO
    for i in range(block):
        other = i + 1 if i >= agent else i
        observations[env, agent, i] = (loc_x[env, other] - loc_x[env, agent]) * location_scale * s
        observations[env, agent, block + i] = (loc_y[env, other] - loc_y[env, agent]) * location_scale * s
        observations[env, agent, 2 * block + i] = (speed[env, other] - speed[env, agent]) * speed_scale * s
        observations[env, agent, 3 * block + i] = (
            (acceleration[env, other] - acceleration[env, agent]) * speed_scale * s
        )
        observations[env, agent, 4 * block + i] = (direction[env, other] - direction[env, agent]) * direction_scale * s
        observations[env, agent, 5 * block + i] = ONE if is_runner[other] else ZERO
        observations[env, agent, 6 * block + i] = ONE if in_game[env, other] else ZERO
    observations[env, agent, 7 * block] = np.float32(timestep[env]) * time_scale * s


@wd.kernel
def observe_nearest(
    # state
    loc_x, loc_y, speed, direction, acceleration, in_game, timestep,
    # constants
    is_runner, num_agents, num_other_agents_observed, location_scale, speed_scale, direction_scale, time_scale,
    # out
    observations,
):  # fmt: skip
    """Write ``observations [7 * K + 1]``: seven blocks of the K nearest agents in the game, and the time.

    A single pass over the agents maintains the K nearest so far in ascending order; most agents are rejected by one
    comparison with the last entry. An entry without a neighbour holds the agent itself, so that differences are zero as
    required. The insertion is branchless and, once unrolled, free of indexing, so that both short lists stay in
    registers.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    nearest = cuda.local.array(num_other_agents_observed, np.int32)
    squared_distance = cuda.local.array(num_other_agents_observed, np.float32)
    for k in range(num_other_agents_observed):
        nearest[k] = agent
        squared_distance[k] = INFINITY
    x, y = loc_x[env, agent], loc_y[env, agent]
    if in_game[env, agent]:
        farthest = INFINITY
        for other in range(num_agents):
            dx = loc_x[env, other] - x
            dy = loc_y[env, other] - y
            candidate = dx * dx + dy * dy
            if candidate < farthest and other != agent and in_game[env, other]:
                distance_before = ZERO
                nearest_before = np.int32(other)
                for k in range(num_other_agents_observed):
                    distance_here = squared_distance[k]
                    nearest_here = nearest[k]
                    squared_distance[k] = min(distance_here, max(distance_before, candidate))
                    nearest[k] = (
                        (nearest_before if candidate < distance_before else np.int32(other))
                        if candidate < distance_here
                        else nearest_here
                    )
                    distance_before = distance_here
                    nearest_before = nearest_here
                farthest = squared_distance[num_other_agents_observed - 1]

    for k in range(num_other_agents_observed):
        other = nearest[k]
        found = ONE if squared_distance[k] < INFINITY else ZERO
        observations[env, agent, k] = (loc_x[env, other] - x) * location_scale
        observations[env, agent, num_other_agents_observed + k] = (loc_y[env, other] - y) * location_scale
        observations[env, agent, 2 * num_other_agents_observed + k] = (
            speed[env, other] - speed[env, agent]
        ) * speed_scale
        observations[env, agent, 3 * num_other_agents_observed + k] = (
            acceleration[env, other] - acceleration[env, agent]
        ) * speed_scale
        observations[env, agent, 4 * num_other_agents_observed + k] = (
            direction[env, other] - direction[env, agent]
        ) * direction_scale
        observations[env, agent, 5 * num_other_agents_observed + k] = found if is_runner[other] else ZERO
        observations[env, agent, 6 * num_other_agents_observed + k] = found
    s = ONE if in_game[env, agent] else ZERO
    observations[env, agent, 7 * num_other_agents_observed] = np.float32(timestep[env]) * time_scale * s


@wd.kernel
def draw(shapes, loc_x, loc_y, direction, in_game, active, is_runner, arrow_length, tagging_reach):
    """Draw agents as arrowheads, the tagging distance around taggers, and the places of tags."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, y = loc_x[env, agent], loc_y[env, agent]
    if not active[env, agent]:
        just_tagged = in_game[env, agent]
        radius, colour = (0.6, wd.draw.YELLOW) if just_tagged else (0.15, wd.draw.GREY)
        wd.draw.circle(shapes, 0, x, y, radius * arrow_length, colour)
        wd.draw.style(shapes, 0, 1.0, -1, 1 if just_tagged else -2)
    elif is_runner[agent]:
        wd.draw.triangle(shapes, 0, x, y, arrow_length, direction[env, agent], wd.draw.BLUE)
        wd.draw.trail(shapes, 0, 15)
    else:
        wd.draw.triangle(shapes, 0, x, y, 1.5 * arrow_length, direction[env, agent], wd.draw.RED)
        wd.draw.style(shapes, 0, 1.0, -1, 2)
        wd.draw.trail(shapes, 0, 15)
        wd.draw.circle(shapes, 1, x, y, tagging_reach, wd.draw.RED)
        wd.draw.style(shapes, 1, 0.2, wd.draw.RED, -1)


class TagContinuous(wd.Environment):
    """Tag runners on a continuous square by steering close to them, or evade the taggers as a runner.

    ## Description

    Taggers (policy tag `tagger`) and runners (`runner`) steer on a square of side L = `grid_length`. Locations and
    lengths share one unit; a speed is in that unit per step, an acceleration is a change of speed per step, and angles
    are in radians. Which agents are taggers is drawn at construction from `seed` (from 0 if it is None), so the same
    arguments always give the same `policy_tags`.

    In each step every agent changes its acceleration a and its direction d, and moves:

        a = a + chosen acceleration
        d = (d + chosen turn) mod 2 pi
        v = clip(v + a, 0, max_speed * skill_level)     a = 0 if v is at either bound
        x = x + v cos(d)
        y = y + v sin(d)

    A move that ends outside the square is clipped to it. After all agents have moved, every runner whose nearest tagger
    (the lowest id on ties) is nearer than `tagging_distance` * L is tagged by that tagger. With
    `runner_exits_game_after_tagged=True` it then leaves the game: it is no longer `active`, does not move, gets no
    reward, and is not observed as a neighbour.

    ## Action Space

    `MultiDiscrete([num_acceleration_levels + 1, num_turn_levels + 1])`, stored as `actions[env, agent, index]` (int32).

    | Index | Action | Min | Max |
    | --- | --- | --- | --- |
    | 0 | acceleration level | 0 | `num_acceleration_levels` (10) |
    | 1 | turn level | 0 | `num_turn_levels` (10) |

    Level 0 changes nothing; levels 1 and above are evenly spaced from the minimum to the maximum.

    ## Observation Space

    `Box` of shape `(7 B + 1,)`, float32: seven blocks with one entry for each of B other agents, followed by the time.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0 to B - 1 | (x of the other agent - own x) / (sqrt(2) L) | -inf | inf |
    | B to 2 B - 1 | (y of the other agent - own y) / (sqrt(2) L) | -inf | inf |
    | 2 B to 3 B - 1 | (speed of the other agent - own speed) / `max_speed` | -inf | inf |
    | 3 B to 4 B - 1 | (acceleration of the other agent - own acceleration) / `max_speed` | -inf | inf |
    | 4 B to 5 B - 1 | (direction of the other agent - own direction) / (2 pi) | -inf | inf |
    | 5 B to 6 B - 1 | 1 if the other agent is a runner, otherwise 0 | -inf | inf |
    | 6 B to 7 B - 1 | 1 if the other agent is in the game, otherwise 0 | -inf | inf |
    | 7 B | step / `episode_length` | -inf | inf |

    - With `use_full_observation=True` the other agents are all n - 1 of them in id order, B = n - 1. An agent that has
      left the game observes zeros except for the last two blocks.
    - Otherwise they are the K = `num_other_agents_observed` nearest agents in the game in ascending order of distance
      (the lowest id first on ties), padded with zeros, B = K. An agent that has left the game observes zeros only.

    Agents tagged in this step are observed as still in the game, and a runner observes the step in which it is tagged.

    ## Rewards

    The sum of the following, for agents that are in the game when the step begins:

    | Event | Reward |
    | --- | --- |
    | every step | `step_penalty_for_tagger` or `step_reward_for_runner` |
    | the move was clipped to the square | `edge_hit_penalty` |
    | a runner is tagged | `tag_penalty_for_runner` for the runner, `tag_reward_for_tagger` for the tagger |
    | a runner is in the game after step `episode_length` | `end_of_game_reward_for_runner` for the runner |

    A tagger that tags several runners in one step is rewarded for each of them.

    ## Starting State

    All agents are at rest and in the game. Unless `starting_location_x`, `starting_location_y` or `starting_directions`
    are given, locations are uniform in the square and directions are drawn from 0, pi/2, pi and 3 pi/2.

    ## Episode End

    - Termination: all runners have left the game.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        num_taggers: Number of taggers, 1 or more.
        num_runners: Number of runners, 1 or more.
        grid_length: Side L of the square, greater than 0; locations are in [0, L].
        episode_length: Number of steps after which an episode is truncated, 1 or more.
        starting_location_x: One x in [0, L] for each agent, or None for a uniform distribution.
        starting_location_y: One y in [0, L] for each agent, or None for a uniform distribution.
        starting_directions: One angle for each agent, or None for a draw from 0, pi/2, pi and 3 pi/2.
        seed: Seed of the roles and of the single start state, 0 or more. If None, start states are drawn from the
            generator passed to `initial_state`.
        max_speed: Maximum speed of an agent with skill level 1, greater than 0.
        skill_level_runner: Factor on the maximum speed of runners, 0 or more.
        skill_level_tagger: Factor on the maximum speed of taggers, 0 or more.
        max_acceleration: Maximum change of the acceleration in a step, `min_acceleration` or more.
        min_acceleration: Minimum change of the acceleration in a step.
        max_turn: Maximum change of the direction in a step, `min_turn` or more.
        min_turn: Minimum change of the direction in a step.
        num_acceleration_levels: Number of levels from `min_acceleration` to `max_acceleration`, 1 or more; level 0,
            which changes nothing, is additional.
        num_turn_levels: Number of levels from `min_turn` to `max_turn`, 1 or more; level 0 is additional as well.
        edge_hit_penalty: Reward for a move that ends outside the square, 0 or less.
        use_full_observation: If True, agents observe all other agents, otherwise the nearest ones in the game.
        num_other_agents_observed: Number K of nearest agents observed, 1 or more.
        tagging_distance: Distance below which a runner is tagged, as a fraction of L, greater than 0 and at most 1.
        tag_reward_for_tagger: Reward of the nearest tagger for a tag, 0 or more.
        step_penalty_for_tagger: Reward of a tagger in every step, 0 or less.
        tag_penalty_for_runner: Reward of a runner for being tagged, 0 or less.
        step_reward_for_runner: Reward of a runner in every step, 0 or more.
        end_of_game_reward_for_runner: Reward of a runner that is in the game after the last step, 0 or more.
        runner_exits_game_after_tagged: If True, a tagged runner leaves the game.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - T. Lan, S. Srinivasa, H. Wang and S. Zheng (2021), "WarpDrive: Extremely fast end-to-end deep multi-agent
      reinforcement learning on a GPU", [arXiv 2108.13976](https://arxiv.org/abs/2108.13976).

    `envs/tag_continuous/reference.py` has the same step in NumPy; see the
    [agreement with reference implementations](index.md#agreement-with-reference-implementations).
    """

    name = "tag_continuous"
    parity: ClassVar[Mapping[str, Any]] = {"title": "a reference in NumPy", "tolerance": 1e-5}
    termination_meaning: ClassVar[str] = "every runner was tagged"
    step = step
    reference_step, reference_observe = reference.step, reference.observe
    observe = observe_all
    draw, shapes_per_agent = draw, 2
    cuda_twins: ClassVar[Mapping[str, wd.CudaKernel]] = {
        name: wd.cuda_kernel("tag_continuous.cu", name) for name in ("step", "observe_all", "observe_nearest")
    }

    def __init__(
        self,
        num_taggers: int = 1,
        num_runners: int = 10,
        grid_length: float = 10.0,
        episode_length: int = 100,
        starting_location_x: Sequence[float] | None = None,
        starting_location_y: Sequence[float] | None = None,
        starting_directions: Sequence[float] | None = None,
        seed: int | None = None,
        max_speed: float = 1.0,
        skill_level_runner: float = 1.0,
        skill_level_tagger: float = 1.0,
        max_acceleration: float = 1.0,
        min_acceleration: float = -1.0,
        max_turn: float = math.pi / 2,
        min_turn: float = -math.pi / 2,
        num_acceleration_levels: int = 10,
        num_turn_levels: int = 10,
        edge_hit_penalty: float = 0.0,
        use_full_observation: bool = True,
        num_other_agents_observed: int = 2,
        tagging_distance: float = 0.01,
        tag_reward_for_tagger: float = 1.0,
        step_penalty_for_tagger: float = 0.0,
        tag_penalty_for_runner: float = -1.0,
        step_reward_for_runner: float = 0.0,
        end_of_game_reward_for_runner: float = 1.0,
        runner_exits_game_after_tagged: bool = True,
    ) -> None:
        whole, real, flag = parameters.whole, parameters.real, parameters.flag
        self.num_taggers = whole("num_taggers", num_taggers, at_least=1)
        self.num_runners = whole("num_runners", num_runners, at_least=1)
        self.num_agents = self.num_taggers + self.num_runners
        self.grid_length = real("grid_length", grid_length, above=0)
        self.episode_length = whole("episode_length", episode_length, at_least=1)
        self.seed = parameters.optional_seed("seed", seed)
        self.max_speed = real("max_speed", max_speed, above=0)
        self.skill_level_runner = real("skill_level_runner", skill_level_runner, at_least=0)
        self.skill_level_tagger = real("skill_level_tagger", skill_level_tagger, at_least=0)
        self.min_acceleration = real("min_acceleration", min_acceleration)
        self.max_acceleration = real("max_acceleration", max_acceleration, at_least=self.min_acceleration)
        self.min_turn = real("min_turn", min_turn)
        self.max_turn = real("max_turn", max_turn, at_least=self.min_turn)
        self.num_acceleration_levels = whole("num_acceleration_levels", num_acceleration_levels, at_least=1)
        self.num_turn_levels = whole("num_turn_levels", num_turn_levels, at_least=1)
        self.edge_hit_penalty = real("edge_hit_penalty", edge_hit_penalty, at_most=0)
        self.use_full_observation = flag("use_full_observation", use_full_observation)
        self.num_other_agents_observed = whole("num_other_agents_observed", num_other_agents_observed, at_least=1)
        self.tagging_distance = real("tagging_distance", tagging_distance, above=0, at_most=1)
        self.tag_reward_for_tagger = real("tag_reward_for_tagger", tag_reward_for_tagger, at_least=0)
        self.step_penalty_for_tagger = real("step_penalty_for_tagger", step_penalty_for_tagger, at_most=0)
        self.tag_penalty_for_runner = real("tag_penalty_for_runner", tag_penalty_for_runner, at_most=0)
        self.step_reward_for_runner = real("step_reward_for_runner", step_reward_for_runner, at_least=0)
        self.end_of_game_reward_for_runner = real(
            "end_of_game_reward_for_runner", end_of_game_reward_for_runner, at_least=0
        )
        self.runner_exits_game_after_tagged = flag("runner_exits_game_after_tagged", runner_exits_game_after_tagged)

        n, side = self.num_agents, self.grid_length
        per_agent = parameters.per_agent
        self.starting_location_x = per_agent("starting_location_x", starting_location_x, n, np.float32, 0, side)
        self.starting_location_y = per_agent("starting_location_y", starting_location_y, n, np.float32, 0, side)
        self.starting_directions = per_agent("starting_directions", starting_directions, n, np.float32)

        self._assign_roles()
        self._prepare_constants()
        self.action_space = spaces.MultiDiscrete([self.num_acceleration_levels + 1, self.num_turn_levels + 1])
        self.controls = {  # level 0 changes nothing, level 1 is the minimum
            **{"up": {0: self.num_acceleration_levels}, "down": {0: 1}},
            **{"left": {1: self.num_turn_levels}, "right": {1: 1}},
        }
        others = n - 1 if self.use_full_observation else self.num_other_agents_observed
        self.observation_space = spaces.Box(-np.inf, np.inf, (7 * others + 1,), np.float32)
        self.observe = observe_all if self.use_full_observation else observe_nearest

    def _assign_roles(self) -> None:
        rng = np.random.default_rng(0 if self.seed is None else self.seed)
        taggers = rng.choice(self.num_agents, self.num_taggers, replace=False)
        self.tagger_ids = np.sort(taggers).astype(np.int32)
        self.is_runner = np.ones(self.num_agents, np.bool_)
        self.is_runner[self.tagger_ids] = False
        self.policy_tags = {"tagger": self.tagger_ids.tolist(), "runner": np.flatnonzero(self.is_runner).tolist()}

    def _prepare_constants(self) -> None:
        accelerations = np.linspace(self.min_acceleration, self.max_acceleration, self.num_acceleration_levels)
        turns = np.linspace(self.min_turn, self.max_turn, self.num_turn_levels)
        self.acceleration_table = np.concatenate([[0.0], accelerations]).astype(np.float32)
        self.turn_table = np.concatenate([[0.0], turns]).astype(np.float32)
        skill = np.where(self.is_runner, self.skill_level_runner, self.skill_level_tagger)
        self.top_speed = (self.max_speed * skill).astype(np.float32)
        self.step_reward = np.where(self.is_runner, self.step_reward_for_runner, self.step_penalty_for_tagger).astype(
            np.float32
        )
        self.squared_tagging_distance = (self.tagging_distance * self.grid_length) ** 2
        self.location_scale = 1.0 / (math.sqrt(2.0) * self.grid_length)
        self.speed_scale = 1.0 / (self.max_speed + 1e-10)
        self.direction_scale = 1.0 / (2.0 * math.pi)
        self.time_scale = 1.0 / self.episode_length
        self.tagging_reach = self.tagging_distance * self.grid_length
        self.arrow_length = 1.5 * self.grid_length / min(max(5.0 * math.sqrt(self.num_agents), 25.0), 60.0)
        low, high = -self.arrow_length, self.grid_length + self.arrow_length
        self.view = (low, high, low, high)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return a start state: all agents at rest and in the game, at random locations, facing along an axis.

        Per agent: ``loc_x``, ``loc_y``, ``speed``, ``direction``, ``acceleration`` (float32), ``in_game`` (bool: was
        in the game when the last step began) and ``active`` (bool: still is). Per replica: ``runners_left`` (int32).
        """
        if self.seed is not None:
            rng = np.random.default_rng(self.seed)
        n = self.num_agents
        drawn_x, drawn_y = rng.uniform(0.0, self.grid_length, (2, n))
        drawn_directions = rng.integers(4, size=n) * (math.pi / 2)
        chosen = {
            "loc_x": drawn_x if self.starting_location_x is None else self.starting_location_x,
            "loc_y": drawn_y if self.starting_location_y is None else self.starting_location_y,
            "direction": drawn_directions if self.starting_directions is None else self.starting_directions,
        }
        return {
            **{name: value.astype(np.float32) for name, value in chosen.items()},
            "speed": np.zeros(n, np.float32),
            "acceleration": np.zeros(n, np.float32),
            "in_game": np.ones(n, np.bool_),
            "active": np.ones(n, np.bool_),
            "runners_left": np.array(self.num_runners, np.int32),
        }
