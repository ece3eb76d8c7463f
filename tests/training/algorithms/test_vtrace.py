"""V-trace by hand and by its definition, and staggered groups of replicas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gae import by_definition
from games import TAGS
from resuming import check_goes_on

import warpdrive as wd
from warpdrive.errors import ConfigError
from warpdrive.training.algorithms.vtrace import vtrace
from warpdrive.training.config.load import load_config
from warpdrive.training.experience.batch import Batch
from warpdrive.training.experience.transitions import ended, transitions_of
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]


def column(numbers: list[float]) -> torch.Tensor:
    return torch.tensor(numbers).unsqueeze(1)


def test_targets_and_advantages_by_hand() -> None:
    # ratios 2, 1/4; clipped at 1: rho = c = 1, 1/4; gamma 1/2, lambda 1
    # d1 = 1/4 (4 + 6/2 - 3) = 1; v1 = 3 + 1 = 4
    # d0 = 1 (2 + 3/2 - 1) = 2.5; v0 = 1 + 2.5 + 1/2 * 1 * (4 - 3) = 4
    # advantages: 1 (2 + 4/2 - 1) = 3 and 1/4 (4 + 6/2 - 3) = 1
    steps = {"log_ratios": column([2.0, 0.25]).log(), "rewards": column([2.0, 4.0]), "values": column([1.0, 3.0])}
    options: dict[str, Any] = {"gamma": 0.5, "gae_lambda": 1.0, "rho_clip": 1.0, "c_clip": 1.0}
    going_on = torch.zeros(2, 1, dtype=torch.bool)
    found = vtrace(**steps, next_values=column([3.0, 6.0]), ended=going_on, **options)
    assert found.targets.flatten().tolist() == [4.0, 4.0] and found.advantages.flatten().tolist() == [3.0, 1.0]
    # with rho clipped at 2 and c at 1/2: d0 = 2 * 2.5 = 5; v0 = 1 + 5 + 1/2 * 1/2 * 1 = 6.25; advantage 2 * 3 = 6
    found = vtrace(
        **steps, next_values=column([3.0, 6.0]), ended=going_on, **{**options, "rho_clip": 2.0, "c_clip": 0.5}
    )
    assert found.targets.flatten().tolist() == [6.25, 4.0] and found.advantages.flatten().tolist() == [6.0, 1.0]
    # a time limit after the first step, continued with the value 7 of its final observations, and nothing of the next
    # episode: v0 = 1 + (2 + 7/2 - 1) = 5.5, advantage 4.5; a termination: 1 + (2 - 1) = 2, advantage 1
    ends = torch.tensor([[True], [False]])
    for worth, target in ((7.0, 5.5), (0.0, 2.0)):
        found = vtrace(**steps, next_values=column([worth, 6.0]), ended=ends, **options)
        assert found.targets[0].item() == target and found.advantages[0].item() == target - 1


def in_float64(log_ratios: Any, rewards: Any, values: Any, following: Any, ends: Any, **options: Any) -> Any:
    """Equation 1 of the paper with the c of its remark 2, literally, of one agent: a sum over all later steps.

    Advantages are bootstrapped from the mean, by lambda, of the next target and the next value.
    """
    rho = np.minimum(np.exp(log_ratios), options["rho_clip"])
    weight = options["gae_lambda"] * np.ones_like(rho)
    c = weight * np.minimum(np.exp(log_ratios), options["c_clip"])
    steps, gamma = len(rewards), options["gamma"]
    targets = values.copy()
    for s in range(steps):
        for t in range(s, steps):
            delta = rho[t] * (rewards[t] + gamma * following[t] - values[t])
            targets[s] += gamma ** (t - s) * np.prod(c[s:t]) * delta
            if ends[t]:
                break
    after = [
        following[t] if ends[t] or t == steps - 1 else weight[t] * targets[t + 1] + (1 - weight[t]) * following[t]
        for t in range(steps)
    ]
    return targets, rho * (rewards + gamma * np.array(after) - values)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 0.95, 1.0])
def test_against_the_definition_in_float64(gae_lambda: float) -> None:
    rng = np.random.default_rng(0)
    steps, agents = 12, 40
    numbers = {name: rng.normal(size=(steps, agents)) for name in ("log_ratios", "rewards", "values", "next_values")}
    ends = rng.random((steps, agents)) < 0.2
    going_on = ~ends[:-1]
    numbers["next_values"][:-1][going_on] = numbers["values"][1:][going_on]
    options = {"gamma": 0.9, "gae_lambda": gae_lambda, "rho_clip": 1.2, "c_clip": 0.9}
    tensors = {name: torch.from_numpy(values).float() for name, values in numbers.items()}
    found = vtrace(**tensors, ended=torch.from_numpy(ends), **options)
    for agent in range(agents):
        one = [values[:, agent] for values in numbers.values()]
        targets, advantages = in_float64(*one, ends[:, agent], **options)
        np.testing.assert_allclose(found.targets[:, agent], targets, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.advantages[:, agent], advantages, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 0.95, 1.0])
def test_of_the_policys_own_experience_it_is_generalised_advantage_estimation(gae_lambda: float) -> None:
    rng = np.random.default_rng(1)
    rewards, values, final = rng.normal(size=20), rng.normal(size=21), rng.normal(size=20)
    ends, cuts = rng.random(20) < 0.1, rng.random(20) < 0.1
    following = np.where(ends, 0.0, np.where(cuts, final, values[1:]))
    found = vtrace(
        log_ratios=torch.zeros(20, 1),
        **{
            name: torch.from_numpy(numbers).float().unsqueeze(1)
            for name, numbers in (("rewards", rewards), ("values", values[:-1]), ("next_values", following))
        },
        ended=torch.from_numpy(ends | cuts).unsqueeze(1),
        gamma=0.97,
        gae_lambda=gae_lambda,
        rho_clip=1.0,
        c_clip=1.0,
    )
    advantages = by_definition(rewards, values, final, ends, cuts, 0.97, gae_lambda)
    np.testing.assert_allclose(found.targets.flatten(), values[:-1] + advantages, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.advantages.flatten(), advantages, rtol=1e-5, atol=1e-5)


def staggered(sections: Sections, game: str, learner: int = 0, **settings: Any) -> dict[str, Any]:
    """12 replicas, rollouts of 2 steps, updates from 6 steps: three groups of 4 replicas. One of two tags learns."""
    values = sections(game, TAGS[game], num_envs=12, train_batch_size=24, total_steps=240)
    learning = {"algorithm": "a2c", "steps_per_update": 6, "lr": 0.05, "gae_lambda": 0.9, "model": {"hidden": [8]}}
    policy: dict[str, Any] = {tag: {"algorithm": "random"} for tag in TAGS[game]}
    return {**values, "policy": {**policy, TAGS[game][learner]: {**learning, **settings}}}


@pytest.mark.parametrize(
    ("game", "learner", "after_leaving"),
    [("Leave", 0, False), ("Leave", 0, True), ("Fuse", 0, True), ("Arrive", 1, True)],
)
def test_groups_are_learned_from_in_turn_each_step_once(
    sections: Sections, trainer_of: TrainerOf, game: str, learner: int, after_leaving: bool
) -> None:
    """Compare with rollouts kept apart, with probabilities and values computed anew.

    Known mistakes: agents out of the episode counted, masks of another step, the value after a time limit taken from
    the next episode.
    """
    trainer = trainer_of(staggered(sections, game, learner, returns_after_leaving=after_leaving))
    tag = TAGS[game][learner]
    policy: Any = trainer.policies[tag]
    kept: list[dict[str, Any]] = []
    for update in range(9):
        trainer.collect()
        rollout = trainer.rollout
        steps = transitions_of(rollout, tag, after_leaving).columns()
        shape = rollout.of("rewards", tag).shape
        rows = {
            **{name: value for name, value in steps.items() if name != "next_action_mask"},
            "ended": ended(rollout, tag, after_leaving).flatten(),
            "then": rollout.of("log_probabilities", tag).flatten(),
            "stays": torch.ones(shape, dtype=torch.bool).flatten(),
        }
        if rollout.still_active is not None:
            rows["stays"] = rollout.of("still_active", tag).flatten()
        if rollout.action_mask is not None:
            rows["action_mask"] = rollout.of("action_mask", tag).flatten(0, 2)
        for t in range(2):
            kept.append({name: value.unflatten(0, shape)[t].clone() for name, value in rows.items()})
        absent_value = float(policy.experience.state_dict()["absent_value"])
        with wd.no_host_transfers(trainer.env.device):
            batch: Batch = policy.experience.of(rollout)
        replicas, last = slice(4 * (update % 3), 4 * (update % 3) + 4), kept[-6:]
        missing = 6 - len(last)
        window = {name: torch.stack([step[name][replicas] for step in last]).flatten(1, 2) for name in last[0]}
        columns = {
            name: getattr(batch, name).unflatten(0, (6, -1))[missing:]
            for name in ("observations", "actions", "weight", "returns", "advantages", "values", "log_probabilities")
        }
        assert (batch.weight.unflatten(0, (6, -1))[:missing] == 0).all()
        for name in ("observations", "actions", "weight"):
            assert torch.equal(columns[name], window[name])
        assert torch.equal(columns["log_probabilities"], window["then"])
        with torch.no_grad():
            logits, values = policy.model(window["observations"])
            mask = window.get("action_mask")
            now, _ = policy.algorithm.distribution.log_prob_and_entropy(logits, window["actions"], mask)
            following = policy.model.values(window["next_observations"])
            if after_leaving:
                values[window["weight"] == 0] = absent_value
                following[~window["stays"]] = absent_value
            following *= ~window["terminal"]
            ratios = (now - window["then"]) * window["weight"]
        options: dict[str, Any] = {"gamma": 0.99, "rho_clip": 1.0, "c_clip": 1.0}
        numbers = [part.double().numpy() for part in (ratios, window["rewards"], values, following)]
        for agent in range(window["ended"].shape[1]):
            active = window["weight"][:, agent].numpy() > 0
            one = [part[:, agent] for part in numbers]
            weights = np.where(window["stays"][:, agent].numpy() | (not after_leaving), 0.9, 1.0)
            targets, advantages = in_float64(*one, window["ended"][:, agent].numpy(), gae_lambda=weights, **options)
            found = columns["returns"][:, agent].numpy(), columns["advantages"][:, agent].numpy()
            np.testing.assert_allclose(found[0][active], targets[active], rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(found[1][active], advantages[active], rtol=1e-4, atol=1e-4)
        policy.algorithm.update(batch, policy.generator)
    assert (absent_value > 100.0) == (after_leaving and game != "Fuse")  # of 1000 a step
    assert np.abs(numbers[0]).max() > 0.01  # the policy has moved since


def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path
) -> None:
    losses = check_goes_on(trainer_of(staggered(sections, "Leave")), tmp_path / "half", updates=4)
    assert losses["losses/approx_kl/outer"] > 0


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("policy.outer.steps_per_update=7", "found 7, expected a multiple of 2, the steps of a rollout"),
        ("policy.outer.steps_per_update=10", "which makes 5 groups of replicas (10 / 2 steps of a rollout)"),
        (
            "policy.outer.model={type: gru}",
            "found 'gru', expected a model without recurrent state with steps_per_update",
        ),
    ],
)
def test_what_makes_no_groups_is_refused(sections: Sections, override: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(staggered(sections, "Leave"), [override])
    assert told in str(caught.value)
