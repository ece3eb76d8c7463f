"""Recurrent models: states of agents in rollouts, sequences in updates, values of truncated episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from float64 import Array, Parameters, by_differences, gradients_of, parameters_of, perceptron
from games import TAGS

import warpdrive as wd
from warpdrive.errors import ActionError, ConfigError, TrainingError
from warpdrive.training.experience.advantages import AdvantageEstimator
from warpdrive.training.experience.batch import batch_of
from warpdrive.training.models import seeded
from warpdrive.training.models.options import MinGRUConfig
from warpdrive.training.models.recurrent import Recurrent, states_after
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]
MODELS = {
    "gru": {"type": "gru", "hidden": [5], "units": 4},
    "lstm": {"type": "lstm", "hidden": [], "units": 3},
    "mingru": {"type": "mingru", "hidden": [5], "units": 4},
    "two grus": {"type": "gru", "hidden": [3], "units": 3, "trunk": "separate"},
    "two lstms": {"type": "lstm", "hidden": [3], "units": 2, "trunk": "separate"},
    "two mingrus": {"type": "mingru", "hidden": [], "units": 2, "trunk": "separate"},
    "perceptrons": {"hidden": [5]},
    "one perceptron": {"hidden": [5], "trunk": "shared"},
}


def collected(sections: Sections, trainer_of: TrainerOf, game: str, model: dict[str, Any], times: int = 2) -> Trainer:
    """A trainer that has filled its rollout several times, 8 steps each: episodes go on from one to the next.

    The weights are far from where they begin, so that what is remembered matters.
    """
    values = sections(game, TAGS[game], num_envs=10, train_batch_size=80)
    for policy in values["policy"].values():
        policy["model"] = model
    trainer = trainer_of(values)
    with torch.no_grad():
        for policy in trainer.policies.values():
            for parameter in policy.model.parameters():
                parameter.mul_(2.0).add_(0.5 * torch.randn(parameter.shape, generator=policy.generator))
    for _ in range(times):
        trainer.collect()
    return trainer


def of_active(trainer: Trainer, tag: str, per_agent: torch.Tensor) -> torch.Tensor:
    active = trainer.rollout.active
    return per_agent.flatten() if active is None else per_agent[trainer.rollout.of("active", tag)]


OF_BOTH_GAMES = [
    *exhaustive([("Fuse", model) for model in ("gru", "two lstms")], ()),
    *[("Arrive", model) for model in ("lstm", "mingru")],
    ("Fuse", "two grus"),
]
"""Every kind of unit, in a game whose agents stay or in one whose agents leave and return."""


@pytest.mark.parametrize(
    ("game", "model"),
    [
        *OF_BOTH_GAMES,
        *[("Spell", "lstm"), ("Leave", "perceptrons")],
        *exhaustive([("Aim", "two lstms"), ("Screen", "shared")], ()),
        *exhaustive([("Arrive", "two mingrus"), ("Leave", "gru"), ("Echo", "perceptrons"), ("Screen", "separate")], ()),
        *exhaustive([("Leave", "one perceptron"), ("Spell", "one perceptron")], ()),
    ],
)
def test_a_rollout_is_replayed(sections: Sections, trainer_of: TrainerOf, game: str, model: str) -> None:
    """Equal to 1e-6 (of numbers above 1, of their size), where the agent was in the episode.

    A state that is not reset with the episode, or is forgotten where a rollout begins, is found by the replay.
    """
    kind = MODELS.get(model, {"type": "convolutional", "filters": [4], "hidden": [5], "trunk": model})
    scaled = {"scale_observations": game == "Spell"}  # whose pictures hold numbers of 255
    trainer = collected(sections, trainer_of, game, kind | scaled)
    rollout = trainer.rollout
    for tag, policy in trainer.policies.items():
        found = policy.replay(rollout)
        batch = policy.experience.of(rollout)
        stored = rollout.of("log_probabilities", tag)
        assert found.log_probabilities.shape == found.entropies.shape == found.values.shape == stored.shape
        for now, then in ((found.log_probabilities, stored), (found.values, batch.values.view(stored.shape))):
            of_both = (of_active(trainer, tag, part) for part in (now.detach(), then))
            torch.testing.assert_close(*of_both, atol=1e-6, rtol=1e-6)
        (found.log_probabilities + found.values + found.entropies).sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in policy.model.parameters())
    if (game, model) not in OF_BOTH_GAMES:
        return

    @torch.no_grad()
    def error(rollout: Any) -> float:
        return max(
            float(of_active(trainer, tag, (found.log_probabilities - rollout.of("log_probabilities", tag)).abs()).max())
            for tag, policy in trainer.policies.items()
            for found in [policy.replay(rollout)]
        )

    never = torch.zeros_like(rollout.terminated)
    assert error(replace(rollout, terminated=never, truncated=never)) > 1e-3, "not reset with the episode"
    forgotten = {tag: torch.zeros_like(memory) for tag, memory in rollout.memory.items()}
    assert error(replace(rollout, memory=forgotten)) > 1e-3, "forgotten where the rollout begins"
    if game == "Arrive":
        always = torch.ones_like(trainer.env.ctx["active"]).expand_as(rollout.active)
        assert error(replace(rollout, active=always)) > 1e-3, "remembered while out of the episode"


@pytest.mark.parametrize("model", ["lstm", "perceptrons"])
def test_a_rollout_is_replayed_where_observations_and_returns_are_normalised(
    sections: Sections, trainer_of: TrainerOf, model: str
) -> None:
    values = sections("Arrive", TAGS["Arrive"], num_envs=10, train_batch_size=80)
    for policy in values["policy"].values():
        policy |= {"normalize_returns": True, "model": {**MODELS[model], "normalize_observations": True}}
    trainer = trainer_of(values)
    for _ in range(2):
        trainer.collect()
        trainer.update()
    trainer.collect()
    for tag, policy in trainer.policies.items():
        assert float(policy.algorithm.returns.mean) != 0  # type: ignore[attr-defined]
        found, batch = policy.replay(trainer.rollout), policy.experience.of(trainer.rollout)
        stored = trainer.rollout.of("log_probabilities", tag)
        for now, then in ((found.log_probabilities, stored), (found.values, batch.values.view(stored.shape))):
            of_both = (of_active(trainer, tag, part) for part in (now.detach(), then))
            torch.testing.assert_close(*of_both, atol=1e-6, rtol=1e-6)


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def moved(parameters: Parameters, cell: str, inputs: Array, state: Array) -> Array:
    """A unit's state after its inputs, by the formulas of the papers in the order of PyTorch's weights."""
    if f"{cell}.weight" in parameters:  # a MinGRU: update, candidate
        update, candidate = np.split(inputs @ parameters[f"{cell}.weight"].T + parameters[f"{cell}.bias"], 2, axis=1)
        candidate = np.where(candidate >= 0, candidate + 0.5, sigmoid(candidate))
        return (1.0 - sigmoid(update)) * state + sigmoid(update) * candidate
    w_i, w_h, b_i, b_h = (parameters[f"{cell}.{name}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    units = w_h.shape[1]
    from_inputs = inputs @ w_i.T + b_i
    from_state = state[:, :units] @ w_h.T + b_h
    if len(w_h) == 3 * units:  # a GRU: reset, update, candidate
        reset, update = (
            sigmoid(from_inputs[:, part] + from_state[:, part]) for part in (slice(units), slice(units, 2 * units))
        )
        candidate = np.tanh(from_inputs[:, 2 * units :] + reset * from_state[:, 2 * units :])
        return (1.0 - update) * candidate + update * state
    entered, kept, candidate, shown = np.split(from_inputs + from_state, 4, axis=1)
    inside = sigmoid(kept) * state[:, units:] + sigmoid(entered) * np.tanh(candidate)
    return np.concatenate([sigmoid(shown) * np.tanh(inside), inside], axis=1)


def encoded(parameters: Parameters, which: int, seen: Array) -> Array:
    name = f"model.encoders.{which}"
    if f"{name}.0.weight" not in parameters:
        return seen
    return np.tanh(perceptron(parameters, name, seen))  # which leaves the last layer as it is


def numbers_in_float64(
    parameters: Parameters, units: int, seen: Array, start: list[Array], begins: Array
) -> tuple[Array, Array, list[list[Array]]]:
    """Logits and values ``[T, n, ...]`` of observations ``[T, n, size]``, and each unit's states after each step."""
    states, logits, values = [start], [], []
    for t in range(len(seen)):
        before = [np.where(begins[t][:, None], 0.0, state) for state in states[-1]]
        states.append(
            [
                moved(parameters, f"model.cells.{which}", encoded(parameters, which, seen[t]), state)
                for which, state in enumerate(before)
            ]
        )
        logits.append(perceptron(parameters, "model.policy", states[-1][0][:, :units]))
        values.append(perceptron(parameters, "model.value", states[-1][-1][:, :units])[:, 0])
    return np.array(logits), np.array(values), states[1:]


@pytest.mark.parametrize(("game", "model"), [*OF_BOTH_GAMES, ("Arrive", "two mingrus")])
def test_values_against_a_plain_loop_in_float64(
    sections: Sections, trainer_of: TrainerOf, game: str, model: str
) -> None:
    """From the first step of training on, agent by agent; two rollouts, through all resets, and what was cut short."""
    kind: dict[str, Any] = MODELS[model]
    trainer = collected(sections, trainer_of, game, kind, times=0)
    tags, units = trainer.env.policy_tags, kind["units"]
    parameters = {tag: parameters_of(model=policy.model) for tag, policy in trainer.policies.items()}
    numbers = units * (2 if kind["type"] == "lstm" else 1)
    trunks = 2 if kind.get("trunk") == "separate" else 1
    states = {tag: [np.zeros((10 * len(ids), numbers))] * trunks for tag, ids in tags.items()}
    begins = {tag: np.ones(10 * len(ids), bool) for tag, ids in tags.items()}
    cut = 0
    for _ in range(2):
        trainer.collect()
        rollout = trainer.rollout
        ended = (rollout.terminated | rollout.truncated).numpy()
        for tag, policy in trainer.policies.items():
            rows = 10 * len(tags[tag])
            estimator = AdvantageEstimator.of(rollout, trainer.env.backend, policy.agent_ids, 0.9, 0.8)
            batch = batch_of(rollout, tag, policy.model, estimator)
            seen = rollout.of("observations", tag).double().numpy().reshape(9, rows, -1)
            resets = np.repeat(ended, len(tags[tag]), axis=1)
            if rollout.active is not None:
                resets = resets | ~rollout.of("active", tag).numpy().reshape(8, rows)
            resets = np.concatenate([begins[tag][None], resets])
            logits, values, after = numbers_in_float64(parameters[tag], units, seen, states[tag], resets)
            counts = batch.weight.numpy().reshape(8, rows) > 0
            np.testing.assert_allclose(batch.values.numpy().reshape(8, rows)[counts], values[:8][counts], atol=2e-5)
            likely = np.exp(logits[:8])
            likely /= likely.sum(-1, keepdims=True)
            actions = batch.actions.numpy().reshape(8, rows, 1)
            chosen = np.log(np.take_along_axis(likely, actions, -1)[..., 0])
            found = batch.log_probabilities.numpy().reshape(8, rows)
            np.testing.assert_allclose(found[counts], chosen[counts], atol=2e-5)
            last = rollout.of("final_observations", tag).double().numpy().reshape(-1, rows, seen.shape[-1])
            for t, env in np.argwhere(rollout.final_slot.numpy() >= 0):
                slot = int(rollout.final_slot[t, env])
                for column in range(len(tags[tag])):
                    row = env * len(tags[tag]) + column
                    if counts[t, row]:
                        with_state = [state[row : row + 1] for state in after[t]]
                        one = last[slot, row].reshape(1, 1, -1)
                        _, final, _ = numbers_in_float64(
                            parameters[tag], units, one, with_state, np.zeros((1, 1), bool)
                        )
                        assert float(estimator.final_values[slot, env, column]) == pytest.approx(final.item(), abs=2e-5)
                        cut += 1
            states[tag], begins[tag] = after[7], resets[8]
    assert cut > 10


@pytest.mark.parametrize(("model", "algorithm"), [("two grus", "ppo"), ("lstm", "a2c"), ("mingru", "reinforce")])
def test_the_gradient_through_time_in_float64(
    sections: Sections, trainer_of: TrainerOf, model: str, algorithm: str
) -> None:
    """For half of the sequences of a rollout with episodes that end and agents that leave and return."""
    kind: dict[str, Any] = MODELS[model]
    values = sections("Arrive", TAGS["Arrive"], num_envs=10, train_batch_size=80)
    settings = {"algorithm": algorithm, "entropy_coef": 0.1, "model": kind}
    values["policy"] = {tag: settings for tag in TAGS["Arrive"]}
    trainer = trainer_of(values)
    policy: Any = trainer.policies["outer"]
    trainer.collect()
    trainer.collect()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # not the weights that acted: ratios are not 1
        for parameter in policy.model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    batch = policy.experience.of(trainer.rollout)
    part = next(batch.minibatches(2, generator))
    assert len(part.sequences) == 10 and len(part) == 80 and 0 < part.weight.mean() < 1
    target = part.returns if algorithm == "reinforce" else part.advantages
    loss, _ = policy.algorithm.loss(part, target)
    policy.model.zero_grad()
    loss.backward()

    def column(rows: torch.Tensor) -> Array:
        return rows.double().numpy().reshape(8, 10, *rows.shape[1:])

    advantages, returns, weight = column(target), column(part.returns), column(part.weight)
    seen, old, actions = column(part.observations), column(part.log_probabilities), column(part.actions)
    begins, start = part.sequences.begins.numpy(), part.sequences.start.double().numpy()
    assert begins.any() and np.abs(start).max() > 0
    trunks = 2 if kind.get("trunk") == "separate" else 1

    def in_float64(parameters: Parameters) -> Any:
        first = np.split(start, trunks, axis=1)
        logits, values, _ = numbers_in_float64(parameters, kind["units"], seen, first, begins)
        likely = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        log_prob = np.log(np.take_along_axis(likely, actions.astype(int)[..., None], -1)[..., 0])
        entropy = -(likely * np.log(likely)).sum(-1)
        ratio = np.exp(log_prob - old)
        gain = log_prob * advantages
        if algorithm == "ppo":
            gain = np.minimum(ratio * advantages, np.clip(ratio, 0.8, 1.2) * advantages)
        value_loss = 0.0 if algorithm == "reinforce" else 0.5 * 0.5 * (values - returns) ** 2
        return (weight * (-gain + value_loss - 0.1 * entropy)).sum() / weight.sum()

    assert loss.item() == pytest.approx(in_float64(parameters_of(model=policy.model)), abs=1e-5)
    expected = by_differences(in_float64, parameters_of(model=policy.model))
    found = gradients_of(model=policy.model)
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name], gradient, atol=1e-4 * max(1.0, np.abs(gradient).max()), err_msg=name)


@pytest.mark.parametrize("steps", [1, 2, 37])
def test_steps_of_a_mingru_equal_all_at_once_in_float64(steps: int) -> None:
    """Sequences with episodes that begin in them; also the gradients, of weights and of the first state."""
    options = MinGRUConfig(hidden=[5], units=6, trunk="separate")
    with seeded(steps):
        model = Recurrent(gymnasium.spaces.Box(-1.0, 1.0, (3,)), 4, options).double()
        seen, start = torch.randn(steps, 9, 3, dtype=torch.float64), torch.randn(9, 12, dtype=torch.float64)
        begins = torch.rand(steps, 9) < 0.2
    model.flatten.register_forward_hook(lambda module, given, flat: flat.double())
    found = []
    for at_once in (True, False):
        state = start.clone().requires_grad_()
        if at_once:
            logits, values, states = model.forward_sequence(seen, state, begins)
        else:
            states = states_after(model.advance, model.encode(seen), state, begins)
            logits, values = model.heads(states)
        total = logits.square().sum() + values.sum() + states.sin().sum()
        found.append([logits, values, states, *torch.autograd.grad(total, [state, *model.parameters()])])
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-13)
    assert begins.any() or steps < 3


@pytest.mark.parametrize(
    ("model", "learns"), [("gru", True), ("lstm", True), ("mingru", True), ("fully_connected", False)]
)
def test_what_needs_a_memory_is_learned_with_one(
    sections: Sections, trainer_of: TrainerOf, model: str, learns: bool
) -> None:
    """The seed is fixed, and runs repeat."""
    values = sections("Recall", TAGS["Recall"], num_envs=32, train_batch_size=320, total_steps=320 * 20)
    values["trainer"]["reset_pool_size"] = 1000
    settings = {"algorithm": "ppo", "lr": 0.03, "entropy_coef": 0.0, "gamma": 0.8, "minibatches": 2}
    values["policy"] = {"players": {**settings, "model": {"type": model, "hidden": [8]}}}
    trainer = trainer_of(values, *["policy.players.model.units=8"] * (model != "fully_connected"))
    trainer.train()
    reached = trainer.evaluate(num_episodes=500).mean_return["players"]
    assert reached > 3.7 if learns else reached < 2.3


def test_there_are_sequences_for_every_minibatch(sections: Sections, trainer_of: TrainerOf) -> None:
    values = sections("Recall", TAGS["Recall"], num_envs=10, train_batch_size=80)
    trainer_of(values, "policy.players.model={type: gru, hidden: [8], units: 8}", "policy.players.minibatches=20")
    trainer_of(values, "policy.players.minibatches=21")
    told = r"policy\.players\.minibatches: found 21, expected at most 20, the sequences"
    with pytest.raises(ConfigError, match=told):
        trainer_of(values, "policy.players.model={type: gru, hidden: [8], units: 8}", "policy.players.minibatches=21")


def of_two_kinds(sections: Sections, trainer_of: TrainerOf, tmp_path: Path) -> dict[str, wd.TrainedPolicy]:
    """A recurrent policy and a feed-forward one."""
    values = sections("Leave", TAGS["Leave"])
    values["policy"]["outer"]["model"] = MODELS["two lstms"]
    trainer = trainer_of(values)
    trainer.save(tmp_path / "saved")
    return {tag: wd.load_policy(tmp_path / "saved", tag) for tag in TAGS["Leave"]}


@pytest.mark.parametrize(
    ("game", "model"), [("Aim", "gru"), ("Aim", "two lstms"), ("Spell", "lstm"), ("Aim", "mingru")]
)
def test_a_policy_on_its_own_remembers_as_in_replicas(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path, game: str, model: str
) -> None:
    """Actions in the two replicas of an episode equal those of the policy alone, observation by observation."""
    scaled = {"scale_observations": game == "Spell"}
    trainer = collected(sections, trainer_of, game, MODELS[model] | scaled)
    trainer.save(tmp_path / "saved")
    episode = trainer.fetch_episode(2, deterministic=True, observations=True, logits=True)
    assert trainer.evaluate(num_episodes=25) == trainer.evaluate(num_episodes=25)
    for tag in TAGS[game]:
        policy = wd.load_policy(tmp_path / "saved", tag)
        assert policy.is_recurrent
        seen, acted = episode.of("observations", tag), episode.of("actions", tag)
        for again in range(2):
            if again:
                policy.reset()
            for t in range(episode.num_steps):
                at = {key: part[t] for key, part in seen.items()} if isinstance(seen, dict) else seen[t]
                start = np.ones(acted.shape[1:3], bool) if t == 0 else None
                actions = policy.act(at, deterministic=True, episode_start=start)
                done = acted[t]
                if tag == "aimer":  # recorded as drawn; what the environment got is clipped
                    done = done.clip(policy.action_space.low, policy.action_space.high)
                np.testing.assert_allclose(actions, done, rtol=1e-5, atol=1e-5)


def test_rows_of_a_policy_begin_episodes_of_their_own(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path
) -> None:
    policy = of_two_kinds(sections, trainer_of, tmp_path)["outer"]
    seen = torch.rand(4, 3, 6)

    def logits_after(*begins: list[bool] | None) -> list[torch.Tensor]:
        policy.reset()
        made = []
        forward, policy.model.heads = policy.model.heads, lambda state: made.append(state) or forward(state)  # type: ignore
        for t, begin in enumerate(begins):
            policy.act(seen[t], episode_start=begin)
        policy.model.heads = forward  # type: ignore[method-assign]
        return made

    whole = logits_after(None, None, None, None)
    cut = logits_after([True] * 3, None, [False, True, False], None)
    anew = torch.stack([seen[2], seen[3]])
    assert torch.equal(cut[3][[0, 2]], whole[3][[0, 2]]) and not torch.equal(cut[3][1], whole[3][1])
    policy.reset()
    policy.act(anew[0])
    policy.act(anew[1])
    torch.testing.assert_close(policy._memory[1], cut[3][1])  # type: ignore[index]


def test_what_does_not_fit_what_is_remembered_is_told(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path
) -> None:
    policies = of_two_kinds(sections, trainer_of, tmp_path)
    recurrent, other = policies["outer"], policies["inner"]
    assert recurrent.is_recurrent and not other.is_recurrent
    recurrent.act(np.zeros((3, 6)))
    with pytest.raises(ActionError, match=r"found 2 row\(s\) of observations, expected 3, .* policy\.reset\(\) starts"):
        recurrent.act(np.zeros((2, 6)))
    with pytest.raises(ActionError, match=r"found an episode_start of shape \(2,\), expected \(3,\)"):
        recurrent.act(np.zeros((3, 6)), episode_start=[True, False])
    recurrent.reset()
    recurrent.act(np.zeros(6))
    for rows in (2, 3):
        other.act(np.zeros((rows, 6)), episode_start=[True] * rows)


def test_only_what_learns_from_rollouts_is_replayed(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections(), "policy.even={algorithm: dqn}")
    trainer.collect()
    with pytest.raises(TrainingError, match="policy 'even': found the algorithm 'dqn', expected one that learns from"):
        trainer.policies["even"].replay(trainer.rollout)
