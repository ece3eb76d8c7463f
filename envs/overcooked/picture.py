"""Picture of ``overcooked``: the kitchen, chefs and what they hold, pots with their contents, orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import drawing
from warpdrive.envs.overcooked import kitchen
from warpdrive.envs.overcooked.kitchen import DISH, DISHES, FREE, ONION, ONIONS, POT, SERVING, SOUP, TOMATOES
from warpdrive.scene.scene import Polygon, Scene, Text

if TYPE_CHECKING:
    from warpdrive.envs.overcooked.overcooked import Overcooked

BASE = kitchen.MOST_INGREDIENTS + 1
OF_THING = 2 + kitchen.MOST_INGREDIENTS
"""Shapes of an object: a dish, and the ingredients of its soup."""
OF_POT = 1 + kitchen.MOST_INGREDIENTS
SHAPES = 3 + OF_THING
OF_ORDER = 1.9
"""Width of an order above the kitchen, and smaller if there is no room for all."""
FAR = np.array(
    [[[0, 0], [0, 0], [0, 0]], [[0, 1], [0, -1], [0, 0]], [[0, 1], [-0.866, -0.5], [0.866, -0.5]]], np.float32
)
"""Places of ingredients by their number and index, around the middle."""
CHEFS = np.array([wd.draw.BLUE, wd.draw.GREEN, wd.draw.PURPLE, wd.draw.SKY, wd.draw.INK], np.int8)
"""Colours of chefs, apart from those of ingredients."""


@wd.device_function
def draw_ingredients(shapes, index, x, y, recipe, radius):
    """Draw the ingredients of a soup.

    Args:
        shapes: The parameter of the kernel.
        index: Index of the first shape.
        x: x coordinate of the middle.
        y: y coordinate of the middle.
        recipe: Number of the recipe.
        radius: Radius of an ingredient.
    """
    onions, tomatoes = recipe % BASE, recipe // BASE
    for i in range(onions + tomatoes):
        right, up = FAR[onions + tomatoes - 1, i, 0], FAR[onions + tomatoes - 1, i, 1]
        colour = wd.draw.YELLOW if i < onions else wd.draw.RED
        far = np.float32(1.2) * radius
        wd.draw.circle(shapes, index + i, x + far * right, y + far * up, radius, colour)


@wd.device_function
def draw_thing(shapes, index, x, y, thing):
    """Draw an ingredient, a dish or a soup in a dish.

    Args:
        shapes: The parameter of the kernel.
        index: Index of the first of ``OF_THING`` shapes.
        x: x coordinate.
        y: y coordinate.
        thing: The object.
    """
    if thing >= DISH:
        wd.draw.circle(shapes, index, x, y, 0.25, wd.draw.GREY)
        wd.draw.circle(shapes, index + 1, x, y, 0.2, wd.draw.GROUND)
        if thing >= SOUP:
            draw_ingredients(shapes, index + 2, x, y, thing - SOUP, np.float32(0.08))
    elif thing != 0:
        wd.draw.circle(shapes, index, x, y, 0.17, wd.draw.YELLOW if thing == ONION else wd.draw.RED)
        wd.draw.style(shapes, index, 1.0, wd.draw.INK, 0)


@wd.kernel
def draw(
    shapes,
    # state
    position, facing, held,
    # constants
    width, height,
):  # fmt: skip
    """Draw a chef with a hat, arms in the direction it faces, and what it holds."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    cell, towards = position[env, agent], facing[env, agent]
    x, y = np.float32(cell % width), np.float32(height - 1 - cell // width)
    right = np.float32((1 if towards == 2 else 0) - (1 if towards == 3 else 0))
    up = np.float32((1 if towards == 0 else 0) - (1 if towards == 1 else 0))
    reach, far = np.float32(0.3), np.float32(0.4)
    colour = CHEFS[agent % len(CHEFS)]
    wd.draw.circle(shapes, 0, x + reach * right, y + reach * up, 0.13, colour)
    wd.draw.circle(shapes, 1, x, y, 0.33, colour)
    wd.draw.circle(shapes, 2, x, y, 0.2, wd.draw.GROUND)
    draw_thing(shapes, 3, x + far * right, y + far * up, held[env, agent])


@wd.kernel
def draw_things(
    things,
    # state
    objects, pot_recipe, pot_tick,
    # constants
    num_agents, num_cells, num_pots, pot_cells, recipe_time, width, height,
):  # fmt: skip
    """Draw the objects on counters, the contents of pots, and the steps until a soup is ready, green if it is."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for cell in range(agent, num_cells, num_agents):
        x, y = np.float32(cell % width), np.float32(height - 1 - cell // width)
        draw_thing(things, OF_THING * (cell // num_agents), x, y, objects[env, cell])
    first = OF_THING * ((num_cells + num_agents - 1) // num_agents)
    for pot in range(agent, num_pots, num_agents):
        cell, place = pot_cells[pot], first + OF_POT * (pot // num_agents)
        x, y = np.float32(cell % width), np.float32(height - 1 - cell // width)
        recipe, tick = pot_recipe[env, pot], pot_tick[env, pot]
        draw_ingredients(things, place, x, y + np.float32(0.02), recipe, np.float32(0.12))
        place += OF_POT - 1
        if tick >= recipe_time[recipe]:
            wd.draw.rectangle(things, place, x, y - np.float32(0.33), 0.4, 0.1, np.float32(0), wd.draw.GREEN)
        elif tick >= 0:
            wd.draw.number(things, place, x, y - np.float32(0.02), recipe_time[recipe] - tick, 0.3, wd.draw.INK)


def view(env: Overcooked) -> tuple[float, float, float, float]:
    """Return the kitchen with a line for the orders above it."""
    return -0.5, max(env.width, 5) - 0.5, -0.5, env.height + 0.5


def scenery(env: Overcooked, state: dict[str, Any]) -> Scene:
    """Return the kitchen, and the orders."""
    polygons: list[Polygon] = []
    texts: list[Text] = []
    for cell, terrain in enumerate(env.terrain):
        if terrain != FREE:
            x, y = place(env, cell)
            polygons.append(drawing.box(x - 0.48, x + 0.48, y - 0.48, y + 0.48, wd.draw.PAPER))
            polygons += _equipment(terrain, x, y)
            if terrain == SERVING:
                texts.append(Text(x, y, "serve", 0.22, wd.draw.GROUND))
    orders, names = _orders(env)
    return Scene(env.view, polygons=[*polygons, *orders], texts=[*texts, *names])


def place(env: Overcooked, cell: int) -> tuple[float, float]:
    """Return the centre of a cell."""
    return float(cell % env.width), float(env.height - 1 - cell // env.width)


def _equipment(terrain: int, x: float, y: float) -> list[Polygon]:
    if terrain == POT:
        return [drawing.disc(x, y, 0.42, wd.draw.GREY, wd.draw.INK, 0.04), drawing.disc(x, y, 0.33, wd.draw.GROUND)]
    if terrain == SERVING:
        return [drawing.box(x - 0.4, x + 0.4, y - 0.4, y + 0.4, wd.draw.GREEN)]
    if terrain == DISHES:
        pile = [0.12 * (i - 1) for i in range(3)]
        return [drawing.disc(x + aside, y + aside, 0.23, wd.draw.GROUND, wd.draw.GREY, 0.05) for aside in pile]
    if terrain in (ONIONS, TOMATOES):
        colour = wd.draw.YELLOW if terrain == ONIONS else wd.draw.RED
        around = [(-0.17, -0.14), (0.17, -0.14), (0, 0.16)]
        return [drawing.disc(x + right, y + up, 0.16, colour, wd.draw.INK, 0.02) for right, up in around]
    return []


def _ingredients(recipe: int, x: float, y: float, radius: float) -> list[Polygon]:
    colours = [wd.draw.YELLOW] * (recipe % BASE) + [wd.draw.RED] * (recipe // BASE)
    angles = np.pi / 2 + np.arange(len(colours)) * 2 * np.pi / max(len(colours), 1)
    far = 0 if len(colours) == 1 else 1.2 * radius
    return [
        drawing.disc(x + far * float(np.cos(angle)), y + far * float(np.sin(angle)), radius, colour)
        for angle, colour in zip(angles, colours, strict=True)
    ]


def _orders(env: Overcooked) -> tuple[list[Polygon], list[Text]]:
    """Return the orders that have a value: ingredients and reward, from left to right above the kitchen."""
    polygons, texts = [], []
    y, x = float(env.height), env.view[0] + 0.15
    size = min(1.0, (env.view[1] - x) / (OF_ORDER * len(env.kitchen.orders)))
    for onions, tomatoes in env.kitchen.orders:
        recipe, middle = kitchen.number(onions, tomatoes), x + 0.3 * size
        polygons += [drawing.disc(middle, y, 0.3 * size, wd.draw.GROUND, wd.draw.GREY, 0.04)]
        polygons += _ingredients(recipe, middle, y, 0.11 * size)
        texts.append(Text(x + 0.95 * size, y, f"{env.recipe_value[recipe]:g}", 0.36 * size, wd.draw.INK))
        x += OF_ORDER * size
    return polygons, texts
