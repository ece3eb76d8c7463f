"""Shapes that environments draw of states, compared with places, angles and colours by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exhaustive import exhaustive

import warpdrive as wd
from warpdrive.draw import (
    BLUE,
    CIRCLE,
    COLOUR,
    FIELDS,
    GREEN,
    GREY,
    INK,
    KIND,
    LAYER,
    LINE,
    NOTHING,
    NUMBER,
    ORANGE,
    PURPLE,
    RECTANGLE,
    RED,
    SECTOR,
    SEGMENT,
    SKY,
    TRIANGLE,
    WIDTH,
    YELLOW,
    X,
    Y,
)
from warpdrive.scene.artist import Artist
from warpdrive.scene.colours import DARK

HALF_PI = math.pi / 2
CASES = {
    "tag_gridworld": (
        {"num_taggers": 3, "grid_length": 5},
        {"loc_x": [1, 4, 4, 1], "loc_y": [2, 3, 3, 2]},
        {  # the first tagger has caught the runner, the others share a cell
            (0, 1): (RECTANGLE, 1.28, 2, 0.448, 0.448, 0, RED),
            (2, 0): (CIRCLE, 4, 3, 0.07, 0.07, 0, RED),
            (2, 1): (RECTANGLE, 3.72, 3, 0.448, 0.448, 0, RED),
            (3, 1): (CIRCLE, 0.72, 2, 0.448, 0.448, 0, BLUE),
            (3, 2): (CIRCLE, 1, 2, 1.4, 1.4, 0, YELLOW),
        },
    ),
    "tag_continuous": (
        {"num_runners": 3, "tagging_distance": 0.1, "seed": 1},  # agent 1 is the tagger; arrows are 0.6 long
        {
            "loc_x": [1, 2, 3, 4],
            "loc_y": [5, 6, 7, 8],
            "direction": [0.5, 1.5, 2.5, 3.5],
            "active": [True, True, False, False],
            "in_game": [True, True, True, False],
        },
        {
            (0, 0): (TRIANGLE, 1, 5, 0.6, 0.6, 0.5, BLUE),
            (1, 0): (TRIANGLE, 2, 6, 0.9, 0.9, 1.5, RED),
            (1, 1): (CIRCLE, 2, 6, 2, 2, 0, RED),
            (2, 0): (CIRCLE, 3, 7, 0.72, 0.72, 0, YELLOW),
            (3, 0): (CIRCLE, 4, 8, 0.18, 0.18, 0, GREY),
        },
    ),
    "battle": (
        {"agents_per_team": 2, "map_size": 6, "spacing": 1, "gap": 0, "walls": [(0, 0)]},
        {
            "loc_x": [1, 2, 3, 4],
            "loc_y": [2, 2, 3, 3],
            "health": [100, 50, 100, 0],
            "active": [True, True, True, False],
            "actions": [0, 20, 20, 20],  # to the upper right
            "rewards": [-0.005, 0.095, -0.105, 4.9],
        },
        {
            (0, 0): (CIRCLE, 1, 2, 0.9, 0.9, 0, RED, 1),
            (0, 1): (NOTHING,),
            (1, 0): (CIRCLE, 2, 2, 0.9, 0.9, 0, RED, 0.575),
            (1, 1): (SEGMENT, 2, 2, 1, 1, 0, YELLOW),
            (2, 0): (CIRCLE, 3, 3, 0.9, 0.9, 0, BLUE),
            (2, 1): (NOTHING,),
            (3, 0): (NOTHING,),
        },
    ),
    "simple_spread": (
        {},
        {"loc_x": [0, 0.2, 0.8], "loc_y": [0, 0.2, 0.8], "landmark_x": [0.75, 0, 0], "landmark_y": [0.8, 0.5, -0.5]},
        {
            (0, 0): (CIRCLE, 0, 0, 0.3, 0.3, 0, BLUE),
            (1, 1): (CIRCLE, 0.2, 0.2, 0.36, 0.36, 0, ORANGE),
            (2, 1): (NOTHING,),
        },
    ),
    "lbf": (
        {"players": 3, "field_size": (4, 6)},
        {
            "loc_y": [0, 1, 3],
            "loc_x": [1, 2, 5],
            "level": [1, 2, 2],
            "food_y": [1, 2],
            "food_x": [1, 3],
            "food_level": [3, 0],
            "actions": [5, 4, 5],
            "rewards": [0.5, 0, 0],
        },
        {  # row 0 is at the top
            (0, 0): (CIRCLE, 1, 3, 0.72, 0.72, 0, BLUE),
            (0, 1): (CIRCLE, 1, 3, 0.92, 0.92, 0, GREEN),
            (1, 0): (CIRCLE, 2, 2, 0.72, 0.72, 0, BLUE),
            (1, 1): (NOTHING,),
            (2, 1): (CIRCLE, 5, 0, 0.92, 0.92, 0, ORANGE),
        },
    ),
    "simple_tag": (
        {},
        {"loc_x": [0, 0.5, 0.5, 0.1], "loc_y": [0, 0.5, -0.5, 0]},
        {
            (0, 0): (CIRCLE, 0, 0, 0.15, 0.15, 0, RED),
            (0, 1): (NOTHING,),
            (3, 0): (CIRCLE, 0.1, 0, 0.1, 0.1, 0, BLUE),
            (3, 1): (CIRCLE, 0.1, 0, 0.18, 0.18, 0, YELLOW),
        },
    ),
    "cartpole": (
        {},
        {"position": np.float32(0.5), "angle": np.float32(math.pi / 6), "actions": [0]},
        {
            (0, 0): (RECTANGLE, 0.5, 0, 0.5, 0.24, 0, BLUE),
            (0, 1): (TRIANGLE, 0.1, 0, 0.2, 0.2, math.pi, SKY),
            (0, 2): (SEGMENT, 0.5, 0, 0.5, math.sqrt(0.75), 0, ORANGE),
        },
    ),
    "acrobot": (
        {},
        {"angle_1": np.float32(HALF_PI), "angle_2": np.float32(2)},
        {
            (0, 0): (SEGMENT, 0, 0, 1, 0, 0, BLUE),
            (0, 1): (SEGMENT, 1, 0, math.cos(2), math.sin(2), 0, SKY),
            (0, 3): (CIRCLE, 1 + math.cos(2), math.sin(2), 0.2, 0.2, 0, ORANGE),
        },
    ),
    "mountain_car": (  # at the bottom of the valley; continuous_mountain_car has the same kernel
        {},
        {"position": np.float32(-math.pi / 6)},
        {
            (0, 1): (RECTANGLE, -math.pi / 6, 0.055 - 0.45, 0.2, 0.05, 0, BLUE),
            (0, 2): (CIRCLE, -math.pi / 6 - 0.06, 0.03 - 0.45, 0.06, 0.06, 0, INK),
        },
    ),
    "pendulum": (
        {},
        {"angle": np.float32(HALF_PI), "actions": [[1.0]]},
        {
            (0, 0): (SECTOR, 0, 0, 0.7, math.radians(75), math.radians(90 + 37.5), SKY),
            (0, 1): (SEGMENT, 0, 0, -1, 0, 0, BLUE),
        },
    ),
    "flock": (
        {"num_boids": 8, "world_size": 10.0},
        {"loc_x": np.arange(8), "loc_y": np.arange(8), "direction": [0, 0.9, -0.1, 3.1, -3.1, 2, -2, -1]},
        {
            (0, 0): (TRIANGLE, 0, 0, 0.9, 0.9, 0, RED),
            (1, 0): (TRIANGLE, 1, 1, 0.9, 0.9, 0.9, ORANGE),
            (2, 0): (TRIANGLE, 2, 2, 0.9, 0.9, -0.1, PURPLE),
            (3, 0): (TRIANGLE, 3, 3, 0.9, 0.9, 3.1, GREEN),
            (4, 0): (TRIANGLE, 4, 4, 0.9, 0.9, -3.1, GREEN),
        },
    ),
}


@pytest.mark.parametrize("name", exhaustive(CASES, ("battle", "lbf", "tag_continuous")))
def test_shapes(name):
    parameters, changes, expected = CASES[name]
    env = wd.make(name, **parameters)
    state = env.initial_state(np.random.default_rng(0))
    reserved = {"actions": np.int32, "rewards": np.float32}
    for key, value in changes.items():
        state[key] = np.asarray(value, state[key].dtype if key in state else reserved[key])
    artist = Artist(env, palette=DARK)
    shapes = artist.shapes([state])[0]
    by_agent = shapes[: env.num_agents * env.shapes_per_agent].reshape(
        env.num_agents, env.shapes_per_agent, len(FIELDS)
    )
    for place, values in expected.items():
        np.testing.assert_allclose(by_agent[place][: len(values)], values, atol=1e-5, err_msg=str(place))
    picture = artist.picture_of_scene(artist.scene(state, shapes))
    assert picture.shape[1] == 560 and len(np.unique(picture.reshape(-1, 3), axis=0)) > 4


def things(name, **changes):
    """Return the shapes that ``draw_things`` draws of a state."""
    env = wd.make(name)
    state = env.initial_state(np.random.default_rng(0))
    state |= {key: np.asarray(value, state[key].dtype) for key, value in changes.items()}
    state |= {"actions": np.zeros(env.num_agents, np.int32), "rewards": np.zeros(env.num_agents, np.float32)}
    drawn = Artist(env).shapes([state])[0][env.num_agents * env.shapes_per_agent :]
    return list(drawn[drawn[:, KIND] != NOTHING])


def test_landmarks_are_green_once_covered():
    _, changes, _ = CASES["simple_spread"]
    rings = things("simple_spread", **changes)[::3]
    assert [ring[COLOUR] for ring in rings] == [GREEN, YELLOW, YELLOW]
    np.testing.assert_allclose(rings[1][[X, Y]], [0, 0.5], atol=1e-6)
    assert all(ring[LAYER] < 0 for ring in rings)


def test_foods_that_are_left_have_levels():
    square, number = things("lbf", food_y=[1, 4], food_x=[4, 1], food_level=[4, 0])
    assert square[[KIND, X, Y]].tolist() == [RECTANGLE, 4, 6]
    assert number[[KIND, X, Y, LINE]].tolist() == [NUMBER, 4, 6, 4]


def test_goals_have_rings():
    places = {"landmark_x": [0.5, -0.5], "landmark_y": [0, 0], "goal": [1]}
    shapes = things("simple_push", **places)
    ring = next(shape for shape in shapes if shape[COLOUR] == GREEN)
    np.testing.assert_allclose(ring[[X, Y, WIDTH]], [-0.5, 0, 2 * (0.05 + 0.07)], atol=1e-6)
    assert len(shapes) == 4
