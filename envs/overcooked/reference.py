"""Reference step of ``overcooked`` for one replica by the classes of the package ``overcooked_ai``."""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from warpdrive.envs.overcooked.kitchen import CELL, CODE, DISH, MOST_INGREDIENTS, ONION, SOUP, TOMATO

if TYPE_CHECKING:
    from warpdrive.envs.overcooked.overcooked import Overcooked

NAMES = {ONION: "onion", TOMATO: "tomato", DISH: "dish"}
CODES = {name: code for code, name in NAMES.items()}
BASE = MOST_INGREDIENTS + 1
INTERACT = 5


def _modules() -> tuple[Any, Any]:
    """Return the modules of the package.

    The package registers a class with ``gym``, which is not maintained; a stand-in takes its place during the import.
    """
    if "overcooked_ai_py" not in sys.modules:
        stand_in: Any = types.SimpleNamespace(register=lambda **_: None)
        names = [name for name in ("gym", "gym.envs", "gym.envs.registration") if name not in sys.modules]
        sys.modules.update(dict.fromkeys(names, stand_in))
        try:
            importlib.import_module("overcooked_ai_py")
        finally:
            for name in names:
                del sys.modules[name]
    from overcooked_ai_py.mdp import overcooked_mdp
    from overcooked_ai_py.planning import planners

    return overcooked_mdp, planners


def original(env: Overcooked) -> Any:
    """Return ``OvercookedGridworld`` with the layout of ``env``.

    Releases of the package have the new dynamics only. The old ones, where a pot with three ingredients starts by
    itself and nobody else can start it, are those of its repository.
    """
    mdp: Any = _modules()[0]
    base: Any = mdp.OvercookedGridworld

    class OldDynamics(base):  # type: ignore[misc]
        def soup_to_be_cooked_at_location(self, state: Any, pos: Any) -> bool:
            return False

        def step_environment_effects(self, state: Any) -> None:
            for soup in state.objects.values():
                if soup.name == "soup" and soup.is_idle and len(soup.ingredients) == MOST_INGREDIENTS:
                    soup.begin_cooking()
            super().step_environment_effects(state)

    given = {key: value for key, value in env.kitchen.parameters.items() if key != "grid"}
    rows = [[*row] for row in env.kitchen.rows]
    for player, cell in enumerate(env.kitchen.starts):
        rows[cell // env.width][cell % env.width] = str(player + 1)
    created = mdp.OvercookedGridworld.from_grid(["".join(row) for row in rows], given)
    created.__class__ = OldDynamics if env.old_dynamics else mdp.OvercookedGridworld
    return created


def put(env: Overcooked, state: dict[str, Any]) -> Any:
    """Return an ``OvercookedState`` of a state of one replica."""
    mdp, _ = _modules()

    def thing(code: int, place: tuple[int, int]) -> Any:
        if code < SOUP:
            return mdp.ObjectState(NAMES[code], place)
        return soup(code - SOUP, place, int(env.recipe_time[code - SOUP]))

    def soup(recipe: int, place: tuple[int, int], tick: int) -> Any:
        return mdp.SoupState.get_soup(place, recipe % BASE, recipe // BASE, cooking_tick=tick)

    def place_of(cell: int) -> tuple[int, int]:
        return int(cell) % env.width, int(cell) // env.width

    directions = mdp.Direction.INDEX_TO_DIRECTION
    players = []
    for cell, facing, code in zip(state["position"], state["facing"], state["held"], strict=True):
        hand = thing(int(code), place_of(cell)) if code else None
        players.append(mdp.PlayerState(place_of(cell), directions[int(facing)], hand))
    cells = [int(cell) for cell in np.flatnonzero(state["objects"])]
    objects = {place_of(cell): thing(int(state["objects"][cell]), place_of(cell)) for cell in cells}
    for cell, recipe, tick in zip(env.pot_cells, state["pot_recipe"], state["pot_tick"], strict=True):
        if recipe:
            objects[place_of(cell)] = soup(int(recipe), place_of(cell), int(tick))
    of_grid = _instance(env)
    return mdp.OvercookedState(
        players, objects, of_grid.start_bonus_orders, of_grid.start_all_orders, int(state["timestep"])
    )


def taken(env: Overcooked, other: Any) -> dict[str, Any]:
    """Return the state of an ``OvercookedState``."""
    mdp, _ = _modules()

    def cell_of(place: tuple[int, int]) -> int:
        return place[1] * env.width + place[0]

    def recipe_of(soup: Any) -> int:
        return int(soup.ingredients.count("onion") + BASE * soup.ingredients.count("tomato"))

    def code_of(thing: Any) -> int:
        return 0 if thing is None else CODES[thing.name] if thing.name != "soup" else SOUP + recipe_of(thing)

    objects = np.zeros(env.num_cells, CODE)
    recipes, ticks = np.zeros(env.num_pots, CODE), np.full(env.num_pots, -1, np.int32)
    for place, thing in other.objects.items():
        cell = cell_of(place)
        if cell in env.pot_cells:
            recipes[env.pot_at[cell]], ticks[env.pot_at[cell]] = recipe_of(thing), thing._cooking_tick
        else:
            objects[cell] = code_of(thing)
    directions = mdp.Direction.DIRECTION_TO_INDEX
    return {
        "position": np.array([cell_of(player.position) for player in other.players], CELL),
        "facing": np.array([directions[player.orientation] for player in other.players], CODE),
        "held": np.array([code_of(player.held_object) for player in other.players], CODE),
        "objects": objects,
        "pot_recipe": recipes,
        "pot_tick": ticks,
        "timestep": int(other.timestep),
    }


def step(env: Overcooked, state: dict[str, Any], actions: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the state after a step.

    Args:
        env: The environment.
        state: State of one replica.
        actions: ``[num_agents]`` int.

    Returns:
        The state, with observations, rewards and ``terminated``.
    """
    of_grid, before = _instance(env), put(env, state)
    choices = _modules()[0].Action.INDEX_TO_ACTION
    after, info = of_grid.get_state_transition(before, [choices[int(action)] for action in actions])
    sparse = np.array(info["sparse_reward_by_agent"], np.float64)
    shaped = np.array(info["shaped_reward_by_agent"], np.float64)
    return {
        **taken(env, after),
        "sparse_rewards": sparse,
        "shaped_rewards": shaped,
        "observations": encoded(env, after),
        "rewards": sparse.sum() + env.shaping * shaped,
        "terminated": of_grid.is_terminal(after),
    }


def observe(env: Overcooked, state: dict[str, Any]) -> npt.NDArray[Any]:
    """Return the observations of ``state``, ``[num_agents, *shape]``."""
    return encoded(env, put(env, state))


def encoded(env: Overcooked, other: Any) -> npt.NDArray[Any]:
    """Return the observations of an ``OvercookedState``, ``[num_agents, *shape]``."""
    of_grid, space = _instance(env), cast("spaces.Box", env.observation_space)
    if env.encoding == "featurize_state":
        views = of_grid.featurize_state(other, env.original[1], num_pots=env.num_observed_pots)
    else:
        views = [_grid(of_grid, other, player, env.episode_length) for player in range(env.num_agents)]
        views = [np.moveaxis(view, 2, 0) if env.channels_first else view for view in views]
    return np.stack(views).astype(space.dtype)


def _grid(of_grid: Any, other: Any, player: int, horizon: int) -> npt.NDArray[Any]:
    """Return the grid observation of a player.

    The package encodes two players. For more, the player is encoded with each other, what the rest holds as objects.
    """
    found = []
    for partner in range(len(other.players)):
        if partner != player:
            seen = other.deepcopy()
            seen.players = seen.players[player], seen.players[partner]
            for i, rest in enumerate(other.players):
                if i not in (player, partner) and rest.has_object():
                    seen.objects[rest.position] = rest.held_object
            number, of_grid.num_players = of_grid.num_players, 2
            found.append(of_grid.lossless_state_encoding(seen, horizon)[0])
            of_grid.num_players = number
    first = found[0]
    parts = [first[:, :, :1], *(one[:, :, 1:2] for one in found), first[:, :, 2:6], *(one[:, :, 6:10] for one in found)]
    return np.concatenate([*parts, first[:, :, 10:]], axis=2)


def busy(env: Overcooked, observations: dict[str, npt.NDArray[Any]], rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """Return random actions, half of which interact, so that soups are cooked and delivered."""
    shape = observations["observations"].shape[:2]
    return np.where(rng.random(shape) < 0.5, INTERACT, rng.integers(6, size=shape)).astype(np.int32)


class _NumPy:
    """NumPy with a former name that the planner uses."""

    Inf = np.inf

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


class _Planner:
    """Carries the ``motion_planner`` that ``featurize_state`` needs, without plans for pairs of players."""

    def __init__(self, of_grid: Any) -> None:
        planners = _modules()[1]
        planners.np = _NumPy()
        self.motion_planner = planners.MotionPlanner(of_grid)


def _instance(env: Overcooked) -> Any:
    """Return the instance of the package for ``env``, whose recipes become those of the package's class."""
    if env.original is None:
        of_grid = original(env)
        env.original = of_grid, _Planner(of_grid) if env.encoding == "featurize_state" else None
    of_grid = env.original[0]
    recipes = _modules()[0].Recipe
    if recipes._conf is not of_grid.recipe_config:
        recipes.configure(of_grid.recipe_config)
    return of_grid
