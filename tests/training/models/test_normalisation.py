"""Running statistics of observations and returns: values, the agents that they cover, and storage."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import warpdrive as wd
from warpdrive.training.models import running_moments
from warpdrive.training.models.critic_inputs import CriticRows
from warpdrive.training.models.running_moments import RunningMoments
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]
SMALL: dict[str, Any] = {"hidden": [8], "normalize_observations": True}


def test_moments_of_several_parts_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far from 0, where a sum of squares in float32 would have nothing left of the variance."""
    monkeypatch.setattr(running_moments, "_ELEMENTS_AT_ONCE_ON_CPU", 14)
    generator = torch.Generator().manual_seed(0)
    values = 10_000 + torch.tensor([1.0, 0.01]) * torch.randn(100, 2, generator=generator)
    weight = (torch.rand(100, generator=generator) < 0.6).float()
    values[weight == 0] = 1e6
    moments = RunningMoments(2)
    for part in (slice(0, 3), slice(3, 50), slice(50, 50), slice(50, 100)):
        moments.observe(values[part], weight[part])
    counted = values[weight > 0].double().numpy()
    assert moments.count == len(counted)
    np.testing.assert_allclose(moments.mean, counted.mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.variance, counted.var(0), rtol=1e-9)
    standardised = moments(values[weight > 0])
    np.testing.assert_allclose(standardised.mean(0), 0, atol=0.1)  # of the second in steps of float32 at 10,000
    torch.testing.assert_close(moments.restored(standardised), values[weight > 0])


def test_moments_of_elements_that_agents_share() -> None:
    """Against those of the rows that repeat them; also standardised."""
    generator = torch.Generator().manual_seed(0)
    own, common, which = torch.randn(60, 2), 5 + torch.randn(20, 4), torch.eye(3)
    weight = (torch.rand(60, generator=generator) < 0.6).float()
    rows = CriticRows(own, common, which)
    parts, whole = RunningMoments(9), RunningMoments(9)
    for part in (rows.between(0, 27), rows.between(27, 60)):
        seen, weight = weight[: len(part)], weight[len(part) :]
        by_agent = seen.view(-1, 3)
        parts.observe_side_by_side([(part.own, seen), (part.common, by_agent.sum(1)), (part.which, by_agent.sum(0))])
        whole.observe(part.all(), seen)
    for found, expected in zip(parts.buffers(), whole.buffers(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)
    standardised = CriticRows(*parts.clipped_side_by_side([own, common, which]))
    assert torch.equal(standardised.all(), parts.clipped(rows.all()))


def test_rows_of_agents_repeat_what_they_share() -> None:
    rows = CriticRows(torch.arange(6.0).view(6, 1), torch.tensor([[10.0], [20.0], [30.0]]), 100 * torch.eye(2))
    expected = torch.tensor(
        [[0, 10, 100, 0], [1, 10, 0, 100], [2, 20, 100, 0], [3, 20, 0, 100], [4, 30, 100, 0], [5, 30, 0, 100]]
    )
    assert torch.equal(rows.all(), expected.float())
    assert torch.equal(rows.between(2, 6).all(), expected[2:].float())
    index = torch.tensor([5, 0, 3])
    taken = rows.taken(itemgetter(index))
    for found in (taken, taken.taken(itemgetter(slice(0, 3)))):
        assert torch.equal(found.all(), expected[index].float())
    assert torch.equal(rows.taken(itemgetter(slice(1, 4))).all(), expected[1:4].float())
    assert rows.between(2, 2).all().shape == (0, 4)


def test_nothing_observed_changes_nothing() -> None:
    moments, values = RunningMoments(3), torch.randn(4, 3)
    moments.observe(torch.full((5, 3), 7.0), torch.zeros(5))
    torch.testing.assert_close(moments(values), values)


def normalising(sections: Sections, game: str, tags: tuple[str, str], algorithm: str = "ppo", **settings: Any) -> Any:
    policy = {"algorithm": algorithm, "model": SMALL, "lr": 0.01, **settings}
    values = sections(game, tags)
    return {**values, "policy": {tags[0]: policy, tags[1]: {"algorithm": "random"}}}


def moments_of(trainer: Trainer, tag: str) -> RunningMoments:
    moments = trainer.policies[tag].model.flatten.moments  # type: ignore[union-attr]
    assert isinstance(moments, RunningMoments)
    return moments


def test_they_are_those_of_the_tags_own_agents_while_they_are_in_the_episode(
    sections: Sections, trainer_of: TrainerOf
) -> None:
    trainer = trainer_of(normalising(sections, "Leave", ("outer", "inner")))
    seen = []
    for _ in range(3):
        trainer.collect()
        rollout = trainer.rollout
        assert rollout.active is not None and isinstance(rollout.observations, torch.Tensor)
        seen += [rollout.observations[:-1, :, agent][rollout.active[:, :, agent]] for agent in (2, 0)]
        trainer.update()
    counted = torch.cat(seen).double()
    moments = moments_of(trainer, "outer")
    assert moments.count == len(counted) < 3 * 200 * 2
    torch.testing.assert_close(moments.mean, counted.mean(0))
    torch.testing.assert_close(moments.variance, counted.var(0, correction=0))


def test_a_rollout_is_learned_from_with_the_statistics_that_acted(sections: Sections, trainer_of: TrainerOf) -> None:
    """Else the probability of what was done would be another than when it was done, before anything was learned."""
    still = {"epochs": 1, "minibatches": 1}
    trainer = trainer_of(normalising(sections, "Echo", ("even", "odd"), **still))
    for _ in range(3):
        trainer.collect()
        losses = trainer.update()
        assert losses["losses/approx_kl/even"].abs() < 1e-6


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "reinforce", "dqn", "ddpg", "td3", "sac"])
def test_they_are_kept_in_checkpoints_and_by_loaded_policies(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path, algorithm: str
) -> None:
    game, tags = ("Aim", ("aimer", "chooser")) if algorithm in ("ddpg", "td3", "sac") else ("Echo", ("even", "odd"))
    old = {"learning_starts": 0, "batch_size": 16} if algorithm in ("dqn", "ddpg", "td3", "sac") else {}
    trainer = trainer_of(normalising(sections, game, tags, algorithm, **old))
    for _ in range(2):
        with wd.no_host_transfers(trainer.env.device):
            trainer.collect()
            trainer.update()
    moments = moments_of(trainer, tags[0])
    assert moments.count == 2 * 200 * 2 and (moments.variance != 1).any()
    for name, module in vars(trainer.policies[tags[0]].algorithm).items():  # critics and targets see the same numbers
        if name in ("critic", "critics", "target", "target_model", "target_critic", "target_critics"):
            assert module.flatten.moments is moments
    trainer.save(tmp_path / "step_400")
    again = Trainer.load(tmp_path / "step_400")
    for one in (trainer, again):
        one.collect()
        one.update()
    torch.testing.assert_close(moments_of(again, tags[0]).state_dict(), moments.state_dict(), rtol=0, atol=0)
    trained = trainer.policies[tags[0]].model.state_dict()
    torch.testing.assert_close(again.policies[tags[0]].model.state_dict(), trained, rtol=0, atol=0)
    trainer.save(tmp_path / "step_600")
    policy = wd.load_policy(tmp_path / "step_600", tag=tags[0])
    seen = torch.rand(5, *trainer.env.observation_spaces[tags[0]].shape)
    with torch.no_grad():
        expected = trainer.policies[tags[0]].model.logits(seen)  # by native code: equal up to rounding
        size = expected.abs().max().item()  # action values are scaled by a million
        torch.testing.assert_close(policy.model.logits(seen), expected, rtol=1e-5, atol=1e-5 * (1.0 + size))


def test_large_and_small_numbers_are_learned_from_alike(sections: Sections, trainer_of: TrainerOf) -> None:
    """Echo's numbers scaled by 1/1000 say nothing to a network of ordinary weights, unless they are normalised.

    At random 8/3 of 8 are right; runs repeat while the seed stays.
    """
    values = normalising(sections, "Faint", ("even", "odd"), entropy_coef=0.0, lr=0.02)
    values["trainer"] |= {"num_envs": 50, "train_batch_size": 800, "total_steps": 16 * 800}
    found = []
    for normalize in (True, False):
        trainer = trainer_of(values, f"policy.even.model.normalize_observations={str(normalize).lower()}")
        trainer.train()
        found.append(trainer.evaluate(num_episodes=100, deterministic=True).mean_return["even"])
    assert found[0] > 7 > 5 > found[1]


def test_values_are_estimated_in_units_of_the_returns(sections: Sections, trainer_of: TrainerOf) -> None:
    """Fuse returns up to 27 per episode: outputs of the model are standardised, reported values are not."""
    values = normalising(sections, "Fuse", ("others", "one"), normalize_returns=True, epochs=8, gae_lambda=1.0)
    values["trainer"] |= {"num_envs": 50, "train_batch_size": 500, "total_steps": 10_000}
    trainer = trainer_of(values)
    trainer.train()
    algorithm: Any = trainer.policies["others"].algorithm
    returns = algorithm.returns
    trainer.collect()
    batch: Any = trainer.policies["others"].experience.of(trainer.rollout)
    assert torch.equal(batch.values, trainer.policies["others"].batch(trainer.rollout).values)
    assert returns.count == 10_000 * 2 and returns.mean > 4 and returns.variance > 10
    with torch.no_grad():
        estimates = algorithm.model.values(batch.observations)
    torch.testing.assert_close(batch.values, estimates * returns.variance.sqrt().float() + returns.mean.float())
    assert estimates.abs().mean() < 2
    assert (batch.values - batch.returns).square().mean() < 0.2 * batch.returns.var()
