"""Rollouts to batch rows: each agent keeps its own observations, actions, masks and advantages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from games import TAGS

from warpdrive.training.evaluation import MAX_REPLICAS, Evaluator
from warpdrive.training.experience.advantages import AdvantageEstimator
from warpdrive.training.experience.batch import batch_of
from warpdrive.training.models.distributions import distribution_of
from warpdrive.training.trainer import Trainer, make_env

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]


@pytest.fixture(params=["Echo", "Leave", "Fuse", "Aim", "Spell", "Arrive"])
def collected(request: pytest.FixtureRequest, sections: Sections, trainer_of: TrainerOf) -> tuple[str, Trainer]:
    """A game, and a trainer whose rollout holds 30 steps of policies that are far from uniform."""
    trainer = trainer_of(sections(request.param, TAGS[request.param], train_batch_size=600))
    with torch.no_grad():
        for policy in trainer.policies.values():
            for parameter in policy.model.parameters():
                parameter.mul_(3.0).add_(0.3 * torch.randn(parameter.shape, generator=policy.generator))
    trainer.collect()
    return request.param, trainer


def estimator(
    trainer: Trainer, tag: str, gamma: float, gae_lambda: float, after_leaving: bool = True
) -> AdvantageEstimator:
    agent_ids = trainer.policies[tag].agent_ids
    return AdvantageEstimator.of(trainer.rollout, trainer.env.backend, agent_ids, gamma, gae_lambda, after_leaving)


def test_stored_log_probabilities_are_those_of_each_agents_own_action(collected: tuple[str, Trainer]) -> None:
    """Compute them anew.

    Known mistakes: agents given each other's actions (the tags' ids are interleaved, one pair descending), and one
    step's action mask applied to all.
    """
    _, trainer = collected
    for tag, policy in trainer.policies.items():
        distribution = distribution_of(trainer.env.action_spaces[tag])
        batch = batch_of(trainer.rollout, tag, policy.model, estimator(trainer, tag, 0.9, 0.8))
        with torch.no_grad():
            logits = policy.model.logits(batch.observations)
        found, _ = distribution.log_prob_and_entropy(logits, batch.actions, batch.action_mask)
        counts = batch.weight > 0
        torch.testing.assert_close(found[counts], batch.log_probabilities[counts], rtol=1e-4, atol=1e-5)
        # the check can fail: with the actions of the neighbouring row it does
        shifted, _ = distribution.log_prob_and_entropy(logits, batch.actions.roll(1, 0), batch.action_mask)
        assert (shifted - batch.log_probabilities)[counts].abs().max() > 0.1


@pytest.mark.parametrize("after_leaving", [True, False])
def test_rows_against_a_plain_loop_over_the_rollout(collected: tuple[str, Trainer], after_leaving: bool) -> None:
    """Advantages by their definition, with numbers looked up agent by agent in the tensors of all agents."""
    _, trainer = collected
    rollout, gamma, gae_lambda, absent_value = trainer.rollout, 0.9, 0.8, 30.0
    steps, envs = rollout.rewards.shape[:2]
    for tag, policy in trainer.policies.items():
        estimates = estimator(trainer, tag, gamma, gae_lambda, after_leaving)
        estimates.absent_value.fill_(absent_value)
        batch = batch_of(rollout, tag, policy.model, estimates)
        ids = trainer.env.policy_tags[tag]
        advantages = batch.advantages.view(steps, envs, len(ids)).numpy()
        weight = batch.weight.view(steps, envs, len(ids)).numpy()
        with torch.no_grad():
            values = policy.model.values(rollout.observations).numpy()
            final = policy.model.values(rollout.final_observations).numpy()
        rewards, ended, cut = rollout.rewards.numpy(), rollout.terminated.numpy(), rollout.truncated.numpy()
        always = np.ones_like(rewards, dtype=bool)
        active = always if rollout.active is None else rollout.active.numpy()
        stays = always if rollout.still_active is None else rollout.still_active.numpy()
        for env in range(0, envs, 7):
            for column, agent in enumerate(ids):
                following = (
                    0.0  # the advantage of the next step; while the agent is out, of its return over absent_value
                )
                for t in reversed(range(steps)):
                    is_there, is_back = active[t, env, agent], stays[t, env, agent]
                    next_value = values[t + 1, env, agent] if is_back else absent_value
                    carried = following * (gae_lambda if is_back else 1.0)
                    if ended[t, env] or not (is_back or after_leaving):
                        next_value, carried = 0.0, 0.0
                    elif cut[t, env]:
                        next_value = final[rollout.final_slot[t, env], env, agent] if is_back else absent_value
                        carried = 0.0
                    value = values[t, env, agent] if is_there else absent_value
                    following = rewards[t, env, agent] + gamma * next_value - value + gamma * carried
                    assert weight[t, env, column] == is_there
                    expected = following if is_there else 0.0
                    assert advantages[t, env, column] == pytest.approx(expected, rel=1e-3, abs=1e-3)
        torch.testing.assert_close(batch.returns, batch.advantages + batch.values)


@pytest.mark.parametrize("game", ["Leave", "Arrive"])
def test_rewards_of_agents_out_of_the_episode_count_where_they_are_to(
    sections: Sections, trainer_of: TrainerOf, game: str
) -> None:
    """They are 1000 a step; without them no return is above 7."""
    trainer = trainer_of(sections(game, TAGS[game], train_batch_size=600))
    trainer.collect()
    for tag, policy in trainer.policies.items():
        with torch.no_grad():
            for parameter in policy.model.value.parameters():  # type: ignore[union-attr]
                parameter.zero_()
        for after_leaving in (True, False):
            batch = batch_of(trainer.rollout, tag, policy.model, estimator(trainer, tag, 1.0, 1.0, after_leaving))
            assert 0 < batch.weight.mean() < 1
            highest = batch.returns[batch.weight > 0].max()
            leaves = game == "Leave" or tag == "inner"  # agents that arrive late are paid nothing that counts before
            assert highest >= 1000.0 if after_leaving and leaves else highest <= 7.0


def test_evaluation_counts_whole_episodes_of_every_replica(sections: Sections) -> None:
    """Known mistakes: one replica read for all; the first episodes to finish, which are the short ones.

    The expected numbers are counted from the same replicas, stepped one by one with ``env.step``: what happens in Fuse
    does not depend on the actions.
    """
    values = sections("Fuse", TAGS["Fuse"], num_envs=8)
    result = Evaluator(make_env_of(values), {}, num_episodes=20).play()
    env = make_env_of(values)
    episodes: list[list[int]] = [[] for _ in range(8)]
    actions = np.zeros((8, 3), np.int32)
    while min(len(lengths) for lengths in episodes) < 3:
        *_, terminated, truncated, info = env.step(actions)
        for replica in np.flatnonzero((terminated | truncated).numpy()):
            episodes[replica].append(int(info["episode_length"][replica]))
    # episodes 0 and 1 of all 8 replicas and episode 2 of the first 4 are 20
    lengths = np.array([episodes[e][k] for k in range(3) for e in range(8)][:20])
    assert result.episodes == 20
    assert result.mean_length == pytest.approx(lengths.mean())
    assert result.terminated_fraction == pytest.approx((lengths < 9).mean())
    assert result.mean_return == pytest.approx({"one": lengths.mean(), "others": 2.5 * lengths.mean()})
    assert result.std_return == pytest.approx({"one": lengths.std(), "others": 2.5 * lengths.std()})


def test_evaluation_is_not_biased_towards_short_episodes(sections: Sections) -> None:
    """Lengths 1, 2 and 9 are equally likely: mean 4, standard deviation 3.56, of the mean of 3000 episodes 0.065.

    Beyond 5 of these lies 1 in 1.7 million; an evaluation that takes the first to finish gives 1.5 or so.
    """
    values = sections("Fuse", TAGS["Fuse"], num_envs=MAX_REPLICAS, train_batch_size=MAX_REPLICAS, reset_pool_size=3000)
    result = Evaluator(make_env_of(values), {}, num_episodes=3000).play()
    # the pool of 3000 starts varies as much again
    assert result.mean_length == pytest.approx(4.0, abs=5 * 0.065 * 2**0.5)


def make_env_of(values: dict[str, Any]) -> Any:
    from warpdrive.training.config.load import load_config

    return make_env(load_config(values))
