"""``overcooked``, compared with the classes of the package ``overcooked_ai`` and with results by hand."""

from __future__ import annotations

import itertools
import re
from importlib.util import find_spec

import numpy as np
import pytest
import torch

import warpdrive as wd
from warpdrive.envs.overcooked import Overcooked, kitchen, reference
from warpdrive.envs.overcooked.kitchen import DISH, LAYOUTS, ONION, SOUP, TOMATO
from warpdrive.errors import DefinitionError

NORTH, SOUTH, EAST, WEST, STAY, INTERACT = range(6)
OLD = {"old_dynamics": True}
GRID, VECTOR = ({"encoding": name} for name in ("lossless_state_encoding", "featurize_state"))
CUSTOM = """
XXSPDXX
X  1  X
P  X  X
O3   4O
XT X  X
X  2  P
XXDPSXX
"""
"""Layout with four players and four pots."""
PARITY = [
    pytest.param({"layout": "cramped_room", **GRID, **OLD}, marks=pytest.mark.exhaustive),
    pytest.param({"layout": "counter_circuit", **VECTOR, "random_start_positions": True}, marks=pytest.mark.exhaustive),
    {
        "layout": "cramped_room_tomato",
        **GRID,
        "channels_first": True,
        "random_objects": 0.6,
        "params_to_overwrite": {"onion_time": 90},  # up to 270 steps: observations in float32
    },
    {"layout": CUSTOM, **VECTOR, "num_pots": 3, "params_to_overwrite": {"cook_time": 3}},
]
"""Both dynamics and encodings; ``benchmarks/agreement.py`` compares all layouts."""

needs_package = pytest.mark.skipif(find_spec("overcooked_ai_py") is None, reason="overcooked_ai is not installed")
"""Not ``importorskip``: only ``reference`` can import the package without ``gym``."""


@needs_package
@pytest.mark.parametrize("parameters", PARITY, ids=lambda given: "-".join(str(value)[:12] for value in given.values()))
def test_episodes_are_those_of_overcooked_ai(parameters):
    env = Overcooked(horizon=130, shaping_coefficient=0.5, **parameters)
    found = wd.testing.check_parity(env, episodes=4, steps=500, seed=4)
    assert found
    assert found.steps >= 500 and found.largest <= 1e-6 and not found.doubtful
    assert {
        "position",
        "held",
        "objects",
        "pot_recipe",
        "pot_tick",
        "sparse_rewards",
        "rewards",
        "observations",
    } <= set(found.arrays)


@needs_package
@pytest.mark.parametrize("layout", [*LAYOUTS, CUSTOM])
def test_distances_are_those_of_the_planner(layout):
    env = Overcooked(layout, **VECTOR)
    found, of_grid = kitchen.distances(env.kitchen), reference.original(env)
    planner, directions = (
        reference._Planner(of_grid).motion_planner,
        of_grid.get_valid_player_positions_and_orientations(),
    )
    used = [cell for cell in range(env.num_cells) if env.terrain[cell] not in (kitchen.FREE, kitchen.COUNTER)]
    for i, ((x, y), direction) in enumerate(directions):
        for cell in used:
            cost = planner.min_cost_to_feature(((x, y), direction), [(cell % env.width, cell // env.width)])
            assert found[y * env.width + x, i % 4, cell] + 1 == cost


def put(replicas, **state):
    for name, value in state.items():
        replicas.wrapper.ctx[name][0] = torch.as_tensor(np.asarray(value))


def cell(y, x, width=5):
    return y * width + x


@pytest.mark.parametrize(
    ("starts", "actions", "after"),
    [
        ([(1, 1), (2, 3)], [EAST, WEST], [(1, 2), (2, 2)]),
        ([(1, 1), (1, 2)], [EAST, WEST], [(1, 1), (1, 2)]),  # a swap
        ([(1, 1), (1, 3)], [EAST, WEST], [(1, 1), (1, 3)]),  # the same cell
        ([(1, 1), (1, 2)], [EAST, EAST], [(1, 2), (1, 3)]),  # a queue
        ([(1, 1), (1, 2)], [EAST, INTERACT], [(1, 1), (1, 2)]),  # one stays
        ([(1, 1), (1, 2)], [WEST, NORTH], [(1, 1), (1, 2)]),  # equipment is in the way
    ],
)
def test_moves_by_hand(replicas_of, starts, actions, after):
    replicas = replicas_of(Overcooked())
    put(replicas, position=[cell(*start) for start in starts])
    outcome = replicas.step([actions])[0]
    assert outcome.after["position"].tolist() == [cell(*place) for place in after]
    assert outcome.after["facing"].tolist() == [action if action < STAY else NORTH for action in actions]


def test_a_collision_of_two_stops_all(replicas_of):
    replicas = replicas_of(Overcooked(**PARITY[-1]))
    put(replicas, position=[cell(1, 1, 7), cell(1, 2, 7), cell(5, 1, 7), cell(5, 4, 7)])
    outcome = replicas.step([[EAST, WEST, EAST, STAY]])[0]
    np.testing.assert_array_equal(outcome.after["position"], outcome.before["position"])


def test_observations_follow_a_timestep_that_a_user_writes(replicas_of):
    replicas = replicas_of(Overcooked())  # of 400 steps, the last 40 of which are urgent
    urgent = []
    for timestep in (10, 390, 10, 359, 360):
        replicas.wrapper.ctx["timestep"].fill_(timestep)
        urgent.append(replicas.step([[STAY, STAY]])[0].observations[..., -1])
    np.testing.assert_array_equal([layer.min() for layer in urgent], [0, 1, 0, 0, 1])
    np.testing.assert_array_equal([layer.max() for layer in urgent], [0, 1, 0, 0, 1])


@pytest.mark.parametrize("old", [False, True])
def test_a_soup_from_the_pot_to_the_serving_area(replicas_of, old):
    """The pot is north of (1, 2), onions west of (1, 1), dishes south of (2, 1), the serving area south of (2, 3)."""
    replicas = replicas_of(Overcooked(old_dynamics=old))
    put(replicas, position=[cell(1, 2), cell(2, 1)], facing=[NORTH, SOUTH], held=[ONION, 0], pot_recipe=[2])
    outcome = replicas.step([[INTERACT, INTERACT]])[0]  # the third onion, and a useful dish
    assert outcome.rewards.tolist() == [3, 3] and outcome.after["held"].tolist() == [0, DISH]
    assert outcome.after["pot_recipe"].tolist() == [3] and outcome.after["pot_tick"].tolist() == [1 if old else -1]
    outcome = replicas.step([[INTERACT, STAY]])[0]  # starts the pot with the new dynamics
    assert outcome.after["pot_tick"].tolist() == [2 if old else 1]
    put(replicas, pot_tick=[19], held=[DISH, 0])
    assert replicas.step([[INTERACT, STAY]])[0].rewards.tolist() == [0, 0]  # too early by one step
    outcome = replicas.step([[INTERACT, STAY]])[0]
    assert outcome.rewards.tolist() == [5, 0] and outcome.after["held"].tolist() == [SOUP + 3, 0]
    assert outcome.after["pot_recipe"].tolist() == [0] and outcome.after["pot_tick"].tolist() == [-1]
    put(replicas, position=[cell(2, 3), cell(2, 1)], facing=[SOUTH, SOUTH])
    outcome = replicas.step([[INTERACT, STAY]])[0]
    assert outcome.rewards.tolist() == [20, 20] and outcome.after["sparse_rewards"].tolist() == [20, 0]


def test_values_and_times_of_recipes():
    mixed = Overcooked("counter_circuit")
    both = kitchen.number(1, 1)
    assert mixed.recipe_value[both] == 2 * (21 + 13) and mixed.recipe_time[both] == 15 + 7  # a bonus order
    assert mixed.recipe_value[kitchen.number(1, 2)] == 21 + 26 and mixed.recipe_value[kitchen.number(3, 0)] == 0
    orders = [{"ingredients": ["onion"] * 3}, {"ingredients": ["tomato"]}]
    each = {"recipe_values": [20, 15], "recipe_times": [5, 7], "start_bonus_orders": orders[1:], "order_bonus": 3}
    env = Overcooked(str({"grid": "XXPXX\n  T1 2O\n  XDXSX", "start_all_orders": orders, **each}))
    assert env.recipe_value[[3, 4]].tolist() == [20, 45] and env.recipe_time[[3, 4, 1]].tolist() == [5, 7, 20]
    assert (Overcooked(params_to_overwrite={"delivery_reward": 7, "start_all_orders": []}).recipe_value > 0).sum() == 9


def test_orders_do_not_overlap_in_pictures():
    """A kitchen of 5 columns with all nine orders. Digits are at most 0.7 of their height wide."""
    env = Overcooked(params_to_overwrite={"start_all_orders": []})
    scene = env.scenery({})
    ends_of_values = [text.x + 0.7 * text.size for text in scene.texts if text.text == "20"]
    tops = [thing.points for thing in scene.polygons if thing.edge == wd.draw.GREY and thing.points[:, 1].max() > 4]
    plates = [(points[:, 0].min(), points[:, 0].max()) for points in tops]
    assert len(plates) == len(ends_of_values) == 9
    lefts = [left for left, _ in plates[1:]] + [env.view[1]]
    assert all(right < end < left for (_, right), end, left in zip(plates, ends_of_values, lefts, strict=True))


RANDOM = {"random_start_positions": True, "random_objects": 0.5}
"""Parameters of two tests, so that they are compiled once."""


def test_start_cells_are_uniform():
    """Chi-square of 30 ordered pairs of 6 cells: above 65 with a probability of 1.4e-4 (29 degrees of freedom)."""
    wrapper = wd.EnvWrapper(Overcooked(**RANDOM), 6000, "cpu", seed=1)
    wrapper.reset()
    found = wrapper.ctx["position"].numpy()
    counts = [(found == pair).all(1).sum() for pair in itertools.permutations(wrapper.env.free_cells.tolist(), 2)]
    assert sum(counts) == 6000 and sum((np.array(counts) - 200) ** 2) / 200 < 65


def test_random_objects_have_the_probabilities_of_the_package():
    """5 standard errors of 8,000 pots and 16,000 hands: fails once in 100,000 runs."""
    wrapper = wd.EnvWrapper(Overcooked(**RANDOM), 8000, "cpu", seed=2)
    wrapper.reset()
    recipe, tick, held = (wrapper.ctx[name].numpy().ravel() for name in ("pot_recipe", "pot_tick", "held"))
    shares = [
        (recipe > 0, 0.5), (tick == 0, 0.25), (recipe == 3, 0.5 / 3), (recipe == 1 + 4 * 2, 0.5 / 9),
        (recipe == 2, 0.5 / 6), (held == ONION, 0.3), (held == DISH, 0.1), (held >= SOUP, 0.1), (held == TOMATO, 0),
    ]  # fmt: skip
    for found, expected in shares:
        assert abs(found.mean() - expected) <= 5 * np.sqrt(expected * (1 - expected) / len(found))


def test_shaping_can_be_annealed():
    wrapper = wd.EnvWrapper(Overcooked(), 2, "cpu")
    wrapper.reset()
    wrapper.ctx["shaping_coefficient"][1] = 0.25
    wrapper.ctx["held"][:] = torch.tensor([ONION, 0], dtype=torch.int32)
    wrapper.ctx["position"][:] = torch.tensor([cell(1, 2), cell(2, 3)], dtype=torch.int32)
    rewards = wrapper.step(torch.tensor([[INTERACT, STAY]] * 2, dtype=torch.int32))[1]
    assert rewards.tolist() == [[3, 0], [0.75, 0]] and wrapper.ctx["shaped_rewards"].tolist() == [[3, 0]] * 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"layout": "cramped"}, "layout is 'cramped', expected one of cramped_room"),
        ({"layout": "XXP\nX1 X"}, "grid has 4 cells in row 1, but 3 in row 0"),
        ({"layout": "XXPX\nO12D\nXX?X"}, "grid has '?' in row 2, column 2"),
        ({"layout": "XX X\nO12D\nXPSX"}, "grid has a free cell in row 0, column 2, but its border must not be free"),
        ({"layout": "XXPX\nO1 D\nXXSX"}, "grid has the players ['1'], expected at least two: 1, 2"),
        ({"layout": "XXPX\nO12D\nXXXX"}, "grid has no S"),
        ({"layout": "{'grid': 1}"}, "grid is 1, but it must be the text"),
        (
            {"layout": "{'grid': 'X',\n 'order_bonus': float('inf')}"},
            "the expression float('inf') in line 2, expected its",
        ),
        ({"layout": "{'cook_time': 4 * 5}"}, "layout has the expression 4 * 5 in line 1, expected its value"),
        ({"layout": "{'cook_time': ~5, [1]: 2}"}, "layout is a text with braces, but no dictionary"),
        ({"layout": "{1"}, "layout is a text with braces, but no dictionary"),
        ({"params_to_overwrite": {"cook_tim": 1}}, "layout has the key 'cook_tim', expected one of"),
        ({"layout": f"{'P' * 257}\n{'O12D'.ljust(256)}S\n{'X' * 257}"}, "grid has 257 pots, but it can have 256"),
        ({"params_to_overwrite": {"start_all_orders": 3}}, "start_all_orders is 3, but it must be a list of orders"),
        ({"params_to_overwrite": {"start_all_orders": [["onion"]]}}, "start_all_orders has ['onion'], expected"),
        (
            {"params_to_overwrite": {"start_all_orders": [{"ingredients": [["onion"]]}]}},
            "start_all_orders has {'ingredients': [['onion']]}, expected",
        ),
        ({"params_to_overwrite": {"onion_value": 1}}, "layout has onion_value, expected one of delivery_reward"),
        ({"params_to_overwrite": {"tomato_value": 1}}, "layout has tomato_value, expected one of delivery_reward"),
        ({"params_to_overwrite": {"onion_time": 2**31 - 1, "tomato_time": 0}}, "onion_time is 2147483647, but it must"),
        ({"params_to_overwrite": {"rew_shaping_params": {1: 2, "a": 3}}}, "rew_shaping_params has the keys [1, 'a']"),
        ({"params_to_overwrite": {"recipe_times": [1, 2]}}, "recipe_times is [1, 2], expected a list with one number"),
        (
            {"layout": "counter_circuit", "old_dynamics": True},
            "old_dynamics is True, but there are orders of less than 3",
        ),
        (
            {"params_to_overwrite": {"start_all_orders": [{"ingredients": [np.array(["onion", "onion"])]}]}},
            "start_all_orders has {'ingredients': [array(",
        ),
        ({"encoding": np.array(["pixels", "state"])}, "encoding is array(['pixels', 'state']"),
        ({"encoding": "pixels"}, "encoding is 'pixels', expected one of lossless_state_encoding, featurize_state"),
        ({"random_objects": 2}, "random_objects is 2, but it must be a finite number from 0 to 1."),
        ({"params_to_overwrite": {"num_items_for_soup": 4}}, "num_items_for_soup is 4, but it must be 3."),
        ({"params_to_overwrite": {"start_state": {}}}, "num_items_for_soup. Start states are not supported"),
        ({"params_to_overwrite": {"old_dynamics": True}}, "num_items_for_soup. It is a parameter of the environment."),
        ({"params_to_overwrite": {"rew_shaping_params": {}}}, "rew_shaping_params has the keys [], expected"),
    ],
)
def test_invalid_parameters(parameters, message):
    with pytest.raises(DefinitionError, match=re.escape(message)):
        Overcooked(**parameters)
