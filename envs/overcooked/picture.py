"""Picture of ``overcooked``: the kitchen, chefs and what they hold, pots with their contents, orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda

import warpdrive as wd
from warpdrive.envs.common import drawing
from warpdrive.envs.overcooked import kitchen
from warpdrive.envs.overcooked.kitchen import (
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
from warpdrive.scene.scene import Polygon, Scene, Text

if TYPE_CHECKING:
    from warpdrive.envs.overcooked.overcooked import Overcooked

SHAPES = 6
BASE = kitchen.MOST_INGREDIENTS + 1


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
    cell, towards, hand = position[env, agent], facing[env, agent], held[env, agent]
    x, y = np.float32(cell % width), np.float32(height - 1 - cell // width)
    right = np.float32((1 if towards == 2 else 0) - (1 if towards == 3 else 0))
    up = np.float32((1 if towards == 0 else 0) - (1 if towards == 1 else 0))
    reach, far = np.float32(0.3), np.float32(0.4)
    colour = wd.draw.BLUE if agent % 3 == 0 else (wd.draw.GREEN if agent % 3 == 1 else wd.draw.PURPLE)
    wd.draw.circle(shapes, 0, x + reach * right, y + reach * up, 0.13, colour)
    wd.draw.circle(shapes, 1, x, y, 0.33, colour)
    wd.draw.circle(shapes, 2, x, y, 0.2, wd.draw.GROUND)
    hand_x, hand_y = x + far * right, y + far * up
    if hand == ONION:
        wd.draw.circle(shapes, 3, hand_x, hand_y, 0.15, wd.draw.YELLOW)
    elif hand == TOMATO:
        wd.draw.circle(shapes, 3, hand_x, hand_y, 0.15, wd.draw.RED)
    elif hand >= DISH:
        wd.draw.circle(shapes, 3, hand_x, hand_y, 0.23, wd.draw.GREY)
        wd.draw.circle(shapes, 4, hand_x, hand_y, 0.19, wd.draw.GROUND)
        if hand >= SOUP:
            wd.draw.circle(shapes, 5, hand_x, hand_y, 0.15, wd.draw.ORANGE)


@wd.kernel
def draw_things(
    things,
    # state
    objects, pot_recipe, pot_tick,
    # constants
    num_agents, num_cells, num_pots, pot_cells, recipe_time, width, height,
):  # fmt: skip
    """Draw what lies on counters, and the contents of pots: green if they are ready."""
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    for cell in range(agent, num_cells, num_agents):
        thing = objects[env, cell]
        if thing != 0:
            x, y = np.float32(cell % width), np.float32(height - 1 - cell // width)
            colour = wd.draw.YELLOW if thing == ONION else (wd.draw.RED if thing == TOMATO else wd.draw.SKY)
            wd.draw.circle(things, cell // num_agents, x, y, 0.19, wd.draw.ORANGE if thing >= SOUP else colour)
    for pot in range(agent, num_pots, num_agents):
        recipe, tick = pot_recipe[env, pot], pot_tick[env, pot]
        if recipe != 0:
            cell = pot_cells[pot]
            x, y = np.float32(cell % width), np.float32(height - 1 - cell // width)
            size = np.float32(0.1) + np.float32(0.06) * np.float32(recipe % BASE + recipe // BASE)
            colour = wd.draw.ORANGE if tick >= 0 else wd.draw.YELLOW
            if tick >= recipe_time[recipe]:
                colour = wd.draw.GREEN
            wd.draw.circle(things, (num_cells + num_agents - 1) // num_agents + pot // num_agents, x, y, size, colour)


def view(env: Overcooked) -> tuple[float, float, float, float]:
    """Return the kitchen with a line for the orders above it."""
    return -0.5, max(env.width, 5) - 0.5, -0.5, env.height + 0.5


def scenery(env: Overcooked, state: dict[str, Any]) -> Scene:
    """Return the kitchen, what lies on counters, the pots with their contents, and the orders."""
    polygons: list[Polygon] = []
    texts: list[Text] = []
    for cell, terrain in enumerate(env.terrain):
        if terrain != FREE:
            x, y = place(env, cell)
            polygons.append(drawing.box(x - 0.48, x + 0.48, y - 0.48, y + 0.48, wd.draw.PAPER))
            polygons += _equipment(terrain, x, y)
            if terrain == SERVING:
                texts.append(Text(x, y, "serve", 0.22, wd.draw.GROUND))
            elif terrain == COUNTER and state["objects"][cell]:
                polygons += _thing(int(state["objects"][cell]), x, y)
    for cell, recipe, tick in zip(env.pot_cells, state["pot_recipe"], state["pot_tick"], strict=True):
        x, y = place(env, cell)
        polygons += _ingredients(int(recipe), x, y + 0.02, 0.12)
        if tick >= 0:
            left = int(env.recipe_time[recipe] - tick)
            texts.append(Text(x, y - 0.33, f"{left}" if left > 0 else "ready", 0.24, wd.draw.INK))
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
        return [
            disc for i in range(3) for disc in _thing(DISH, x + 0.12 * (i - 1), y + 0.12 * (i - 1))
        ]  # a pile of dishes
    if terrain in (ONIONS, TOMATOES):
        colour = wd.draw.YELLOW if terrain == ONIONS else wd.draw.RED
        around = [(-0.17, -0.14), (0.17, -0.14), (0, 0.16)]
        return [drawing.disc(x + right, y + up, 0.16, colour, wd.draw.INK, 0.02) for right, up in around]
    return []


def _thing(code: int, x: float, y: float) -> list[Polygon]:
    """Return an ingredient, a dish or a soup in a dish."""
    if code in (ONION, TOMATO):
        return [drawing.disc(x, y, 0.17, wd.draw.YELLOW if code == ONION else wd.draw.RED, wd.draw.INK, 0.02)]
    dish = [drawing.disc(x, y, 0.23, wd.draw.GROUND, wd.draw.GREY, 0.05)]
    return [*dish, *_ingredients(code - SOUP, x, y, 0.08)] if code >= SOUP else dish


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
    y, x = float(env.height), -0.35
    step = min(1.9, (env.view[1] - env.view[0]) / max(len(env.kitchen.orders), 1))
    for onions, tomatoes in env.kitchen.orders:
        recipe = kitchen.number(onions, tomatoes)
        polygons += [drawing.disc(x + 0.3, y, 0.3, wd.draw.GROUND, wd.draw.GREY, 0.04)]
        polygons += _ingredients(recipe, x + 0.3, y, 0.11)
        texts.append(Text(x + 0.95, y, f"{env.recipe_value[recipe]:g}", 0.36, wd.draw.INK))
        x += step
    return polygons, texts
