"""PQN: lambda-returns by their definition, masked action values, and the gradient of the loss in float64.

The known answers (``test_known_answers.py``) have rows of PQN, also with time limits and with agents
that leave their episode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from float64 import Parameters, by_differences, gradients_of, parameters_of, perceptron
from gymnasium import spaces

from warpdrive.errors import ConfigError
from warpdrive.training.algorithms.pqn import PQN, PQNConfig, lambda_returns, team_returns
from warpdrive.training.algorithms.task import adam
from warpdrive.training.config.load import load_config
from warpdrive.training.experience.batch import Batch
from warpdrive.training.models.options import PerceptronConfig
from warpdrive.training.models.q_network import QNetwork

Array = npt.NDArray[Any]
OBSERVATIONS, CHOICES, ROWS = spaces.Box(-1, 1, (3,), np.float32), 4, 20


@pytest.fixture
def pqn() -> PQN:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = QNetwork(OBSERVATIONS, CHOICES, PerceptronConfig(hidden=[5, 6]))
    return PQN(PQNConfig(algorithm="pqn"), model, adam(model))


def by_definition(rewards: Array, following: Array, ended: Array, gamma: float, weight: Array) -> Array:
    """Return the mean of n-step returns, each weighted by the probability of continuing up to there and stopping."""
    steps = len(rewards)
    returns = np.zeros(steps)
    for t in range(steps):
        chance, rewarded = 1.0, 0.0
        for k in range(t, steps):
            stops = ended[k] or k == steps - 1
            rewarded += gamma ** (k - t) * rewards[k]
            n_step = rewarded + gamma ** (k - t + 1) * following[k]
            returns[t] += chance * (1.0 if stops else 1.0 - weight[k]) * n_step
            chance *= 0.0 if stops else weight[k]
    return returns


def test_lambda_returns_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    shape = (7, 5)
    rewards, following = rng.normal(size=shape), rng.normal(size=shape)
    ended, weight = rng.random(shape) < 0.25, rng.random(shape)
    found = lambda_returns(
        rewards=torch.from_numpy(rewards),
        next_values=torch.from_numpy(following),
        ended=torch.from_numpy(ended),
        gamma=0.9,
        td_lambda=torch.from_numpy(weight),
    )
    for column in range(shape[1]):
        parts = [array[:, column] for array in (rewards, following, ended)]
        expected = by_definition(parts[0], parts[1], parts[2], 0.9, weight[:, column])
        np.testing.assert_allclose(found[:, column], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("after_leaving", "expected"), [(True, [15, 26, 104, 144, 160]), (False, [15, 26, 32, 64, 160])]
)
def test_a_team_is_paid_until_an_agent_is_back(after_leaving: bool, expected: list[float]) -> None:
    """After steps 2 and 3 no agent is there; an agent is back after step 4, where the value is 256."""
    still = torch.tensor([[True, False], [True, True], [False, False], [False, False], [False, True]])
    found = team_returns(
        rewards=torch.tensor([2.0, 8.0, 32.0, 64.0, 32.0]),
        next_values=torch.tensor([26.0, 36.0, 1e6, 1e6, 256.0]),
        ended=torch.zeros(5, dtype=torch.bool),
        still_active=still,
        gamma=0.5,
        td_lambda=torch.zeros(5),
        returns_after_leaving=after_leaving,
    )
    assert found.tolist() == expected


def test_the_best_of_the_allowed_actions_counts(pqn: PQN) -> None:
    seen = torch.linspace(-1, 1, 3 * ROWS).view(ROWS, 3)
    values = pqn.model(seen).detach()
    allowed = torch.rand(ROWS, CHOICES, generator=torch.Generator().manual_seed(1)) < 0.5
    allowed[:, 0] = True
    torch.testing.assert_close(pqn.best_values(seen, None).detach(), values.amax(-1), rtol=0, atol=0)
    expected = np.where(allowed.numpy(), values.numpy(), -np.inf).max(1)
    np.testing.assert_array_equal(pqn.best_values(seen, allowed).detach().numpy(), expected)


def test_the_gradient_of_the_loss_in_float64(pqn: PQN) -> None:
    generator = torch.Generator().manual_seed(0)
    nothing = torch.zeros(ROWS)
    batch = Batch(
        observations=torch.randn(ROWS, 3, generator=generator),
        actions=torch.randint(CHOICES, (ROWS,), generator=generator, dtype=torch.int32),
        log_probabilities=nothing,
        values=nothing,
        advantages=nothing,
        returns=2 * torch.randn(ROWS, generator=generator),
        weight=(torch.rand(ROWS, generator=generator) < 0.8).float(),
    )
    assert isinstance(batch.observations, torch.Tensor)
    loss, _ = pqn.loss(batch)
    loss.backward()

    rows, actions = np.arange(ROWS), batch.actions.numpy()
    seen, returns = batch.observations.double().numpy(), batch.returns.double().numpy()
    weight = batch.weight.double().numpy()

    def in_float64(parameters: Parameters) -> Any:
        off = perceptron(parameters, "model.value", seen)[rows, actions] - returns
        return (0.5 * off**2 * weight).sum() / weight.sum()

    parameters = parameters_of(model=pqn.model)
    assert loss.item() == pytest.approx(in_float64(parameters), rel=1e-5)
    found, expected = gradients_of(model=pqn.model), by_differences(in_float64, parameters)
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name], gradient, atol=1e-5, err_msg=name)


def test_more_minibatches_than_samples_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"policy.agent.minibatches: found 4096, expected at most 2048, the samples"):
        load_config("cartpole", ["policy={agent: {algorithm: pqn, minibatches: 4096}}"])


def test_a_team_learns_the_sum_of_its_values(sections: Any, trainer_of: Any) -> None:
    """The agents of ``others`` earn 2 and 3 in each step; episodes end after 1 or 2 steps, or are cut after 9."""
    settings = "{algorithm: pqn, mixing: vdn, gamma: 0.5, td_lambda: 0.5, minibatches: 4}"
    trainer = trainer_of(sections("Fuse", ("one", "others")), f"policy.others={settings}")
    trainer.collect()
    policy, rollout = trainer.policies["others"], trainer.rollout
    batch = policy.experience.of(rollout)
    with torch.no_grad():
        after = policy.model(rollout.of("observations", "others")[1:]).amax(-1).sum(-1).numpy()
        final = policy.model(rollout.of("final_observations", "others")).amax(-1).sum(-1).numpy()
        chosen = policy.model(rollout.of("observations", "others")[:-1])
        chosen = chosen.gather(-1, rollout.of("actions", "others").long().unsqueeze(-1)).sum((-1, -2)).flatten()
    slot, terminated = rollout.final_slot.numpy(), rollout.terminated.numpy()
    following = np.where(slot >= 0, final[np.maximum(slot, 0), np.arange(20)], after)
    following, ended = np.where(terminated, 0.0, following), terminated | rollout.truncated.numpy()
    five, half = np.full(10, 5.0), np.full(10, 0.5)
    expected = np.stack([by_definition(five, following[:, k], ended[:, k], 0.5, half) for k in range(20)], axis=1)
    np.testing.assert_allclose(batch.returns.view(10, 20), expected, rtol=1e-5)
    loss = policy.algorithm.loss(batch)[0].item()
    assert loss == pytest.approx((0.5 * (chosen - batch.returns).square()).mean().item(), rel=1e-5)
    assert trainer.update()["losses/td_loss/others"].isfinite()
