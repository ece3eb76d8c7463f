"""Opponents that do not learn: past versions of a policy, a user's function, a policy of another run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from paths import SUPPORT
from torch import Tensor

import warpdrive as wd
from warpdrive.errors import ActionError, CheckpointError, ConfigError
from warpdrive.training.cli.main import main
from warpdrive.training.config.load import load_config
from warpdrive.training.opponents.elo import expected_score
from warpdrive.training.opponents.function import FunctionActor
from warpdrive.training.opponents.self_play import Pool, SelfPlay
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]

BOTS = SUPPORT / "bots.py"
SELF_PLAY = "policy.odd={algorithm: self_play, of: even, snapshot_every: 2, pool_size: 3, at_once: 2}"


def weights(model: torch.nn.Module) -> Tensor:
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()


def versions(opponent: Any, slot: int) -> Tensor:
    """The parameters of a version in the pool."""
    names = [name for name, _ in opponent.model.named_parameters()]
    return torch.cat([opponent.pool.versions[name][slot].flatten() for name in names])


def test_versions_are_those_that_the_policy_once_was(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections(), SELF_PLAY)
    opponent = trainer.opponents["odd"]
    assert isinstance(opponent, SelfPlay)
    history = []
    for _ in range(9):
        history.append(weights(trainer.policies["even"].model))
        trainer.collect()
        trainer.update()
    assert len({tuple(was[:5].tolist()) for was in history}) == 9  # it learns
    # kept before updates 0, 2, 4, 6 and 8, in three places
    for slot, update in enumerate([6, 8, 4]):
        assert torch.equal(versions(opponent, slot), history[update])
    assert opponent.pool.added == 5
    kept = {tuple(history[update].tolist()) for update in (4, 6, 8)}
    assert {tuple(weights(member).tolist()) for member in opponent.members} <= kept


def test_opponents_act_as_the_versions_drawn_and_not_as_the_learner(
    sections: Sections, trainer_of: TrainerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The known mistake: what is kept are the learner's own tensors, so that it plays against its present self."""

    def check() -> None:
        trainer = trainer_of(sections(), SELF_PLAY)
        first = weights(trainer.policies["even"].model)
        trainer.opponents["odd"].config = trainer.opponents["odd"].config.model_copy(update={"snapshot_every": 100})
        for _ in range(3):
            trainer.collect()
            trainer.update()
        env, model = trainer.env, trainer.policies["even"].model
        seen = env.observations("odd")
        trainer.opponents["odd"].actor.act(env, "odd")
        with torch.no_grad():
            now = model.logits(seen)
            torch.nn.utils.vector_to_parameters(first, model.parameters())
            expected = model.logits(seen)
        assert not torch.allclose(now, expected, atol=1e-4)
        torch.testing.assert_close(env.logits("odd"), expected)

    check()
    monkeypatch.setattr(Pool, "add", _keep_the_tensors_themselves)
    monkeypatch.setattr(Pool, "put", lambda pool, slot, model: model.load_state_dict(pool.learner.state_dict()))
    with pytest.raises(AssertionError):
        check()


def _keep_the_tensors_themselves(pool: Any, model: torch.nn.Module, rating: float) -> None:
    pool.learner, pool.added = model, pool.added + 1


def test_each_part_of_the_replicas_meets_a_version(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections(), SELF_PLAY)
    env, opponent = trainer.env, trainer.opponents["odd"]
    for member, outputs in zip(opponent.members, (3.0, 7.0), strict=True):
        with torch.no_grad():
            for parameter in member.policy[-1].parameters():
                parameter.fill_(0.0)
            member.policy[-1].bias[1] = outputs
    opponent.actor.act(env, "odd")
    assert env.logits("odd").shape == (20, 2, 3)
    assert torch.equal(env.logits("odd")[:10, :, 1], torch.full((10, 2), 3.0))
    assert torch.equal(env.logits("odd")[10:, :, 1], torch.full((10, 2), 7.0))


def test_past_versions_remember(sections: Sections, trainer_of: TrainerOf) -> None:
    """Beside one model that goes through the same observations; its state begins anew where an episode does."""
    model = "{algorithm: ppo, minibatches: 2, model: {type: gru, hidden: [8], units: 6}}"
    trainer = trainer_of(sections(train_batch_size=240), f"policy.even={model}", SELF_PLAY)
    trainer.collect()  # 12 steps of episodes of 8
    learner, rollout = trainer.policies["even"].model, trainer.rollout
    state = torch.zeros(20, 2, 6)
    with torch.no_grad():
        for t, seen in enumerate(rollout.of("observations", "odd")[:12]):
            logits, state = learner.step(seen, torch.zeros_like(state) if t == 8 else state)
            taken = rollout.of("actions", "odd")[t].long().unsqueeze(-1)
            log_probabilities = logits.log_softmax(-1).gather(-1, taken).squeeze(-1)
            torch.testing.assert_close(rollout.of("log_probabilities", "odd")[t], log_probabilities, rtol=0, atol=1e-5)


def test_recent_versions_are_preferred_as_told() -> None:
    """Bounds of 5 standard errors: the seven comparisons fail by chance in less than 1 of 200,000 seeds."""
    model, draws = torch.nn.Linear(1, 1), 20_000
    for recency, added, expected in [
        (1.0, 2, [0.5, 0.5]),
        (0.5, 5, [2 / 7, 4 / 7, 1 / 7]),  # the fifth version is in the second of three places
        (0.5, 2, [1 / 3, 2 / 3]),
    ]:
        pool = Pool(model, 3, recency)
        for _ in range(added):
            pool.add(model)
        slots = pool.draw(draws, torch.Generator().manual_seed(1))
        for slot, p in enumerate(expected):
            found = float((slots == slot).float().mean())
            assert found == pytest.approx(p, abs=5 * (p * (1 - p) / draws) ** 0.5), (recency, slot)
        assert int(slots.max()) < len(expected)


@pytest.mark.parametrize(
    "learner",
    ["{algorithm: ppo, model: {type: gru, units: 8}}", "{algorithm: dqn, learning_starts: 100, buffer_size: 2000}"],
)
def test_a_resumed_run_plays_against_the_same_versions(sections: Sections, trainer_of: TrainerOf, learner: str) -> None:
    overrides = (f"policy.even={learner}", SELF_PLAY, "saving.checkpoint_every=1")
    whole = trainer_of(sections(total_steps=1400), *overrides)
    whole.train()
    stopped = trainer_of(sections(total_steps=600), *overrides)
    run = stopped.train().run_folder
    again = Trainer.resume(run, ["trainer.total_steps=1400"])
    again.train()
    for ours, theirs in zip(again.opponents["odd"].members, whole.opponents["odd"].members, strict=True):
        assert torch.equal(weights(ours), weights(theirs))
    assert torch.equal(again.checkpoint().state["simulation"], whole.checkpoint().state["simulation"])
    assert torch.equal(weights(again.policies["even"].model), weights(whole.policies["even"].model))
    pools = [trainer.opponents["odd"].pool.versions for trainer in (again, whole)]
    assert all(torch.equal(pools[0][name], pools[1][name]) for name in pools[0])
    with pytest.raises(ConfigError, match=r"policy\.odd\.pool_size: found 4, but the run to resume has 3"):
        Trainer.resume(run, ["policy.odd.pool_size=4"])


def test_nothing_goes_through_the_host(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections(), SELF_PLAY)
    trainer.collect()
    trainer.update()  # makes what is made once
    with wd.no_host_transfers():
        for _ in range(3):
            trainer.collect()
            trainer.update()


def test_the_pool_is_what_is_evaluated_against(
    sections: Sections, trainer_of: TrainerOf, capsys: pytest.CaptureFixture[str]
) -> None:
    """Versions before updates 0, 2 and 4 of 5; the fourth is not yet there. Each acts in a third of the replicas."""
    trainer = trainer_of(sections(total_steps=1000), SELF_PLAY, "trainer.evaluation={every: 5, num_episodes: 30}")
    reports = []
    run = trainer.train(callbacks=[Seen(reports)]).run_folder
    opponent = trainer.opponents["odd"]
    members = [weights(member) for member in opponent.evaluation_model.members]
    assert all(torch.equal(member, versions(opponent, slot)) for member, slot in zip(members, (2, 1, 0), strict=True))
    assert not torch.equal(members[0], weights(trainer.policies["even"].model))
    assert trainer.acting_models()["odd"] is trainer.policies["even"].model, "what is shown is the present policy"
    assert set(trainer.acting_models(random=["odd"])) == set(trainer.evaluated_models(random=["odd"])) == {"even"}
    (elo,) = [report.result.metrics()["eval/elo/even"] for report in reports]
    assert opponent.rating == elo and trainer.config.best_metric == "eval/elo/even"
    again = Trainer.load(run)
    assert again.evaluate(30).elo == {"even": elo}, "the pool and its ratings are part of checkpoints"
    assert again.evaluate(30, random=["odd"]).elo == {}
    capsys.readouterr()
    assert main(["evaluate", str(run), "--episodes", "20"]) == 0
    printed = capsys.readouterr().out
    assert "trained even, odd as past versions of 'even'" in printed and "Elo of even" in printed
    assert Trainer.load(run, to_train=False).evaluate(30).elo == {"even": elo}, "past versions are read to act as well"
    with pytest.raises(CheckpointError, match=r"the agents of 'odd' act as past versions of 'even' and were not"):
        wd.load_policy(run, "odd")


def test_the_rating_of_a_learner_by_hand(sections: Sections, trainer_of: TrainerOf) -> None:
    """6 replicas, a version in each pair: won both, won one and drew one, lost both, twice the same."""
    opponent = trainer_of(sections(), SELF_PLAY).opponents["odd"]
    learner = torch.tensor([1.0, 1.0, 1.0, 0.5, 0.0, 0.0] * 2)
    rating = opponent.rate(learner, torch.full((12,), 0.5), [100.0, 0.0, -100.0], replicas=6)
    # 4 of 4, 3 of 4, 0 of 4, and half a point of one game against the mean rating
    expected = sum(4 * expected_score(rating, other) for other in (100.0, 0.0, -100.0)) + expected_score(rating, 0.0)
    assert expected == pytest.approx(4 + 3 + 0 + 0.5)


class Seen(wd.Callback):
    def __init__(self, reports: list[Any]) -> None:
        self.reports = reports

    def on_evaluate(self, trainer: Trainer, report: Any) -> None:
        self.reports.append(report)


@pytest.mark.parametrize("name", ["say_what_is_wanted", "prefer_what_is_wanted"])
def test_agents_act_as_a_function_says(sections: Sections, trainer_of: TrainerOf, tmp_path: Path, name: str) -> None:
    trainer = trainer_of(sections(), f"policy.odd={{algorithm: function, function: '{BOTS}:{name}'}}")
    with wd.no_host_transfers():
        trainer.collect()
    assert torch.equal(trainer.rollout.of("rewards", "odd"), torch.ones(10, 20, 2))
    result = trainer.evaluate(20)
    assert result.mean_return["odd"] == 8.0 > result.mean_return["even"]
    run = trainer.train().run_folder
    assert Trainer.load(run).evaluate(20).mean_return["odd"] == 8.0  # found again by its path


def test_functions_say_several_choices_and_numbers(sections: Sections, trainer_of: TrainerOf) -> None:
    leave = sections("Leave", ("inner", "outer"))
    trainer = trainer_of(leave, f"policy.outer={{algorithm: function, function: '{BOTS}:by_the_clock'}}")
    env = trainer.env
    rollout = env.allocate_rollout(3)
    rollout.begin()
    for t in range(3):
        trainer.opponents["outer"].actor.act(env, "outer")
        env.step_rollout(rollout)
        done = rollout.of("actions", "outer")[t]
        assert torch.equal(done[..., 0], torch.full((20, 2), 3 if t == 1 else 1, dtype=torch.int32))
        assert torch.equal(done[..., 1], torch.full((20, 2), t % 2, dtype=torch.int32))
    aiming = sections("Aim", ("aimer", "chooser"))
    trainer = trainer_of(aiming, f"policy.aimer={{algorithm: function, function: '{BOTS}:aim'}}")
    trainer.collect()
    assert float(trainer.rollout.of("rewards", "aimer").abs().max()) < 1e-6


def test_functions_are_given_in_python(sections: Sections) -> None:
    env = wd.EnvWrapper(env_name=sections()["env"]["name"], num_envs=20, env_backend="cpu")

    def act(observations: Tensor, env: wd.EnvWrapper, tag: str) -> Tensor:
        return (observations.argmax(-1) + 1) % 3

    values = sections()
    values["policy"]["odd"] = {"algorithm": "function", "function": act}
    del values["env"]
    trainer = wd.Trainer(env, values)
    trainer.collect()
    assert float(trainer.rollout.of("rewards", "odd").min()) == 1.0
    named = trainer.checkpoint().config["policy"]["odd"]["function"]
    assert named.startswith(__name__) and named.endswith("test_functions_are_given_in_python.<locals>.act")


def test_a_policy_of_another_run_plays_and_stays_as_it_is(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path
) -> None:
    other = trainer_of(sections(total_steps=4000))
    run = other.train().run_folder
    frozen = "to_train: false, lr: 0.01, minibatches: 2, model: {hidden: [16]}"
    trainer = trainer_of(
        sections(), f"policy.odd={{algorithm: ppo, {frozen}, load: {run}, load_tag: even}}", "trainer.seed=5"
    )
    before = weights(other.policies["even"].model)
    assert torch.equal(weights(trainer.policies["odd"].model), before)
    mine = trainer.train()
    assert torch.equal(weights(trainer.policies["odd"].model), before)
    assert not torch.equal(weights(trainer.policies["even"].model), before)
    run.rename(tmp_path / "gone")  # a checkpoint has all it needs
    assert torch.equal(weights(Trainer.load(mine.run_folder).policies["odd"].model), before)
    with pytest.raises(ConfigError, match=rf"policy\.odd\.load: {re.escape(str(run))}"):
        Trainer(trainer.env, load_config(mine.run_folder / "config.yaml"))


def test_a_policy_that_does_not_fit_is_told(sections: Sections, trainer_of: TrainerOf) -> None:
    run = trainer_of(sections()).train().run_folder
    for override, told in [
        ("model: {hidden: [8]}, load_tag: even", r"policy\.odd\.load: the model of 'even' in .* does not match"),
        (
            "model: {hidden: [16]}, load_tag: evn",
            r"policy\.odd\.load: .* unknown policy tag 'evn'.*Did you mean 'even'",
        ),
    ]:
        with pytest.raises(ConfigError, match=told):
            trainer_of(sections(), f"policy.odd={{algorithm: ppo, minibatches: 2, {override}, load: {run}}}")


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            "{algorithm: self_play, of: odd}",
            r"policy\.odd\.of: found 'odd', expected a policy tag whose algorithm learns: even",
        ),
        ("{algorithm: self_play, of: evn}", r"policy\.odd\.of: found 'evn', .*: even\. Did you mean 'even'\?"),
        ("{algorithm: self_play}", r"policy\.odd\.of: missing"),
        ("{algorithm: self_play, of: even, recency: 0}", r"policy\.odd\.recency: found 0"),
        ("{algorithm: self_play, of: even, pool: 3}", r"policy\.odd\.pool: unknown key, .*Did you mean 'pool_size'"),
        ("{algorithm: self_play, of: even, at_once: 21}", r"found 21, expected at most trainer\.num_envs \(20\)"),
        ("{algorithm: function}", r"policy\.odd\.function: missing"),
        ("{algorithm: function, function: act}", r"function: found 'act' .*expected package\.module:function or"),
        (f"{{algorithm: function, function: '{BOTS}:aims'}}", r"has no function 'aims'\. Did you mean 'aim'\?"),
        (f"{{algorithm: function, function: '{BOTS}:constant'}}", r"constant' is 3, expected a function"),
        ("{algorithm: function, function: 'nowhere.py:act'}", r"policy\.odd\.function: no such file: 'nowhere\.py'"),
        ("{algorithm: function, function: 'no_such:act'}", r"cannot be imported: ModuleNotFoundError"),
    ],
)
def test_bad_input_is_one_clear_line(sections: Sections, policy: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        load_config(sections(), [f"policy.odd={policy}"])
    assert "\n" not in str(caught.value)


def test_spaces_must_be_equal(sections: Sections) -> None:
    with pytest.raises(ConfigError, match=r"the action space of 'aimer' is Box.*that of 'chooser' is Discrete"):
        load_config(sections("Aim", ("aimer", "chooser")), ["policy.chooser={algorithm: self_play, of: aimer}"])


def test_what_a_function_returns_is_checked(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections(), f"policy.odd={{algorithm: function, function: '{BOTS}:nothing_of_use'}}")
    told = (
        r"policy 'odd': .*:nothing_of_use returned a tensor \(20, 2\) of torch.float32 on cpu, "
        r"expected actions \(20, 2\) of integers, or logits \(20, 2, 3\) of floats, on cpu"
    )
    with pytest.raises(ActionError, match=told):
        trainer.collect()
    for action in (-1, 3):
        actor = FunctionActor(lambda observations, env, tag, action=action: torch.full((20, 2), action))
        with pytest.raises(
            ActionError, match=rf"policy 'odd': .* returned actions outside of Discrete.*index {action}"
        ):
            actor.act(trainer.env, "odd")
