"""Chefs cook and deliver soups in narrow kitchens: Overcooked-AI (package ``overcooked_ai``)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import parameters
from warpdrive.envs.overcooked import kitchen, picture, reference
from warpdrive.envs.overcooked.kitchen import (
    CELL,
    CODE,
    COUNTER,
    DISH,
    DISHES,
    FREE,
    ONION,
    ONIONS,
    POT,
    SERVING,
    SOUP,
    TOMATO,
    TOMATOES,
)
from warpdrive.errors import DefinitionError
from warpdrive.scene.scene import Scene

ZERO, ONE = np.float32(0), np.float32(1)
NORTH, SOUTH, EAST, WEST, STAY, INTERACT = range(6)
FULL, BASE = kitchen.MOST_INGREDIENTS, kitchen.MOST_INGREDIENTS + 1
IDLE = -1
"""Value of ``pot_tick`` before cooking."""
ENCODINGS = ("lossless_state_encoding", "featurize_state")
LAYERS_OF_OBJECTS = 15
"""Layers of the terrain and of objects; besides them there are 5 for each player, and urgency."""
URGENT = 40
OWN, OF_POT = 26, 10
"""Features of a player without those of pots, and of a pot."""


@wd.kernel
def step(
    # state
    position, facing, held, objects, pot_recipe, pot_tick,
    # actions
    actions,
    # constants
    num_agents, num_cells, num_pots, old_dynamics, terrain, pot_at, faced, moves, recipe_value, recipe_time,
    placement_reward, dish_reward, soup_reward, shaping_coefficient,
    # out
    rewards, shaped_rewards, sparse_rewards,
):  # fmt: skip
    """Apply the interactions of players in turn, then move all of them unless two collide, then cook."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    wanted = cuda.shared.array(num_agents, CELL)
    if agent == 0:
        worth_a_dish = 0
        for pot in range(num_pots):
            recipe = pot_recipe[env, pot]
            amount = recipe % BASE + recipe // BASE
            worth_a_dish += 1 if pot_tick[env, pot] >= 0 or 0 < amount < FULL else 0

        delivered = ZERO
        for player in range(num_agents):
            shaped, sparse = ZERO, ZERO
            if actions[env, player] == INTERACT:
                cell = faced[position[env, player], facing[env, player]]
                kind, hand = terrain[cell], held[env, player]
                if kind == COUNTER:
                    there = objects[env, cell]
                    if hand == 0 or there == 0:
                        held[env, player], objects[env, cell] = there, hand
                elif kind == POT:
                    pot = pot_at[cell]
                    recipe, tick = pot_recipe[env, pot], pot_tick[env, pot]
                    if hand == 0:
                        if recipe > 0 and tick == IDLE and not old_dynamics:
                            pot_tick[env, pot] = 0
                    elif hand == DISH:
                        if tick >= recipe_time[recipe] and tick != IDLE:
                            held[env, player] = SOUP + recipe
                            pot_recipe[env, pot], pot_tick[env, pot] = 0, IDLE
                            shaped = soup_reward
                    elif hand < SOUP and tick == IDLE and recipe % BASE + recipe // BASE < FULL:
                        pot_recipe[env, pot] = recipe + (1 if hand == ONION else BASE)
                        held[env, player] = 0
                        shaped = placement_reward
                elif kind == SERVING:
                    if hand >= SOUP:
                        sparse = recipe_value[hand - SOUP]
                        held[env, player] = 0
                elif hand == 0:
                    if kind == ONIONS:
                        held[env, player] = ONION
                    elif kind == TOMATOES:
                        held[env, player] = TOMATO
                    elif kind == DISHES:
                        if num_agents == 2:
                            dishes = 0
                            for other in range(num_agents):
                                dishes += 1 if held[env, other] == DISH else 0
                            for other in range(num_cells):
                                dishes += num_pots if objects[env, other] == DISH else 0
                            if dishes < worth_a_dish:
                                shaped = dish_reward
                        held[env, player] = DISH
            shaped_rewards[env, player], sparse_rewards[env, player] = shaped, sparse
            delivered += sparse

        collide = False
        for player in range(num_agents):
            action, cell = actions[env, player], position[env, player]
            if action < STAY:
                facing[env, player] = action
            ahead = moves[cell, action]
            wanted[player] = ahead
            for other in range(player):
                swap = wanted[other] == cell and ahead == position[env, other]
                collide = collide or swap or wanted[other] == ahead
        for player in range(num_agents):
            position[env, player] = position[env, player] if collide else wanted[player]
            rewards[env, player] = delivered + shaping_coefficient[env] * shaped_rewards[env, player]

        for pot in range(num_pots):
            recipe, tick = pot_recipe[env, pot], pot_tick[env, pot]
            if old_dynamics and tick == IDLE and recipe % BASE + recipe // BASE == FULL:
                tick = 0
            pot_tick[env, pot] = tick + 1 if 0 <= tick < recipe_time[recipe] else tick


@wd.device_function
def slot_of(player, reader):
    """Return the index of a player in the observation of ``reader``: 0 for itself, then the other players by id."""
    return 0 if reader == player else (player + 1 if player < reader else player)


@wd.device_function
def write(observations, env, agent, x, y, layer, channels_first, value):
    """Write an element of a grid observation."""
    if channels_first:
        observations[env, agent, layer, x, y] = value
    else:
        observations[env, agent, x, y, layer] = value


@wd.device_function
def write_object(observations, env, agent, x, y, first, channels_first, content):
    """Write an object into the layers of objects: those of soups, dishes, onions, tomatoes."""
    if content >= SOUP:
        recipe = content - SOUP
        write(observations, env, agent, x, y, first + 2, channels_first, recipe % BASE)
        write(observations, env, agent, x, y, first + 3, channels_first, recipe // BASE)
        write(observations, env, agent, x, y, first + 5, channels_first, 1)
    elif content > 0:
        layer = first + (6 if content == DISH else (7 if content == ONION else 8))
        write(observations, env, agent, x, y, layer, channels_first, 1)


@wd.device_function
def clear_object(observations, env, agent, x, y, first, channels_first):
    """Clear the layers of objects in a cell other than a pot."""
    for layer in range(6):
        write(observations, env, agent, x, y, first + (layer if layer < 2 else layer + 1) + 2, channels_first, 0)


@wd.kernel
def observe_grid(
    # state
    position, facing, held, objects, pot_recipe, pot_tick, timestep, seen_position, seen_facing, seen_objects,
    # constants
    num_agents, num_cells, num_pots, num_layers, num_counters, width, episode_length, channels_first, empty_kitchen,
    counter_cells, pot_cells, recipe_time,
    # out
    observations,
):  # fmt: skip
    """Write all layers in the first observation of an episode, and later only changes, players and pots.

    Each thread writes its player and its share of counters and pots into the observations of all players.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    first = 5 * num_agents + 6
    is_new = timestep[env] == 0
    if is_new:
        of_first, of_second, of_third = empty_kitchen.shape
        for i in range(of_first):
            for j in range(of_second):
                for k in range(of_third):
                    observations[env, agent, i, j, k] = empty_kitchen[i, j, k]
    else:
        x, y = seen_position[env, agent] % width, seen_position[env, agent] // width
        for reader in range(num_agents):
            slot = slot_of(agent, reader)
            layer = num_agents + 4 * slot + seen_facing[env, agent]
            write(observations, env, reader, x, y, slot, channels_first, 0)
            write(observations, env, reader, x, y, layer, channels_first, 0)
            clear_object(observations, env, reader, x, y, first, channels_first)
    urgency, urgent = num_layers - 1, 1 if episode_length - timestep[env] < URGENT else 0
    written = observations[env, agent, urgency, 0, 0] if channels_first else observations[env, agent, 0, 0, urgency]
    if written != urgent:  # also back to 0, if a user has written an earlier timestep
        for cell in range(num_cells):
            write(observations, env, agent, cell % width, cell // width, urgency, channels_first, urgent)
    cuda.syncthreads()
    for counter in range(agent, num_counters, cuda.blockDim.x):
        cell = counter_cells[counter]
        content = objects[env, cell]
        if is_new or content != seen_objects[env, cell]:
            x, y = cell % width, cell // width
            for reader in range(num_agents):
                clear_object(observations, env, reader, x, y, first, channels_first)
                write_object(observations, env, reader, x, y, first, channels_first, content)
            seen_objects[env, cell] = content
    for pot in range(agent, num_pots, cuda.blockDim.x):
        x, y = pot_cells[pot] % width, pot_cells[pot] // width
        recipe, tick = pot_recipe[env, pot], pot_tick[env, pot]
        onions, tomatoes = recipe % BASE, recipe // BASE
        left = recipe_time[recipe] - tick
        cooks = tick >= 0
        for reader in range(num_agents):
            write(observations, env, reader, x, y, first, channels_first, 0 if cooks else onions)
            write(observations, env, reader, x, y, first + 1, channels_first, 0 if cooks else tomatoes)
            write(observations, env, reader, x, y, first + 2, channels_first, onions if cooks else 0)
            write(observations, env, reader, x, y, first + 3, channels_first, tomatoes if cooks else 0)
            write(observations, env, reader, x, y, first + 4, channels_first, left if cooks else 0)
            write(observations, env, reader, x, y, first + 5, channels_first, 1 if cooks and left <= 0 else 0)
    cell, towards = position[env, agent], facing[env, agent]
    x, y = cell % width, cell // width
    for reader in range(num_agents):
        slot = slot_of(agent, reader)
        write(observations, env, reader, x, y, slot, channels_first, 1)
        write(observations, env, reader, x, y, num_agents + 4 * slot + towards, channels_first, 1)
        write_object(observations, env, reader, x, y, first, channels_first, held[env, agent])
    seen_position[env, agent], seen_facing[env, agent] = cell, towards


@wd.kernel
def observe_features(
    # state
    position, facing, held, pot_recipe, pot_tick,
    # constants
    num_agents, num_observed_pots, num_features, width, pot_at, fixed_features, nearest_pots, recipe_time,
    # out
    observations,
):  # fmt: skip
    """Write the features of the player into the observations of all players, then distances and the own cell."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    cell, towards, hand = position[env, agent], facing[env, agent], held[env, agent]
    x, y = cell % width, cell // width
    for reader in range(num_agents):
        slot = slot_of(agent, reader)
        at = slot * num_features
        for i in range(num_features):
            observations[env, reader, at + i] = fixed_features[cell, towards, i]
        if hand >= SOUP:
            observations[env, reader, at + 5] = ONE
            observations[env, reader, at + 16] = np.float32((hand - SOUP) % BASE)
            observations[env, reader, at + 17] = np.float32((hand - SOUP) // BASE)
        elif hand > 0:
            observations[env, reader, at + (4 if hand == ONION else (7 if hand == TOMATO else 6))] = ONE
            observations[env, reader, at + 6 + 2 * hand] = ZERO
            observations[env, reader, at + 7 + 2 * hand] = ZERO
        for i in range(num_observed_pots):
            there = nearest_pots[cell, towards, i]
            if there >= 0:
                place = at + OWN - 4 + OF_POT * i
                recipe, tick = pot_recipe[env, pot_at[there]], pot_tick[env, pot_at[there]]
                onions, tomatoes = recipe % BASE, recipe // BASE
                left = recipe_time[recipe] - tick if tick >= 0 else 0
                ready = tick >= 0 and left <= 0
                observations[env, reader, place + 1] = ONE if recipe == 0 else ZERO
                observations[env, reader, place + 2] = ONE if tick >= 0 or onions + tomatoes == FULL else ZERO
                observations[env, reader, place + 3] = ONE if left > 0 else ZERO
                observations[env, reader, place + 4] = ONE if ready else ZERO
                observations[env, reader, place + 5] = np.float32(onions)
                observations[env, reader, place + 6] = np.float32(tomatoes)
                observations[env, reader, place + 7] = np.float32(left)
        at = num_agents * num_features
        if reader == agent:
            observations[env, reader, at + 2 * num_agents - 2] = np.float32(x)
            observations[env, reader, at + 2 * num_agents - 1] = np.float32(y)
        else:
            at += 2 * (slot - 1)
            observations[env, reader, at] = np.float32(x - position[env, reader] % width)
            observations[env, reader, at + 1] = np.float32(y - position[env, reader] // width)


@wd.device_function
def random_recipe(rng, env):
    """Return the number of a recipe of 1 to 3 onions, and 0 tomatoes or more."""
    onions = 1 + wd.random.integer(rng, env, 0, FULL)
    return onions + BASE * wd.random.integer(rng, env, 0, BASE - onions)


@wd.kernel
def reset(
    # state
    position, held, pot_recipe, pot_tick,
    # random stream
    rng,
    # constants
    num_agents, num_pots, num_free, free_cells, random_start_positions, random_objects, recipe_time,
):  # fmt: skip
    """Sample distinct cells of the players, then the contents of pots and hands."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    taken = cuda.shared.array(num_agents, np.int32)
    if agent == 0:
        if random_start_positions:
            for player in range(num_agents):
                drawn = wd.random.integer(rng, env, 0, num_free - player)
                place = 0  # among the taken ones, which are sorted
                for other in range(player):
                    if taken[other] <= drawn:
                        drawn += 1
                        place += 1
                for i in range(player - place):
                    taken[player - i] = taken[player - i - 1]
                taken[place] = drawn
                position[env, player] = free_cells[drawn]
        if random_objects > ZERO:
            for pot in range(num_pots):
                if wd.random.uniform(rng, env, 0) < random_objects:
                    pot_recipe[env, pot] = random_recipe(rng, env)
                    pot_tick[env, pot] = 0 if wd.random.uniform(rng, env, 0) < random_objects else IDLE
            for player in range(num_agents):
                if wd.random.uniform(rng, env, 0) < random_objects:
                    kind = wd.random.integer(rng, env, 0, 5)
                    soup = SOUP + random_recipe(rng, env)
                    held[env, player] = DISH if kind == 0 else (soup if kind == 1 else ONION)


class Overcooked(wd.Environment):
    r"""Cook soups in a narrow kitchen and deliver them, for a reward that all chefs share.

    ## Description

    Chefs carry onions and tomatoes to pots, wait until a soup is ready, put it into a dish and deliver it. Kitchens are
    narrow: chefs block each other, and in some kitchens no chef can reach everything. The environment is Overcooked-AI
    (Carroll et al., 2019), step for step the class `OvercookedGridworld` of the package `overcooked_ai` 1.1.0. All
    chefs share the policy tag `agent`.

    In each step

    1. chefs that *interact* use what they face, sequentially in the order of their ids;
    2. all others turn to the direction of their move, and all chefs move simultaneously. A move onto a cell that is not
       free fails. If any two chefs would share a cell or swap cells, no chef moves;
    3. soups cook for one step.

    | Faced cell | With empty hands | Holding an object |
    | --- | --- | --- |
    | counter (`X`) | take the object on it | put the object down if the counter is empty |
    | onions (`O`), tomatoes (`T`), dishes (`D`) | take one | |
    | pot (`P`) | start to cook | add an ingredient (1), or put the soup into a dish if it is ready |
    | serving area (`S`) | | deliver a soup |

    (1) If it has less than 3 ingredients and is not cooking.

    With `old_dynamics=True` a pot starts cooking automatically as soon as it has three ingredients, and only then;
    these are the rules of the paper. Releases of the package have only the new dynamics, its repository has both.

    **Layouts** by name are `cramped_room`, `asymmetric_advantages`, `coordination_ring`, `forced_coordination` and
    `counter_circuit` as in the package, where `counter_circuit` has tomatoes and three orders;
    `counter_circuit_o_1order` is the kitchen of the paper. There is also `cramped_room_tomato`. Other layouts are given
    as text: the lines of a grid of the characters above, with a space for a free cell and digits for the start cells of
    the chefs 1, 2, ... up to 9, at least two; or a whole `.layout` file of the package, with orders, values and times.
    Its key `start_state` and expressions such as `float('inf')` are not supported.

    ```python
    import warpdrive as wd

    recipes = {"start_all_orders": [{"ingredients": ["onion", "onion", "onion"]}], "cook_time": 10}
    kitchen = "XXPXX\nO1 2O\nX   X\nXDXSX"
    env = wd.make("overcooked", layout=kitchen, old_dynamics=True, params_to_overwrite=recipes)
    ```

    ## Action Space

    `Discrete(6)`, stored as `actions[env, agent]` (int32).

    | Action | Meaning |
    | --- | --- |
    | 0 | north (-y) |
    | 1 | south (+y) |
    | 2 | east (+x) |
    | 3 | west (-x) |
    | 4 | stay |
    | 5 | interact |

    ## Observation Space

    With `encoding="lossless_state_encoding"`, a `Box` of shape `(width, height, 5 N + 16)` for N chefs: `(5, 4, 26)` by
    default. Its dtype is uint8, or float32 if the longest time exceeds 255 steps: `cook_time`, one of `recipe_times`,
    or 3 (`onion_time` + `tomato_time`). With `channels_first=True` the layers are the first axis, as convolutional
    models expect.

    | Layers (N = 2) | Observation | Min | Max |
    | --- | --- | --- | --- |
    | 0, 1 | cell of the chef itself, of each other chef | 0 | 1 |
    | 2 to 5, 6 to 9 | the same for each direction it faces: north, south, east, west | 0 | 1 |
    | 10 to 15 | pots, counters, onions, tomatoes, dishes, serving areas | 0 | 1 |
    | 16, 17 | onions and tomatoes in a pot that is not cooking yet | 0 | 3 |
    | 18, 19 | onions and tomatoes in a soup that is cooking or ready | 0 | 3 |
    | 20 | steps until a soup in a pot is ready | 0 | longest time |
    | 21 | soups that are ready | 0 | 1 |
    | 22, 23, 24 | dishes, onions, tomatoes on counters and in hands | 0 | 1 |
    | 25 | all 1 in the last 39 steps and the final observation | 0 | 1 |

    The package has this encoding for two chefs only.

    With `encoding="featurize_state"`, a `Box` of shape `(N (28 + 10 num_pots),)`, float32; `(96,)` for two chefs. The
    first 26 + 10 `num_pots` numbers are those of the chef itself, followed by those of each other chef, by (dx, dy) to
    each other chef, and by the chef's own (x, y).

    | Index | Observation |
    | --- | --- |
    | 0 to 3 | direction it faces: north, south, east, west |
    | 4 to 7 | in its hands: onion, soup, dish, tomato |
    | 8 to 13 | (dx, dy) to the nearest onions, tomatoes, dishes; 0 if it holds one |
    | 14 to 17 | 0, 0, and the onions and tomatoes of the soup that it holds |
    | 18 to 21 | (dx, dy) to the nearest serving area, and 0, 0 |
    | 10 for each pot | it exists, is empty, is full, cooks, is ready; onions, tomatoes, steps left, dx, dy |
    | last 4 | the next cell north, south, east, west is not free |

    Distances are numbers of actions without other chefs in the way. Pots are in ascending order of distance; entries of
    unreachable objects are 0. Objects on counters are not considered, as in the package, whose planner excludes
    counters by default.

    ## Rewards

    Each chef's reward is the sum of the sparse rewards of all chefs, plus `shaping_coefficient` times its own shaped
    reward. The arrays `sparse_rewards` and `shaped_rewards` have both by chef for the last step; like all arrays, they
    are reset with the episode.

    | Event | Sparse | Shaped |
    | --- | --- | --- |
    | delivering a soup | value of its recipe, 20 by default; twice that for a bonus order; 0 if it is no order | |
    | adding an ingredient to a pot | | 3 (`PLACEMENT_IN_POT_REW`) |
    | taking a useful dish from the dispenser (2) | | 3 (`DISH_PICKUP_REWARD`) |
    | taking a soup out of a pot | | 5 (`SOUP_PICKUP_REWARD`) |

    (2) With two chefs only: if no dish is on a counter, and fewer dishes are held than there are pots that are cooking,
    ready or have 1 or 2 ingredients.

    The coefficient is an array of the replicas, `ctx["shaping_coefficient"]`. It can be annealed in the method
    `on_update` of a training callback:
    `trainer.env.ctx["shaping_coefficient"].fill_(max(0, 1 - report.env_steps / 1e6))`.

    ## Starting State

    That of the layout: chefs face north on their start cells, with empty hands; pots and counters are empty. With
    `random_start_positions=True` chefs are on distinct random free cells. With probability `random_objects` each pot
    has 1 to 3 ingredients (and with the same probability is cooking), and each chef holds an onion, a dish or a soup,
    with probabilities 0.6, 0.2 and 0.2.

    ## Episode End

    - Termination: never.
    - Truncation: after `horizon` steps.

    ## Arguments

    Args:
        layout: Name of a layout, text of a grid, or text of a `.layout` file.
        horizon: Number of steps after which an episode is truncated, 1 or more.
        old_dynamics: If True, pots start cooking automatically with three ingredients, and only then. All orders must
            then have three ingredients.
        encoding: `lossless_state_encoding` (layers of cells) or `featurize_state` (a vector).
        channels_first: If True, layers are the first axis of the first encoding.
        num_pots: Number of pots in the second encoding, 0 or more.
        shaping_coefficient: Factor of shaped rewards.
        random_start_positions: If True, chefs start on random cells.
        random_objects: Probability of contents of pots and hands in start states, 0 to 1; `rnd_obj_prob_thresh` in the
            package.
        params_to_overwrite: Values that replace those of the layout, with the keys of `.layout` files:
            `start_all_orders` and `start_bonus_orders` (lists of `{"ingredients": ["onion", ...]}`; by default all
            recipes of 1 to 3 ingredients, and none), `order_bonus`, `rew_shaping_params`, and the values and times of
            recipes: `delivery_reward` and `cook_time` for all, `recipe_values` and `recipe_times` for each order, or
            `onion_value`, `tomato_value`, `onion_time` and `tomato_time` for each ingredient. As in the package, if one
            number for all recipes or for an ingredient is 0, every recipe has the default of 20.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range, or a layout is invalid.

    ## References

    - M. Carroll, R. Shah, M. Ho, T. Griffiths, S. Seshia, P. Abbeel, A. Dragan (2019), "On the utility of learning
      about humans for human-AI coordination", [arXiv 1910.05789](https://arxiv.org/abs/1910.05789).
    - [overcooked_ai](https://github.com/HumanCompatibleAI/overcooked_ai).

    `envs/overcooked/reference.py` has the same step by the class of `overcooked_ai` itself; see the
    [agreement with reference implementations](index.md#agreement-with-reference-implementations).
    """

    name = "overcooked"
    original_names: ClassVar[Mapping[str, str]] = {
        "layout_name": "layout",
        "max_steps": "horizon",
        "random_reset": "random_start_positions",
        "rnd_obj_prob_thresh": "random_objects",
        "reward_shaping_factor": "shaping_coefficient",
        **dict.fromkeys(("num_agents", "num_players"), "Layouts mark the start of each chef with its number."),
        **dict.fromkeys(kitchen.KEYS, "It is a key of params_to_overwrite."),
    }
    parity: ClassVar[Mapping[str, Any]] = {
        "title": "OvercookedGridworld of overcooked_ai",
        "tolerance": 1e-6,
        "episode_tolerance": 1e-6,
        "act": reference.busy,
    }
    global_state = ("position", "facing", "held", "objects", "pot_recipe", "pot_tick")
    step, observe, draw = step, observe_grid, picture.draw
    reference_step, reference_observe = reference.step, reference.observe
    draw_things = picture.draw_things
    shapes_per_agent = picture.SHAPES

    def __init__(
        self,
        layout: str = "cramped_room",
        horizon: int = 400,
        old_dynamics: bool = False,
        encoding: str = "lossless_state_encoding",
        channels_first: bool = False,
        num_pots: int = 2,
        shaping_coefficient: float = 1.0,
        random_start_positions: bool = False,
        random_objects: float = 0.0,
        params_to_overwrite: Mapping[str, Any] | None = None,
    ) -> None:
        self.kitchen = kitchen.kitchen(layout, params_to_overwrite)
        self.old_dynamics = parameters.flag("old_dynamics", old_dynamics)
        short = [order for order in self.kitchen.orders if sum(order) < FULL]
        if self.old_dynamics and short:
            raise DefinitionError(
                f"old_dynamics is True, but there are orders of less than {FULL} ingredients, such as {short[0][0]} "
                f"onions and {short[0][1]} tomatoes, which are never cooked then: give start_all_orders in "
                "params_to_overwrite."
            )
        self.encoding = parameters.one_of("encoding", encoding, ENCODINGS)
        self.channels_first = parameters.flag("channels_first", channels_first)
        self.num_observed_pots = parameters.whole("num_pots", num_pots, at_least=0)
        self.episode_length = parameters.whole("horizon", horizon, at_least=1)
        self.shaping = parameters.real("shaping_coefficient", shaping_coefficient)
        self.shaping_coefficient = wd.PerReplica(np.array([self.shaping], np.float32))
        self.random_start_positions = parameters.flag("random_start_positions", random_start_positions)
        self.random_objects = parameters.real("random_objects", random_objects, at_least=0, at_most=1)
        self.reset = reset if self.random_start_positions or self.random_objects else None

        self.num_agents = len(self.kitchen.starts)
        self.policy_tags = {"agent": range(self.num_agents)}
        self.action_space = spaces.Discrete(6)
        self.controls = {"": 4, "up": 0, "down": 1, "right": 2, "left": 3, "space": 5}
        self._prepare_tables()
        if encoding == "featurize_state":
            self._prepare_features()
        self.observe = observe_features if encoding == "featurize_state" else observe_grid
        self.observation_space = self._features_space() if encoding == "featurize_state" else self._grid_space()
        self.view = picture.view(self)
        self.original: Any = None
        """Instances of the classes of ``overcooked_ai``, once the reference has created them."""

    def _prepare_tables(self) -> None:
        own = self.kitchen
        self.terrain, self.width, self.height = own.terrain, own.width, len(own.rows)
        self.num_cells = len(self.terrain)
        self.free_cells = np.array(own.cells_of(FREE), CELL)
        self.num_free = len(self.free_cells)
        self.pot_cells = np.array(own.cells_of(POT), CELL)
        self.num_pots = len(self.pot_cells)
        things = ((self.num_cells, picture.OF_THING), (self.num_pots, picture.OF_POT))
        self.things_per_agent = sum(each * -(-count // self.num_agents) for count, each in things)
        self.counter_cells = np.array(own.cells_of(COUNTER) or [0], CELL)
        self.num_counters = len(own.cells_of(COUNTER))
        self.pot_at = np.zeros(self.num_cells, CODE)
        self.pot_at[self.pot_cells] = np.arange(self.num_pots)
        self.faced, self.moves = kitchen.neighbours(own)
        self.grid_dtype = np.uint8 if own.time.max() <= np.iinfo(np.uint8).max else np.float32
        self.num_layers = 5 * self.num_agents + LAYERS_OF_OBJECTS + 1
        layers = np.zeros((self.width, self.height, self.num_layers), self.grid_dtype)
        for i, terrain in enumerate((POT, COUNTER, ONIONS, TOMATOES, DISHES, SERVING)):
            layers[:, :, 5 * self.num_agents + i] = terrain == self.terrain.reshape(self.height, self.width).T
        self.empty_kitchen = np.ascontiguousarray(np.moveaxis(layers, 2, 0)) if self.channels_first else layers
        self.recipe_value, self.recipe_time = own.value, own.time
        self.placement_reward, self.dish_reward, self.soup_reward = own.shaping.values()

    def _prepare_features(self) -> None:
        """Compute the features that depend on a player's cell and direction only: nearest objects, walls."""
        found = kitchen.distances(self.kitchen)
        pots = self.num_observed_pots
        self.num_features = OWN + OF_POT * pots
        self.nearest_pots = np.full((self.num_cells, 4, max(pots, 1)), -1, np.int32)
        nearest = kitchen.nearest(self.kitchen, found, POT)[:, :, :pots]
        self.nearest_pots[:, :, : nearest.shape[2]] = nearest
        self.fixed_features = np.zeros((self.num_cells, 4, self.num_features), np.float32)
        places = {kind: kitchen.nearest(self.kitchen, found, kind) for kind in (ONIONS, TOMATOES, DISHES, SERVING)}
        for cell, towards in itertools.product(self.free_cells, range(4)):
            row = self.fixed_features[cell, towards]
            row[towards] = 1
            row[-4:] = self.terrain[self.faced[cell]] != FREE
            for at, kind in ((8, ONIONS), (10, TOMATOES), (12, DISHES), (18, SERVING)):
                row[at : at + 2] = self._towards(cell, places[kind][cell, towards])
            for i, pot in enumerate(self.nearest_pots[cell, towards, :pots]):
                row[OWN - 4 + OF_POT * i] = pot >= 0
                row[OWN + 4 + OF_POT * i : OWN + 6 + OF_POT * i] = self._towards(cell, [pot])

    def _towards(self, cell: int, cells: Sequence[int] | npt.NDArray[np.int32]) -> tuple[int, int]:
        """Return (dx, dy) from a cell to the first of ``cells``, or 0 if there is none."""
        there = cells[0] if len(cells) and cells[0] >= 0 else cell
        return there % self.width - cell % self.width, there // self.width - cell // self.width

    def _grid_space(self) -> spaces.Box:
        high = np.ones((self.width, self.height, self.num_layers), self.grid_dtype)
        objects = 5 * self.num_agents + 6
        high[:, :, objects : objects + 4] = FULL
        high[:, :, objects + 4] = max(self.recipe_time.max(), 1)
        high = np.moveaxis(high, 2, 0) if self.channels_first else high
        return spaces.Box(np.zeros_like(high), high, dtype=self.grid_dtype)

    def _features_space(self) -> spaces.Box:
        longest = float(max(self.width, self.height, self.recipe_time.max(), FULL))
        shape = (self.num_agents * (self.num_features + 2),)
        return spaces.Box(-longest, longest, shape, np.float32)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return the start state of the layout, uint8 unless another dtype is given.

        Per player: ``position`` (y * width + x), uint16; ``facing`` (0 to 3: north, south, east, west) and ``held`` (0
        nothing, 1 onion, 2 tomato, 3 dish, 4 + recipe: soup; a recipe is the number of onions + 4 times that of
        tomatoes); ``shaped_rewards`` and ``sparse_rewards`` of the last step, float32. Per cell: ``objects``, the
        object on the counter, as in ``held``. Per pot, row by row: ``pot_recipe``, and ``pot_tick``, the time since
        cooking began, -1 before, int32. ``seen_position``, ``seen_facing`` and ``seen_objects`` are those of the
        current grid observations.
        """
        players, pots = self.num_agents, self.num_pots
        of_grid: dict[str, npt.NDArray[Any]] = {
            "seen_position": np.zeros(players, CELL),
            "seen_facing": np.zeros(players, CODE),
            "seen_objects": np.zeros(self.num_cells, CODE),
        }
        return {
            **(of_grid if self.encoding == "lossless_state_encoding" else {}),
            "position": np.array(self.kitchen.starts, CELL),
            "facing": np.full(players, NORTH, CODE),
            "held": np.zeros(players, CODE),
            "objects": np.zeros(self.num_cells, CODE),
            "pot_recipe": np.zeros(pots, CODE),
            "pot_tick": np.full(pots, IDLE, np.int32),
            "shaped_rewards": np.zeros(players, np.float32),
            "sparse_rewards": np.zeros(players, np.float32),
        }

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the kitchen, and the orders."""
        return picture.scenery(self, state)
