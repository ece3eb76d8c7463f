"""Players collect foods on a grid: level-based foraging (``ForagingEnv`` of the package ``lbforaging``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import drawing, parameters
from warpdrive.envs.lbf import reference
from warpdrive.errors import DefinitionError, shown
from warpdrive.scene.scene import Scene

ZERO, ONE = np.float32(0), np.float32(1)
HALF_WORD = np.uint64(32)
NORTH, SOUTH, WEST, EAST, LOAD = 1, 2, 3, 4, 5
ATTEMPTS = 1000
"""Number of cells that are sampled for all foods of a start state; if too few of them are free, there are fewer
foods."""
LARGEST_FIELD, HIGHEST_LEVEL = 1000, 1000


@wd.kernel
def step(
    # state
    loc_y, loc_x, level, food_y, food_x, food_level, food_spawned,
    # actions
    actions,
    # constants
    num_agents, num_foods, rows, columns, normalize_reward, penalty,
    # out
    rewards, terminated,
):  # fmt: skip
    """Move players to cells that no other player enters, then load the foods.

    Players who load choose an adjacent food, and all players who chose the same food load it together. A food in the
    same column takes precedence over one in the same row; start states have no foods that close to each other.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    wanted_y = cuda.shared.array(num_agents, np.int32)
    wanted_x = cuda.shared.array(num_agents, np.int32)
    chosen = cuda.shared.array(num_agents, np.int32)
    action = actions[env, agent]
    y, x = loc_y[env, agent], loc_x[env, agent]
    there_y = y + (1 if action == SOUTH else 0) - (1 if action == NORTH else 0)
    there_x = x + (1 if action == EAST else 0) - (1 if action == WEST else 0)
    free = 0 <= there_y < rows and 0 <= there_x < columns
    above_or_below, beside = -1, -1
    for food in range(num_foods):
        if food_level[env, food] > 0:
            far_y, far_x = abs(food_y[env, food] - y), abs(food_x[env, food] - x)
            free = free and not (food_y[env, food] == there_y and food_x[env, food] == there_x)
            above_or_below = food if far_x == 0 and far_y == 1 and above_or_below < 0 else above_or_below
            beside = food if far_y == 0 and far_x == 1 and beside < 0 else beside
    choice = above_or_below if above_or_below >= 0 else beside
    choice = choice if action == LOAD else -1
    wanted_y[agent], wanted_x[agent] = there_y if free else y, there_x if free else x
    chosen[agent] = choice
    cuda.syncthreads()

    alone, first = True, True
    strength = 0
    for other in range(num_agents):
        same = wanted_y[other] == wanted_y[agent] and wanted_x[other] == wanted_x[agent]
        alone = alone and (other == agent or not same)
        if chosen[other] == choice:
            strength += level[env, other]
            first = first and other >= agent
    reward = ZERO
    loaded = False
    if choice >= 0:
        loaded = strength >= food_level[env, choice]
        if loaded:
            reward = np.float32(level[env, agent] * food_level[env, choice])
            if normalize_reward:
                reward /= np.float32(strength * food_spawned[env])
        else:
            reward = -penalty
    rewards[env, agent] = reward
    if alone:
        loc_y[env, agent], loc_x[env, agent] = wanted_y[agent], wanted_x[agent]
    cuda.syncthreads()

    if loaded and first:
        food_level[env, choice] = 0
    cuda.syncthreads()
    if agent == 0:
        left = 0
        for food in range(num_foods):
            left += food_level[env, food]
        terminated[env] = left == 0


@wd.kernel
def observe_lists(
    # state
    loc_y, loc_x, level, food_y, food_x, food_level,
    # constants
    num_agents, num_foods, sight, observe_agent_levels,
    # out
    observations,
):  # fmt: skip
    """Write the foods in sight row by row, the player, and the other players in sight, padded with -1, -1, 0."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    y, x = loc_y[env, agent], loc_x[env, agent]
    top, left = max(y - sight, 0), max(x - sight, 0)
    seen = 0
    for food in range(num_foods):
        is_near = abs(food_y[env, food] - y) <= sight and abs(food_x[env, food] - x) <= sight
        if food_level[env, food] > 0 and is_near:
            observations[env, agent, 3 * seen] = np.float32(food_y[env, food] - top)
            observations[env, agent, 3 * seen + 1] = np.float32(food_x[env, food] - left)
            observations[env, agent, 3 * seen + 2] = np.float32(food_level[env, food])
            seen += 1
    for i in range(seen, num_foods):
        observations[env, agent, 3 * i] = -ONE
        observations[env, agent, 3 * i + 1] = -ONE
        observations[env, agent, 3 * i + 2] = ZERO

    width = 3 if observe_agent_levels else 2
    seen = 0
    for i in range(num_agents):
        other = agent if i == 0 else (i - 1 if i <= agent else i)
        from_top, from_left = loc_y[env, other] - top, loc_x[env, other] - left
        if 0 <= from_top <= 2 * sight and 0 <= from_left <= 2 * sight:
            place = 3 * num_foods + width * seen
            observations[env, agent, place] = np.float32(from_top)
            observations[env, agent, place + 1] = np.float32(from_left)
            if observe_agent_levels:
                observations[env, agent, place + 2] = np.float32(level[env, other])
            seen += 1
    for i in range(seen, num_agents):
        place = 3 * num_foods + width * i
        observations[env, agent, place] = -ONE
        observations[env, agent, place + 1] = -ONE
        if observe_agent_levels:
            observations[env, agent, place + 2] = ZERO


@wd.kernel
def observe_grid(
    # state
    loc_y, loc_x, level, food_y, food_x, food_level,
    # constants
    num_agents, num_foods, rows, columns, sight, observe_agent_levels,
    # out
    observations,
):  # fmt: skip
    """Write the layers of players, foods and free cells, centred on the player."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    top, left = loc_y[env, agent] - sight, loc_x[env, agent] - sight
    width = 2 * sight + 1
    for row in range(width):
        for column in range(width):
            is_inside = 0 <= top + row < rows and 0 <= left + column < columns
            observations[env, agent, 0, row, column] = ZERO
            observations[env, agent, 1, row, column] = ZERO
            observations[env, agent, 2, row, column] = ONE if is_inside else ZERO
    for food in range(num_foods):
        row, column = food_y[env, food] - top, food_x[env, food] - left
        if food_level[env, food] > 0 and 0 <= row < width and 0 <= column < width:
            observations[env, agent, 1, row, column] = np.float32(food_level[env, food])
            observations[env, agent, 2, row, column] = ZERO
    for other in range(num_agents):
        row, column = loc_y[env, other] - top, loc_x[env, other] - left
        if 0 <= row < width and 0 <= column < width:
            observations[env, agent, 0, row, column] = np.float32(level[env, other]) if observe_agent_levels else ONE
            observations[env, agent, 2, row, column] = ZERO


@wd.device_function
def below(word, n):
    """Return the integer from 0 to ``n - 1`` for a random word of :func:`wd.random.draw`."""
    return np.int32((np.uint64(word) * np.uint64(n)) >> HALF_WORD)


@wd.device_function
def shuffle(indices, rng, env, length):
    """Write a random permutation of ``0 .. length - 1`` into the row ``indices[env]`` (Fisher and Yates)."""
    indices[env, 0] = 0
    for i in range(1, length):
        other = wd.random.integer(rng, env, 0, i + 1)
        indices[env, i] = indices[env, other]
        indices[env, other] = i


@wd.device_function
def sum_of_three_lowest(level, env, num_agents):
    """Return the sum of the three lowest levels of players, or of all if there are fewer."""
    total = 0
    for agent in range(num_agents):
        weaker = 0
        for other in range(num_agents):
            is_before = level[env, other] == level[env, agent] and other < agent
            weaker += 1 if level[env, other] < level[env, agent] or is_before else 0
        total += level[env, agent] if weaker < 3 else 0
    return total


@wd.device_function
def is_free_for_food(
    # indices
    env, y, x, count,
    # state
    loc_y, loc_x, food_y, food_x,
    # constants
    num_agents,
):  # fmt: skip
    """Return True for a cell without player, without a food in the eight cells around it or two steps in a line."""
    free = True
    for agent in range(num_agents):
        free = free and not (loc_y[env, agent] == y and loc_x[env, agent] == x)
    for food in range(count):
        far_y, far_x = abs(food_y[env, food] - y), abs(food_x[env, food] - x)
        is_near = max(far_y, far_x) <= 1 or (min(far_y, far_x) == 0 and max(far_y, far_x) <= 2)
        free = free and not is_near
    return free


@wd.kernel
def reset(
    # state
    loc_y, loc_x, level, food_y, food_x, food_level, food_spawned,
    # random stream
    rng,
    # constants
    num_agents, num_foods, rows, columns, player_level_low, player_level_high, food_level_low, food_level_high,
    levels_by_players, force_coop,
):  # fmt: skip
    """Sample players, then foods, sequentially, since each excludes cells; then sort the foods row by row."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if agent == 0:
        shuffle(level, rng, env, num_agents)
        for player in range(num_agents):
            taken = True
            while taken:
                words = wd.random.draw(rng, env, 0)
                y, x = below(words[0], rows), below(words[1], columns)
                taken = False
                for other in range(player):
                    taken = taken or (loc_y[env, other] == y and loc_x[env, other] == x)
            loc_y[env, player], loc_x[env, player] = y, x
            low, high = player_level_low[level[env, player]], player_level_high[level[env, player]]
            level[env, player] = low + below(words[2], high - low + 1)

        strength = sum_of_three_lowest(level, env, num_agents)
        shuffle(food_level, rng, env, num_foods)
        count, total, attempts = 0, 0, 0
        while count < num_foods and attempts < ATTEMPTS:
            attempts += 1
            words = wd.random.draw(rng, env, 0)
            y, x = 1 + below(words[0], rows - 2), 1 + below(words[1], columns - 2)
            if is_free_for_food(env, y, x, count, loc_y, loc_x, food_y, food_x, num_agents):
                own = food_level[env, count]
                high = strength if levels_by_players else food_level_high[own]
                low = high if force_coop else food_level_low[own]
                drawn = low + below(words[2], high - low + 1)
                food_y[env, count], food_x[env, count], food_level[env, count] = y, x, drawn
                count += 1
                total += drawn
        for food in range(count, num_foods):
            food_y[env, food], food_x[env, food], food_level[env, food] = 0, 0, 0
        food_spawned[env] = total

        for food in range(1, count):
            y, x, drawn = food_y[env, food], food_x[env, food], food_level[env, food]
            place = food
            while place > 0 and food_y[env, place - 1] * columns + food_x[env, place - 1] > y * columns + x:
                food_y[env, place] = food_y[env, place - 1]
                food_x[env, place] = food_x[env, place - 1]
                food_level[env, place] = food_level[env, place - 1]
                place -= 1
            food_y[env, place], food_x[env, place], food_level[env, place] = y, x, drawn


@wd.kernel
def draw_foods(things, food_y, food_x, food_level, rows, num_agents, num_foods):
    """Draw the foods and their levels, distributed over the threads."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for food in range(agent, num_foods, num_agents):
        if food_level[env, food] > 0:
            x, y, place = food_x[env, food], rows - 1 - food_y[env, food], 2 * (food // num_agents)
            wd.draw.rectangle(things, place, x, y, 0.8, 0.8, ZERO, wd.draw.YELLOW)
            wd.draw.number(things, place + 1, x, y, food_level[env, food], 0.45, wd.draw.GROUND)


@wd.kernel
def draw(
    shapes,
    # state
    loc_y, loc_x, level, actions, rewards,
    # constants
    rows,
):  # fmt: skip
    """Draw a player as a disc with its level, with a ring if it tries to load, in another colour on success."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x, y = loc_x[env, agent], rows - 1 - loc_y[env, agent]
    wd.draw.circle(shapes, 0, x, y, 0.36, wd.draw.BLUE)
    if rewards[env, agent] > ZERO:
        wd.draw.circle(shapes, 1, x, y, 0.46, wd.draw.GREEN)
        wd.draw.style(shapes, 1, 1.0, -1, -1)
    elif actions[env, agent] == LOAD:
        wd.draw.circle(shapes, 1, x, y, 0.46, wd.draw.ORANGE)
        wd.draw.style(shapes, 1, 1.0, -1, -1)
    wd.draw.number(shapes, 2, x, y, level[env, agent], 0.45, wd.draw.GROUND)


class LevelBasedForaging(wd.Environment):
    """Collect foods on a grid, which players can only load together if their levels add up to the level of the food.

    ## Description

    Players and foods have levels. A food is loaded by the adjacent players who load in the same step, if the sum of
    their levels is at least its level; it then disappears, and the players are rewarded in proportion to their levels
    and to its level. Players have to cooperate for foods above their own levels, and compete for the others. The
    environment is `ForagingEnv` of `lbforaging` 2.0.0, level-based foraging as in the benchmark of Papoudakis et al.
    (2021), step for step: integers are equal, rewards are rounded to float32. All players share the policy tag `agent`.

    In each step

    1. invalid actions become *none*: moves off the field or onto a food, and *load* without an adjacent food;
    2. all players move simultaneously. A move fails if another player moves to the same cell or stays on it. It does
       not fail if that player leaves or its own move fails, so players can swap cells and, rarely, share one;
    3. players load foods, together with all players who load the same food.

    The arguments have the names of those of `ForagingEnv`. The registered id `Foraging-2s-10x10-3p-3f-coop-v3` stands
    for `sight=2`, `field_size=10`, `players=3`, `max_num_food=3` and `force_coop=True`; without `2s` the whole field is
    in sight, without `coop` it is `force_coop=False`. Each id is available as
    `wd.make("lbf", **gymnasium.spec(id).kwargs)`. The defaults are those of `Foraging-8x8-2p-2f-coop-v3`.

    Differences from `lbforaging`: list observations do not require square fields, grid observations work with recent
    versions of Gymnasium, the time limit truncates the episode, and start states do not depend on the end of the
    previous episode.

    ## Action Space

    `Discrete(6)`, stored as `actions[env, agent]` (int32).

    | Action | Meaning |
    | --- | --- |
    | 0 | none |
    | 1 | north (-y, the previous row) |
    | 2 | south (+y) |
    | 3 | west (-x) |
    | 4 | east (+x) |
    | 5 | load |

    ## Observation Space

    `Box` of shape `(3 * max_num_food + 3 * players,)`, float32; `(12,)` by default. Positions are relative to the upper
    left corner of what the player sees: y - max(own y - `sight`, 0), and in the same way for x.

    | Index | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 3 for each food | y, x, level of each food within `sight`, row by row | -1, -1, 0 | rows - 1, columns - 1, level |
    | next 3 | own y, x, level | 0, 0, 1 | rows - 1, columns - 1, level |
    | 3 for each other | y, x, level of each other player in sight, by id | -1, -1, 0 | rows - 1, columns - 1, level |

    Foods that are loaded or out of sight and players out of sight are left out, and the end of each list is padded with
    -1, -1, 0. Foods are in sight if both coordinates differ by at most `sight`; players are in sight up to 2 `sight`
    from that corner, so a player near the upper or left border sees farther. Without `observe_agent_levels` players
    have no third number.

    With `grid_observation=True` it is a `Box` of shape `(3, width, width)`, width = 2 `sight` + 1, of the cells around
    the player.

    | Channel | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0 | levels of players, or 1 for players without `observe_agent_levels` | 0 | level |
    | 1 | levels of foods | 0 | level |
    | 2 | 1 for cells of the field without player and food | 0 | 1 |

    ## Rewards

    | Event | Reward |
    | --- | --- |
    | loading a food | own level * food level / (levels of the players who load it * levels of all foods at the start) |
    | the same with `normalize_reward=False` | own level * food level |
    | an attempt to load a food above the sum of the levels | -`penalty` |

    Normalised rewards of all players in an episode add up to 1 if all foods are loaded.

    ## Starting State

    Sampled on the device: players are on distinct random cells, with levels from `min_player_level` to
    `max_player_level`. Foods are on random cells that are not on the border and have no player, no other food within
    a step in any of the eight directions, and none within two steps in the same row or column; if 1,000 sampled cells
    do not suffice for all foods, there are fewer. Levels of foods are sampled from `min_food_level` to
    `max_food_level`, by default the sum of the three lowest levels of players; with `force_coop=True` all foods have
    the highest level. Levels given for each player or food are assigned in random order.

    ## Episode End

    - Termination: no food is left.
    - Truncation: after `max_episode_steps` steps.

    ## Arguments

    Args:
        players: Number of players, 1 or more, at most one for each two cells.
        min_player_level: Lowest level of players, 1 to 1000, or a list with one for each player.
        max_player_level: Highest level of players, at least the lowest, or a list with one for each player.
        min_food_level: Lowest level of foods, 1 to 1000, or a list with one for each food.
        max_food_level: Highest level of foods, or a list with one for each food; None: the sum of the three lowest
            levels of players.
        field_size: Number of rows and of columns, each from 3 to 1000, or one number for both.
        max_num_food: Number of foods, 1 or more.
        sight: Number of cells that players see in each direction, 0 or more; None: the whole field.
        max_episode_steps: Number of steps after which an episode is truncated, 1 or more.
        force_coop: If True, each food has the highest level that it can have.
        normalize_reward: If True, rewards are divided by the levels of the players who load and of all foods.
        grid_observation: If True, layers of cells around the player are observed, otherwise lists.
        observe_agent_levels: If True, levels of players are observed.
        penalty: Cost of a failed attempt to load, 0 or more.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - G. Papoudakis, F. Christianos, L. Schäfer, S. Albrecht (2021), "Benchmarking multi-agent deep reinforcement
      learning algorithms in cooperative tasks", [arXiv 2006.07869](https://arxiv.org/abs/2006.07869).
    - S. Albrecht, S. Ramamoorthy (2013), "A game-theoretic model and best-response learning method for ad hoc
      coordination in multiagent systems", [arXiv 1506.01170](https://arxiv.org/abs/1506.01170).
    - [lbforaging](https://github.com/semitable/lb-foraging).

    `envs/lbf/reference.py` has the same step by the class of `lbforaging` itself; see the
    [agreement with reference implementations](index.md#agreement-with-reference-implementations).
    """

    name = "lbf"
    original_names: ClassVar[Mapping[str, str]] = {"max_food": "max_num_food"}
    parity: ClassVar[Mapping[str, Any]] = {
        "title": "ForagingEnv of lbforaging",
        "tolerance": 1e-6,
        "act": reference.towards_food,
    }
    termination_meaning = "all foods are loaded"
    global_state = ("loc_y", "loc_x", "level", "food_y", "food_x", "food_level")
    step, observe, reset, draw = step, observe_lists, reset, draw
    reference_step, reference_observe = reference.step, reference.observe
    draw_things = draw_foods
    shapes_per_agent = 3

    def __init__(
        self,
        players: int = 2,
        min_player_level: int | Sequence[int] = 1,
        max_player_level: int | Sequence[int] = 2,
        min_food_level: int | Sequence[int] = 1,
        max_food_level: int | Sequence[int] | None = None,
        field_size: int | Sequence[int] = (8, 8),
        max_num_food: int = 2,
        sight: int | None = None,
        max_episode_steps: int = 50,
        force_coop: bool = True,
        normalize_reward: bool = True,
        grid_observation: bool = False,
        observe_agent_levels: bool = True,
        penalty: float = 0.0,
    ) -> None:
        whole, flag = parameters.whole, parameters.flag
        self.num_agents = whole("players", players, at_least=1)
        self.num_foods = whole("max_num_food", max_num_food, at_least=1)
        self.rows, self.columns = _field_size(field_size)
        if self.num_agents > self.rows * self.columns // 2:
            raise DefinitionError(
                f"players is {players}, but a field of {self.rows} x {self.columns} cells has room for "
                f"{self.rows * self.columns // 2}: at most one for every two cells."
            )
        longest = max(self.rows, self.columns)
        self.sight = longest if sight is None else whole("sight", sight, at_least=0, at_most=LARGEST_FIELD)
        self.episode_length = whole("max_episode_steps", max_episode_steps, at_least=1)
        self.force_coop = flag("force_coop", force_coop)
        self.normalize_reward = flag("normalize_reward", normalize_reward)
        self.grid_observation = flag("grid_observation", grid_observation)
        self.observe_agent_levels = flag("observe_agent_levels", observe_agent_levels)
        self.penalty = parameters.real("penalty", penalty, at_least=0)
        self._prepare_levels(min_player_level, max_player_level, min_food_level, max_food_level)

        self.policy_tags = {"agent": range(self.num_agents)}
        self.action_space = spaces.Discrete(6)
        self.controls = {"up": 1, "down": 2, "left": 3, "right": 4, "space": 5}
        self.things_per_agent = max(1, 2 * -(-self.num_foods // self.num_agents))
        self.observation_space = self._grid_space() if self.grid_observation else self._lists_space()
        self.observe = observe_grid if self.grid_observation else observe_lists
        self.view = (-0.5, self.columns - 0.5, -0.5, self.rows - 0.5)
        self.original: Any = None
        """Instance of the class of ``lbforaging``, once the reference has created it."""

    def _prepare_levels(self, min_player_level: Any, max_player_level: Any, min_food_level: Any, max_food: Any) -> None:
        self.player_level_low = _levels("min_player_level", min_player_level, self.num_agents, "player")
        self.player_level_high = _levels("max_player_level", max_player_level, self.num_agents, "player")
        _compare("player_level", self.player_level_low, self.player_level_high, max_player_level)
        self.food_level_low = _levels("min_food_level", min_food_level, self.num_foods, "food")
        self.levels_by_players = max_food is None
        self.highest_food_level = int(np.sort(self.player_level_high)[:3].sum())
        if self.levels_by_players:
            self.food_level_high = np.zeros(self.num_foods, np.int32)
            lowest = int(np.sort(self.player_level_low)[:3].sum())
            if not self.force_coop and self.food_level_low.max() > lowest:
                raise DefinitionError(
                    f"min_food_level is {shown(min_food_level)}, but without max_food_level foods have at most the sum "
                    f"of the three lowest levels of players, which can be {lowest}."
                )
        else:
            self.food_level_high = _levels("max_food_level", max_food, self.num_foods, "food")
            _compare("food_level", self.food_level_low, self.food_level_high, max_food)
            self.highest_food_level = int(self.food_level_high.max())

    def _lists_space(self) -> spaces.Box:
        last = [self.rows - 1, self.columns - 1]
        of_player = [*last, int(self.player_level_high.max())] if self.observe_agent_levels else last
        high = [*last, self.highest_food_level] * self.num_foods + of_player * self.num_agents
        low = [-1, -1, 0] * self.num_foods + [-1, -1, 0][: len(of_player)] * self.num_agents
        return spaces.Box(np.array(low, np.float32), np.array(high, np.float32), dtype=np.float32)

    def _grid_space(self) -> spaces.Box:
        highest = [int(self.player_level_high.max()) if self.observe_agent_levels else 1, self.highest_food_level, 1]
        high = np.ones((3, 2 * self.sight + 1, 2 * self.sight + 1), np.float32)
        high *= np.array(highest, np.float32)[:, None, None]
        return spaces.Box(np.zeros_like(high), high, dtype=np.float32)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return zeros, int32; ``reset`` draws the start state on the device.

        Per player: ``loc_y``, ``loc_x`` and ``level``. Per food: ``food_y``, ``food_x`` and ``food_level``, ordered by
        row and within a row by column; the level is 0 once it is loaded. ``food_spawned``: the sum of the levels of all
        foods at the start.
        """
        of_players = {name: np.zeros(self.num_agents, np.int32) for name in ("loc_y", "loc_x", "level")}
        of_foods = {name: np.zeros(self.num_foods, np.int32) for name in ("food_y", "food_x", "food_level")}
        return {**of_players, **of_foods, "food_spawned": np.zeros((), np.int32)}

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the lines between cells."""
        left, right, low, high = self.view
        width = 0.04
        lines = [drawing.stroke(x - 0.5, low, x - 0.5, high, width, wd.draw.PAPER) for x in range(1, self.columns)]
        lines += [drawing.stroke(left, y - 0.5, right, y - 0.5, width, wd.draw.PAPER) for y in range(1, self.rows)]
        return Scene(self.view, polygons=lines)


def _field_size(value: Any) -> tuple[int, int]:
    sizes = value.tolist() if isinstance(value, np.ndarray) else value
    sizes = list(sizes) if isinstance(sizes, Sequence) and not isinstance(sizes, str) else [sizes] * 2
    if len(sizes) != 2:
        raise DefinitionError(f"field_size is {shown(value)}, but it must be a whole number or a list of two.")
    rows, columns = (parameters.whole("field_size", size, at_least=3, at_most=LARGEST_FIELD) for size in sizes)
    return rows, columns


def _levels(name: str, value: Any, number: int, kind: str) -> npt.NDArray[np.int32]:
    """Return one level for each player or food."""
    levels = value.tolist() if isinstance(value, np.ndarray) else value
    levels = list(levels) if isinstance(levels, Sequence) and not isinstance(levels, str) else [levels] * number
    if len(levels) != number:
        raise DefinitionError(
            f"{name} is {shown(value)}, but it must be a whole number or a list of {number}, one for each {kind}."
        )
    return np.array([parameters.whole(name, level, 1, HIGHEST_LEVEL) for level in levels], np.int32)


def _compare(name: str, low: npt.NDArray[np.int32], high: npt.NDArray[np.int32], value: Any) -> None:
    if (low > high).any():
        at_least = int(low[np.argmax(low > high)])
        raise DefinitionError(f"max_{name} is {shown(value)}, but min_{name} is {at_least}: it must be at least that.")
