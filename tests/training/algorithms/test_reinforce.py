"""REINFORCE: returns of whole episodes, the loss and its gradient in float64, learning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from float64 import Parameters, by_differences, gradients_of, parameters_of, perceptron

from warpdrive.training.algorithms.reinforce import ReinforceConfig
from warpdrive.training.experience.batch import Batch, EpisodeBatcher
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]
TAGS = {"Fuse": ("one", "others"), "Leave": ("outer", "inner"), "Echo": ("even", "odd")}


def reinforce(sections: Sections, game: str, **trainer: Any) -> dict[str, Any]:
    policy = {"algorithm": "reinforce", "lr": 0.01, "model": {"hidden": [6]}, "entropy_coef": 0.1}
    return {**sections(game, TAGS[game], **trainer), "policy": {tag: dict(policy) for tag in TAGS[game]}}


@pytest.mark.parametrize(("game", "after_leaving"), [("Fuse", True), ("Leave", True), ("Leave", False)])
def test_returns_against_a_plain_loop_over_the_rollout(
    sections: Sections, trainer_of: TrainerOf, game: str, after_leaving: bool
) -> None:
    """A step counts if its episode, or the agent's part in it, ends within the rollout."""
    config = ReinforceConfig(algorithm="reinforce", gamma=0.9, returns_after_leaving=after_leaving)
    trainer = trainer_of(reinforce(sections, game, train_batch_size=260))
    trainer.collect()
    rollout = trainer.rollout
    steps, envs = rollout.rewards.shape[:2]
    for tag, policy in trainer.policies.items():
        ids = trainer.env.policy_tags[tag]
        batch = EpisodeBatcher(tag, trainer.env.backend, policy.agent_ids, lambda: config).of(rollout)
        returns, weight = batch.returns.view(steps, envs, len(ids)), batch.weight.view(steps, envs, len(ids))
        assert 0 < batch.weight.mean() < 1
        for env in range(envs):
            for column, agent in enumerate(ids):
                later, is_known = 0.0, False
                for t in reversed(range(steps)):
                    active = rollout.active is None or bool(rollout.active[t, env, agent])
                    stays = rollout.still_active is None or bool(rollout.still_active[t, env, agent])
                    if rollout.terminated[t, env] or rollout.truncated[t, env] or not (stays or after_leaving):
                        later, is_known = 0.0, True
                    counts = active or after_leaving
                    later = float(rollout.rewards[t, env, agent]) + 0.9 * later if counts else 0.0
                    assert weight[t, env, column] == (active and is_known)
                    if active and is_known:
                        assert returns[t, env, column].item() == pytest.approx(later, rel=1e-5)


def test_the_gradient_of_the_loss_in_float64(sections: Sections, trainer_of: TrainerOf) -> None:
    algorithm: Any = trainer_of(reinforce(sections, "Echo")).policies["even"].algorithm
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in algorithm.model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    mask = torch.rand(12, 3, generator=generator) < 0.8
    mask[:, 0] = True
    zeros = torch.zeros(12)
    batch = Batch(
        observations=torch.randn(12, 3, generator=generator),
        actions=torch.zeros(12, dtype=torch.int32),
        log_probabilities=zeros,
        values=zeros,
        advantages=zeros,
        returns=torch.randn(12, generator=generator),
        weight=(torch.rand(12, generator=generator) < 0.7).float(),
        action_mask=mask,
    )
    loss, _ = algorithm.loss(batch, batch.returns)
    loss.backward()
    seen, returns, weight = (column.double().numpy() for column in (batch.observations, batch.returns, batch.weight))

    def in_float64(parameters: Parameters) -> Any:
        logits = perceptron(parameters, "model.policy", seen)
        likely = np.where(mask.numpy(), np.exp(logits), 0.0)
        likely /= likely.sum(1, keepdims=True)
        entropy = -(likely * np.log(np.where(likely > 0, likely, 1.0))).sum(1)
        return (weight * (-returns * np.log(likely[:, 0]) - 0.1 * entropy)).sum() / weight.sum()

    parameters = parameters_of(model=algorithm.model)
    assert loss.item() == pytest.approx(in_float64(parameters), rel=1e-5)
    found, expected = gradients_of(model=algorithm.model), by_differences(in_float64, parameters)
    for name in expected:  # nothing moves the value estimate, which is not used
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_every_tag_learns_its_own_task(sections: Sections, trainer_of: TrainerOf) -> None:
    """At random 8/3 of 8 are right. A failure by chance is not possible while the seed stays, since runs repeat."""
    values = reinforce(sections, "Echo", num_envs=100, train_batch_size=1600, total_steps=60 * 1600)
    trainer = trainer_of(values, *(f"policy.{tag}.{key}" for tag in TAGS["Echo"] for key in ("lr=0.03", "gamma=0.3")))
    trainer.train()
    result = trainer.evaluate(num_episodes=200, deterministic=True).mean_return
    assert result["even"] > 7 and result["odd"] > 7


def test_rollouts_that_are_shorter_than_episodes_are_told(sections: Sections, trainer_of: TrainerOf) -> None:
    told = r"policy\.even: reinforce learns .* a rollout has 2 steps, .* up to \d+\. .*train_batch_size: \d+ or more"
    with pytest.warns(RuntimeWarning, match=told):
        short = trainer_of(reinforce(sections, "Echo"), "trainer.num_envs=10", "trainer.train_batch_size=20")
    longest = int(short.env.env.episode_length)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer_of(reinforce(sections, "Echo"), "trainer.num_envs=10", f"trainer.train_batch_size={10 * longest}")
