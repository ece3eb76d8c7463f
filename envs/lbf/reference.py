"""Reference step of ``lbf`` for one replica by the class of the package ``lbforaging``, for tests of the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

if TYPE_CHECKING:
    from warpdrive.envs.lbf.lbf import LevelBasedForaging


def original(env: LevelBasedForaging) -> Any:
    """Return ``ForagingEnv`` with the parameters of ``env``.

    The class cannot create the space of grid observations with recent versions of Gymnasium, and exchanges the bounds
    of rows and columns of rectangular fields: it gets the space of ``env``, which it checks its observations against.
    """
    from lbforaging.foraging.environment import ForagingEnv

    created = ForagingEnv(
        players=env.num_agents,
        min_player_level=env.player_level_low,
        max_player_level=env.player_level_high,
        min_food_level=env.food_level_low,
        max_food_level=None if env.levels_by_players else env.food_level_high,
        field_size=(env.rows, env.columns),
        max_num_food=env.num_foods,
        sight=env.sight,
        max_episode_steps=env.episode_length,
        force_coop=env.force_coop,
        normalize_reward=env.normalize_reward,
        observe_agent_levels=env.observe_agent_levels,
        penalty=env.penalty,
    )
    created._grid_observation = env.grid_observation
    assert isinstance(env.observation_space, spaces.Box)
    created.observation_space = spaces.Tuple([env.observation_space] * env.num_agents)
    return created


def put(other: Any, state: dict[str, Any]) -> None:
    """Write a state of one replica into an instance of ``ForagingEnv``."""
    other.field = np.zeros(other.field_size, np.int32)
    there = state["food_level"] > 0
    other.field[state["food_y"][there], state["food_x"][there]] = state["food_level"][there]
    for i, player in enumerate(other.players):
        place = int(state["loc_y"][i]), int(state["loc_x"][i])
        player.setup(place, int(state["level"][i]), other.field_size)
    other.current_step = int(state["timestep"])
    other._food_spawned = int(state["food_spawned"])
    other._game_over = False
    other._gen_valid_moves()


def taken(other: Any, num_foods: int) -> dict[str, Any]:
    """Return the state of an instance of ``ForagingEnv``, the foods row by row."""
    foods = np.zeros((num_foods, 3), np.int32)
    y, x = np.nonzero(other.field)
    foods[: len(y)] = np.stack([y, x, other.field[y, x]], axis=1)
    players = np.array([[*player.position, player.level] for player in other.players], np.int32)
    return {
        **dict(zip(("loc_y", "loc_x", "level"), players.T, strict=True)),
        **dict(zip(("food_y", "food_x", "food_level"), foods.T, strict=True)),
        "food_spawned": np.int32(other._food_spawned),
        "timestep": int(other.current_step),
    }


def step(env: LevelBasedForaging, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the state after a step.

    Args:
        env: The environment.
        state: State of one replica.
        actions: ``[num_agents]`` int.

    Returns:
        The state, with observations, rewards and ``terminated``.
    """
    other = _instance(env)
    put(other, state)
    observations, rewards, done, _, _ = other.step([int(action) for action in actions])
    after = taken(other, env.num_foods)
    left = other.field[state["food_y"], state["food_x"]]
    terminated = not other.field.any()
    assert done == (terminated or after["timestep"] >= env.episode_length)
    return {
        **state,
        **{name: after[name] for name in ("loc_y", "loc_x", "timestep")},
        "food_level": np.where(state["food_level"] > 0, left, 0).astype(np.int32),
        "observations": np.stack(observations),
        "rewards": np.array(rewards, np.float64),
        "terminated": terminated,
    }


def observe(env: LevelBasedForaging, state: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Return the observations of ``state``, ``[num_agents, *shape]``."""
    other = _instance(env)
    put(other, state)
    observations: npt.NDArray[np.float32] = np.stack(other._make_gym_obs())
    return observations


def towards_food(
    env: LevelBasedForaging, observations: dict[str, npt.NDArray[Any]], rng: np.random.Generator
) -> npt.NDArray[np.int32]:
    """Return actions: mostly moves towards the first food in sight, and loads next to it."""
    seen = observations["observations"]
    others = rng.integers(6, size=seen.shape[:2])
    if seen.ndim > 3:  # layers of cells
        return np.where(rng.random(others.shape) < 0.4, 5, others).astype(np.int32)
    own = 3 * env.num_foods
    south, east = seen[..., 0] - seen[..., own], seen[..., 1] - seen[..., own + 1]
    moves = np.where(np.abs(south) > np.abs(east), np.where(south > 0, 2, 1), np.where(east > 0, 4, 3))
    forward = np.where(np.abs(south) + np.abs(east) == 1, 5, moves)
    follows = (seen[..., 2] > 0) & (rng.random(others.shape) < 0.7)
    return np.where(follows, forward, others).astype(np.int32)


def _instance(env: LevelBasedForaging) -> Any:
    if env.original is None:
        env.original = original(env)
    return env.original
