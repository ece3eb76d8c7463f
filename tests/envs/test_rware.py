"""``rware``, compared with the class of the package ``rware`` and with results by hand."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from environment_parameters import WAREHOUSE
from exhaustive import exhaustive

import warpdrive as wd
from warpdrive.envs.rware import MultiRobotWarehouse, reference
from warpdrive.errors import DefinitionError

gymnasium = pytest.importorskip("gymnasium")
rware = pytest.importorskip("rware")

NONE, FORWARD, LEFT, RIGHT, TOGGLE = range(5)
UP, DOWN, WEST, EAST = range(4)
SQUARE = "......\n.xx.x.\n.xx.x.\n.x..x.\n......\n.gg..g"
REGISTERED = ["rware-tiny-2ag-v2", "rware-tiny-4ag-v2", "rware-small-4ag-v2", "rware-tiny-6ag-hard-v2"]
OTHERS: dict[str, dict[str, Any]] = {
    "messages": {
        "n_agents": 5,
        "request_queue_size": 9,
        "msg_bits": 3,
        "reward_type": "global",
        "sensor_range": 2,
        "normalised_coordinates": True,
    },
    "dict": {"n_agents": 5, "msg_bits": 2, "observation_type": "dict", "normalised_coordinates": True},
    "image_dict": {
        "n_agents": 5,
        "observation_type": "image_dict",
        "image_observation_directional": False,
        "sensor_range": 2,
        "msg_bits": 1,
    },
    "all_layers": {
        "n_agents": 9,
        "observation_type": "image",
        "layout": SQUARE,
        "image_observation_layers": ["agent_direction", "agent_load", "shelves", "accessible"],
        "sensor_range": 2,
        "max_steps": 50,
    },
}
STEPS = 500
PARAMETERS = {**{name: dict(gymnasium.spec(name).kwargs) for name in REGISTERED}, **OTHERS}


@pytest.mark.parametrize("name", exhaustive(["rware-tiny-4ag-v2", "messages", "image_dict"], ("image_dict",)))
def test_episodes_are_those_of_rware(name):
    """Nothing but the start state is shared: whole episodes are played by both."""
    found = wd.testing.check_parity(wd.make("rware", **PARAMETERS[name]), episodes=0, steps=STEPS, seed=4, replicas=5)
    assert found
    assert found.steps >= STEPS
    assert {"loc_y", "carried", "requested", "cells", "rewards", "terminated"} <= set(found.arrays)


def random_state(env, rng):
    """Return a state with robots anywhere, some of which carry a shelf."""
    cells = env.rows * env.columns
    y, x = np.divmod(rng.choice(cells, env.num_agents, replace=False), env.columns)
    state = {**env.initial_state(rng), "loc_y": y, "loc_x": x, "heading": rng.integers(0, 4, env.num_agents)}
    shelf_y, shelf_x = env.home_y.copy(), env.home_x.copy()
    carried = np.full(env.num_agents, -1)
    for robot in np.flatnonzero(rng.random(env.num_agents) < 0.6):
        standing = np.setdiff1d(np.arange(env.num_shelves), carried)
        here = [shelf for shelf in standing if (shelf_y[shelf], shelf_x[shelf]) == (y[robot], x[robot])]
        if len(standing):
            carried[robot] = shelf = rng.choice(here or standing)
            shelf_y[shelf], shelf_x[shelf] = y[robot], x[robot]
    requested = np.zeros(env.num_shelves, bool)
    requested[rng.choice(env.num_shelves, env.request_queue_size, replace=False)] = True
    state |= {"carried": carried, "shelf_y": shelf_y, "shelf_x": shelf_x, "requested": requested}
    state |= {"has_delivered": (carried >= 0) & (rng.random(env.num_agents) < 0.5), "inactive_steps": 3}
    return {**state, "cells": reference.cells(env, state)}


CROWDS: dict[str, dict[str, Any]] = {
    "crowded": {"n_agents": 26, "request_queue_size": 7, "layout": SQUARE, "reward_type": "global"},
    "goals": {"n_agents": 8, "request_queue_size": 1, "layout": "ggx\nxgg\n.g.\nggx", "sensor_range": 0},
}


@pytest.mark.parametrize("name", exhaustive(CROWDS, ("crowded",)))
def test_random_states_agree(name):
    """Queues, contested cells, circles, swaps and deliveries, one after the other, from any state."""
    env = MultiRobotWarehouse(**CROWDS[name])
    number, rng = 150, np.random.default_rng(1)
    wrapper = wd.EnvWrapper(env, number, "cpu", seed=2)
    wrapper.reset()
    other = reference.Original(env)
    states = [random_state(env, rng) for _ in range(number)]
    for key in states[0]:
        values = np.array([state[key] for state in states])
        wrapper.ctx[key][:] = torch.from_numpy(values).to(wrapper.ctx[key].dtype)
    before = [{key: np.array(value) for key, value in wrapper.state(e).items()} for e in range(number)]
    rngs = wrapper.ctx["rng"].numpy().copy()
    actions = rng.choice(5, (number, env.num_agents), p=[0.05, 0.75, 0.05, 0.05, 0.1]).astype(np.int32)
    seen, rewards, *_ = wrapper.step(torch.from_numpy(actions))
    contested = 0
    for e in range(number):
        other.set_state({**before[e], "rng": rngs[e]})
        expected = other.step(actions[e])
        after = wrapper.state(e)
        for key, value in other.state().items():
            np.testing.assert_array_equal(np.asarray(after[key]), value, err_msg=f"{key} of replica {e}")
        np.testing.assert_array_equal(rewards[e].numpy(), expected["rewards"])
        np.testing.assert_array_equal(seen[e].numpy(), other.observations()["observations"])
        contested += (actions[e] == FORWARD).sum() - (np.asarray(after["loc_x"]) != before[e]["loc_x"]).sum()
    assert contested > 0 and (rewards > 0).any()


@pytest.mark.parametrize("name", REGISTERED)
def test_spaces_are_those_of_rware(name):
    other, env = gymnasium.make(name).unwrapped, MultiRobotWarehouse(**PARAMETERS[name])
    assert other.observation_space[0] == env.observation_space and other.action_space[0] == env.action_space
    assert other.max_steps == env.episode_length and other.n_agents == env.num_agents
    assert (other.highways == env.highways).all() and other.grid_size == (env.rows, env.columns)
    assert sorted(other.goals) == sorted(zip(env.goal_x.tolist(), env.goal_y.tolist(), strict=True))


def test_every_registered_id_can_be_made():
    """Except those that request more shelves than there are, which fail there as well when an episode begins."""
    rware.image_registration()
    names = [name for name in gymnasium.registry if name.startswith("rware")]
    failed = [name for name in names if not is_made(gymnasium.spec(name).kwargs)]
    assert len(names) > 200
    assert {re.sub("-img(dict)?|-Nd", "", name) for name in failed} == {
        f"rware-tiny-{n}ag-easy-v2" for n in range(17, 20)
    }


def is_made(parameters):
    try:
        return bool(MultiRobotWarehouse(**parameters))
    except DefinitionError as error:
        assert "request_queue_size" in str(error)
        return False


def test_images_and_messages_have_the_spaces_of_rware():
    for name in ("messages", "all_layers"):
        env = MultiRobotWarehouse(**PARAMETERS[name])
        other = reference.original(env)
        assert other.observation_space[0] == env.observation_space and other.action_space[0] == env.action_space


SMALL: dict[str, Any] = {
    "n_agents": 4,
    "request_queue_size": 1,
    "layout": WAREHOUSE,
    "reward_type": "two_stage",
    "max_inactivity_steps": 6,
    "max_steps": 8,
}
"""One size for all that is worked out by hand, so that it is compiled once."""


ASIDE = (3, 4, DOWN)
"""Place of the fourth robot, where it is in nobody's way."""


def put(replicas, robots, carried=(-1, -1, -1, -1), requested=0):
    """Put robots (y, x, heading) into the warehouse, with the shelves that they carry."""
    env, ctx = replicas.env, replicas.wrapper.ctx
    y, x, heading = np.transpose(robots)
    state = {**env.initial_state(np.random.default_rng(0)), "loc_y": y, "loc_x": x, "heading": heading}
    state["carried"] = np.array(carried)
    state["shelf_y"], state["shelf_x"] = env.home_y.copy(), env.home_x.copy()
    for robot, shelf in enumerate(carried):
        if shelf >= 0:
            state["shelf_y"][shelf], state["shelf_x"][shelf] = y[robot], x[robot]
    state["requested"] = np.arange(env.num_shelves) == requested
    for key, value in {**state, "cells": reference.cells(env, state)}.items():
        ctx[key][0] = torch.from_numpy(np.asarray(value)).to(ctx[key].dtype)


@pytest.mark.parametrize(
    ("robots", "carried", "moved"),
    [
        ([(0, 0, UP), (3, 5, EAST), (3, 0, DOWN)], (-1, -1, -1), [0, 0, 0]),  # the border
        ([(0, 0, EAST), (0, 1, EAST), (0, 2, EAST)], (-1, -1, -1), [1, 1, 1]),  # a queue
        ([(0, 0, EAST), (0, 1, EAST), (0, 2, UP)], (-1, -1, -1), [0, 0, 0]),  # it is blocked
        ([(0, 0, EAST), (0, 1, WEST), (0, 2, WEST)], (-1, -1, -1), [0, 0, 0]),  # a swap, and one behind
        ([(0, 1, EAST), (0, 3, WEST), (0, 4, WEST)], (-1, -1, -1), [0, 1, 1]),  # the longer queue moves
        ([(0, 1, EAST), (0, 3, WEST), (3, 5, DOWN)], (-1, -1, -1), [1, 0, 0]),  # as long: the first edge
        ([(0, 3, WEST), (0, 1, EAST), (3, 5, DOWN)], (-1, -1, -1), [1, 0, 0]),
        ([(0, 1, DOWN), (0, 3, DOWN), (3, 5, DOWN)], (-1, -1, -1), [1, 1, 0]),  # below shelves
        ([(0, 1, DOWN), (1, 0, EAST), (1, 3, EAST)], (0, 3, -1), [1, 0, 1]),  # 0 stood there, others stand
        ([(0, 2, DOWN), (1, 0, EAST), (1, 3, EAST)], (3, 0, 2), [0, 1, 1]),
    ],
)
def test_moves_by_hand(replicas_of, robots, carried, moved):
    replicas = replicas_of(MultiRobotWarehouse(**SMALL))
    put(replicas, [*robots, ASIDE], (*carried, -1))
    outcome = replicas.step([[FORWARD] * 3 + [NONE]])[0]
    places = zip(outcome.after["loc_y"].tolist(), outcome.after["loc_x"].tolist(), strict=True)
    assert [int(place != robot[:2]) for place, robot in zip(places, [*robots, ASIDE], strict=True)] == [*moved, 0]


def test_a_circle_turns(replicas_of):
    replicas = replicas_of(MultiRobotWarehouse(**SMALL))
    put(replicas, [(0, 0, EAST), (0, 1, DOWN), (1, 1, WEST), (1, 0, UP)], (-1, 1, 2, -1))
    outcome = replicas.step([[FORWARD] * 4])[0]
    assert outcome.after["loc_y"].tolist() == [0, 1, 1, 0] and outcome.after["loc_x"].tolist() == [1, 1, 0, 0]


def test_a_delivery_by_hand(replicas_of):
    """A requested shelf is lifted, delivered, another one is requested, and it is brought back."""
    env = MultiRobotWarehouse(**SMALL)
    replicas = replicas_of(env)
    put(replicas, [(2, 1, DOWN), (0, 0, UP), (0, 5, UP), ASIDE], requested=3)  # below shelf 3, above a goal
    moves = [TOGGLE, FORWARD, LEFT, LEFT, FORWARD, TOGGLE]
    outcomes = [replicas.step([[move, NONE, NONE, NONE]])[0] for move in moves]
    assert [outcome.rewards.tolist() for outcome in outcomes] == [[r, 0, 0, 0] for r in (0, 0.5, 0, 0, 0, 0.5)]
    assert [outcome.after["carried"][0] for outcome in outcomes] == [3, 3, 3, 3, 3, -1]
    assert not outcomes[1].after["requested"][3] and outcomes[1].after["requested"].sum() == 1
    assert outcomes[-1].after["inactive_steps"] == 4


def test_the_time_without_deliveries_ends_an_episode(replicas_of):
    replicas = replicas_of(MultiRobotWarehouse(**SMALL))
    put(replicas, [(0, 0, UP), (0, 1, UP), (0, 2, UP), ASIDE])
    ends = [replicas.step([[NONE] * 4])[0] for _ in range(6)]
    assert [(end.terminated, end.truncated) for end in ends] == [(False, False)] * 5 + [(True, False)]
    put(replicas, [(2, 1, DOWN), (0, 1, UP), (0, 2, UP), ASIDE], (3, -1, -1, -1), requested=3)
    ends = [replicas.step([[move, NONE, NONE, NONE]])[0] for move in (NONE, NONE, FORWARD, *[NONE] * 5)]
    assert [(end.terminated, end.truncated) for end in ends] == [(False, False)] * 7 + [(False, True)]


STARTS = 4000


def test_start_states_are_uniform():
    """Cells, headings and requests are as frequent as each other.

    Within 5 standard errors of a frequency; about 120 are compared: fails once in 10,000 seeds, and the seed is fixed.
    """
    env = MultiRobotWarehouse(**PARAMETERS["rware-tiny-4ag-v2"])
    wrapper = wd.EnvWrapper(env, STARTS, "cpu", seed=7)
    y, x, heading = (wrapper.ctx[name].numpy() for name in ("loc_y", "loc_x", "heading"))
    cells = y * env.columns + x
    assert all(len(set(row)) == 4 for row in cells)
    assert (wrapper.ctx["requested"].sum(1) == 4).all()
    for values, number in ((cells, env.rows * env.columns), (heading, 4)):
        p = 1 / number
        allowed = 5 * np.sqrt(p * (1 - p) / values.size)
        assert (np.abs(np.bincount(values.ravel(), minlength=number) / values.size - p) < allowed).all()
    p = 4 / env.num_shelves
    assert (np.abs(wrapper.ctx["requested"].float().mean(0).numpy() - p) < 5 * np.sqrt(p * (1 - p) / STARTS)).all()
    for e in range(20):
        state = {name: np.array(value) for name, value in wrapper.state(e).items()}
        np.testing.assert_array_equal(state["cells"], reference.cells(env, state))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n_agents": 0}, "n_agents is 0"),
        ({"n_agents": 111}, "n_agents is 111"),
        ({"shelf_columns": 2}, "shelf_columns is 2, expected an odd number"),
        ({"shelf_columns": 1}, "there is no shelf"),
        ({"column_height": 0}, "column_height is 0"),
        ({"shelf_rows": 0}, "shelf_rows is 0"),
        ({"msg_bits": -1}, "msg_bits is -1"),
        ({"sensor_range": -1}, "sensor_range is -1"),
        ({"request_queue_size": 33}, "request_queue_size is 33, but it must be a whole number from 0 to 32"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"max_inactivity_steps": 0}, "max_inactivity_steps is 0"),
        ({"reward_type": "team"}, "reward_type is 'team', expected one of global, individual, two_stage"),
        ({"observation_type": 1}, "observation_type is 1, expected one of dict, flattened, image, image_dict"),
        ({"image_observation_layers": ["walls"]}, "image_observation_layers is 'walls'"),
        ({"image_observation_layers": "goals"}, "it must be a list"),
        ({"image_observation_directional": 1}, "image_observation_directional is 1"),
        ({"normalised_coordinates": 0}, "normalised_coordinates is 0"),
        ({"layout": "xg\nx"}, "layout has 1 cells in line 2, but 2 in line 1"),
        ({"layout": "xg\n?."}, "layout has '?' in line 2"),
        ({"layout": "x."}, "layout has no goal"),
        ({"layout": "g."}, "layout has no shelf"),
        ({"layout": 3}, "layout is 3"),
        ({"layout": ""}, "layout has no goal"),
        ({"layout": np.array(["xg", "xg"])}, "layout is array(['xg', 'xg']"),
        ({"layout": "xg", "n_agents": 1, "request_queue_size": 1, "normalised_coordinates": True}, "1 x 2 cells"),
    ],
)
def test_wrong_parameters(wrong, said):
    with pytest.raises(DefinitionError, match=re.escape(said)):
        MultiRobotWarehouse(**wrong)
