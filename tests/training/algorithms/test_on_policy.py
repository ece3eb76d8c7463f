"""Losses and updates of A2C and PPO on batches of a few rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from warpdrive.host_transfers import no_host_transfers
from warpdrive.training.algorithms.a2c import A2C, A2CConfig
from warpdrive.training.algorithms.common import explained_variance, normalised
from warpdrive.training.algorithms.ppo import PPO, PPOConfig
from warpdrive.training.experience.batch import Batch
from warpdrive.training.models.base import ActorCritic
from warpdrive.training.models.distributions import Categorical
from warpdrive.training.models.parameters import as_vector


class Table(ActorCritic):
    """Row i of the tables belongs to the observation i."""

    def __init__(self, logits: list[list[float]], values: list[float]) -> None:
        super().__init__()
        self.policy = nn.Parameter(torch.tensor(logits))
        self.value = nn.Parameter(torch.tensor(values))

    def logits(self, observations: Tensor) -> Tensor:
        return self.policy[observations]

    def values(self, observations: Tensor) -> Tensor:
        return self.value[observations]


def batch_of_three(**changes: Any) -> Batch:
    batch = Batch(
        observations=torch.arange(3),
        actions=torch.tensor([1, 1, 0], dtype=torch.int32),
        log_probabilities=torch.tensor([0.5, 1.5, 0.5]).log(),
        values=torch.zeros(3),
        advantages=torch.tensor([2.0, -1.0, 3.0]),
        returns=torch.tensor([1.0, 2.0, 4.0]),
        weight=torch.ones(3),
    )
    return replace(batch, **changes)


def three_states() -> Table:
    # probabilities of the second action: 3/4, 3/4, 1/2
    return Table([[0.0, math.log(3.0)], [0.0, math.log(3.0)], [0.0, 0.0]], [0.0, 0.0, 1.0])


def algorithm(model: ActorCritic, sizes: tuple[int, ...] = (2,), name: str = "ppo", **settings: Any) -> Any:
    kind, configured = {"ppo": (PPO, PPOConfig), "a2c": (A2C, A2CConfig)}[name]
    config = configured(algorithm=name, **{"normalize_advantage": False, **settings})  # type: ignore[arg-type]
    optimizer = torch.optim.SGD([as_vector(model)], lr=config.lr)
    return kind(config, model, Categorical(sizes), optimizer)  # type: ignore[arg-type]


def test_the_clipped_loss_by_hand() -> None:
    # stored probabilities 1/2, 3/2 (as if), 1/2: ratios 1.5, 0.5, 1.0; advantages 2, -1, 3; clip 0.2
    # min(1.5 * 2, 1.2 * 2) = 2.4; min(0.5 * -1, 0.8 * -1) = -0.8; min(3, 3) = 3; the mean of these is 4.6 / 3
    # values 0, 0, 1 against returns 1, 2, 4: (1 + 4 + 9) / 3 / 2 = 7 / 3
    # entropies 0.562335, 0.562335, ln 2
    model = three_states()
    loss, terms = algorithm(model, clip=0.2, value_coef=0.5, entropy_coef=0.1).loss(
        batch_of_three(), batch_of_three().advantages
    )
    entropy = (2 * 0.562335 + math.log(2.0)) / 3
    assert terms["policy_loss"].item() == pytest.approx(-4.6 / 3)
    assert terms["value_loss"].item() == pytest.approx(7 / 3)
    assert terms["entropy"].item() == pytest.approx(entropy, abs=1e-6)
    assert loss.item() == pytest.approx(-4.6 / 3 + 0.5 * 7 / 3 - 0.1 * entropy, abs=1e-6)
    # (0.5 - ln 1.5 + -0.5 - ln 0.5 + 0) / 3 = ln(4 / 3) / 3; two of three ratios are more than 0.2 from 1
    assert terms["approx_kl"].item() == pytest.approx(math.log(4 / 3) / 3, abs=1e-6)
    assert terms["clipfrac"].item() == pytest.approx(2 / 3)


def test_the_gradient_of_the_clipped_loss_by_hand() -> None:
    """Known mistake: old log-probabilities from the same forward pass, which make every ratio 1 and clip nothing."""
    model = three_states()
    loss, _ = algorithm(model, clip=0.2, value_coef=1.0, entropy_coef=0.0).loss(
        batch_of_three(), batch_of_three().advantages
    )
    loss.backward()
    # rows 0 and 1 are clipped; row 2: -1/3 * advantage 3 * ratio 1 * (1 - 1/2) for the action taken
    expected = torch.tensor([[0.0, 0.0], [0.0, 0.0], [-0.5, 0.5]])
    torch.testing.assert_close(model.policy.grad, expected)
    # (value - return) / 3
    torch.testing.assert_close(model.value.grad, torch.tensor([-1.0, -2.0, -3.0]) / 3)


def test_the_a2c_loss_and_its_gradient_by_hand() -> None:
    model = three_states()
    loss, terms = algorithm(model, name="a2c", value_coef=0.5, entropy_coef=0.0).loss(
        batch_of_three(), batch_of_three().advantages
    )
    loss.backward()
    # -(2 ln 3/4 - ln 3/4 + 3 ln 1/2) / 3
    assert terms["policy_loss"].item() == pytest.approx(-(math.log(0.75) + 3 * math.log(0.5)) / 3)
    # -advantage / 3 * (taken - probability)
    expected = -torch.tensor([[2 * -0.25, 2 * 0.25], [-1 * -0.25, -1 * 0.25], [3 * 0.5, 3 * -0.5]]) / 3
    torch.testing.assert_close(model.policy.grad, expected)


@pytest.mark.parametrize("name", ["a2c", "ppo"])
def test_agents_out_of_the_episode_count_for_nothing(name: str) -> None:
    """Rows of weight 0 hold numbers that would be noticed; the loss and its gradient are those of the others."""
    whole = batch_of_three(
        weight=torch.tensor([1.0, 0.0, 1.0]),
        advantages=torch.tensor([2.0, 1e6, 3.0]),
        returns=torch.tensor([1.0, -1e6, 4.0]),
    )
    kept = torch.tensor([0, 2])
    results = []
    for batch in (whole, whole.rows(kept)):
        model = three_states()
        trained = algorithm(model, name=name, lr=0.1, normalize_advantage=True)
        loss, terms = trained.loss(batch, normalised(batch.advantages, batch))
        loss.backward()
        results.append((loss.detach(), terms, model.policy.grad, explained_variance(batch)))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("name", ["a2c", "ppo"])
def test_every_row_is_evaluated_under_its_own_mask(name: str) -> None:
    """Known mistake: the last step's action mask applied to the whole batch."""
    mask = torch.tensor([[True, True, False], [True, False, True], [False, True, True]])
    model = Table([[0.0, 0.0, 0.0]] * 3, [0.0] * 3)
    half = torch.full((3,), 0.5).log()
    actions = torch.tensor([0, 2, 1], dtype=torch.int32)  # the first is forbidden in the last row, the third in row 1
    batch = batch_of_three(actions=actions, action_mask=mask, log_probabilities=half)
    _, terms = algorithm(model, (3,), name=name).loss(batch, batch.advantages)
    # everywhere two choices, so every action has probability 1/2 and every ratio is 1
    assert terms["entropy"].item() == pytest.approx(math.log(2.0))
    expected = math.log(2.0) * (2 - 1 + 3) / 3 if name == "a2c" else -(2 - 1 + 3) / 3
    assert terms["policy_loss"].item() == pytest.approx(expected)


def test_clipped_values_by_hand() -> None:
    # former values 0.5, 0, 0 and present ones 0, 0, 1 with a clip of 0.25: clipped 0.25, 0, 0.25; returns 1, 2, -1:
    # max(1, 0.75^2) = 1; 4; max(4, 1.25^2) = 4; the mean of these is 3, and half of it 1.5
    batch = batch_of_three(values=torch.tensor([0.5, 0.0, 0.0]), returns=torch.tensor([1.0, 2.0, -1.0]))
    _, terms = algorithm(three_states(), value_clip=0.25).loss(batch, batch.advantages)
    assert terms["value_loss"].item() == pytest.approx(1.5)
    # towards a return of 3 the last one gains nothing beyond 0.25: max(4, 2.75^2), and no gradient
    batch = replace(batch, returns=torch.tensor([1.0, 2.0, 3.0]))
    model = three_states()
    loss, terms = algorithm(model, value_clip=0.25, value_coef=1.0).loss(batch, torch.zeros(3))
    assert terms["value_loss"].item() == pytest.approx(0.5 * (1 + 4 + 2.75**2) / 3)
    loss.backward()
    torch.testing.assert_close(model.value.grad, torch.tensor([-1.0, -2.0, 0.0]) / 3)


def test_values_are_clipped_in_the_units_in_which_they_were_estimated() -> None:
    """The first returns move the statistics far: estimates from before must not be converted with the new ones."""
    model = three_states()  # estimates 0, 0, 1, which were made with mean 0 and standard deviation 1
    settings: dict[str, Any] = {"value_clip": 0.2, "normalize_returns": True, "epochs": 1, "minibatches": 1}
    trained = algorithm(model, **settings, lr=0.5, value_coef=1.0, max_grad_norm=1e6)
    batch = batch_of_three(values=torch.tensor([0.0, 0.0, 1.0]), returns=torch.tensor([100.0, 200.0, 400.0]))
    metrics = trained.update(batch, torch.Generator())
    # mean 700 / 3, variance (1 + 4 + 16) / 3 * 1e4 - mean^2 = 140000 / 9: returns of -1.069045, -0.267261, 1.336306
    targets = torch.tensor([-1.069045, -0.267261, 1.336306])
    before = torch.tensor([0.0, 0.0, 1.0])
    torch.testing.assert_close(model.value.data, before - 0.5 * (before - targets) / 3, rtol=1e-4, atol=1e-5)
    assert metrics["value_loss"].item() == pytest.approx(float((before - targets).square().sum()) / 6, rel=1e-4)
    # errors of 100, 200, 399 and returns of 100, 200, 400: in units of rewards, before the statistics moved
    assert metrics["explained_variance"].item() == pytest.approx(1 - 15444.667 / 15555.556, abs=1e-4)


@pytest.mark.parametrize("name", ["a2c", "ppo"])
def test_hubers_loss_by_hand(name: str) -> None:
    """Errors of 1, 2 and 3: up to 1.5 half their square, then 1.5 times what is left above 0.75."""
    model, huber = three_states(), {"value_loss": "huber", "huber_delta": 1.5}
    made = algorithm(model, name=name, value_coef=1.0, entropy_coef=0.0, **huber)
    loss, terms = made.loss(batch_of_three(), torch.zeros(3))
    assert terms["value_loss"].item() == pytest.approx((0.5 + 1.5 * 1.25 + 1.5 * 2.25) / 3)
    loss.backward()
    torch.testing.assert_close(model.value.grad, torch.tensor([-1.0, -1.5, -1.5]) / 3)


def test_the_variance_of_constant_returns_is_nothing_to_explain() -> None:
    returns = torch.tensor([-200.0, -200.00001, -200.0])  # rounding of advantages and values that were added up
    values = torch.tensor([-100.0, -150.0, -250.0])
    assert explained_variance(batch_of_three(returns=returns, values=values)).isnan()
    assert explained_variance(batch_of_three(returns=torch.zeros(3), values=values)).isnan()
    returns = torch.tensor([1e-4, 2e-4, 6e-4])  # of variance 14 / 3 and, less the values, 8 / 3 in units of 1e-8
    found = explained_variance(batch_of_three(returns=returns, values=torch.tensor([1e-4, 2e-4, 2e-4])))
    assert found.item() == pytest.approx(1 - (32 / 9) / (14 / 3), rel=1e-4)


def test_an_update_ends_where_the_policy_has_moved_far_enough() -> None:
    """Steps equal those without a limit, up to the first that finds the policy 1.5 times ``target_kl`` away."""
    batch = batch_of_three(log_probabilities=torch.tensor([0.75, 0.75, 0.5]).log())
    generator = torch.Generator()

    def trained(epochs: int, target_kl: float | None) -> tuple[Table, Any, dict[str, Tensor]]:
        model = three_states()
        made = algorithm(model, epochs=epochs, minibatches=1, clip=1e6, target_kl=target_kl)
        made.optimizer = torch.optim.Adam([as_vector(model)], lr=0.05, fused=True)
        with no_host_transfers(torch.device("cpu")):
            return model, made.optimizer, made.update(batch, generator)

    distances = [0.0]  # before each step
    for steps in range(1, 8):
        model, *_ = trained(steps, None)
        with torch.no_grad():
            log_ratio = model.policy.log_softmax(-1)[torch.arange(3), batch.actions.long()] - batch.log_probabilities
            distances.append((log_ratio.exp() - 1 - log_ratio).mean().item())
    assert distances == sorted(distances)
    stopped, optimizer, metrics = trained(8, target_kl=(distances[3] + distances[4]) / 2 / 1.5)
    expected, other, _ = trained(4, None)  # steps 0 to 3 find it near enough, step 4 does not
    torch.testing.assert_close(stopped.state_dict(), expected.state_dict(), rtol=0, atol=0)
    torch.testing.assert_close(optimizer.state_dict()["state"], other.state_dict()["state"], rtol=0, atol=0)
    assert metrics["skipped_steps"].item() == 0.5


def test_every_epoch_uses_every_row_once_with_its_own_action() -> None:
    """Known mistake: shuffling that gives agents each other's actions."""
    rows = 10
    model = Table([[0.0] * rows] * rows, [0.0] * rows)
    trained = algorithm(model, (rows,), epochs=3, minibatches=4)
    seen: list[Tensor] = []

    def loss(batch: Batch, advantages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        assert torch.equal(batch.observations, batch.actions) and torch.equal(batch.observations.float(), advantages)
        assert torch.equal(batch.log_probabilities, -batch.observations.float())
        seen.append(batch.observations)
        return model.policy.sum(), {}

    trained.loss = loss
    order = torch.arange(rows)
    numbers = order.float()
    batch = Batch(order, order, -numbers, numbers, numbers, numbers, torch.ones(rows))
    trained.update(batch, torch.Generator().manual_seed(0))
    assert [len(part) for part in seen] == [3, 3, 2, 2] * 3
    epochs = [torch.cat(seen[i : i + 4]) for i in (0, 4, 8)]
    assert all(torch.equal(epoch.sort().values, order) for epoch in epochs)
    assert not torch.equal(epochs[0], epochs[1])


@pytest.mark.parametrize("name", ["a2c", "ppo"])
def test_an_update_moves_towards_good_actions_and_right_values(name: str) -> None:
    model = Table([[0.0, 0.0]] * 3, [0.0] * 3)
    half = torch.full((3,), 0.5).log()
    batch = batch_of_three(log_probabilities=half)
    metrics = algorithm(model, name=name, lr=0.1, max_grad_norm=10.0).update(batch, torch.Generator())
    assert (model.policy[0, 1] > model.policy[0, 0]) and (model.policy[1, 1] < model.policy[1, 0])
    assert (model.value > 0).all()
    assert {"policy_loss", "value_loss", "entropy", "explained_variance", "grad_norm"} <= metrics.keys()
    assert all(value.dim() == 0 and not value.requires_grad for value in metrics.values())


def test_the_norm_of_the_gradient_is_limited() -> None:
    model = Table([[0.0, 0.0]] * 3, [0.0] * 3)
    batch = batch_of_three(returns=torch.full((3,), 1000.0))
    metrics = algorithm(model, name="a2c", lr=1.0, max_grad_norm=0.5).update(batch, torch.Generator())
    assert metrics["grad_norm"] > 100
    moved = torch.cat([model.policy.flatten(), model.value]).detach().norm()
    assert moved.item() == pytest.approx(0.5, rel=1e-4)


def test_explained_variance_by_hand() -> None:
    # returns 1, 2, 4: variance 14/9; minus values 1, 1, 2: 0, 1, 2: variance 2/3; 1 - (2/3) / (14/9) = 4/7
    batch = batch_of_three(values=torch.tensor([1.0, 1.0, 2.0]))
    assert explained_variance(batch).item() == pytest.approx(4 / 7)


def test_normalised_advantages_by_hand() -> None:
    # of 1 and 3 (the 100 does not count): mean 2, standard deviation 1
    batch = batch_of_three(advantages=torch.tensor([1.0, 100.0, 3.0]), weight=torch.tensor([1.0, 0.0, 1.0]))
    assert normalised(batch.advantages, batch)[[0, 2]].tolist() == pytest.approx([-1.0, 1.0])
