"""Kitchens: layouts as text, values and times of recipes, and distances to usable cells."""

from __future__ import annotations

import ast
import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.envs.common import parameters
from warpdrive.errors import DefinitionError, nearest as did_you_mean, one_line, shown

FREE, COUNTER, ONIONS, TOMATOES, DISHES, POT, SERVING = range(7)
TERRAIN = " XOTDPS"
"""Characters of the text of a layout, by the number of the terrain; digits are start cells of players."""
ONION, TOMATO, DISH, SOUP = 1, 2, 3, 4
"""Objects; 0 is none, and ``SOUP`` plus the number of a recipe a soup."""
DIRECTIONS = ((0, -1), (0, 1), (1, 0), (-1, 0))
"""Steps (x, y) of the actions north, south, east and west."""
CELL, CODE = np.uint16, np.uint8
"""Types of cells, and of terrain, objects, recipes and directions. Unsigned ones need no check for negative indices."""
INGREDIENTS = ("onion", "tomato")
MOST_INGREDIENTS = 3
RECIPES = (MOST_INGREDIENTS + 1) ** 2
"""Size of the tables by recipe, whose number is that of the onions + 4 that of the tomatoes."""
LONGEST_TIME = parameters.LARGEST_INT // (2 * MOST_INGREDIENTS)
"""Largest number of steps of an ingredient or a recipe: sums of them are int32."""
SHAPING = {"PLACEMENT_IN_POT_REW": 3.0, "DISH_PICKUP_REWARD": 3.0, "SOUP_PICKUP_REWARD": 5.0}
UNUSED_SHAPING = ("DISH_DISP_DISTANCE_REW", "POT_DISTANCE_REW", "SOUP_DISTANCE_REW")
"""Keys of shaped rewards that layouts may have, but that are unused."""
_LITERALS = (ast.Dict, ast.List, ast.Tuple, ast.Constant, ast.UnaryOp)
KEYS = (
    "grid", "start_all_orders", "start_bonus_orders", "order_bonus", "rew_shaping_params", "delivery_reward",
    "cook_time", "recipe_values", "recipe_times", "onion_value", "tomato_value", "onion_time", "tomato_time",
    "num_items_for_soup",
)  # fmt: skip
ELSEWHERE = {
    "start_state": "Start states are not supported: write the state into the arrays of the replicas.",
    "old_dynamics": "It is a parameter of the environment.",
}
"""Hints for keys of the package that are not accepted."""
ONION_SOUP = [{"ingredients": ["onion"] * 3}]
MIXED = {
    "start_all_orders": [
        {"ingredients": ["onion", "tomato", "tomato"]},
        {"ingredients": ["onion", "onion", "tomato"]},
        {"ingredients": ["onion", "tomato"]},
    ],
    "start_bonus_orders": [{"ingredients": ["onion", "tomato"]}],
    "onion_value": 21, "tomato_value": 13, "onion_time": 15, "tomato_time": 7,
}  # fmt: skip
LAYOUTS: dict[str, dict[str, Any]] = {
    "cramped_room": {"grid": "XXPXX\nO  2O\nX1  X\nXDXSX", "start_all_orders": ONION_SOUP},
    "asymmetric_advantages": {
        "grid": "XXXXXXXXX\nO XSXOX S\nX   P 1 X\nX2  P   X\nXXXDXDXXX",
        "start_all_orders": ONION_SOUP,
    },
    "coordination_ring": {"grid": "XXXPX\nX 1 P\nD2X X\nO   X\nXOSXX", "start_all_orders": ONION_SOUP},
    "forced_coordination": {"grid": "XXXPX\nO X1P\nO2X X\nD X X\nXXXSX", "start_all_orders": ONION_SOUP},
    "counter_circuit": {"grid": "XXXPDPXXX\nX   2   X\nX XXXXX X\nX   1   X\nXXXOSTXXX", **MIXED},
    "counter_circuit_o_1order": {
        "grid": "XXXPPXXX\nX  2   X\nD XXXX S\nX  1   X\nXXXOOXXX",
        "start_all_orders": ONION_SOUP,
    },
    "cramped_room_tomato": {
        "grid": "XXPXX\nO  2T\nX1  X\nXDXSX",
        "start_all_orders": [
            {"ingredients": ["onion"] * 3}, {"ingredients": ["tomato"] * 3}, {"ingredients": ["tomato", "onion"]},
        ],
        "start_bonus_orders": [{"ingredients": ["tomato", "onion"]}],
        "onion_value": 15, "tomato_value": 10, "onion_time": 10, "tomato_time": 10,
    },
}  # fmt: skip
"""Layouts by name, with the keys of the package's files."""


@dataclass(frozen=True)
class Kitchen:
    """Layout of a kitchen.

    Attributes:
        rows: Rows of the grid, from top to bottom, without players.
        starts: Start cell of each player; a cell has the number y * width + x.
        orders: Recipes (onions, tomatoes) that have a value; those in ``bonus`` have more.
        bonus: Recipes with a bonus.
        value: ``[RECIPES]`` float32, reward for the delivery of a soup.
        time: ``[RECIPES]`` int32, steps until a soup is ready.
        shaping: Shaped rewards by name.
        parameters: What the layout specifies, with the keys of the package's files.
    """

    rows: tuple[str, ...]
    starts: tuple[int, ...]
    orders: tuple[tuple[int, int], ...]
    bonus: tuple[tuple[int, int], ...]
    value: npt.NDArray[np.float32]
    time: npt.NDArray[np.int32]
    shaping: dict[str, float]
    parameters: dict[str, Any]

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.rows[0])

    @property
    def terrain(self) -> npt.NDArray[np.uint8]:
        """Terrain of each cell, ``[cells]`` uint8."""
        return np.array([TERRAIN.index(character) for character in "".join(self.rows)], CODE)

    def cells_of(self, terrain: int) -> list[int]:
        """Return the cells with a terrain, row by row."""
        return [int(cell) for cell in np.flatnonzero(self.terrain == terrain)]


def kitchen(layout: Any, overwritten: Any) -> Kitchen:
    """Return the kitchen of a layout.

    Args:
        layout: A name in ``LAYOUTS``, the text of a grid, or the text of a ``.layout`` file of the package.
        overwritten: Keys of the layout with other values, or None.

    Raises:
        DefinitionError: If the layout does not exist, or its text or a value is invalid.
    """
    given = {**_layout(layout), **_mapping("params_to_overwrite", overwritten)}
    for key in given:
        if key not in KEYS:
            hint = f" {ELSEWHERE[key]}" if key in ELSEWHERE else did_you_mean(str(key), KEYS)
            raise DefinitionError(f"layout has the key {shown(key)}, expected one of {', '.join(KEYS)}.{hint}")
    rows, starts = _grid(given.get("grid"))
    orders = _recipes("start_all_orders", given.get("start_all_orders"))
    bonus = _recipes("start_bonus_orders", given.get("start_bonus_orders"))
    if orders and not set(bonus) <= set(orders):
        raise DefinitionError(f"start_bonus_orders is {shown(bonus)}, but each must be one of start_all_orders.")
    parameters.whole("num_items_for_soup", given.get("num_items_for_soup", 3), MOST_INGREDIENTS, MOST_INGREDIENTS)
    value = _table(given, "value", "delivery_reward", "recipe_values", orders).astype(np.float32)
    time = _table(given, "time", "cook_time", "recipe_times", orders).astype(np.int32)
    factor = parameters.real("order_bonus", given.get("order_bonus", 2))
    all_orders = orders or tuple((o, t) for o, t in np.ndindex(4, 4) if 0 < o + t <= MOST_INGREDIENTS)
    for onions, tomatoes in np.ndindex(4, 4):
        in_orders, in_bonus = ((onions, tomatoes) in recipes for recipes in (all_orders, bonus))
        value[number(onions, tomatoes)] *= (factor if in_bonus else 1) if in_orders else 0
    given_shaping = given.get("rew_shaping_params")
    shaping = SHAPING if given_shaping is None else _mapping("rew_shaping_params", given_shaping)
    names = {*shaping} - {*UNUSED_SHAPING}
    if names != {*SHAPING}:
        raise DefinitionError(
            f"rew_shaping_params has the keys {shown(sorted(names, key=str))}, expected {', '.join(SHAPING)}."
        )
    rewards = {name: parameters.real(name, shaping[name]) for name in SHAPING}
    return Kitchen(rows, starts, all_orders, bonus, value, time, rewards, given)


def number(onions: int, tomatoes: int) -> int:
    """Return the number of a recipe in the tables."""
    return onions + (MOST_INGREDIENTS + 1) * tomatoes


def distances(of: Kitchen) -> npt.NDArray[np.float64]:
    """Return the minimum numbers of actions before players face a cell.

    The same action turns players towards an occupied cell, or moves them onto a free one.

    Returns:
        ``[cells, 4, cells]``: by the cell of the player, its direction (north, south, east, west), and the cell to
        face; infinite if out of reach.
    """
    terrain, width = of.terrain, of.width
    steps = [x + y * width for x, y in DIRECTIONS]
    found = np.full((len(terrain), 4, len(terrain)), np.inf)
    for start, towards in itertools.product(of.cells_of(FREE), range(4)):
        seen, queue = {(start, towards): 0}, deque([(start, towards)])
        while queue:
            cell, looking = queue.popleft()
            ahead = cell + steps[looking]
            if terrain[ahead] != FREE:
                found[start, towards, ahead] = min(found[start, towards, ahead], seen[cell, looking])
            for direction, step in enumerate(steps):
                there = (cell + step if terrain[cell + step] == FREE else cell), direction
                if there not in seen:
                    seen[there] = seen[cell, looking] + 1
                    queue.append(there)
    return found


def neighbours(of: Kitchen) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """Return what a player faces in each cell and direction, and the cell to which each action leads.

    Returns:
        ``[cells, 4]`` and ``[cells, 6]``, uint16.
    """
    terrain = of.terrain
    own = np.arange(terrain.size)[:, None]
    faced = (own + [x + y * of.width for x, y in DIRECTIONS]) % terrain.size  # players are never at the border
    moves = np.where(terrain[faced] == FREE, faced, own)
    return faced.astype(CELL), np.hstack([moves, own, own]).astype(CELL)


def nearest(of: Kitchen, found: npt.NDArray[np.float64], terrain: int) -> npt.NDArray[np.int32]:
    """Return the cells with a terrain in the order of their distances, the first in row order if they are equal.

    Args:
        of: The kitchen.
        found: Its distances.
        terrain: The terrain.

    Returns:
        ``[cells, 4, n]`` int32, -1 for those out of reach.
    """
    cells = np.array(of.cells_of(terrain), np.int32)
    far = found[:, :, cells]
    order = np.argsort(far, axis=2, kind="stable")
    return np.where(np.isinf(np.take_along_axis(far, order, 2)), -1, cells[order]).astype(np.int32)


def _layout(layout: Any) -> dict[str, Any]:
    if not isinstance(layout, str):
        raise DefinitionError(f"layout is {shown(layout)}, but it must be a name or the text of a layout.")
    if layout.lstrip().startswith("{"):
        return _mapping("layout", _literal(layout.strip()))
    if "\n" in layout.strip("\n"):
        return {"grid": layout.strip("\n")}
    if layout not in LAYOUTS:
        raise DefinitionError(
            f"layout is {shown(layout)}, expected one of {', '.join(LAYOUTS)}, or the text of any other: the "
            "lines of a grid, or all of a .layout file of the package."
            f"{did_you_mean(layout, LAYOUTS)}"
        )
    return LAYOUTS[layout]


def _literal(text: str) -> Any:
    """Return the value of a Python literal."""
    try:
        tree = ast.parse(text, mode="eval").body
        expression = next(
            (node for node in ast.walk(tree) if isinstance(node, ast.expr) and not isinstance(node, _LITERALS)), None
        )
        if expression is None:
            return ast.literal_eval(tree)
    except (SyntaxError, ValueError, TypeError) as error:
        raise DefinitionError(f"layout is a text with braces, but no dictionary: {error}") from error
    found = one_line(ast.get_source_segment(text, expression) or "", 60)
    raise DefinitionError(
        f"layout has the expression {found} in line {expression.lineno}, expected its value: dictionaries, lists, text "
        "and numbers only, since layouts are not executed."
    )


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise DefinitionError(f"{name} is {shown(value)}, but it must be a dictionary.")
    return dict(value or {})


def _grid(text: Any) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the rows without players, and the start cells of the players."""
    if not isinstance(text, str):
        raise DefinitionError(f"grid is {shown(text)}, but it must be the text of a grid in several lines.")
    rows = [row.strip() for row in text.strip().split("\n")]
    for y, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise DefinitionError(f"grid has {len(row)} cells in row {y}, but {len(rows[0])} in row 0.")
        for x, character in enumerate(row):
            if character not in TERRAIN + "123456789":
                raise DefinitionError(
                    f"grid has {character!r} in row {y}, column {x}, expected one of XOTDPS, 1-9, space."
                )
            if (x in (0, len(row) - 1) or y in (0, len(rows) - 1)) and character not in TERRAIN[1:]:
                raise DefinitionError(f"grid has a free cell in row {y}, column {x}, but its border must not be free.")
    cells = "".join(rows)
    if len(cells) > np.iinfo(CELL).max:
        raise DefinitionError(f"grid has {len(cells):,} cells, but it can have {np.iinfo(CELL).max:,}.")
    players = sorted(character for character in cells if character.isdigit())
    if len(players) < 2 or players != [str(player + 1) for player in range(len(players))]:
        raise DefinitionError(
            f"grid has the players {shown(players)}, expected at least two: 1, 2 and so on, each once."
        )
    if cells.count("P") > np.iinfo(CODE).max + 1:
        raise DefinitionError(f"grid has {cells.count('P')} pots, but it can have {np.iinfo(CODE).max + 1}.")
    for wanted in ("D", "S", "P", "OT"):
        if not set(wanted) & set(cells):
            raise DefinitionError(f"grid has no {' or '.join(wanted)}: at least one is needed to deliver a soup.")
    starts = tuple(cells.index(player) for player in players)
    return tuple("".join(" " if character.isdigit() else character for character in row) for row in rows), starts


def _recipes(name: str, orders: Any) -> tuple[tuple[int, int], ...]:
    """Return orders as numbers of onions and tomatoes."""
    if orders is not None and (not isinstance(orders, Sequence) or isinstance(orders, str)):
        raise DefinitionError(f"{name} is {shown(orders)}, but it must be a list of orders.")
    found = []
    for order in orders or ():
        names: Any = order.get("ingredients") if isinstance(order, Mapping) else None
        is_list = isinstance(names, Sequence) and not isinstance(names, str) and 1 <= len(names) <= MOST_INGREDIENTS
        if not is_list or not all(isinstance(each, str) and each in INGREDIENTS for each in names):
            raise DefinitionError(
                f"{name} has {shown(order)}, expected a dictionary with the key 'ingredients': a list of 1 to 3 of "
                "'onion' and 'tomato'."
            )
        found.append((names.count("onion"), names.count("tomato")))
    if len(set(found)) < len(found):
        raise DefinitionError(f"{name} is {shown(orders)}, but each order can be there once.")
    return tuple(found)


def _table(
    given: Mapping[str, Any], kind: str, of_all: str, of_each: str, orders: Sequence[tuple[int, int]]
) -> npt.NDArray[np.float64]:
    """Return the value or time of each recipe: of all, of each order, by ingredient, or 20, in this order."""
    table = np.full(RECIPES, 20.0)
    names = [f"onion_{kind}", f"tomato_{kind}"]
    stated = [name for name in (of_all, of_each, *names) if name in given]
    if stated not in ([], [of_all], [of_each], names):
        raise DefinitionError(
            f"layout has {' and '.join(stated)}, expected one of {of_all}, {of_each}, or both {names}."
        )
    whole = parameters.whole if kind == "time" else None

    def valid(name: str, value: Any) -> float:
        return whole(name, value, 0, LONGEST_TIME) if whole else parameters.real(name, value)

    each = given.get(of_each)
    if of_each in given and (not isinstance(each, Sequence) or not orders or len(each) != len(orders)):
        raise DefinitionError(
            f"{of_each} is {shown(each)}, expected a list with one number for each of start_all_orders."
        )
    by_ingredient = [valid(name, given[name]) for name in names if name in given]
    for onions, tomatoes in np.ndindex(4, 4):
        if all(by_ingredient) and by_ingredient:
            table[number(onions, tomatoes)] = onions * by_ingredient[0] + tomatoes * by_ingredient[1]
    for recipe, value in zip(orders, each or (), strict=False):
        table[number(*recipe)] = valid(of_each, value)
    if valid(of_all, given.get(of_all, 0)):
        table[:] = given[of_all]
    return table
