"""User-defined update functions, with and without a gradient step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pages import blocks_of
from paths import ROOT, SUPPORT

import warpdrive as wd
from warpdrive.errors import ConfigError, TrainingError
from warpdrive.training.config.load import load_config
from warpdrive.training.distributed.process_group import ProcessGroup, Sharding, Share
from warpdrive.training.policy import Policy
from warpdrive.training.trainer import Trainer
from warpdrive.training.trainer_checks import check_populations

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]

FILE = SUPPORT / "own_updates.py"
REINFORCE = f"algorithm: custom, function: '{FILE}:Reinforce'"
CLIMB = f"algorithm: custom, function: '{FILE}:Climb'"


def mistake(what: str) -> str:
    return f"policy.odd={{algorithm: custom, function: '{FILE}:returns_what_it_is_told', what: {what}}}"


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


@pytest.mark.parametrize("model", ["{hidden: [8], normalize_observations: true}", "{type: gru, hidden: [8], units: 4}"])
def test_reinforce_by_hand_is_the_built_in_one(sections: Sections, trainer_of: TrainerOf, model: str) -> None:
    """Agents leave, and choices are forbidden; the learning rate follows a schedule."""
    values = sections("Leave", ("inner", "outer"), num_envs=20, train_batch_size=300)
    settings = f"lr: [[0, 0.05], [1200, 0.01]], gamma: 0.9, entropy_coef: 0.1, model: {model}"
    rest = "policy.inner={algorithm: random}"
    built_in = f"algorithm: reinforce, returns_after_leaving: false, {settings}"
    ours = trainer_of(values, f"policy.outer={{{built_in}}}", rest)
    theirs = trainer_of(values, f"policy.outer={{{REINFORCE}, {settings}}}", rest)
    before = weights(ours.policies["outer"].model).clone()
    for _ in range(4):
        losses = []
        for trainer in (ours, theirs):
            trainer.collect()
            losses.append(trainer.update())
        assert losses[1].keys() - losses[0].keys() == {"losses/parameter_norm/outer"}
        for name, value in losses[0].items():
            torch.testing.assert_close(losses[1][name], value, rtol=1e-3, atol=1e-5)
    after = weights(ours.policies["outer"].model)
    torch.testing.assert_close(weights(theirs.policies["outer"].model), after, rtol=1e-3, atol=1e-4)
    assert (after - before).norm() > 0.1
    assert ours.policies["outer"].coefficients() == theirs.policies["outer"].coefficients()


@pytest.mark.parametrize("name", ["PolicyGradient", "Climber", "Evolution"])
def test_the_examples_of_the_page_learn(sections: Sections, trainer_of: TrainerOf, tmp_path: Path, name: str) -> None:
    """At random 8/3 of 8 are right. A failure by chance is not possible while the seed stays, since runs repeat."""
    page = (ROOT / "docs" / "guides" / "own_algorithm.md").read_text()
    (tmp_path / "own.py").write_text("\n".join(block.code for block in blocks_of(page, "python")))
    parameters = {
        "PolicyGradient": "lr: 0.03, gamma: 0.3",
        "Climber": "sigma: 1.0",
        "Evolution": "sigma: 0.3, population: 10",
    }[name]
    trainer = trainer_of(
        sections(num_envs=50, train_batch_size=400, total_steps=80 * 400),
        f"policy.even={{algorithm: custom, function: '{tmp_path}/own.py:{name}', {parameters}, model: {{hidden: []}}}}",
        "policy.odd={algorithm: random}",
    )
    trainer.train()
    assert trainer.evaluate(100).mean_return["even"] > 4


@pytest.mark.parametrize("model", [{"hidden": [5], "normalize_observations": True}, {"hidden": [5], "trunk": "shared"}])
def test_members_of_a_population_act_and_learn_each_in_its_slice(
    sections: Sections, trainer_of: TrainerOf, model: dict[str, Any]
) -> None:
    """Each member equals a separate model with its part of the parameters."""
    values = sections("Spell", ("outer", "inner"))
    values["policy"]["outer"] = {"algorithm": "custom", "function": f"{FILE}:Climb", "model": model, "population": 4}
    trainer = trainer_of(values)
    for _ in range(2):
        trainer.collect()
        trainer.update()
    trainer.collect()
    rollout, policy = trainer.rollout, trainer.policies["outer"]
    population: Any = policy.model
    assert isinstance(population, wd.Population)
    replayed, batch = policy.replay(rollout), policy.batch(rollout)
    (replayed.log_probabilities + replayed.values).sum().backward()
    observations, actions = rollout.of("observations", "outer"), rollout.of("actions", "outer").long()
    for index in range(4):
        alone = copy.deepcopy(population.member)
        for parameter in alone.parameters():
            parameter.data, parameter.grad = parameter.data[index].clone(), None
        of_member = slice(5 * index, 5 * index + 5)
        logits, state_values = alone({key: seen[:-1, of_member] for key, seen in observations.items()})
        likely = logits.log_softmax(-1).gather(-1, actions[:, of_member].unsqueeze(-1)).squeeze(-1)
        torch.testing.assert_close(rollout.of("log_probabilities", "outer")[:, of_member], likely, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(batch.values.view(actions.shape)[:, of_member], state_values, atol=1e-5, rtol=1e-5)
        (likely + state_values).sum().backward()
        for ours, theirs in zip(population.member.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(ours.grad[index], theirs.grad, atol=1e-4, rtol=1e-4)
        population.best.fill_(index)
        one = {key: seen[0, :3, 0] for key, seen in observations.items()}
        torch.testing.assert_close(population(one), alone(one))
    assert len(population.split(rollout.rewards, 1)) == 4


def test_a_population_that_does_not_fit_is_told(sections: Sections, trainer_of: TrainerOf) -> None:
    climb = f"algorithm: custom, function: '{FILE}:Climb', population"
    with pytest.raises(
        ConfigError, match=r"population: found 6, expected a divisor of trainer.num_envs \(20\), such as 5"
    ):
        trainer_of(sections(), f"policy.odd={{{climb}: 6}}")
    with pytest.raises(ConfigError, match=r"model.type: found 'gru' in a population"):
        trainer_of(sections(), f"policy.odd={{{climb}: 5, model: {{type: gru}}}}")
    config = load_config(sections(), [f"policy.odd={{{climb}: 5}}"])
    with pytest.raises(ConfigError, match=r"odd.population: found 5, but there are 2 processes, and .* trains in one"):
        check_populations(config, ProcessGroup.of(0, 2))


@pytest.mark.parametrize(
    "policy", [REINFORCE, CLIMB, f"{CLIMB}, population: 4"], ids=["gradient", "no gradient", "population"]
)
def test_a_resumed_run_is_the_one_that_was_never_stopped(
    sections: Sections, trainer_of: TrainerOf, policy: str
) -> None:
    override = f"policy.odd={{{policy}, lr: 0.02}}"
    whole = trainer_of(sections(total_steps=1000), override)
    whole.train()
    again = Trainer.resume(trainer_of(sections(), override).train().run_folder, ["trainer.total_steps=1000"])
    run = again.train().run_folder
    for tag in ("even", "odd"):
        assert torch.equal(weights(again.policies[tag].model), weights(whole.policies[tag].model))
    assert wd.load_policy(run, "odd").act(torch.eye(3)).shape == (3,)


def test_functions_are_given_in_python(sections: Sections) -> None:
    """A plain function, and one that returns nothing and leaves the policy unchanged."""
    seen = []

    def learn(policy: Any, rollout: wd.Rollout, factor: float = 1.0) -> dict[str, Any]:
        seen.append(policy.tag)
        assert rollout.of("rewards", policy.tag).shape == policy.replay(rollout).values.shape
        if policy.tag == "even":
            return {}
        with torch.no_grad():
            for parameter in policy.model.parameters():
                parameter.mul_(factor)
        return {"factor": factor, "rows": rollout.num_steps}

    values = sections()
    env = wd.EnvWrapper(env_name=values.pop("env")["name"], num_envs=20, env_backend="cpu")
    values["policy"]["odd"] = {"algorithm": "custom", "function": learn, "factor": 0.5}
    values["policy"]["even"] = {"algorithm": "custom", "function": learn}
    trainer = wd.Trainer(env, values)
    before = {tag: weights(policy.model).clone() for tag, policy in trainer.policies.items()}
    trainer.collect()
    losses = trainer.update()
    assert seen == ["even", "odd"]
    assert float(losses["losses/factor/odd"]) == 0.5 and float(losses["losses/rows/odd"]) == 10
    assert torch.equal(weights(trainer.policies["even"].model), before["even"])
    assert torch.equal(weights(trainer.policies["odd"].model), 0.5 * before["odd"])
    norms = {tag: float(losses[f"losses/parameter_norm/{tag}"]) for tag in seen}
    assert norms == pytest.approx({"even": float(before["even"].norm()), "odd": 0.5 * float(before["odd"].norm())})


def test_processes_that_have_only_their_own_rows_are_refused(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections(), f"policy.odd={{{CLIMB}}}")
    env, settings = trainer.env, trainer.config.policy["odd"]
    sharding = Sharding(ProcessGroup.of(0, 2), Share(0, 20, 40))
    with pytest.raises(ConfigError, match=r"odd\.algorithm: found 'custom', .* 2 processes .* trainer\.sync=rollouts"):
        Policy(
            "odd",
            env.policy_tags,
            settings,
            env.observation_spaces,
            env.action_spaces["odd"],
            20,
            env.backend,
            0,
            sharding,
        )


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("function: 'nowhere.py:learn'", r"policy\.odd\.function: no such file: 'nowhere\.py'"),
        (f"function: '{FILE}:climb'", r"policy\.odd\.function: .* has no function 'climb'\. Did you mean 'Climb'"),
        (
            f"function: '{FILE}:Climb', sigmma: 1",
            r"odd\.sigmma: unknown parameter of Climb \(.*own_updates\.py:\d+\),.*'s",
        ),
        (f"function: '{FILE}:Climb', sigma: much", r"policy\.odd\.sigma: found 'much' \(a string\), expected a number"),
        (f"function: '{FILE}:returns_what_it_is_told'", r"policy\.odd\.what: missing, and it has no default"),
        (
            f"function: '{FILE}:takes_one'",
            r"takes_one \(.*:\d+\) takes \(rollout: .*expected \(policy, rollout, \.\.\.\)",
        ),
        (f"function: '{FILE}:NeverCalled'", r"NeverCalled \(.*:\d+\) takes .*, and __call__\(self, rollout\)"),
        (
            f"function: '{FILE}:HalfStored'",
            r"HalfStored \(.*:\d+\) has one of state_dict and load_state_dict, expected",
        ),
    ],
)
def test_what_cannot_be_called_is_told_at_once(sections: Sections, policy: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_config(sections(), [f"policy.odd={{algorithm: custom, {policy}}}"])


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("nothing", r"returned None, expected scalars by name"),
        ("a vector", r"returned a tensor \(3,\) of torch\.float32 as 'loss', expected a number or a tensor of one"),
        ("a word", r"returned 'little' as 'loss', expected a number"),
        ("a path", r"returned a metric named 'a/b', expected a name without '/'"),
    ],
)
def test_what_is_returned_is_checked(sections: Sections, trainer_of: TrainerOf, what: str, told: str) -> None:
    trainer = trainer_of(sections(), mistake(what))
    trainer.collect()
    with pytest.raises(TrainingError, match=rf"policy 'odd': returns_what_it_is_told \(.*own_updates.py:\d+\) {told}"):
        trainer.update()


@pytest.mark.parametrize(("what", "term"), [("nan", "loss"), ("broken weights", "parameter_norm")])
def test_what_is_not_finite_is_told_with_its_place(
    sections: Sections, trainer_of: TrainerOf, what: str, term: str
) -> None:
    told = rf"policy 'odd': {term} became nan; .*Check returns_what_it_is_told \(.*own_updates\.py:\d+\)"
    with pytest.raises(TrainingError, match=told):
        trainer_of(sections(), mistake(what)).train()


def test_one_term_of_ppo_is_changed(sections: Sections, trainer_of: TrainerOf, tmp_path: Path) -> None:
    """The example of the page: with its price set to 0 it is PPO itself, with it something else, and logged."""
    page = (ROOT / "docs" / "guides" / "own_algorithm.md").read_text()
    (example,) = (block.code for block in blocks_of(page, "python") if "CautiousPPO" in block.code)
    (tmp_path / "dear.py").write_text(example)
    (tmp_path / "free.py").write_text(example.replace("0.1 * moved", "0.0 * moved"))
    learned = {}
    for name in ("ppo", "dear", "free"):
        own = "" if name == "ppo" else f", function: '{tmp_path}/{name}.py:CautiousPPO'"
        trainer = trainer_of(
            sections(), "trainer.update=torch", f"policy.odd={{algorithm: ppo, minibatches: 2, epochs: 4{own}}}"
        )
        trainer.collect()
        assert ("losses/moved/odd" in trainer.update()) == (name != "ppo")
        learned[name] = weights(trainer.models["odd"])
    assert torch.equal(learned["free"], learned["ppo"]) and not torch.equal(learned["dear"], learned["ppo"])
    told = r"policy\.odd\.function: .*CautiousPPO.* expected a class derived from wd\.A2C"
    with pytest.raises(ConfigError, match=told):
        load_config(sections(), [f"policy.odd={{algorithm: a2c, function: '{tmp_path}/dear.py:CautiousPPO'}}"])


def test_experience_for_updates_of_ones_own(sections: Sections, trainer_of: TrainerOf) -> None:
    """``policy.batch`` has the advantages of ``wd.gae``, which are those of a float64 loop over the definition."""
    trainer = trainer_of(sections(train_batch_size=240))  # 12 steps of episodes of 8
    trainer.collect()
    policy, rollout = trainer.policies["odd"], trainer.rollout
    batch = policy.batch(rollout, gae_lambda=0.8)
    rewards, values = rollout.of("rewards", "odd"), batch.values.view(12, 20, 2)
    last = policy.model.values(rollout.of("observations", "odd")[-1]).detach().unsqueeze(0)
    ended = [flag.unsqueeze(-1).expand_as(rewards) for flag in (rollout.terminated, rollout.truncated)]
    final = torch.full_like(rewards, 0.25)
    whole = torch.cat([values, last])
    found = wd.gae(rewards, whole, *ended, final, gamma=0.9, gae_lambda=0.8)
    expected = torch.zeros_like(rewards, dtype=torch.float64)
    for t in range(12):
        weight = torch.ones_like(rewards[0], dtype=torch.float64)
        for later in range(t, 12):
            following = torch.where(ended[1][later], final[later], whole[later + 1]) * ~ended[0][later]
            expected[t] += weight * (rewards[later] + 0.9 * following - whole[later]).double()
            weight = weight * 0.9 * 0.8 * ~(ended[0][later] | ended[1][later])
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)
    parts = list(batch.minibatches(3, policy.generator))
    assert sum(map(len, parts)) == len(batch) == 480
    no_end = [torch.zeros_like(flag) for flag in ended]
    alone = wd.gae(rewards[:4], whole[:5], no_end[0][:4], gamma=policy.gamma, gae_lambda=0.8)
    assert torch.equal(alone[-1], rewards[3] + policy.gamma * whole[4] - whole[3])
    with pytest.raises(TrainingError, match=r"found values .* for rewards .*, expected one more step"):
        wd.gae(rewards, values, ended[0], gamma=0.9, gae_lambda=0.8)


def test_sums_and_means_of_a_process_alone() -> None:
    """The tests of distributed training compare several processes with one."""
    given = torch.tensor([1.0, 3.0])
    for reduced in (wd.sum_over_processes(given), wd.mean_over_processes(given)):
        assert torch.equal(reduced, given) and reduced.data_ptr() != given.data_ptr()
