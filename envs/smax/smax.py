"""Battles of two armies: StarCraft-like micromanagement as in ``SMAX`` (package ``jaxmarl``)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import drawing, parameters
from warpdrive.envs.smax import reference, units
from warpdrive.scene.scene import Scene

ZERO, HALF, ONE, TWO, THREE = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2), np.float32(3)
TINY = np.float32(1e-6)
UP, RIGHT, DOWN, LEFT, STOP, FIRST_ATTACK = range(6)
NOBODY = -1
NOWHERE = np.float32(-1000)
"""Radius of dead units, which do not push other units."""
OF_UNIT, OF_SELF = 7 + units.NUM_TYPES, 4 + units.NUM_TYPES
"""Numbers of features of another unit, and of the unit itself."""
START_NOISE = np.float32(2)
NUM_GROUPS = 4
ENEMIES = ("heuristic", "agents")
ATTACK_MODES = ("closest", "random")
SHAPES_PER_UNIT = 3


@wd.device_function
def squared_distance(env, unit, other, loc_x, loc_y):
    """Return the squared distance between two units."""
    dx, dy = loc_x[env, other] - loc_x[env, unit], loc_y[env, other] - loc_y[env, unit]
    return dx * dx + dy * dy


@wd.device_function
def is_within(env, unit, other, distance, loc_x, loc_y, health):
    """Return True if another unit is alive and nearer than ``distance``."""
    return health[env, other] > ZERO and squared_distance(env, unit, other, loc_x, loc_y) < distance * distance


@wd.device_function
def opponent(unit, number, num_allies):
    """Return opponent ``number`` of a unit: allies count from the first enemy, enemies from the last ally."""
    return num_allies + number if unit < num_allies else num_allies - 1 - number


@wd.device_function
def random_ally_within(env, agent, enemy, distance, loc_x, loc_y, health, rng, num_allies):
    """Return a random ally within a distance of an enemy, uniformly; NOBODY if there is none."""
    count = 0
    for ally in range(num_allies):
        count += 1 if is_within(env, enemy, ally, distance, loc_x, loc_y, health) else 0
    if count == 0:
        return NOBODY
    left = wd.random.integer(rng, env, agent, count)
    found = NOBODY
    for number in range(num_allies):
        ally = opponent(enemy, number, num_allies)
        if is_within(env, enemy, ally, distance, loc_x, loc_y, health):
            found = ally if left == 0 else found
            left -= 1
    return found


@wd.device_function
def nearest_ally_within(env, enemy, distance, loc_x, loc_y, health, num_allies):
    """Return the nearest ally within a distance of an enemy; NOBODY if there is none."""
    nearest, least = NOBODY, distance * distance
    for number in range(num_allies):
        ally = opponent(enemy, number, num_allies)
        squared = squared_distance(env, enemy, ally, loc_x, loc_y)
        if health[env, ally] > ZERO and squared < least:
            nearest, least = ally, squared
    return nearest


@wd.device_function
def heuristic_action(
    # indices
    env, agent, enemy,
    # state
    loc_x, loc_y, health, unit_type, goal_x, goal_y, focus,
    # random stream
    rng,
    # constants
    num_allies, attack_range, sight_range, enemy_shoots, attacks_at_random,
):  # fmt: skip
    """Return the action of an enemy: shoot at an ally in range, else follow one in sight, else cross the map."""
    if health[env, enemy] <= ZERO:
        return STOP
    reach, sight = attack_range[unit_type[env, enemy]], sight_range[unit_type[env, enemy]]
    target = focus[env, enemy]
    if target == NOBODY or not is_within(env, enemy, target, reach, loc_x, loc_y, health):
        if attacks_at_random:
            target = random_ally_within(env, agent, enemy, reach, loc_x, loc_y, health, rng, num_allies)
        else:
            target = nearest_ally_within(env, enemy, reach, loc_x, loc_y, health, num_allies)
    focus[env, enemy] = target
    if target != NOBODY and enemy_shoots:
        return FIRST_ATTACK + num_allies - 1 - target

    followed = random_ally_within(env, agent, enemy, sight, loc_x, loc_y, health, rng, num_allies)
    to_x = goal_x[env, enemy] if followed == NOBODY else loc_x[env, followed]
    to_y = goal_y[env, enemy] if followed == NOBODY else loc_y[env, followed]
    dx, dy = to_x - loc_x[env, enemy], to_y - loc_y[env, enemy]
    if dy >= abs(dx):
        return UP
    if dx >= abs(dy):
        return RIGHT
    return DOWN if -dy >= abs(dx) else LEFT


@wd.device_function
def move_x(action):
    """Return the x of the direction of an action."""
    return ONE if action == RIGHT else (-ONE if action == LEFT else ZERO)


@wd.device_function
def move_y(action):
    """Return the y of the direction of an action."""
    return ONE if action == UP else (-ONE if action == DOWN else ZERO)


@wd.device_function
def push(unit, x, y, size, num_units):
    """Return the displacement of a unit by overlapping units; ``size`` is the radius, or NOWHERE for dead units."""
    push_x, push_y = ZERO, ZERO
    for other in range(num_units):
        dx, dy, touching = x[unit] - x[other], y[unit] - y[other], size[unit] + size[other]
        squared = dx * dx + dy * dy
        if ZERO < squared < touching * abs(touching):
            overlap = max(touching / (np.float32(math.sqrt(squared)) + TINY) - ONE, ZERO)
            push_x += dx * overlap
            push_y += dy * overlap
    return push_x * HALF, push_y * HALF


@wd.kernel
def step(
    # state
    loc_x, loc_y, health, cooldown, unit_type, last_action, goal_x, goal_y, focus, active,
    # actions
    actions,
    # random stream
    rng,
    # constants
    num_agents, num_units, num_allies, num_enemies, num_world_steps, time_step, map_width, map_height, velocity, attack,
    attack_range, sight_range, radius, most_health, weapon_cooldown, enemy_shoots, attacks_at_random, walls_cause_death,
    won_battle_bonus, is_zero_sum,
    # out
    rewards, terminated,
):  # fmt: skip
    """Choose the actions of enemies, repeat all actions in all world steps, then reward the damage.

    In a world step all units move and shoot simultaneously, then lose health, then push each other apart.
    """
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    next_x = cuda.shared.array(num_units, np.float32)
    next_y = cuda.shared.array(num_units, np.float32)
    before = cuda.shared.array(num_units, np.float32)
    damage = cuda.shared.array(num_units, np.float32)
    size = cuda.shared.array(num_units, np.float32)
    stride_x = cuda.shared.array(num_units, np.float32)
    stride_y = cuda.shared.array(num_units, np.float32)
    target = cuda.shared.array(num_units, np.int32)
    for unit in range(agent, num_units, cuda.blockDim.x):
        before[unit], damage[unit] = health[env, unit], ZERO
        if unit < num_agents:
            is_possible = actions[env, unit] < FIRST_ATTACK + (num_enemies if unit < num_allies else num_allies)
            last_action[env, unit] = actions[env, unit] if is_possible else STOP
        else:
            last_action[env, unit] = heuristic_action(
                env, agent, unit, loc_x, loc_y, health, unit_type, goal_x, goal_y, focus, rng, num_allies, attack_range,
                sight_range, enemy_shoots, attacks_at_random,
            )  # fmt: skip
        action, stride = last_action[env, unit], velocity[unit_type[env, unit]] * time_step
        stride_x[unit], stride_y[unit] = stride * move_x(action), stride * move_y(action)
        target[unit] = opponent(unit, action - FIRST_ATTACK, num_allies) if action >= FIRST_ATTACK else NOBODY
    cuda.syncthreads()

    for _ in range(num_world_steps):
        for unit in range(agent, num_units, cuda.blockDim.x):
            x, y, other = loc_x[env, unit], loc_y[env, unit], target[unit]
            left = cooldown[env, unit] - time_step
            if health[env, unit] > ZERO:
                x = max(min(x + stride_x[unit], map_width), ZERO)
                y = max(min(y + stride_y[unit], map_height), ZERO)
                if other != NOBODY and cooldown[env, unit] <= ZERO:
                    kind = unit_type[env, unit]
                    if is_within(env, unit, other, attack_range[kind], loc_x, loc_y, health):
                        cuda.atomic.add(damage, other, attack[kind])  # integers, in any order
                        deviation = THREE * wd.random.uniform(rng, env, agent) - ONE
                        left = weapon_cooldown[kind] + deviation * time_step
            next_x[unit], next_y[unit], cooldown[env, unit] = x, y, left
        cuda.syncthreads()

        for unit in range(agent, num_units, cuda.blockDim.x):
            left = max(health[env, unit] - damage[unit], ZERO)
            if walls_cause_death and not (ZERO < next_x[unit] < map_width and ZERO < next_y[unit] < map_height):
                left = ZERO
            health[env, unit], damage[unit] = left, ZERO
            size[unit] = radius[unit_type[env, unit]] if left > ZERO else NOWHERE
        cuda.syncthreads()

        for unit in range(agent, num_units, cuda.blockDim.x):
            push_x, push_y = ZERO, ZERO
            if health[env, unit] > ZERO:
                push_x, push_y = push(unit, next_x, next_y, size, num_units)
            loc_x[env, unit], loc_y[env, unit] = next_x[unit] + push_x, next_y[unit] + push_y
        cuda.syncthreads()

    first = num_allies if agent < num_allies else 0
    opponents = num_enemies if agent < num_allies else num_allies
    lost_health, won, lost = ZERO, True, True
    for unit in range(num_units):
        if first <= unit < first + opponents:
            lost_health += (before[unit] - health[env, unit]) / most_health[unit_type[env, unit]]
            won = won and health[env, unit] <= ZERO
        else:
            lost = lost and health[env, unit] <= ZERO
    reward = ZERO if is_zero_sum else lost_health / np.float32(opponents)
    if won and not lost:
        reward += won_battle_bonus
    if lost and not won and is_zero_sum:
        reward -= won_battle_bonus
    rewards[env, agent] = reward
    active[env, agent] = health[env, agent] > ZERO
    if agent == 0:
        terminated[env] = won or lost


@wd.kernel
def observe(
    # state
    loc_x, loc_y, health, cooldown, unit_type, last_action, features, timestep,
    # constants
    num_units, num_allies, num_enemies, num_actions, map_width, map_height, attack_range, sight_range,
    most_health, weapon_cooldown, see_enemy_actions,
    # out
    observations, action_mask, world_state,
):  # fmt: skip
    """Write the units in sight, own team first, then the unit itself; its possible actions; and all units' state."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for unit in range(agent, num_units, cuda.blockDim.x):
        kind, action, at = unit_type[env, unit], last_action[env, unit], OF_SELF * unit
        share, left = health[env, unit] / most_health[kind], cooldown[env, unit] / weapon_cooldown[kind]
        attack = ZERO
        if action >= FIRST_ATTACK:
            attack = np.float32(action) / np.float32(STOP + (num_enemies if unit < num_allies else num_allies))
        features[env, unit, 0] = share
        features[env, unit, 3], features[env, unit, 4] = move_x(action), move_y(action)
        features[env, unit, 5], features[env, unit, 6] = attack, max(min(left, ONE), ZERO)
        alive = health[env, unit] > ZERO
        for i in range(units.NUM_TYPES):
            features[env, unit, 7 + i] = ONE if i == kind else ZERO
            world_state[env, at + 4 + i] = ONE if i == kind and alive else ZERO
        world_state[env, at] = share
        world_state[env, at + 1] = loc_x[env, unit] if alive else ZERO
        world_state[env, at + 2] = loc_y[env, unit] if alive else ZERO
        world_state[env, at + 3] = cooldown[env, unit] if alive else ZERO
        world_state[env, OF_SELF * num_units + unit] = ZERO if unit < num_allies else ONE
        world_state[env, (OF_SELF + 1) * num_units + unit] = np.float32(kind)
    cuda.syncthreads()

    kind = unit_type[env, agent]
    x, y, sight = loc_x[env, agent], loc_y[env, agent], sight_range[kind]
    alive = health[env, agent] > ZERO
    is_ally, is_new = agent < num_allies, timestep[env] == 0
    for number in range(num_units - 1):
        place = number if is_ally else num_units - 1 - number
        other = (place if place < agent else place + 1) if is_ally else (place if place > agent else place - 1)
        at = OF_UNIT * number
        if alive and is_within(env, agent, other, sight, loc_x, loc_y, health):
            for i in range(OF_UNIT):
                observations[env, agent, at + i] = features[env, other, i]
            observations[env, agent, at + 1] = (loc_x[env, other] - x) / sight
            observations[env, agent, at + 2] = (loc_y[env, other] - y) / sight
            if not see_enemy_actions and (other < num_allies) != is_ally:
                for i in range(3, 6):
                    observations[env, agent, at + i] = ZERO
        elif is_new or observations[env, agent, at] > ZERO:  # it was in sight before
            for i in range(OF_UNIT):
                observations[env, agent, at + i] = ZERO

    at = OF_UNIT * (num_units - 1)
    for i in range(OF_SELF):
        observations[env, agent, at + i] = ZERO
    if alive:
        observations[env, agent, at] = features[env, agent, 0]
        observations[env, agent, at + 1] = x / map_width
        observations[env, agent, at + 2] = y / map_height
        observations[env, agent, at + 3] = features[env, agent, 6]
        observations[env, agent, at + 4 + kind] = ONE

    opponents = num_enemies if is_ally else num_allies
    for action in range(num_actions):
        possible = alive if action < STOP else action == STOP
        if FIRST_ATTACK <= action < FIRST_ATTACK + opponents and alive:
            other = opponent(agent, action - FIRST_ATTACK, num_allies)
            possible = is_within(env, agent, other, attack_range[kind], loc_x, loc_y, health)
        action_mask[env, agent, action] = possible


@wd.kernel
def reset(
    # state
    loc_x, loc_y, health, unit_type, goal_x, goal_y,
    # random stream
    rng,
    # constants
    num_units, num_allies, num_enemies, map_width, map_height, radius, most_health, draws_positions,
    draws_types,
):  # fmt: skip
    """Sample the positions, and the types if they are random; then push overlapping units apart."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x = cuda.shared.array(num_units, np.float32)
    y = cuda.shared.array(num_units, np.float32)
    size = cuda.shared.array(num_units, np.float32)
    along = cuda.shared.array(NUM_GROUPS, np.float32)
    is_mirrored = cuda.shared.array(1, np.bool_)
    allies_inside = cuda.shared.array(1, np.bool_)
    if agent == 0 and draws_positions:
        is_mirrored[0] = wd.random.integer(rng, env, 0, 2) == 0
        allies_inside[0] = wd.random.integer(rng, env, 0, 2) == 0
        along[0], along[1], along[2], along[3] = wd.random.four_uniforms(rng, env, 0)
    cuda.syncthreads()

    for unit in range(agent, num_units, cuda.blockDim.x):
        is_ally = unit < num_allies
        noise_x, noise_y, _, _ = wd.random.four_uniforms(rng, env, agent)
        if draws_positions and is_mirrored[0]:
            share = noise_x * HALF if is_ally else HALF + noise_x * HALF
            x[unit], y[unit] = share * map_width, noise_y * map_height
        else:
            share_x, share_y = HALF, HALF
            if not draws_positions:
                share_x = HALF * HALF if is_ally else ONE - HALF * HALF
            elif is_ally != allies_inside[0]:
                group = wd.random.integer(rng, env, agent, NUM_GROUPS)
                share_x = along[group] * HALF + (ONE - along[group]) * np.float32(group // 2)
                share_y = along[group] * HALF + (ONE - along[group]) * np.float32(group % 2)
            x[unit] = share_x * map_width + (TWO * noise_x - ONE) * START_NOISE
            y[unit] = share_y * map_height + (TWO * noise_y - ONE) * START_NOISE
        if draws_types:
            unit_type[env, unit] = wd.random.integer(rng, env, agent, units.NUM_TYPES)
    cuda.syncthreads()

    for enemy in range(agent, min(num_allies, num_enemies), cuda.blockDim.x):
        if draws_positions and is_mirrored[0]:
            x[num_allies + enemy], y[num_allies + enemy] = map_width - x[enemy], y[enemy]
        if draws_types:
            unit_type[env, num_allies + enemy] = unit_type[env, enemy]
    cuda.syncthreads()

    for unit in range(agent, num_units, cuda.blockDim.x):
        size[unit], health[env, unit] = radius[unit_type[env, unit]], most_health[unit_type[env, unit]]
    cuda.syncthreads()

    for unit in range(agent, num_units, cuda.blockDim.x):
        push_x, push_y = push(unit, x, y, size, num_units)
        loc_x[env, unit], loc_y[env, unit] = x[unit] + push_x, y[unit] + push_y
        goal_x[env, unit], goal_y[env, unit] = map_width - loc_x[env, unit], map_height - loc_y[env, unit]


@wd.device_function
def draw_unit(
    # out
    shapes,
    # indices
    first, env, unit,
    # state
    loc_x, loc_y, health, unit_type, last_action,
    # constants
    num_allies, attack_range, radius, most_health,
):  # fmt: skip
    """Draw a unit as a disc, paler with less health, with a dot for ranged weapons, and its shots."""
    if health[env, unit] > ZERO:
        kind, action = unit_type[env, unit], last_action[env, unit]
        x, y = loc_x[env, unit], loc_y[env, unit]
        colour = wd.draw.BLUE if unit < num_allies else wd.draw.RED
        wd.draw.circle(shapes, first, x, y, radius[kind], colour)
        wd.draw.style(shapes, first, 0.2 + 0.8 * health[env, unit] / most_health[kind], colour, 0)
        if attack_range[kind] > THREE:
            wd.draw.circle(shapes, first + 1, x, y, 0.35 * radius[kind], wd.draw.GROUND)
            wd.draw.style(shapes, first + 1, 1.0, -1, 1)
        if action >= FIRST_ATTACK:
            other = opponent(unit, action - FIRST_ATTACK, num_allies)
            if is_within(env, unit, other, attack_range[kind], loc_x, loc_y, health):
                wd.draw.line(shapes, first + 2, x, y, loc_x[env, other], loc_y[env, other], 0.12, wd.draw.YELLOW)
                wd.draw.style(shapes, first + 2, 0.7, -1, -1)


@wd.kernel
def draw(shapes, loc_x, loc_y, health, unit_type, last_action, num_allies, attack_range, radius, most_health):
    """Draw the units of agents."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    draw_unit(
        shapes, 0, env, agent, loc_x, loc_y, health, unit_type, last_action, num_allies, attack_range, radius,
        most_health,
    )  # fmt: skip


@wd.kernel
def draw_enemies(
    things,
    # state
    loc_x, loc_y, health, unit_type, last_action,
    # constants
    num_agents, num_units, num_allies, attack_range, radius, most_health,
):  # fmt: skip
    """Draw the enemies of the heuristic, distributed over the threads."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for unit in range(num_agents + agent, num_units, num_agents):
        first = SHAPES_PER_UNIT * (unit // num_agents - 1)
        draw_unit(
            things, first, env, unit, loc_x, loc_y, health, unit_type, last_action, num_allies, attack_range, radius,
            most_health,
        )  # fmt: skip


class Smax(wd.Environment):
    """Command an army of units against another one, in battles like those of StarCraft.

    ## Description

    Two teams of units, allies and enemies, move on a map without obstacles and shoot at each other until one team is
    gone. Each agent controls one ally. Enemies shoot at the closest ally in range and follow allies in sight, or are
    agents themselves, for self-play. The environment is `HeuristicEnemySMAX` (`SMAX` with `enemies="agents"`) of
    `jaxmarl` 0.2.0, the environment of Rutherford et al. (2024) after the StarCraft Multi-Agent Challenge of Samvelyan
    et al. (2019) and SMACv2 of Ellis et al. (2023), rule for rule, in float32.

    A scenario has the name of the challenge: `3s5z_vs_3s6z` are 3 stalkers and 5 zealots against 3 stalkers and 6
    zealots, and `25m` are 25 marines on both sides. Any other armies have names of the same form. In `smacv2_5_units`
    types and start positions are drawn for each episode.

    | Letter | Unit | Health | Attack | Range | Cooldown, s | Speed | Sight | Radius |
    | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | m | marine | 45 | 9 | 5 | 0.61 | 3.15 | 9 | 0.375 |
    | M | marauder | 125 | 10 | 6 | 1.07 | 2.25 | 10 | 0.5625 |
    | s | stalker | 160 | 13 | 6 | 1.87 | 4.13 | 10 | 0.625 |
    | z | zealot | 150 | 8 | 2 | 0.86 | 3.15 | 9 | 0.5 |
    | g | zergling | 35 | 5 | 2 | 0.5 | 4.13 | 8 | 0.375 |
    | h | hydralisk | 80 | 12 | 5 | 0.59 | 3.15 | 9 | 0.625 |

    In each step all units keep their action for 8 world steps of 1/16 s. In a world step

    1. units move, up to the borders of the map. A unit that shoots hits if its target is alive and in range and its
       weapon is ready; the weapon is then ready again after its cooldown, plus a random time between -1/16 s and 1/8 s;
    2. all hits take effect at the same time. Units at the border of the map die with `walls_cause_death`;
    3. units that overlap push each other apart.

    An enemy keeps shooting at the same ally while it is in range, otherwise it chooses the closest one in range, or a
    random one with `attack_mode="random"`. Without one in range, or without `enemy_shoots`, it moves towards a random
    ally in sight, or to the opposite side of the map.

    Differences from `jaxmarl`: the time limit truncates the episode; with random types, enemies beyond the number of
    allies have random types as well, instead of being marines; and dead units are not `active`. Observations by
    sectors (`conic`) and continuous actions are not available.

    ## Action Space

    `Discrete(5 + num_enemies)`, stored as `actions[env, agent]` (int32); `Discrete(8)` by default. `action_mask` has
    the possible actions: attacks need an opponent that is alive and in range, and dead units can only stop.

    | Action | Meaning |
    | --- | --- |
    | 0 | up (+y) |
    | 1 | right (+x) |
    | 2 | down (-y) |
    | 3 | left (-x) |
    | 4 | stop |
    | 5 + i | shoot at enemy i |

    With `enemies="agents"` all agents have 5 + the size of the larger team actions, and stop with an action beyond
    their opponents. Enemies count allies from the last one: action 5 is the ally with the highest index.

    ## Observation Space

    `Box` of shape `(13 * (n - 1) + 10,)` for n units in both teams, float32; `(75,)` by default. There are 13 features
    for each other unit: allies, then enemies, in the order of their indices. Enemies count from the last unit down, so
    that they observe their own team first. Features of units that are dead or out of sight are 0; dead units observe
    zeros only.

    | Index | Feature of another unit | Min | Max |
    | --- | --- | --- | --- |
    | 0 | health, relative to its maximum | 0 | 1 |
    | 1, 2 | x, y relative to the unit, divided by its range of sight | -1 | 1 |
    | 3, 4 | direction x, y of its last action (opponents: with `see_enemy_actions`) | -1 | 1 |
    | 5 | its last attack, divided by its number of actions - 1 (opponents: with `see_enemy_actions`) | 0 | 1 |
    | 6 | remaining cooldown, relative to that of its weapon | 0 | 1 |
    | 7 to 12 | its type, one-hot | 0 | 1 |

    | Index | Feature of the unit itself, at the end | Min | Max |
    | --- | --- | --- | --- |
    | 0 | health, relative to its maximum | 0 | 1 |
    | 1, 2 | x, y, relative to the size of the map | -inf | inf |
    | 3 | remaining cooldown, relative to that of its weapon | 0 | 1 |
    | 4 to 9 | its type, one-hot | 0 | 1 |

    The state for centralised critics, `world_state`, has 10 features of each unit, with positions and cooldown as they
    are, then the teams and the numbers of the types of all units.

    ## Rewards

    | Event | Reward of all units of a team |
    | --- | --- |
    | damage to the other team | sum over units of lost health / maximum health, divided by the number of units |
    | victory: all opponents are dead, and not all of the team | `won_battle_bonus` |
    | with `use_self_play_reward`: damage | 0 |
    | with `use_self_play_reward`: defeat | -`won_battle_bonus` |

    The return of a victory is 1 + `won_battle_bonus` for units that survive. Dead units get the reward of their team as
    well; whether they learn from it is the trainer's setting `returns_after_leaving`.

    ## Starting State

    Sampled on the device. Allies start around the point at a quarter of the map's width, enemies around that at three
    quarters, both at half its height, each coordinate within 2. Units have full health and ready weapons, and push each
    other apart once.

    With `smacv2_position_generation` one of two arrangements is sampled: allies anywhere in the left half and enemies
    mirrored, those beyond the number of allies anywhere in the right half; or a random team within 2 of the centre and
    each unit of the other team within 2 of one of four points, which are random on the lines from the centre to the
    corners. With `smacv2_unit_type_generation` types of allies are random, and enemies have the same; the types of
    enemies beyond the number of allies are random as well (in `jaxmarl` these are marines, by an error).

    ## Episode End

    - Termination: all units of a team are dead.
    - Truncation: after `max_steps` + 1 steps, as in `jaxmarl`.

    ## Arguments

    Args:
        scenario: Name of the armies: one such as 2s3z for both teams, two such as 3s5z_vs_3s6z, or smacv2_<n>_units.
        enemies: "heuristic": enemies follow fixed rules. "agents": enemies are agents with the policy tag `enemy`.
        enemy_shoots: If False, enemies of the heuristic only move.
        attack_mode: "closest" or "random": the ally that enemies of the heuristic choose in range.
        map_width: Width of the map, greater than 0.
        map_height: Height of the map, greater than 0.
        world_steps_per_env_step: Number of world steps in a step, 1 or more.
        time_per_step: Length of a world step in seconds, greater than 0.
        use_self_play_reward: If True, only victories and defeats are rewarded, which makes the game zero-sum.
        see_enemy_actions: If True, last actions of opponents are observed.
        won_battle_bonus: Reward of a victory.
        walls_cause_death: If True, units at the border of the map die.
        max_steps: The episode is truncated after one step more than this number, 1 or more.
        smacv2_position_generation: If True, positions are sampled as in SMACv2; None: as the scenario specifies.
        smacv2_unit_type_generation: If True, types are sampled as in SMACv2; None: as the scenario specifies.

    Raises:
        DefinitionError: If an argument has the wrong type or is out of range.

    ## References

    - A. Rutherford et al. (2024), "JaxMARL: Multi-agent RL environments and algorithms in JAX",
      [arXiv 2311.10090](https://arxiv.org/abs/2311.10090).
    - M. Samvelyan et al. (2019), "The StarCraft Multi-Agent Challenge",
      [arXiv 1902.04043](https://arxiv.org/abs/1902.04043).
    - B. Ellis et al. (2023), "SMACv2: An improved benchmark for cooperative multi-agent reinforcement learning",
      [arXiv 2212.07489](https://arxiv.org/abs/2212.07489).

    `envs/smax/reference.py` has the same step in NumPy, and `envs/smax/original.py` that of `jaxmarl` itself; see the
    [agreement with reference implementations](index.md#agreement-with-reference-implementations).
    """

    name = "smax"
    original_names: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("num_allies", "num_enemies", "num_agents_per_team", "map_name"), "scenario"),
        "observation_type": "Observations are those of observation_type='unit_list'.",
        "action_type": "Actions are those of action_type='discrete'.",
    }
    parity: ClassVar[Mapping[str, Any]] = {
        "title": "a reference in NumPy",
        "tolerance": 1e-4,
        "act": reference.mostly_attack,
    }
    termination_meaning = "all units of a team are dead"
    global_state = ("world_state",)
    step, observe, reset = step, observe, reset
    reference_step, reference_observe = reference.step, reference.observe
    draw, draw_things = draw, draw_enemies
    shapes_per_agent = SHAPES_PER_UNIT

    def __init__(
        self,
        scenario: str = "3m",
        enemies: str = "heuristic",
        enemy_shoots: bool = True,
        attack_mode: str = "closest",
        map_width: float = 32.0,
        map_height: float = 32.0,
        world_steps_per_env_step: int = 8,
        time_per_step: float = 1 / 16,
        use_self_play_reward: bool = False,
        see_enemy_actions: bool = True,
        won_battle_bonus: float = 1.0,
        walls_cause_death: bool = True,
        max_steps: int = 100,
        smacv2_position_generation: bool | None = None,
        smacv2_unit_type_generation: bool | None = None,
    ) -> None:
        whole, real, flag = parameters.whole, parameters.real, parameters.flag
        self.scenario = units.scenario(scenario)
        self.num_allies, self.num_enemies = len(self.scenario.allies), len(self.scenario.enemies)
        self.num_units = self.num_allies + self.num_enemies
        self.enemies_are_agents = parameters.one_of("enemies", enemies, ENEMIES) == "agents"
        self.enemy_shoots = flag("enemy_shoots", enemy_shoots)
        self.attacks_at_random = parameters.one_of("attack_mode", attack_mode, ATTACK_MODES) == "random"
        self.map_width = real("map_width", map_width, above=0)
        self.map_height = real("map_height", map_height, above=0)
        self.num_world_steps = whole("world_steps_per_env_step", world_steps_per_env_step, at_least=1)
        self.time_step = real("time_per_step", time_per_step, above=0)
        self.is_zero_sum = flag("use_self_play_reward", use_self_play_reward)
        self.see_enemy_actions = flag("see_enemy_actions", see_enemy_actions)
        self.won_battle_bonus = real("won_battle_bonus", won_battle_bonus)
        self.walls_cause_death = flag("walls_cause_death", walls_cause_death)
        self.max_steps = whole("max_steps", max_steps, at_least=1, at_most=parameters.LARGEST_INT - 1)
        self.draws_positions = self._drawn("smacv2_position_generation", smacv2_position_generation)
        self.draws_types = self._drawn("smacv2_unit_type_generation", smacv2_unit_type_generation)
        self.episode_length = self.max_steps + 1
        self.velocity, self.attack = units.of_types(units.VELOCITY), units.of_types(units.ATTACK)
        self.attack_range, self.sight_range = units.of_types(units.ATTACK_RANGE), units.of_types(units.SIGHT_RANGE)
        self.radius, self.most_health = units.of_types(units.RADIUS), units.of_types(units.HEALTH)
        self.weapon_cooldown = units.of_types(units.WEAPON_COOLDOWN)

        self.num_agents = self.num_units if self.enemies_are_agents else self.num_allies
        self.policy_tags = {"ally": range(self.num_allies)}
        if self.enemies_are_agents:
            self.policy_tags["enemy"] = range(self.num_allies, self.num_units)
        opponents = max(self.num_allies, self.num_enemies) if self.enemies_are_agents else self.num_enemies
        self.num_actions = FIRST_ATTACK + opponents
        self.action_space = spaces.Discrete(self.num_actions)
        moves = {"": STOP, "up": UP, "right": RIGHT, "down": DOWN, "left": LEFT}
        self.controls = moves | {str(i + 1): FIRST_ATTACK + i for i in range(min(opponents, 9))}
        self.observation_space = self._space()
        self.things_per_agent = SHAPES_PER_UNIT * max(1, -(-self.num_enemies // self.num_agents))
        self.view = (0.0, self.map_width, 0.0, self.map_height)

    def _drawn(self, name: str, value: bool | None) -> bool:
        return self.scenario.is_random if value is None else parameters.flag(name, value)

    def _space(self) -> spaces.Box:
        of_unit = np.array([0, -1, -1, -1, -1, 0, 0] + [0] * units.NUM_TYPES, np.float32)
        of_self = np.array([0, -np.inf, -np.inf, 0] + [0] * units.NUM_TYPES, np.float32)
        low = np.concatenate([np.tile(of_unit, self.num_units - 1), of_self])
        return spaces.Box(low, np.where(np.isinf(low), np.float32(np.inf), ONE), dtype=np.float32)

    def initial_state(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return units of full health at the origin; ``reset`` draws their positions on the device.

        Per unit, allies first: ``loc_x``, ``loc_y``, ``health`` and ``cooldown`` in seconds, float32; ``unit_type``
        (uint8) and ``last_action`` (int32); for enemies of the heuristic ``goal_x``, ``goal_y``, their destination
        without allies in sight, float32, and ``focus``, the ally at which they shoot, -1 for none, int32.
        ``features``: the observed features except the position, float32. Per agent: ``active`` (bool: alive).
        ``world_state``: the state for centralised critics, float32.
        """
        kinds = np.array([*self.scenario.allies, *self.scenario.enemies], np.uint8)
        floats = ("loc_x", "loc_y", "cooldown", "goal_x", "goal_y")
        return {
            **{name: np.zeros(self.num_units, np.float32) for name in floats},
            "health": self.most_health[kinds],
            "unit_type": kinds,
            "last_action": np.full(self.num_units, STOP, np.int32),
            "focus": np.full(self.num_units, NOBODY, np.int32),
            "active": np.ones(self.num_agents, np.bool_),
            "features": np.zeros((self.num_units, OF_UNIT), np.float32),
            "world_state": np.zeros((OF_SELF + 2) * self.num_units, np.float32),
        }

    def scenery(self, state: dict[str, Any]) -> Scene:
        """Return the map."""
        return Scene(self.view, polygons=[drawing.box(0, self.map_width, 0, self.map_height, wd.draw.PAPER)])
