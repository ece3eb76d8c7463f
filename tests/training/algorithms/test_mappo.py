"""PPO with a centralised critic: what it sees, its loss and gradient in float64, checkpoints, learning."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from float64 import Parameters, by_differences, gradients_of, parameters_of, perceptron
from games import TAGS
from resuming import check_goes_on

import warpdrive as wd
from warpdrive.errors import ConfigError
from warpdrive.training.models.base import observations_of
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]


def mappo(sections: Sections, game: str, **settings: Any) -> dict[str, Any]:
    values = sections(game, TAGS[game])
    small = {"hidden": [5], "normalize_observations": True}
    policy = {"algorithm": "ppo", "centralized_critic": True, "model": small, "minibatches": 2, **settings}
    return {**values, "policy": {tag: dict(policy) for tag in TAGS[game]}}


def flat(seen: Any, step: int, env: int, agent: int) -> list[float]:
    """Flatten an agent's observation in the order of the keys; ``number`` of Spell is one of three choices."""
    if not isinstance(seen, dict):
        return seen[step, env, agent].flatten().tolist()  # type: ignore[no-any-return]
    number = int(seen["number"][step, env, agent])
    return [float(number == k) for k in range(3)] + seen["picture"][step, env, agent].flatten().tolist()


@pytest.mark.parametrize("game", exhaustive(["Echo", "Leave", "Aim", "Spell"], ("Leave",)))
def test_the_critic_sees_what_all_agents_see_and_who_looks(
    sections: Sections, trainer_of: TrainerOf, game: str
) -> None:
    """Looked up agent by agent in the observations of all, also at the end of truncated episodes."""
    trainer = trainer_of(mappo(sections, game))
    trainer.collect()
    rollout = trainer.rollout
    everyone = [agent for tag in trainer.env.policy_tags for agent in trainer.env.policy_tags[tag]]
    for tag, ids in trainer.env.policy_tags.items():
        policy: Any = trainer.policies[tag]
        with wd.no_host_transfers(trainer.env.device):
            batch = policy.experience.of(rollout)
        states = batch.states.unflatten(0, (rollout.num_steps, 20, len(ids)))
        final = policy.algorithm.critic_input.of(rollout, final=True).all().unflatten(0, (-1, 20, len(ids)))
        for env in (0, 13):
            for column in range(len(ids)):
                who = [float(k == column) for k in range(len(ids))]
                for seen, found in ((rollout.observations, states), (rollout.final_observations, final)):
                    for step in range(0, len(found), 3):
                        expected = [number for agent in everyone for number in flat(seen, step, env, agent)]
                        assert found[step, env, column].tolist() == expected + who
        with torch.no_grad():
            counts = batch.weight > 0
            torch.testing.assert_close(batch.values[counts], policy.algorithm.critic.values(batch.states)[counts])


def test_the_gradient_of_the_loss_in_float64(sections: Sections, trainer_of: TrainerOf) -> None:
    """With clipped ratios and values, a mask, and agents out of the episode; the model's own values stay out of it."""
    settings: dict[str, Any] = {
        "model": {"hidden": [5]},
        "value_clip": 0.3,
        "entropy_coef": 0.1,
        "value_coef": 0.7,
        "clip": 0.2,
    }
    settings["returns_after_leaving"] = False  # with it they are thousands, of which differences are inexact
    trainer = trainer_of(mappo(sections, "Leave", **settings))
    policy: Any = trainer.policies["outer"]
    algorithm = policy.algorithm
    trainer.collect()
    batch = policy.experience.of(trainer.rollout).rows(torch.arange(0, 400, 13))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in algorithm.trained.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    advantages = torch.randn(len(batch), generator=generator)
    loss, terms = algorithm.loss(batch, advantages)
    loss.backward()
    numbers = {name: getattr(batch, name).double().numpy() for name in ("observations", "states", "values", "returns")}
    weight, then = batch.weight.double().numpy(), batch.log_probabilities.double().numpy()
    mask, actions = batch.action_mask.numpy(), batch.actions.long().numpy()

    def in_float64(p: Parameters) -> Any:
        logits = np.where(mask, perceptron(p, "model.policy", numbers["observations"]), -np.inf)
        log_prob, entropy = np.zeros(len(weight)), np.zeros(len(weight))
        for part, choices in enumerate((slice(0, 4), slice(4, 6))):
            likely = np.exp(logits[:, choices])
            likely /= likely.sum(1, keepdims=True)
            with np.errstate(divide="ignore"):
                log_prob += np.log(likely[np.arange(len(weight)), actions[:, part]])
            entropy -= (likely * np.log(np.where(likely > 0, likely, 1.0))).sum(1)
        log_prob = np.where(weight > 0, log_prob, then)
        ratio, better = np.exp(log_prob - then), advantages.double().numpy()
        gain = np.minimum(ratio * better, np.clip(ratio, 0.8, 1.2) * better)
        values = perceptron(p, "critic.value", numbers["states"])[:, 0]
        clipped = numbers["values"] + np.clip(values - numbers["values"], -0.3, 0.3)
        errors = np.maximum((values - numbers["returns"]) ** 2, (clipped - numbers["returns"]) ** 2)
        return (weight * (-gain + 0.7 * 0.5 * errors - 0.1 * entropy)).sum() / weight.sum()

    parameters = parameters_of(model=algorithm.model, critic=algorithm.critic)
    assert loss.item() == pytest.approx(in_float64(parameters), rel=1e-4)
    assert 0 < weight.mean() < 1 and terms["clipfrac"] > 0.1
    found = gradients_of(model=algorithm.model, critic=algorithm.critic)
    expected = by_differences(in_float64, parameters)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-3, atol=2e-5, err_msg=name)
        assert np.abs(expected[name]).max() > 1e-3 or name.startswith("model.value")


def test_the_critic_sees_the_environments_global_state(sections: Sections, trainer_of: TrainerOf) -> None:
    """By default, where there is one; and which agent of its tag it is."""
    trainer = trainer_of(mappo(sections, "Revealed"))
    target = trainer.env.ctx["target"].clone()
    trainer.collect()
    rollout = trainer.rollout
    assert torch.equal(rollout.global_state["target"][0], target)
    for tag in ("even", "odd"):
        policy: Any = trainer.policies[tag]
        states = policy.experience.of(rollout).states.unflatten(0, (10, 20, 2))
        final = policy.algorithm.critic_input.of(rollout, final=True).all().unflatten(0, (-1, 20, 2))
        for found, source in ((states, rollout.global_state), (final, rollout.final_global_state)):
            for step, env, column in ((0, 0, 1), (len(found) - 1, 17, 0)):
                expected = [source["timestep"][step, env].item(), *source["target"][step, env].tolist()]
                assert found[step, env, column].tolist() == [*expected, column == 0, column == 1]
    assert (rollout.final_global_state["timestep"][0] == 8).all()
    asked = trainer_of(mappo(sections, "Revealed", critic_input="observations"))
    policy = asked.policies["odd"]
    assert policy.algorithm.critic_input.size == 4 * 3 + 2 and not asked.rollout.global_state
    with pytest.raises(ConfigError, match=r"critic_input: found 'global_state', but Echo has none: name its arrays"):
        trainer_of(mappo(sections, "Echo", critic_input="global_state"))


@pytest.mark.parametrize("game", ["Leave", "Revealed", "Spell"])
def test_an_agent_specific_input_begins_with_the_own_observation(
    sections: Sections, trainer_of: TrainerOf, game: str
) -> None:
    """Followed by what the critic sees by default, in rollouts, at their ends and between steps."""
    trainer = trainer_of(mappo(sections, game, critic_input="agent_specific"))
    default = trainer_of(mappo(sections, game))
    trainer.collect()
    default.collect()
    rollout = trainer.rollout
    assert trainer.rollout.global_state.keys() == default.rollout.global_state.keys()
    for tag, ids in trainer.env.policy_tags.items():
        found: Any = trainer.policies[tag].algorithm
        shared: Any = default.policies[tag].algorithm
        for final, seen in ((False, rollout.of("observations", tag)), (True, rollout.of("final_observations", tag))):
            rows = found.critic_input.of(rollout, final=final).all().unflatten(0, (-1, 20, len(ids)))
            expected = shared.critic_input.of(rollout, final=final).all().unflatten(0, (-1, 20, len(ids)))
            for step, env, column in ((0, 0, 0), (len(rows) - 1, 17, len(ids) - 1)):
                own = flat(seen, step, env, column)
                assert rows[step, env, column].tolist() == [*own, *expected[step, env, column].tolist()]
        seen = observations_of(trainer.env, tag)
        present = {key: part[None] for key, part in seen.items()} if isinstance(seen, dict) else seen[None]
        now, shared_now = found.critic_input.now(trainer.env), shared.critic_input.now(default.env)
        assert now[13, -1].tolist() == flat(present, 0, 13, len(ids) - 1) + shared_now[13, -1].tolist()


@pytest.mark.parametrize(
    ("game", "model"),
    [
        *exhaustive([("Leave", {"hidden": [5]}), ("Leave", {"type": "mingru", "hidden": [], "units": 4})], ()),
        ("Revealed", {"type": "lstm", "hidden": [5], "units": 4}),
        ("Arrive", {"type": "gru", "hidden": [5], "units": 4, "normalize_observations": True}),
    ],
)
def test_values_of_a_recurrent_critic_against_a_plain_loop(
    sections: Sections, trainer_of: TrainerOf, game: str, model: dict[str, Any]
) -> None:
    """In float64, step by step from the first of training on: two rollouts, resets, absence, and ends cut short."""
    trainer = trainer_of(mappo(sections, game, model=model, recurrent_critic=True, minibatches=1))
    kept: dict[str, Any] = {}
    cut = 0
    for _ in range(2):
        trainer.collect()
        rollout = trainer.rollout
        for tag, policy in trainer.policies.items():
            algorithm: Any = policy.algorithm
            critic = copy.deepcopy(algorithm.critic).double()
            rows = algorithm.critic_input.of(rollout).all().double().unflatten(0, (11, 20, -1))
            final = algorithm.critic_input.of(rollout, final=True).all().double().unflatten(0, (-1, 20, rows.shape[2]))
            batch = policy.experience.of(rollout)
            found = batch.values.view(rollout.of("rewards", tag).shape)
            at_ends = policy.experience._estimator[1].final_values
            active = torch.ones_like(found, dtype=torch.bool)
            if rollout.active is not None:
                active = rollout.of("active", tag)
            state = kept.get(tag, torch.zeros(20, rows.shape[2], critic.state_size, dtype=torch.float64))
            for t in range(10):
                with torch.no_grad():
                    state = critic.step(rows[t], state)
                    values = critic._value_of(state)
                    torch.testing.assert_close(found[t][active[t]].double(), values[active[t]], atol=1e-5, rtol=1e-5)
                    for env in (rollout.final_slot[t] >= 0).nonzero().flatten().tolist():
                        slot = int(rollout.final_slot[t, env])
                        value = critic._value_of(critic.step(final[slot, env], state[env]))
                        there = active[t, env]
                        torch.testing.assert_close(
                            at_ends[slot, env][there].double(), value[there], atol=1e-5, rtol=1e-5
                        )
                        cut += int(there.sum())
                state[~active[t]] = 0.0
                state[rollout.terminated[t] | rollout.truncated[t]] = 0.0
            kept[tag] = state
            assert torch.equal(policy.batch(rollout).values, batch.values)
        trainer.update()
    assert cut > 10 or game == "Leave"  # whose agents have all left before


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ({"hidden": [5], "normalize_observations": True}, {}),
        *exhaustive([({"type": "gru", "hidden": [5], "units": 4}, {})], ()),
        *exhaustive([({"hidden": [5]}, {"recurrent_critic": True, "critic_lr": 0.02})], ()),
        ({"type": "lstm", "hidden": [5], "units": 4}, {"recurrent_critic": True}),
    ],
)
def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path, model: dict[str, Any], settings: dict[str, Any]
) -> None:
    whole = trainer_of(mappo(sections, "Leave", model=model, normalize_returns=True, **settings))
    check_goes_on(whole, tmp_path / "half", updates=2)
    whole.collect()
    policy: Any = whole.policies["outer"]
    replayed, batch = policy.replay(whole.rollout), policy.experience.of(whole.rollout)
    active = whole.rollout.of("active", "outer")
    then = whole.rollout.of("log_probabilities", "outer")
    torch.testing.assert_close(replayed.log_probabilities[active], then[active], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(replayed.values[active], batch.values.view(active.shape)[active])
    # what acts elsewhere needs no critic
    whole.save(tmp_path / "whole")
    wd.load_policy(tmp_path / "whole", tag="outer").act(np.zeros((3, 6), np.float32))


def test_every_tag_learns_its_own_task(sections: Sections, trainer_of: TrainerOf) -> None:
    """At random 8/3 of 8 are right. A failure by chance is not possible while the seed stays, since runs repeat."""
    values = mappo(sections, "Echo", lr=0.02, gamma=0.3, model={"hidden": [16]})
    values["trainer"] |= {"num_envs": 50, "train_batch_size": 800, "total_steps": 16 * 800}
    trainer = trainer_of(values)
    trainer.train()
    result = trainer.evaluate(num_episodes=100, deterministic=True).mean_return
    assert result["even"] > 7 and result["odd"] > 7


def test_a_critic_with_an_optimizer_of_its_own(sections: Sections, trainer_of: TrainerOf) -> None:
    """Adam takes parameters one by one: without clipping, two optimizers take the same steps as one of all."""

    def trained(**settings: Any) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        trainer = trainer_of(mappo(sections, "Leave", lr=0.01, max_grad_norm=1e9, **settings))
        for _ in range(2):
            trainer.collect()
            trainer.update()
        algorithm: Any = trainer.policies["outer"].algorithm
        return algorithm.model.state_dict(), algorithm.critic.state_dict()

    together, alike = trained(), trained(critic_lr=0.01)
    torch.testing.assert_close(alike, together, rtol=1e-4, atol=1e-5)
    model, critic = trained(critic_lr=1e-9)
    assert all((critic[name] - together[1][name]).abs().max() > 1e-3 for name in critic if name.startswith("value"))
    clipped = trained(critic_max_grad_norm=1e-12)  # which Adam's epsilon is far above, so that the critic stays
    torch.testing.assert_close(clipped[1]["value.0.weight"], critic["value.0.weight"], rtol=0, atol=1e-6)
    assert (clipped[0]["policy.0.weight"] - model["policy.0.weight"]).abs().max() < 1e-3


def test_a_critics_settings_need_one(sections: Sections, trainer_of: TrainerOf) -> None:
    for key, value in (("critic_lr", 0.01), ("recurrent_critic", True), ("critic_input", "observations")):
        values = mappo(sections, "Leave", **{key: value}, centralized_critic=False)
        with pytest.raises(ConfigError, match=rf"{key}: found .*{value}.*, expected centralized_critic: true as well"):
            trainer_of(values)
