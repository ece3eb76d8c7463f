"""Shapes that kernels draw, and their pixels, compared with the geometry of the shapes."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from numba import cuda

import warpdrive as wd
from warpdrive import draw
from warpdrive.errors import DefinitionError
from warpdrive.scene.artist import Artist
from warpdrive.scene.colours import DARK, LIGHT
from warpdrive.scene.raster import Raster
from warpdrive.scene.scene import Image, Polygon, Scene, Text
from warpdrive.training.web.page import web_page


@wd.kernel
def step(x, heading, active, actions, rewards):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    x[env, agent] += np.float32(0.25) * actions[env, agent]
    heading[env, agent] += np.float32(0.5)
    active[env, agent] = agent != 1 or x[env, 0] < 1.0


@wd.kernel
def draw_agents(shapes, x, heading, active, rewards, size):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if active[env, agent]:
        wd.draw.triangle(shapes, 0, x[env, agent], agent - 1.0, size, heading[env, agent], wd.draw.ORANGE)
        wd.draw.trail(shapes, 0, 3)
        wd.draw.line(shapes, 1, x[env, agent], 0.0, 1.0, rewards[env, agent], 0.125, wd.draw.GREY)
        wd.draw.style(shapes, 1, 0.5, wd.draw.INK, -1.0)


class Walkers(wd.Environment):
    name = "walkers"
    step, draw = step, draw_agents
    shapes_per_agent = 2

    def __init__(self):
        self.num_agents, self.episode_length, self.size = 3, 4, 0.5
        self.view = (-2.0, 2.0, -2.0, 2.0)
        self.policy_tags = {"agent": range(3)}
        self.observation_space, self.action_space = spaces.Box(-9, 9, (1,)), spaces.Discrete(3)

    def initial_state(self, rng):
        zeros = np.zeros(3, np.float32)
        return {"x": zeros, "heading": zeros, "active": np.ones(3, np.bool_)}

    def scenery(self, state):
        return Scene(self.view, polygons=[Polygon(np.array([[1.5, 1.5], [2, 1.5], [2, 2], [1.5, 2]]), wd.draw.GREEN)])


def test_a_kernel_draws_each_state():
    env = Walkers()
    recording = wd.EnvWrapper(env, env_backend="cpu").record(act=lambda _: np.array([[2, 1, 0]]))
    states = [recording.state(0, number) for number in range(5)]
    shapes = Artist(env).shapes(states).reshape(5, 3, 2, len(draw.FIELDS))
    for number, state in enumerate(states):
        for agent in range(3):
            if not state["active"][agent]:
                assert agent == 1 and not shapes[number, agent].any()
                continue
            x = [0.5, 0.25, 0.0][agent] * number
            body = [draw.TRIANGLE, x, agent - 1, 0.5, 0.5, 0.5 * number, draw.ORANGE, 1, -1, 0, 0, 3]
            rod = [draw.SEGMENT, x, 0, 1 - x, 0, 0, draw.GREY, 0.5, draw.INK, 0.125, -1, 0]
            np.testing.assert_array_equal(shapes[number, agent], [body, rod])
    assert [bool(state["active"][1]) for state in states] == [True, True, False, False, False]


def _shape(kind, x, y, width, height, angle, line=0.0):
    return np.array([[kind, x, y, width, height, angle, draw.BLUE, 1, -1, line, 0, 0]], np.float32)


def _inside(kind, u, v, width, height):
    """Return a mask of points in the shape's own frame, and their approximate distance from its edge."""
    if kind == draw.CIRCLE:
        edge = np.hypot(u, v) - width / 2
    elif kind == draw.RECTANGLE:
        edge = np.maximum(np.abs(u) - width / 2, np.abs(v) - height / 2)
    else:  # a sector
        across = np.maximum(np.abs(v) - np.tan(height / 2) * u, -u) * np.cos(height / 2)
        edge = np.maximum(np.hypot(u, v) - width / 2, across)
    return edge < 0, np.abs(edge)


@pytest.mark.parametrize(
    ("kind", "width", "height", "angle"),
    [(draw.CIRCLE, 1.0, 1.0, 0.0), (draw.RECTANGLE, 1.5, 0.5, 0.7), (draw.SECTOR, 2.0, 1.2, 2.1)],
)
def test_pixels_of_shapes(kind, width, height, angle):
    raster = Raster((-1.0, 2.0, -1.0, 1.0), width=328, margin=14)  # 100 pixels for 1
    frame = raster.frame(Scene(raster.view, _shape(kind, 0.5, 0.25, width, height, angle)))
    assert frame.shape == (228, 328, 3)
    rows, columns = np.mgrid[14:214, 14:314]
    x, y = (columns - 13.5) / 100 - 1.0 - 0.5, 1.0 - (rows - 13.5) / 100 - 0.25
    u, v = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    inside, distance = _inside(kind, u, v, width, height)
    clear = (distance > 0.02) & (rows > 15) & (rows < 212) & (columns > 15) & (columns < 312)
    found = frame[14:214, 14:314]
    colours = [[int(colour[place : place + 2], 16) for place in (1, 3, 5)] for colour in (LIGHT.blue, LIGHT.ground)]
    assert (found[inside & clear] == colours[0]).all()
    assert (found[~inside & clear] == colours[1]).all()


@pytest.mark.parametrize(
    ("height", "size"), [(0.5, (294, 560)), (2.0, (1092, 560)), (8.0, (2044, 280)), (40, (4508, 140))]
)
def test_tall_pictures_are_narrow(height, size):
    assert Artist(Walkers()).picture_of_scene(Scene((0.0, 1.0, 0.0, height))).shape[:2] == size


def test_trails_end_at_jumps():
    raster = Raster((0.0, 4.0, 0.0, 4.0), width=428, margin=14, palette=DARK)
    path = [_shape(draw.CIRCLE, x, 1.0, 0.1, 0.1, 0.0) for x in (0.5, 1.0, 3.5, 3.0)]
    for shape in path:
        shape[:, draw.TRAIL] = 8
    frame = raster.frame(Scene(raster.view, path[-1], texts=[Text(2.0, 3.0, "WD", 0.5)]), path[:-1])
    ground = [int(DARK.ground[place : place + 2], 16) for place in (1, 3, 5)]
    row = 14 + 300
    assert (frame[row, 14 + 75] != ground).any()  # between 0.5 and 1
    assert (frame[row, 14 + 200] == ground).all()  # between 1 and 3.5, as at the border of a torus
    assert (frame[row, 14 + 325] != ground).any()
    assert (frame[14 + 80 : 14 + 120, 14 + 160 : 14 + 240] != ground).any()  # the text


def test_a_replay_of_a_kernel_and_of_a_scene(tmp_path):
    class Rendered(Walkers):
        draw = None

        def render(self, state, trail=()):
            return Artist(Walkers()).scene(state)

    recording = wd.EnvWrapper(Walkers(), env_backend="cpu").record(act=lambda _: np.array([[2, 1, 0]]))
    drawn = wd.replay(recording, env=Walkers()).frames
    assert len(drawn) == 5
    rendered = wd.replay(recording, env=Rendered()).frames
    assert np.array_equal(drawn[0], rendered[0])  # no trails yet
    green = [int(LIGHT.green[place : place + 2], 16) for place in (1, 3, 5)]
    assert drawn[0][30, 530].tolist() == green


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"draw": print}, "'draw' is .*, expected a Python function marked with @wd.kernel"),
        ({"view": (1.0, 0.0, 0.0, 1.0)}, "view is"),
        ({"shapes_per_agent": 0}, "shapes_per_agent is 0"),
        ({"things_per_agent": 0}, "things_per_agent is 0"),
    ],
)
def test_mistakes(changes, message):
    env = Walkers()
    vars(env).update(changes)
    with pytest.raises(DefinitionError, match=message):
        wd.EnvWrapper(env, env_backend="cpu")


@wd.kernel
def draw_by_size(shapes, x, size):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    if size == 3.0:
        wd.draw.circle(shapes, 2, x[env, agent], 0.0, size, 11)
    elif size == 2.0:
        wd.draw.style(shapes, -1, 1.0, -1, 0)
    wd.draw.circle(shapes, 0, x[env, agent], 0.0, size, 11)  # the mark of a wrong index outlasts it


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (3.0, "environment walkers: its draw kernel drew shape 2 of agent 0, but shapes_per_agent is 2"),
        (2.0, "its draw kernel drew shape -1 of agent 0"),
        (1.0, "its draw kernel wrote the colour 11, expected 0 to 10"),
    ],
)
def test_shapes_and_colours_that_do_not_exist_are_named(size, message):
    env = Walkers()
    env.draw, env.size = draw_by_size, size
    with pytest.raises(DefinitionError, match=message):
        wd.replay(wd.EnvWrapper(env, env_backend="cpu"))


@wd.kernel
def draw_inside_out(shapes, x):
    env, agent = cuda.blockIdx.x, cuda.threadIdx.x
    wd.draw.circle(shapes, 0, x[env, agent], 0.0, 1.0, wd.draw.RED)
    wd.draw.sector(shapes, 1, x[env, agent], 0.0, 0.5 - agent, 0.0, 1.0, wd.draw.BLUE)


def test_negative_radii_are_named():
    env = Walkers()
    env.draw = draw_inside_out
    with pytest.raises(DefinitionError, match=r"drew shape 1 of agent 1 with the radius -0.5, expected 0 or more"):
        wd.replay(wd.EnvWrapper(env, env_backend="cpu"))


CORNERS = np.array([[0, 0], [1, 0], [1, 1]], np.float32)


@pytest.mark.parametrize(
    ("scenery", "message"),
    [
        (lambda state: state["food"], r"scenery of Walkers: KeyError: 'food' \(.*test_scene.py:\d+\)"),
        (lambda state: None, "scenery of Walkers returned None, expected a Scene: is there a return?"),
        (lambda state: Scene((0, 1)), r"scenery of Walkers returned a Scene whose view is \(0, 1\), expected"),
        (lambda state: Scene((0, 1, 0, 1), polygons=[3]), "whose polygons contain 3, expected Polygon"),
        (lambda state: Scene((0, 1, 0, 1), texts=[Text(0, 0, "", 1, 99)]), "whose texts have the colour 99"),
        (
            lambda state: Scene((0, 1, 0, 1), texts=[Text(0, 0, "", 1, -1)]),
            r"whose texts have the colour -1, expected 0 to \d+$",
        ),
        (lambda state: Scene((0, 1, 0, 1), polygons=[Polygon([(0, 0)])]), r"have the points \[\(0, 0\)\], expected"),
        (
            lambda state: Scene((0, 1, 0, 1), polygons=[Polygon(CORNERS, "red")]),
            "polygons have the colour 'red', expected",
        ),
        (
            lambda state: Scene((0, 1, 0, 1), polygons=[Polygon(np.full((3, 2), np.nan))]),
            "expected .* finite coordinates",
        ),
        (lambda state: Scene((0, 1, 0, 1), polygons=[Polygon(CORNERS[:1])]), "expected .* two or more"),
        (lambda state: Scene((0, 1, 0, 1), texts=[Text(0, 0, 7, 1)]), "texts contain the text 7, expected a string"),
        (
            lambda state: Scene((0, 1, 0, 1), images=[Image(np.zeros((4, 4, 3)), (0, 1, 0, 1))]),
            r"images have the pixels an array float64 \[4, 4, 3\], expected uint8 \[height, width, 3\]",
        ),
        (
            lambda state: Scene((0, 1, 0, 1), np.zeros((1, 3))),
            r"whose shapes are an array \[1, 3\], expected \[n, 12\]",
        ),
    ],
)
def test_mistakes_in_a_scenery_are_the_author_s(scenery, message):
    env = Walkers()
    env.scenery = scenery
    replicas = wd.EnvWrapper(env, env_backend="cpu")
    with pytest.raises(DefinitionError, match=message):
        wd.replay(replicas)
    with pytest.raises(DefinitionError, match=message):
        web_page(replicas, {})
