"""Deep Q-learning: targets and losses by hand and in float64, exploration, learning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from float64 import Parameters, by_differences, gradients_of, parameters_of, perceptron
from gymnasium import spaces
from resuming import check_goes_on

import warpdrive as wd
from warpdrive.training.algorithms.dqn import DQN, DQNConfig
from warpdrive.training.experience.replay_buffer import ReplayBuffer
from warpdrive.training.experience.transitions import Transitions
from warpdrive.training.models.options import PerceptronConfig
from warpdrive.training.models.parameters import as_vector
from warpdrive.training.models.q_network import QNetwork
from warpdrive.training.rollout.exploration import EpsilonGreedy
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]


class Table(QNetwork):
    """Row i of the table are the values of what can be done at the observation i."""

    def __init__(self, values: list[list[float]]) -> None:
        torch.nn.Module.__init__(self)
        self.table = torch.nn.Parameter(torch.tensor(values))

    def forward(self, observations: Any) -> torch.Tensor:
        return self.table[observations]


def dqn(model: QNetwork, target: QNetwork | None = None, **settings: Any) -> DQN:
    config = DQNConfig(algorithm="dqn", **settings)
    made = DQN(config, model, torch.optim.SGD([as_vector(model)], lr=config.lr))
    if target is not None:
        made.target = target
    return made


def steps(**changes: Any) -> Transitions:
    """From 0 to 1 twice, and from 0 to 2 where the episode terminates."""
    batch = Transitions(
        observations=torch.tensor([0, 0, 0]),
        actions=torch.tensor([0, 1, 1], dtype=torch.int32),
        rewards=torch.tensor([1.0, 2.0, 3.0]),
        next_observations=torch.tensor([1, 1, 2]),
        terminal=torch.tensor([False, False, True]),
        weight=torch.ones(3),
    )
    return replace(batch, **changes)


MODEL = [[1.0, 2.0], [5.0, 4.0], [9.0, 9.0]]
TARGET = [[0.0, 0.0], [10.0, 20.0], [9.0, 9.0]]


@pytest.mark.parametrize(("double", "worth"), [(True, 10.0), (False, 20.0)])
def test_targets_by_hand(double: bool, worth: float) -> None:
    """The model takes choice 0 at 1, which is worth 10 to the target; without it the target's best counts, 20."""
    found = dqn(Table(MODEL), Table(TARGET), gamma=0.5, double=double).targets(steps())
    assert found.tolist() == [1 + 0.5 * worth, 2 + 0.5 * worth, 3.0]


@pytest.mark.parametrize("double", [True, False])
def test_choices_that_are_not_allowed_are_worth_nothing(double: bool) -> None:
    """Known mistake: the mask of the step itself, or none; here each row has one of its own."""
    mask = torch.tensor(
        [[False, True, True], [True, False, True], [False, False, True]]
    )  # of another tag with 3 choices
    found = dqn(Table(MODEL), Table(TARGET), gamma=0.5, double=double).targets(steps(next_action_mask=mask))
    assert found.tolist() == [1 + 0.5 * 20, 2 + 0.5 * 10, 3.0]


def test_the_loss_and_its_gradient_by_hand() -> None:
    # targets 1 + 0.1 * 10 = 2, 3, 3 against values 1, 2, 2: differences of 1 each, Huber's loss 1/2
    # with the weight of the first 0 the mean is over two; the gradient of choice 1 is -1/2 -1/2
    model = Table(MODEL)
    batch = steps(weight=torch.tensor([0.0, 1.0, 1.0]), rewards=torch.tensor([1e6, 2.0, 3.0]))
    loss, terms = dqn(model, Table(TARGET), gamma=0.1).loss(batch)
    loss.backward()
    assert loss.item() == pytest.approx(0.5) and terms["td_loss"].item() == pytest.approx(0.5)
    assert terms["q_values"].item() == pytest.approx(2.0)
    assert model.table.grad is not None
    assert model.table.grad.tolist() == [[0.0, -1.0], [0.0, 0.0], [0.0, 0.0]]


def test_the_gradient_of_the_loss_in_float64() -> None:
    generator = torch.Generator().manual_seed(0)
    space = spaces.Box(-1, 1, (3,), np.float32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, target = (QNetwork(space, 4, PerceptronConfig(hidden=[5, 6])) for _ in range(2))
    batch = Transitions(
        observations=torch.randn(20, 3, generator=generator),
        actions=torch.randint(4, (20,), generator=generator, dtype=torch.int32),
        rewards=2 * torch.randn(20, generator=generator),
        next_observations=torch.randn(20, 3, generator=generator),
        terminal=torch.rand(20, generator=generator) < 0.3,
        weight=(torch.rand(20, generator=generator) < 0.8).float(),
        next_action_mask=torch.rand(20, 4, generator=generator) < 0.9,
    )
    assert isinstance(batch.observations, torch.Tensor) and isinstance(batch.next_observations, torch.Tensor)
    assert batch.next_action_mask is not None
    loss, _ = dqn(model, target, gamma=0.9).loss(batch)
    loss.backward()

    rows, actions = np.arange(20), batch.actions.numpy()
    seen, following = batch.observations.double().numpy(), batch.next_observations.double().numpy()
    rewards, weight = batch.rewards.double().numpy(), batch.weight.double().numpy()
    fixed = parameters_of(model=model, target=target)
    judged = np.where(batch.next_action_mask.numpy(), perceptron(fixed, "model.value", following), -np.inf)
    later = perceptron(fixed, "target.value", following)[rows, judged.argmax(1)]
    wanted = rewards + 0.9 * np.where(batch.terminal.numpy(), 0.0, later)

    def in_float64(parameters: Parameters) -> Any:
        off = np.abs(perceptron(parameters, "model.value", seen)[rows, actions] - wanted)
        huber = np.where(off < 1, 0.5 * off**2, off - 0.5)
        return (weight * huber).sum() / weight.sum()

    parameters = parameters_of(model=model)
    assert loss.item() == pytest.approx(in_float64(parameters), rel=1e-5)
    found, expected = gradients_of(model=model), by_differences(in_float64, parameters)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name)
    assert all(parameter.grad is None for parameter in target.parameters())


def test_the_target_follows_the_model_now_and_then() -> None:
    model = Table([[0.0, 0.0]] * 3)
    trained = dqn(model, gamma=0.5, gradient_steps=2, target_update_every=3, tau=0.25, learning_starts=0, lr=0.1)
    buffer = ReplayBuffer("agent", 10, torch.device("cpu"))
    buffer.add(steps())
    moved = []
    for _ in range(3):  # 2, 4 and 6 gradient steps
        before = trained.target.state_dict()["table"].clone()
        trained.update(buffer, torch.Generator().manual_seed(0))
        moved.append(not torch.equal(before, trained.target.state_dict()["table"]))
    assert moved == [False, True, True]
    # the last one: a quarter of the way to where the model is now
    torch.testing.assert_close(trained.target.state_dict()["table"], before + 0.25 * (model.table.detach() - before))
    assert not trained.target.state_dict()["table"].requires_grad


def test_nothing_is_learned_before_learning_starts(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(dqn_sections(sections, learning_starts=400))
    assert [bool(learned(trainer)) for _ in range(3)] == [False, True, True]


def learned(trainer: Trainer) -> dict[str, torch.Tensor]:
    trainer.collect()
    return trainer.update()


def dqn_sections(
    sections: Sections, game: str = "Echo", tags: tuple[str, ...] = ("even", "odd"), **settings: Any
) -> Any:
    values = sections(game, tags)
    policy = {"algorithm": "dqn", "model": {"hidden": [16]}, "learning_starts": 0, "buffer_size": 2000, **settings}
    return {**values, "policy": {tag: dict(policy) for tag in tags}}


def test_epsilon_greedy_probabilities_by_hand() -> None:
    actor = EpsilonGreedy(Table([[1.0, 3.0, 2.0]]))
    actor.epsilon.fill_(0.3)
    assert actor.logits(torch.tensor([0])).exp().flatten().tolist() == pytest.approx([0.1, 0.8, 0.1])


class Asked:
    """Part of an EnvWrapper that an actor reads: the observation is 0, and choice 1 is masked."""

    def __init__(self, previous: int, timestep: int) -> None:
        self.asked = torch.zeros(1, 1, 3)
        self.previous = torch.tensor([[previous]], dtype=torch.int32)
        self.ctx = {"timestep": torch.tensor([timestep])}

    def observations(self, tag: str) -> torch.Tensor:
        return torch.tensor([[0]])

    def active(self, tag: str) -> None:
        return None

    def action_mask(self, tag: str) -> torch.Tensor:
        return torch.tensor([[[True, False, True]]])

    def actions(self, tag: str) -> torch.Tensor:
        return self.previous

    def logits(self, tag: str) -> torch.Tensor:
        return self.asked


@pytest.mark.parametrize(
    ("repeat", "previous", "timestep", "expected"),
    [
        (0.0, 0, 3, [0.15, 0.0, 0.85]),  # 0.3 / 2 for each that is allowed, and 0.7 for the better of the two
        (0.5, 0, 3, [0.3 * 0.75, 0.0, 0.7 + 0.3 * 0.25]),
        (0.5, 0, 0, [0.15, 0.0, 0.85]),  # the episode begins: nothing is to be repeated
        (1.0, 1, 3, [0.15, 0.0, 0.85]),  # what was done before is forbidden now
    ],
)
def test_the_probabilities_of_choices_by_hand(
    repeat: float, previous: int, timestep: int, expected: list[float]
) -> None:
    """Choice 1 is the best one, and forbidden."""
    actor = EpsilonGreedy(Table([[1.0, 3.0, 2.0]]), repeats=repeat > 0)
    actor.epsilon.fill_(0.3)
    actor.repeat.fill_(repeat)
    env: Any = Asked(previous, timestep)
    with torch.no_grad():
        actor.act(env, "agent")
    assert env.asked.softmax(-1).flatten().tolist() == pytest.approx(expected)


def test_epsilon_follows_its_schedule_and_evaluation_is_greedy(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(dqn_sections(sections, epsilon=[[200, 1.0], [600, 0.5]]))
    actor = trainer.policies["odd"].actor
    assert isinstance(actor, EpsilonGreedy)
    found = []
    for _ in range(5):
        trainer.collect()
        trainer.update()
        found.append(actor.epsilon.item())
    assert found == [1.0, 1.0, 0.75, 0.5, 0.5]  # of rollouts that began at 0, 200, 400, ...
    once, again = (trainer.evaluate(num_episodes=40, seed=seed).mean_return for seed in (1, 1))
    greedy = trainer.evaluate(num_episodes=40, seed=1, deterministic=True).mean_return
    assert once == again == greedy


def test_every_tag_learns_its_own_task(sections: Sections, trainer_of: TrainerOf) -> None:
    """At random 8/3 of 8 are right. A failure by chance is not possible while the seed stays, since runs repeat."""
    values = dqn_sections(
        sections, lr=5e-3, gradient_steps=10, target_update_every=20, gamma=0.5, epsilon=[[0, 1.0], [10_000, 0.1]]
    )
    trainer = trainer_of(values, "trainer.total_steps=20000", "policy.odd.tau=0.9")
    trainer.train()
    result = trainer.evaluate(num_episodes=200).mean_return
    assert result["even"] > 7.5 and result["odd"] > 7.5


def test_images_go_through_convolutions(sections: Sections, trainer_of: TrainerOf, tmp_path: Path) -> None:
    model = {"type": "convolutional", "filters": [4], "kernel_size": 1, "stride": 1, "hidden": [8]}
    trainer = trainer_of(dqn_sections(sections, "Screen", model=model))
    convolution: Any = trainer.policies["even"].model.get_submodule("features.0")
    before = convolution.weight.detach().clone()
    learned(trainer)
    assert convolution.weight.shape == (4, 3, 1, 1) and (convolution.weight != before).any()
    trainer.save(tmp_path / "saved")
    seen = torch.eye(3).view(3, 3, 1, 1)
    with torch.no_grad():
        best = trainer.policies["even"].model.logits(seen).argmax(-1)
    assert torch.equal(wd.load_policy(tmp_path / "saved", "even").act(seen, deterministic=True), best)


def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path
) -> None:
    """The buffer, the target and when it is due, the optimizer and the random state, bit for bit."""
    overrides = ["policy.odd.target_update_every=7", "policy.even.to_train=false", "trainer.train_batch_size=100"]
    whole = trainer_of(dqn_sections(sections, gradient_steps=3, buffer_size=450), *overrides)
    assert check_goes_on(whole, tmp_path / "half", updates=5)
