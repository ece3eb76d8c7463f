"""Two teams fight on a grid, hundreds or thousands of agents each (in the spirit of ``battle`` of MAgent2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.battle import formation, reference
from warpdrive.envs.common import drawing, parameters
from warpdrive.errors import DefinitionError, shown
from warpdrive.scene.scene import Scene

ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
EMPTY = 0
WALL = 2**30
"""Value of a wall cell. An occupied cell holds the agent's health plus 1, negative for blue."""
MAX_HEALTH = 1e6
WIDEST_MAP = 2**12
FARTHEST = 100


@wd.kernel
def step(
    # state
    loc_x, loc_y, health, active, cells, hits, claims, timestep,
    # actions
    actions,
    # constants
    action_x, action_y, num_agents, agents_per_team, num_moves, margin, most_health, damage_of_hit, recovery_of_step,
    step_reward, attack_reward, hit_reward, kill_reward, death_reward,
    # out
    rewards, terminated,
):  # fmt: skip
    """Count the hits on every cell, resolve kills and moves, then update the cells.

    Agents that compete for a resource (a free cell, the reward for a kill) write a claim to the cell, and the highest
    claim wins: an integer maximum, which does not depend on the order of threads. ``hits`` and ``claims`` are reset to
    zero at the end of the step.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    team = 1 if agent >= agents_per_team else 0
    side = 1 - 2 * team
    alive = active[env, agent]
    x, y = loc_x[env, agent] + margin, loc_y[env, agent] + margin
    action = actions[env, agent]
    there_x, there_y = x + action_x[action], y + action_y[action]
    there = cells[env, there_y, there_x]
    attacks = alive and action > num_moves
    strikes = attacks and there != WALL and side * there < 0
    if strikes:
        cuda.atomic.add(hits, (env, there_y, there_x), 1)
    cuda.syncthreads()

    health_left = health[env, agent] - damage_of_hit * hits[env, y, x]
    survives = alive and health_left >= 0
    fatal = strikes and abs(there) <= damage_of_hit * hits[env, there_y, there_x]
    moves = survives and 0 < action <= num_moves and there == EMPTY
    turn = timestep[env]
    member = agent - team * agents_per_team
    claim = num_agents - 2 * ((member + turn) % agents_per_team) - ((team + turn) & 1)
    if fatal or moves:
        cuda.atomic.max(claims, (env, there_y, there_x), claim)
    cuda.syncthreads()

    first = (fatal or moves) and claims[env, there_y, there_x] == claim
    if alive:
        hits[env, y, x] = 0
        reward = step_reward
        reward += attack_reward if attacks else ZERO
        if strikes:
            reward += kill_reward if fatal and first else hit_reward
        rewards[env, agent] = reward if survives else death_reward
    cuda.syncthreads()

    if first:
        claims[env, there_y, there_x] = 0
    if alive:
        health_left = min(health_left + recovery_of_step, most_health) if survives else 0
        health[env, agent] = health_left
        active[env, agent] = survives
        occupant = side * (health_left + 1) if survives else EMPTY
        cells[env, y, x] = occupant
        if moves and first:
            cells[env, y, x] = EMPTY
            cells[env, there_y, there_x] = occupant
            loc_x[env, agent] = there_x - margin
            loc_y[env, agent] = there_y - margin
    red_stands = cuda.syncthreads_or(survives and team == 0)
    blue_stands = cuda.syncthreads_or(survives and team == 1)
    if agent == 0:
        terminated[env] = not (red_stands and blue_stands)


@wd.device_function
def see_surroundings(
    # out
    observations,
    # indices
    env, agent,
    # state
    loc_x, loc_y, active, cells,
    # constants
    agents_per_team, margin, view_range, see_health, health_scale,
):  # fmt: skip
    """Write the channels of walls, own team and opposing team, and of their health if observed."""
    side = 1 if agent < agents_per_team else -1
    top = loc_y[env, agent] + margin - view_range
    left = loc_x[env, agent] + margin - view_range
    for row in range(observations.shape[3]):
        for column in range(observations.shape[4]):
            cell = cells[env, top + row, left + column]
            own = ZERO if cell == WALL else np.float32(side * cell)
            observations[env, agent, 0, row, column] = ONE if cell == WALL else ZERO
            observations[env, agent, 1, row, column] = ONE if own > ZERO else ZERO
            observations[env, agent, 2, row, column] = ONE if own < ZERO else ZERO
            if see_health:
                observations[env, agent, 3, row, column] = max(own - ONE, ZERO) * health_scale
                observations[env, agent, 4, row, column] = max(-own - ONE, ZERO) * health_scale


@wd.device_function
def see_nothing(observations, env, agent):
    """Write zeros into all channels.

    Args:
        observations: ``[num_envs, num_agents, channels, rows, columns]`` float32, written.
        env: Index of the replica.
        agent: Index of the agent.
    """
    for channel in range(observations.shape[2]):
        for row in range(observations.shape[3]):
            for column in range(observations.shape[4]):
                observations[env, agent, channel, row, column] = ZERO


@wd.kernel
def observe_surroundings(
    # state
    loc_x, loc_y, active, cells,
    # constants
    agents_per_team, margin, view_range, see_health, health_scale,
    # out
    observations,
):  # fmt: skip
    """Write the surroundings of each agent; inactive agents observe zeros."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if active[env, agent]:
        see_surroundings(
            observations, env, agent, loc_x, loc_y, active, cells, agents_per_team, margin, view_range, see_health,
            health_scale,
        )  # fmt: skip
    else:
        see_nothing(observations, env, agent)


@wd.kernel
def observe_surroundings_and_map(
    # state
    loc_x, loc_y, active, cells,
    # constants
    num_agents, agents_per_team, margin, view_range, view_width, map_size, num_squares, see_health, health_scale,
    share_of_agent, location_scale,
    # out
    observations,
):  # fmt: skip
    """Write the surroundings of each agent, and the share of each team in each square of the whole map."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    counts = cuda.shared.array((2, num_squares), np.int32)
    for square in range(agent, num_squares, num_agents):
        counts[0, square] = 0
        counts[1, square] = 0
    cuda.syncthreads()

    team = 1 if agent >= agents_per_team else 0
    if active[env, agent]:
        row, column = loc_y[env, agent] * view_width // map_size, loc_x[env, agent] * view_width // map_size
        cuda.atomic.add(counts, (team, row * view_width + column), 1)
    cuda.syncthreads()

    if active[env, agent]:
        see_surroundings(
            observations, env, agent, loc_x, loc_y, active, cells, agents_per_team, margin, view_range, see_health,
            health_scale,
        )  # fmt: skip
        first = 5 if see_health else 3
        for row in range(observations.shape[3]):
            for column in range(observations.shape[4]):
                square = row * view_width + column
                observations[env, agent, first, row, column] = np.float32(counts[team, square]) * share_of_agent
                observations[env, agent, first + 1, row, column] = np.float32(counts[1 - team, square]) * share_of_agent
                observations[env, agent, first + 2, row, column] = np.float32(loc_x[env, agent]) * location_scale
                observations[env, agent, first + 3, row, column] = np.float32(loc_y[env, agent]) * location_scale
    else:
        see_nothing(observations, env, agent)


@wd.kernel
def reset_at_random(
    # state
    loc_x, loc_y, cells, claims,
    # random stream
    rng,
    # constants
    free_x, free_y, bare_cells, num_free, num_agents, agents_per_team, margin, most_health,
):  # fmt: skip
    """Sample a cell for each agent, rejecting occupied ones: every arrangement is equally probable."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    width = bare_cells.shape[1]
    for i in range(agent, width * width, num_agents):
        cells[env, i // width, i % width] = bare_cells[i // width, i % width]
    cuda.syncthreads()

    side = 1 if agent < agents_per_team else -1
    placed = False
    x, y = margin, margin
    all_placed = False
    while not all_placed:
        wants = False
        if not placed:
            drawn = wd.random.integer(rng, env, agent, num_free)
            x, y = free_x[drawn] + margin, free_y[drawn] + margin
            wants = cells[env, y, x] == EMPTY
            if wants:
                cuda.atomic.max(claims, (env, y, x), agent + 1)
        cuda.syncthreads()
        first = wants and claims[env, y, x] == agent + 1
        cuda.syncthreads()
        if first:
            claims[env, y, x] = 0
            cells[env, y, x] = side * (most_health + 1)
            loc_x[env, agent] = x - margin
            loc_y[env, agent] = y - margin
            placed = True
        all_placed = cuda.syncthreads_and(placed)


@wd.kernel
def draw(
    shapes,
    # state
    loc_x, loc_y, health, active, actions, rewards,
    # constants
    action_x, action_y, agents_per_team, num_moves, most_health, step_reward, attack_reward, hit_reward,
):  # fmt: skip
    """Draw an agent as a disc, paler with less health, and its attack if it was rewarded as a hit."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, y, action = loc_x[env, agent], loc_y[env, agent], actions[env, agent]
    colour = wd.draw.RED if agent < agents_per_team else wd.draw.BLUE
    if active[env, agent]:
        wd.draw.circle(shapes, 0, x, y, 0.45, colour)
        wd.draw.style(shapes, 0, 0.15 + 0.85 * health[env, agent] / most_health, colour, 0)
        if action > num_moves and rewards[env, agent] > step_reward + attack_reward + HALF * hit_reward:
            wd.draw.line(shapes, 1, x, y, x + action_x[action], y + action_y[action], 0.3, wd.draw.YELLOW)
            wd.draw.style(shapes, 1, 1.0, -1, 1)


class Battle(wd.Environment):
    """Eliminate the opposing team on a grid, with up to thousands of agents per team.

    ## Description

    Two teams, red and blue, fight until one of them is eliminated. Rewards are individual. Agents `0 .. agents_per_team
    - 1` are red (policy tag `red`), the others are blue (`blue`). Each agent occupies one cell. Rules and default
    constants are those of `battle_v4` of MAgent2, except for the order of events: there, attacks of a step hit one
    after the other in random order, and agents move one after the other.

    In each step

    1. all attacks hit simultaneously: each removes `damage` from the opponent on its cell, and has no effect on own
       team or walls. An agent whose health falls below 0 is eliminated and is no longer `active`, but its attack in
       this step counts;
    2. the others move simultaneously to cells on the map that were empty before the step, jumping over any cells
       between;
    3. the survivors regain `recovery`, up to `health`.

    If several agents compete for a cell or for the reward of a kill, the first in order wins: in step t of an episode
    the i-th agents of both teams are ranked by `(i + t) mod agents_per_team`, and red comes before blue in even steps,
    after it in odd ones. The kernel computes this as an integer maximum, so the result does not depend on the order of
    threads or on the backend. Health is stored as an integer number of tenths. MAgent2 adds up floats, so rounding
    decides there if an agent whose health equals the damage is eliminated; here it survives.

    ## Action Space

    `Discrete(21)` by default, stored as `actions[env, agent]` (int32).

    | Action | Meaning |
    | --- | --- |
    | 0 | do nothing |
    | 1 to M | move to one of the M cells within the Euclidean distance `move_range` (12 by default) |
    | M + 1 to M + A | attack one of the A cells within the Euclidean distance `attack_range` (8 by default) |

    Moves and attacks are each ordered by row from the smallest y, and within a row from the smallest x.

    ## Observation Space

    `Box` of shape `(channels, width, width)`, float32, width = 2 `view_range` + 1: the cells around the agent;
    `(5, 13, 13)` by default. Eliminated agents observe zeros.

    MAgent2's agents observe a circle, in which cells off the map are 0, and each team's health and minimap follow its
    channel. Squares of its minimap have `ceil(map_size / width)` cells along each side, the agent's own square is 1
    larger in both channels, and its location is relative to `map_size`.

    | Channel | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0 | 1 for walls and cells off the map | 0 | 1 |
    | 1 | 1 for agents of the own team | 0 | 1 |
    | 2 | 1 for agents of the opposing team | 0 | 1 |
    | 3 | health of agents of the own team, relative to `health` (with `see_health`) | 0 | 1 |
    | 4 | health of agents of the opposing team, relative to `health` (with `see_health`) | 0 | 1 |
    | next | share of the own team in each of width x width squares of the whole map (with `minimap`) | 0 | 1 |
    | next | share of the opposing team in each of these squares (with `minimap`) | 0 | 1 |
    | next | own x on the map, relative to the largest x (with `minimap`) | 0 | 1 |
    | last | own y on the map, relative to the largest y (with `minimap`) | 0 | 1 |

    Observations dominate the memory: `4 * channels * (2 * view_range + 1) ** 2` bytes for each agent in each step of a
    rollout.

    | Agents per team | View | Bytes per agent | Per replica and step |
    | ---: | --- | ---: | ---: |
    | 81 | 5 x 13 x 13 | 3,380 | 0.5 MB |
    | 81 | 3 x 9 x 9 (`view_range=4`, `see_health=False`) | 972 | 0.2 MB |
    | 2000 | 5 x 13 x 13 | 3,380 | 13.5 MB |
    | 2000 | 3 x 9 x 9 | 972 | 3.9 MB |
    | 2000 | 9 x 13 x 13 (`minimap=True`) | 6,084 | 24.3 MB |

    A rollout of 32 steps of 16 replicas with 2 x 2000 agents and the default view takes 7 GB; the map takes 12 bytes
    per cell. `map_size=200` has room for two blocks of 2000 agents.

    ## Rewards

    The sum of the following; an agent that is eliminated gets `death_reward` instead:

    | Event | Argument | Default |
    | --- | --- | ---: |
    | every step | `step_reward` | -0.005 |
    | an attack, whatever its target | `attack_reward` | -0.1 |
    | an attack on an opponent | `hit_reward` | 0.2 |
    | instead of that: a fatal attack, the first in order if there are several | `kill_reward` | 5 |
    | being eliminated, instead of the sum | `death_reward` | -0.1 |

    ## Starting State

    The teams start in two blocks that face each other, mirror images of one another. With `random_starts=True` agents
    start on distinct random cells, drawn on the device. All agents have full health.

    ## Episode End

    - Termination: a team is eliminated.
    - Truncation: after `episode_length` steps.

    ## Arguments

    Args:
        agents_per_team: Number of agents of each team, 1 or more.
        map_size: Number of cells along each side of the map, 2 to 4096.
        walls: Cells (x, y) that cannot be entered, in addition to everything off the map.
        random_starts: If True, agents start on random cells, at most half of those without walls; otherwise in two
            blocks that face each other.
        spacing: Distance in cells between agents of a block, 1 or more.
        gap: Number of cells between the middle of the map and each block, 0 or more (MAgent2's blocks are asymmetric).
        health: Initial and maximum health of an agent: 0.1 to 1,000,000, a multiple of 0.1.
        damage: Health lost per hit, a multiple of 0.1 from 0 to 1,000,000.
        recovery: Health regained in each step, a multiple of 0.1 from 0 to 1,000,000.
        move_range: Maximum distance of a move, 1 to 100; there is one action for each cell within it.
        attack_range: Maximum distance of an attack, 1 to 100; there is one action for each cell within it.
        view_range: Number of cells that agents observe in each direction, 1 to 100.
        see_health: If True, the health of other agents is observed, in two additional channels.
        minimap: If True, a downscaled map and the agent's own location are observed, in four additional channels.
        step_reward: Reward in each step.
        attack_reward: Reward for each attack, whether or not it hits.
        hit_reward: Additional reward for an attack that hits an opponent.
        kill_reward: Additional reward for an attack that eliminates an opponent, instead of `hit_reward`; one of
            several such attacks gets it.
        death_reward: Reward of an agent that is eliminated, instead of all others in that step.
        episode_length: Number of steps after which an episode is truncated, 1 or more.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range, or if the agents do not fit on the map.

    ## References

    - MAgent2, [Battle](https://magent2.farama.org/environments/battle/).

    `envs/battle/reference.py` has the same step in NumPy, agent by agent, and `envs/battle/original.py` drives MAgent2;
    see the
    [agreement with reference implementations](index.md#agreement-with-reference-implementations).
    """

    name = "battle"
    original_names: ClassVar[Mapping[str, str]] = {  # of MAgent2
        "minimap_mode": "minimap",
        "dead_penalty": "death_reward",
        "attack_penalty": "attack_reward",
        "attack_opponent_reward": "hit_reward",
        "max_cycles": "episode_length",
        "extra_features": "Last actions and rewards are not observed.",
    }
    parity: ClassVar[Mapping[str, Any]] = {"title": "a reference in NumPy", "tolerance": 1e-5}
    termination_meaning = "a team has fallen"
    step, observe = step, observe_surroundings
    reference_step, reference_observe = reference.step, reference.observe
    draw, shapes_per_agent = draw, 2

    def __init__(
        self,
        agents_per_team: int = 81,
        map_size: int = 45,
        walls: Sequence[Sequence[int]] = (),
        random_starts: bool = False,
        spacing: int = 2,
        gap: int = 3,
        health: float = 10.0,
        damage: float = 2.0,
        recovery: float = 0.1,
        move_range: float = 2.0,
        attack_range: float = 1.5,
        view_range: int = 6,
        see_health: bool = True,
        minimap: bool = False,
        step_reward: float = -0.005,
        attack_reward: float = -0.1,
        hit_reward: float = 0.2,
        kill_reward: float = 5.0,
        death_reward: float = -0.1,
        episode_length: int = 1000,
    ) -> None:
        whole, real, flag = parameters.whole, parameters.real, parameters.flag
        self.agents_per_team = whole("agents_per_team", agents_per_team, at_least=1, at_most=WIDEST_MAP**2 // 2)
        self.map_size = whole("map_size", map_size, at_least=2, at_most=WIDEST_MAP)
        self.random_starts = flag("random_starts", random_starts)
        self.spacing = whole("spacing", spacing, at_least=1)
        self.gap = whole("gap", gap, at_least=0)
        self.health, self.damage, self.recovery = health, damage, recovery
        self.most_health = _tenths("health", health, at_least=0.1)
        self.damage_of_hit = _tenths("damage", damage)
        self.recovery_of_step = _tenths("recovery", recovery)
        self.move_range = real("move_range", move_range, at_least=1, at_most=FARTHEST)
        self.attack_range = real("attack_range", attack_range, at_least=1, at_most=FARTHEST)
        self.view_range = whole("view_range", view_range, at_least=1, at_most=FARTHEST)
        self.see_health = flag("see_health", see_health)
        self.minimap = flag("minimap", minimap)
        self.step_reward = real("step_reward", step_reward)
        self.attack_reward = real("attack_reward", attack_reward)
        self.hit_reward = real("hit_reward", hit_reward)
        self.kill_reward = real("kill_reward", kill_reward)
        self.death_reward = real("death_reward", death_reward)
        self.episode_length = whole("episode_length", episode_length, at_least=1)

        self.num_agents = 2 * self.agents_per_team
        self.policy_tags = {"red": range(self.agents_per_team), "blue": range(self.agents_per_team, self.num_agents)}
        self._prepare_actions()
        self._prepare_view()
        self._prepare_starts(walls)

    def _prepare_actions(self) -> None:
        moves, attacks = _cells_within(self.move_range), _cells_within(self.attack_range)
        self.num_moves, self.num_attacks = len(moves), len(attacks)
        self.action_x, self.action_y = np.array([(0, 0), *moves, *attacks], np.int32).T.copy()
        self.action_space = spaces.Discrete(1 + self.num_moves + self.num_attacks)
        self.controls = _controls(moves, attacks)

    def _prepare_view(self) -> None:
        self.view_width = 2 * self.view_range + 1
        self.num_squares = self.view_width**2
        channels = 3 + 2 * self.see_health + 4 * self.minimap
        self.observation_space = spaces.Box(0.0, 1.0, (channels, self.view_width, self.view_width), np.float32)
        self.observe = observe_surroundings_and_map if self.minimap else observe_surroundings
        self.health_scale = 1.0 / self.most_health
        self.share_of_agent = 1.0 / self.agents_per_team
        self.location_scale = 1.0 / (self.map_size - 1)

    def _prepare_starts(self, walls: Sequence[Sequence[int]]) -> None:
        self.walls = _walls(walls, self.map_size)
        self.view = (-0.5, self.map_size - 0.5, -0.5, self.map_size - 0.5)
        farthest_action = int(max(self.move_range, self.attack_range))
        self.margin = max(self.view_range, farthest_action)
        """Width in cells of the border of walls around the map, which keeps views and actions within the array."""
        free = np.ones((self.map_size, self.map_size), np.bool_)
        for x, y in self.walls:
            free[y, x] = False
        self.bare_cells = np.pad(np.where(free, EMPTY, WALL), self.margin, constant_values=WALL).astype(np.int32)
        free_y, free_x = np.nonzero(free)
        self.free_x, self.free_y, self.num_free = free_x.astype(np.int32), free_y.astype(np.int32), len(free_x)
        if self.random_starts and 2 * self.num_agents > self.num_free:
            raise DefinitionError(
                f"agents_per_team is {self.agents_per_team}, but there are {self.num_free} cells without walls, and "
                f"random_starts needs two for each agent: at most {self.num_free // 4} agents per team, or a larger "
                "map_size."
            )
        self.reset = reset_at_random if self.random_starts else None
        if not self.random_starts:
            self.start_x, self.start_y = formation.blocks(self.agents_per_team, self.map_size, self.spacing, self.gap)
            taken = ~free[self.start_y, self.start_x]
            if taken.any():
                agent = int(np.argmax(taken))
                at = (int(self.start_x[agent]), int(self.start_y[agent]))
                raise DefinitionError(f"walls has the cell {at}, but agent {agent} starts there.")

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return a start state.

        Per agent: ``loc_x``, ``loc_y``, ``health`` (int32, in tenths) and ``active`` (bool: not eliminated). Per cell
        of the map with its border: ``cells`` (int32: the occupant, see ``WALL``), ``hits`` and ``claims`` (int32, 0
        between steps).
        """
        if self.random_starts:
            drawn = rng.choice(self.num_free, self.num_agents, replace=False)
            x, y = self.free_x[drawn], self.free_y[drawn]
        else:
            x, y = self.start_x, self.start_y
        cells = self.bare_cells.copy()
        side = np.repeat([1, -1], self.agents_per_team)
        cells[y + self.margin, x + self.margin] = side * (self.most_health + 1)
        return {
            "loc_x": x.copy(),
            "loc_y": y.copy(),
            "health": np.full(self.num_agents, self.most_health, np.int32),
            "active": np.ones(self.num_agents, np.bool_),
            "cells": cells,
            "hits": np.zeros_like(cells),
            "claims": np.zeros_like(cells),
        }

    @cached_property
    def _scenery(self) -> Scene:
        return Scene(
            self.view, polygons=[drawing.box(x - 0.5, x + 0.5, y - 0.5, y + 0.5, wd.draw.GREY) for x, y in self.walls]
        )

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the walls."""
        return self._scenery


def _tenths(name: str, value: Any, at_least: float = 0.0) -> int:
    tenths = 10 * parameters.real(name, value, at_least=at_least, at_most=MAX_HEALTH)
    if not math.isclose(tenths, round(tenths), rel_tol=1e-9):
        raise DefinitionError(f"{name} is {shown(value)}, but it must be a multiple of 0.1.")
    return round(tenths)


def _cells_within(distance: float) -> list[tuple[int, int]]:
    """Return the offsets (x, y) of other cells within a distance, row by row."""
    reach = range(-int(distance), int(distance) + 1)
    return [(x, y) for y in reach for x in reach if 0 < x * x + y * y <= distance * distance]


def _controls(moves: list[tuple[int, int]], attacks: list[tuple[int, int]]) -> dict[str, int]:
    """Return the actions of human players: arrows move by one cell, and attack while the space bar is held."""
    directions = {"left": (-1, 0), "right": (1, 0), "down": (0, -1), "up": (0, 1)}
    controls = {key: 1 + moves.index(cell) for key, cell in directions.items()}
    return controls | {f"space+{key}": 1 + len(moves) + attacks.index(cell) for key, cell in directions.items()}


def _walls(value: Any, map_size: int) -> list[tuple[int, int]]:
    try:
        cells = np.array(value) if len(value) else np.zeros((0, 2), np.int64)
    except (TypeError, ValueError):
        cells = np.zeros(0)
    is_pairs = np.issubdtype(cells.dtype, np.integer) and cells.shape[1:] == (2,)
    if not is_pairs or ((cells < 0) | (cells >= map_size)).any():
        cells_of = f"a list of cells (x, y) from 0 to {map_size - 1}"
        raise DefinitionError(f"walls is {shown(value)}, but it must be {cells_of}.")
    return [(int(x), int(y)) for x, y in cells]
