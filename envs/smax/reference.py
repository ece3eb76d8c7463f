"""Reference step of ``smax`` for one replica, in NumPy and float64, for tests of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpdrive.checks.references import Draws
from warpdrive.envs.smax import units

if TYPE_CHECKING:
    from warpdrive.envs.smax.smax import Smax

Floats = npt.NDArray[np.float64]
STOP, FIRST_ATTACK = 4, 5
DIRECTIONS = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]], np.float64)
VELOCITY, ATTACK, RANGE, SIGHT, RADIUS, HEALTH, COOLDOWN = (
    units.of_types(values).astype(np.float64)
    for values in (
        units.VELOCITY,
        units.ATTACK,
        units.ATTACK_RANGE,
        units.SIGHT_RANGE,
        units.RADIUS,
        units.HEALTH,
        units.WEAPON_COOLDOWN,
    )
)


class Drawn(NamedTuple):
    """Random numbers of a step.

    Attributes:
        choices: ``[num_units, 2]`` int, which of the allies in range an enemy shoots at, and which in sight it follows.
        deviations: ``[num_world_steps, num_units]`` float64 in [0, 1), of the cooldown after a shot.
    """

    choices: npt.NDArray[np.int_]
    deviations: Floats


def step(env: Smax, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the state after a step.

    Args:
        env: The environment.
        state: State of one replica.
        actions: ``[num_agents]`` int.

    Returns:
        The state, with observations, masks, rewards and ``terminated``.
    """
    return step_and_draws(env, state, actions)[0]


def step_and_draws(env: Smax, state: dict[str, Any], actions: npt.NDArray[Any]) -> tuple[dict[str, Any], Drawn]:
    """Return the state after a step, as :func:`step`, and the numbers that were drawn."""
    draws = Draws(state["rng"])
    drawn = Drawn(np.zeros((env.num_units, 2), int), np.zeros((env.num_world_steps, env.num_units)))
    kind = np.array(state["unit_type"], int)
    place = np.stack([state["loc_x"], state["loc_y"]], axis=-1).astype(np.float64)
    health, cooldown = np.array(state["health"], np.float64), np.array(state["cooldown"], np.float64)
    focus, chosen = np.array(state["focus"]), np.array(state["last_action"])
    chosen[: env.num_agents] = actions
    chosen[[a >= FIRST_ATTACK + len(opponents(env, unit)) for unit, a in enumerate(chosen)]] = STOP
    for enemy in range(env.num_agents, env.num_units):
        chosen[enemy], focus[enemy] = _heuristic(env, state, place, health, enemy, draws, drawn)
    before = health.copy()
    targets = [opponents(env, unit)[a - FIRST_ATTACK] if a >= FIRST_ATTACK else -1 for unit, a in enumerate(chosen)]
    moves = np.array([DIRECTIONS[a] if a < STOP else (0, 0) for a in chosen]) * VELOCITY[kind, None] * env.time_step
    corner = np.array([env.map_width, env.map_height])
    for deviations in drawn.deviations:
        alive = health > 0
        apart = np.linalg.norm(place[:, None] - place, axis=-1)
        damage = np.zeros(env.num_units)
        ready = cooldown <= 0
        cooldown -= env.time_step
        for unit in range(env.num_units):
            target = targets[unit]
            is_hit = target >= 0 and alive[unit] and alive[target] and apart[unit, target] < RANGE[kind[unit]]
            if is_hit and ready[unit]:
                damage[target] += ATTACK[kind[unit]]
                deviations[unit] = draws.uniform(unit % env.num_agents)
                cooldown[unit] = COOLDOWN[kind[unit]] + (3 * deviations[unit] - 1) * env.time_step
        place[alive] = np.clip(place + moves, 0, corner)[alive]
        health = np.maximum(health - damage, 0)
        if env.walls_cause_death:
            health[((place <= 0) | (place >= corner)).any(-1)] = 0
        place = pushed(place, kind, health > 0)

    alive = health > 0
    after = {
        **state,
        "rng": draws.rng,
        "timestep": int(state["timestep"]) + 1,
        "loc_x": place[:, 0],
        "loc_y": place[:, 1],
        "health": health,
        "cooldown": cooldown,
        "last_action": chosen,
        "focus": focus,
        "active": alive[: env.num_agents],
    }
    teams = [np.arange(env.num_units) < env.num_allies, np.arange(env.num_units) >= env.num_allies]
    lost = [not alive[team].any() for team in teams]
    reward = []
    for own, other in ((0, 1), (1, 0)):
        damage = ((before - health) / HEALTH[kind])[teams[other]]
        reward.append(0.0 if env.is_zero_sum else damage.mean())
        reward[own] += env.won_battle_bonus * (lost[other] and not lost[own])
        reward[own] -= env.won_battle_bonus * (lost[own] and not lost[other] and env.is_zero_sum)
    after |= {
        "rewards": np.where(teams[0], *reward)[: env.num_agents],
        "terminated": any(lost),
        "observations": observe(env, after),
        "action_mask": masks(env, after),
        "world_state": world_state(env, after),
    }
    after.pop("features", None)  # written for observations, in which it shows
    return after, drawn


def _heuristic(
    env: Smax, state: dict[str, Any], place: Floats, health: Floats, enemy: int, draws: Draws, drawn: Drawn
) -> tuple[int, int]:
    """Return the action of an enemy and the ally at which it shoots, -1 for none."""
    kind, thread = int(state["unit_type"][enemy]), enemy % env.num_agents
    if health[enemy] <= 0:
        return STOP, int(state["focus"][enemy])
    apart = np.linalg.norm(place - place[enemy], axis=-1)
    allies = [ally for ally in opponents(env, enemy) if health[ally] > 0]
    in_range = [ally for ally in allies if apart[ally] < RANGE[kind]]
    in_sight = [ally for ally in allies if apart[ally] < SIGHT[kind]]
    target = int(state["focus"][enemy])
    if target not in in_range:
        target = -1
        if in_range and env.attacks_at_random:
            drawn.choices[enemy, 0] = draws.integer(thread, len(in_range))
            target = in_range[drawn.choices[enemy, 0]]
        elif in_range:
            target = min(in_range, key=lambda ally: apart[ally])
    if target >= 0 and env.enemy_shoots:
        return FIRST_ATTACK + opponents(env, enemy).index(target), target
    goal = np.array([state["goal_x"][enemy], state["goal_y"][enemy]])
    if in_sight:
        drawn.choices[enemy, 1] = draws.integer(thread, len(in_sight))
        goal = place[in_sight[drawn.choices[enemy, 1]]]
    return int(np.argmax(DIRECTIONS @ (goal - place[enemy]))), target


def opponents(env: Smax, unit: int) -> list[int]:
    """Return the opponents of a unit, in the order in which it counts them."""
    allies, enemies = range(env.num_allies), range(env.num_allies, env.num_units)
    return list(enemies) if unit < env.num_allies else list(reversed(allies))


def pushed(place: Floats, kind: npt.NDArray[np.int_], alive: npt.NDArray[np.bool_]) -> Floats:
    """Return the places ``[n, 2]`` after units that overlap have pushed each other apart."""
    apart = place[:, None] - place
    touching = RADIUS[kind][:, None] + RADIUS[kind]
    overlap = np.maximum(touching / (np.linalg.norm(apart, axis=-1) + np.eye(len(place)) + 1e-6) - 1, 0)
    overlap *= alive[:, None] & alive
    np.fill_diagonal(overlap, 0)
    moved: Floats = place + (apart * overlap[..., None]).sum(axis=1) / 2
    return moved


def observe(env: Smax, state: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Return the observations of ``state``, ``[num_agents, 13 * (num_units - 1) + 10]``."""
    rows = []
    for unit in range(env.num_agents):
        others = [*range(env.num_units)] if unit < env.num_allies else [*reversed(range(env.num_units))]
        others.remove(unit)
        seen = [_features(env, state, unit, other) for other in others]
        own = _own_features(state, unit)
        own[1:3] /= env.map_width, env.map_height
        own[3] = np.clip(own[3] / COOLDOWN[int(state["unit_type"][unit])], 0, 1)
        rows.append(np.concatenate([*seen, own]))
    return np.array(rows, np.float32)


def _features(env: Smax, state: dict[str, Any], unit: int, other: int) -> Floats:
    """Return the features of a unit that another observes."""
    features = np.zeros(7 + units.NUM_TYPES)
    kind, sight = int(state["unit_type"][other]), SIGHT[int(state["unit_type"][unit])]
    offset = np.array([state["loc_x"][other] - state["loc_x"][unit], state["loc_y"][other] - state["loc_y"][unit]])
    if min(state["health"][unit], state["health"][other]) <= 0 or np.linalg.norm(offset) >= sight:
        return features
    features[0] = state["health"][other] / HEALTH[kind]
    features[1:3] = offset / sight
    action = int(state["last_action"][other])
    if env.see_enemy_actions or (unit < env.num_allies) == (other < env.num_allies):
        if action < STOP:
            features[3:5] = DIRECTIONS[action]
        elif action >= FIRST_ATTACK:
            features[5] = action / (len(opponents(env, other)) + 4)
    features[6] = np.clip(state["cooldown"][other] / COOLDOWN[kind], 0, 1)
    features[7 + kind] = 1
    return features


def _own_features(state: dict[str, Any], unit: int) -> Floats:
    """Return the features of a unit in ``world_state``."""
    features, kind = np.zeros(4 + units.NUM_TYPES), int(state["unit_type"][unit])
    if state["health"][unit] > 0:
        features[:4] = (
            state["health"][unit] / HEALTH[kind],
            state["loc_x"][unit],
            state["loc_y"][unit],
            state["cooldown"][unit],
        )
        features[4 + kind] = 1
    return features


def world_state(env: Smax, state: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Return the features of all units, their teams and their types."""
    teams = np.arange(env.num_units) >= env.num_allies
    features = [_own_features(state, unit) for unit in range(env.num_units)]
    return np.concatenate([*features, teams, state["unit_type"]]).astype(np.float32)


def masks(env: Smax, state: dict[str, Any]) -> npt.NDArray[np.bool_]:
    """Return the possible actions of all agents, ``[num_agents, num_actions]``."""
    possible = np.zeros((env.num_agents, env.num_actions), bool)
    possible[:, STOP] = True
    for unit in np.flatnonzero(np.asarray(state["health"])[: env.num_agents] > 0).tolist():
        possible[unit, :STOP] = True
        for number, other in enumerate(opponents(env, unit)):
            apart = np.hypot(state["loc_x"][other] - state["loc_x"][unit], state["loc_y"][other] - state["loc_y"][unit])
            in_range = apart < RANGE[int(state["unit_type"][unit])]
            possible[unit, FIRST_ATTACK + number] = in_range and state["health"][other] > 0
    return possible


def mostly_attack(env: Smax, observations: dict[str, npt.NDArray[Any]], rng: np.random.Generator) -> npt.NDArray[Any]:
    """Return actions, mostly shots at the nearest opponent, or moves towards it, or to the other side of the map."""
    seen = observations["observations"]
    actions = rng.integers(env.num_actions, size=seen.shape[:2], dtype=np.int32)
    for agent in range(seen.shape[1]):
        number = len(opponents(env, agent))
        features = seen[:, agent, : -4 - units.NUM_TYPES].reshape(len(seen), env.num_units - 1, -1)[:, -number:]
        kind = np.argmax(seen[:, agent, -units.NUM_TYPES :], axis=1)
        apart = np.where(features[..., 0] > 0, np.linalg.norm(features[..., 1:3], axis=-1), np.inf)
        nearest, least = np.argmin(apart, axis=1), apart.min(axis=1)
        offset = features[np.arange(len(seen)), nearest, 1:3]
        across = 1 if agent < env.num_allies else 3
        towards = np.where(np.isinf(least), across, np.argmax(offset @ DIRECTIONS.T, axis=1))
        chosen = np.where(least < (RANGE / SIGHT)[kind], FIRST_ATTACK + nearest, towards)
        actions[:, agent] = np.where(rng.random(len(seen)) < 0.8, chosen, actions[:, agent])
    return actions
