"""``connect_four``, compared with PettingZoo, with a reference in NumPy and with games by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import warpdrive as wd
from warpdrive.envs.connect_four import ConnectFour
from warpdrive.errors import DefinitionError
from warpdrive.testing import check_parity

RED, YELLOW = 0, 1


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({}, marks=pytest.mark.exhaustive),
        {"rows": 4, "columns": 9, "connect": 3, "starts": "yellow"},
        pytest.param({"rows": 3, "columns": 3, "connect": 3}, marks=pytest.mark.exhaustive),
    ],
)
def test_games_are_those_of_the_reference(parameters, python_backend):
    found = check_parity(ConnectFour(**parameters), episodes=50, steps=2000, seed=3, backend=python_backend)
    assert found and found.steps >= 2000
    assert {"discs", "active", "rewards", "terminated", "observations", "action_mask"} <= set(found.arrays)


def test_games_are_those_of_pettingzoo():
    """300 games of random moves, side by side: boards, masks, rewards and ends."""
    pytest.importorskip("pettingzoo")
    connect_four_v3 = pytest.importorskip("pettingzoo.classic.connect_four_v3", reason="needs pygame")
    other, rng = connect_four_v3.raw_env(), np.random.default_rng(5)
    replicas = wd.EnvWrapper(ConnectFour(starts="red"), 1, "cpu")
    winners = {1: 0, 0: 0, -1: 0}
    for _ in range(300):
        other.reset()
        replicas.reset()
        over = False
        while not over:
            name = other.agent_selection
            player = other.possible_agents.index(name)
            seen = other.observe(name)
            assert replicas.ctx["active"][0].tolist() == [player == RED, player == YELLOW]
            observations = replicas.ctx["observations"][0, player].numpy()
            np.testing.assert_array_equal(observations, np.moveaxis(seen["observation"], 2, 0))
            np.testing.assert_array_equal(replicas.ctx["action_mask"][0, player].numpy(), seen["action_mask"])
            action = int(rng.choice(np.flatnonzero(seen["action_mask"])))
            other.step(action)
            _, rewards, terminated, truncated, _ = replicas.step(torch.full((1, 2), action, dtype=torch.int32))
            over = any(other.terminations.values())
            assert bool(terminated[0]) == over and not truncated.any()
            assert rewards[0].tolist() == [other.rewards[each] for each in other.possible_agents]
        winners[int(rewards[0, RED])] += 1
    assert min(winners[1], winners[-1]) > 50


def played(replicas, columns):
    """Play the columns in turns, and return the last outcome."""
    for column in columns:
        (outcome,) = replicas.step([[column, column]])
    return outcome


def test_a_full_board_that_a_user_has_written_is_a_draw(replicas_of):
    """The step counter of the episode does not matter."""
    replicas = replicas_of(ConnectFour(starts="red"))
    row, column = np.indices((6, 7))
    pairs = (column + 2 * (row % 2)) // 2 % 2  # no more than two in a line
    discs = np.stack([pairs, 1 - pairs]).astype(np.uint8)
    discs[:, :2, 6] = 0
    ctx = replicas.wrapper.ctx
    ctx["discs"][0] = torch.from_numpy(discs)
    ctx["height"][0] = torch.tensor([6, 6, 6, 6, 6, 6, 4], dtype=torch.uint8)
    assert not played(replicas, [6]).done
    outcome = played(replicas, [6])
    assert outcome.terminated and outcome.rewards.tolist() == [0, 0]


@pytest.mark.parametrize(
    "columns",
    [
        [0, 0, 1, 1, 2, 2, 3],  # a row
        [6, 0, 6, 1, 6, 2, 6],  # a column
        [0, 1, 1, 2, 2, 3, 2, 3, 3, 6, 3],  # a diagonal that rises
        [6, 5, 5, 4, 4, 3, 4, 3, 3, 0, 3],  # a diagonal that falls
        [0, 0, 1, 1, 3, 3, 2],  # the last disc is within the row
    ],
)
def test_wins_by_hand(replicas_of, columns):
    replicas = replicas_of(ConnectFour(starts="red"))
    outcome = played(replicas, columns[:-1])
    assert not outcome.done and outcome.rewards.tolist() == [0, 0]
    assert outcome.after["active"].tolist() == [True, False]
    outcome = played(replicas, columns[-1:])
    assert outcome.terminated and outcome.rewards.tolist() == [1, -1]
    assert outcome.observations[RED, 0].sum() == outcome.observations[YELLOW, 1].sum() == (len(columns) + 1) // 2
    assert not replicas.state()["discs"].any()  # a new game


def test_a_full_board_is_a_draw(replicas_of):
    replicas = replicas_of(ConnectFour(rows=2, columns=3, connect=3, starts="yellow"))
    outcome = played(replicas, [0, 0, 1, 1, 2])
    assert outcome.terminated and outcome.rewards.tolist() == [-1, 1]
    outcome = played(replicas, [0, 1, 0, 1, 2, 2])
    assert outcome.terminated and not outcome.truncated and outcome.rewards.tolist() == [0, 0]


def test_a_move_into_a_full_column_loses(replicas_of):
    replicas = replicas_of(ConnectFour(starts="red"))
    outcome = played(replicas, [3] * 6)
    assert not outcome.done
    assert outcome.after["action_mask"].tolist() == [[True] * 3 + [False] + [True] * 3] * 2
    outcome = played(replicas, [3])
    assert outcome.terminated and outcome.rewards.tolist() == [-1, 1]


def test_each_player_begins_half_of_the_games():
    """Of 4,000 replicas; a binomial count is 160 off with a probability of 4e-7."""
    replicas = wd.EnvWrapper(ConnectFour(), 4000, "cpu", seed=2)
    replicas.reset()
    active = replicas.ctx["active"]
    assert (active.sum(1) == 1).all() and abs(int(active[:, RED].sum()) - 2000) < 160


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rows": 0}, "rows is 0, but it must be "),
        ({"columns": 2.5}, "columns is 2.5, but it must be "),
        ({"rows": 1, "columns": 1}, "columns is 1, but it must be a whole number from 2"),
        ({"connect": 8}, "connect is 8, but it must be "),
        ({"connect": 1}, "connect is 1, but it must be "),
        ({"starts": np.array(["red", "red"])}, r"starts is array\(\['red', 'red'\]"),
        ({"starts": "blue"}, "starts is 'blue', expected one of random, red, yellow"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(DefinitionError, match=message):
        ConnectFour(**parameters)
