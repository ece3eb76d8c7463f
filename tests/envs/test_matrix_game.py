"""``matrix_game``, compared with tables by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import warpdrive as wd
from warpdrive.envs.matrix_game import MatrixGame
from warpdrive.errors import DefinitionError
from warpdrive.testing import check_parity

THREE = np.arange(24.0).reshape(2, 3, 4) - 7
EACH = np.stack([THREE, -THREE, THREE**2])


def rewards_of(env: MatrixGame) -> np.ndarray:
    """Return the rewards ``[outcomes, num_agents]`` of all joint actions in their order."""
    joint = list(itertools.product(*map(range, env.num_actions)))
    wrapper = wd.EnvWrapper(env, len(joint), "cpu")
    wrapper.reset()
    return wrapper.step(torch.tensor(joint, dtype=torch.int32))[1].numpy()


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, [11, -30, 0, -30, 7, 0, 0, 6, 5]),
        ({"payoff": "penalty"}, [-100, 0, 10, 0, 2, 0, 10, 0, -100]),
        ({"payoff": "penalty", "penalty": -25}, [-25, 0, 10, 0, 2, 0, 10, 0, -25]),
        ({"payoff": [[1, 2, 3]]}, [1, 2, 3]),
    ],
)
def test_payoffs_are_those_of_the_table(parameters, expected):
    np.testing.assert_array_equal(rewards_of(MatrixGame(**parameters)), np.repeat(np.array(expected)[:, None], 2, 1))


@pytest.mark.exhaustive
def test_payoffs_of_three_agents():
    np.testing.assert_array_equal(rewards_of(MatrixGame(payoff=THREE)), np.stack([THREE.ravel()] * 3, 1))
    different = rewards_of(MatrixGame(payoff=EACH.tolist(), common_payoff=False))
    np.testing.assert_array_equal(different, EACH.reshape(3, -1).T)
    climbing = rewards_of(MatrixGame(payoff="climbing-3p"))[:, 0].reshape(3, 3, 3)
    assert climbing[0, 0, 0] == 11 and climbing[1, 1, 1] == 7 and climbing[2, 2, 1] == 6


@pytest.mark.parametrize("observed", [False, True])
def test_episodes_agree_with_the_reference(observed, python_backend):
    env = MatrixGame(payoff=THREE, observe_actions=observed, episode_length=7)
    found = check_parity(env, episodes=10, steps=1000, seed=3, backend=python_backend)
    assert found and found.steps >= 1000 and {"rewards", "observations", "last_action"} <= set(found.arrays)


def test_observations_and_ends_by_hand():
    wrapper = wd.EnvWrapper(MatrixGame(payoff=[[1, 2, 3], [4, 5, 6]], observe_actions=True, episode_length=2), 1, "cpu")
    assert not wrapper.reset().any()
    seen, rewards, terminated, truncated, _ = wrapper.step(torch.tensor([[1, 2]], dtype=torch.int32))
    assert seen[0].tolist() == [[0, 1, 0, 0, 1]] * 2 and rewards[0].tolist() == [6, 6]
    assert not terminated.any() and not truncated.any()
    _, _, terminated, truncated, _ = wrapper.step(torch.tensor([[0, 1]], dtype=torch.int32))
    assert not terminated.any() and truncated.all()
    assert not wrapper.observations("agent").any()
    assert wrapper.ctx["action_mask"][0].tolist() == [[True, True, False], [True, True, True]]
    seen, rewards, *_ = wrapper.step(torch.tensor([[2, 1]], dtype=torch.int32))  # a masked action: the last one
    assert seen[0].tolist() == [[0, 1, 0, 1, 0]] * 2 and rewards[0].tolist() == [5, 5]


def test_spaces():
    env = MatrixGame()
    assert (env.num_agents, env.episode_length, env.action_space.n) == (2, 25, 3)
    assert env.observation_space.shape == (2,) and MatrixGame(observe_actions=True).observation_space.shape == (6,)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"payoff": "climb"}, "payoff is 'climb', expected a table or one of .*climbing"),
        ({"payoff": [1, 2]}, "payoff is .* an axis for each of 2 agents or more"),
        ({"payoff": [[1, 2], [3]]}, "payoff is .* a table of finite numbers"),
        ({"payoff": [[1, np.nan]]}, "payoff is .* a table of finite numbers"),
        ({"payoff": [[1, 1e39]]}, r"payoff is .* a table of finite numbers \(float32\)"),
        ({"payoff": [[]]}, "payoff is .* a table of finite numbers"),
        ({"payoff": None}, "payoff is None, but it must be "),
        ({"payoff": [[1, 2], [3, 4]], "common_payoff": False}, "after the axis of the agent"),
        ({"payoff": EACH[:2], "common_payoff": False}, r"shape \[2, 2, 3, 4\].* length 3"),
        ({"penalty": 1}, "penalty is 1, but it must be "),
        ({"common_payoff": 1}, "common_payoff is 1, but it must be "),
        ({"observe_actions": "no"}, "observe_actions is 'no', but it must be "),
        ({"episode_length": 0}, "episode_length is 0, but it must be "),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(DefinitionError, match=message):
        MatrixGame(**parameters)
