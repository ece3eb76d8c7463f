"""A non-finite loss ends the run, for every algorithm."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from exhaustive import exhaustive
from games import TAGS
from problems import MatrixGame

import warpdrive as wd
from warpdrive.errors import TrainingError
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]

OLD = "learning_starts: 0, batch_size: 16"
ALGORITHMS = {
    "reinforce": ("chooser", "{algorithm: reinforce}"),
    "a2c": ("chooser", "{algorithm: a2c}"),
    "ppo": ("aimer", "{algorithm: ppo, minibatches: 2}"),
    "dqn": ("chooser", f"{{algorithm: dqn, {OLD}}}"),
    "ddpg": ("aimer", f"{{algorithm: ddpg, {OLD}}}"),
    "td3": ("aimer", f"{{algorithm: td3, policy_delay: 1, {OLD}}}"),
    "sac": ("aimer", f"{{algorithm: sac, {OLD}}}"),
}


class Poison(wd.Callback):
    """Puts NaN into the weights of a policy after its second update, once that is saved."""

    def __init__(self, tag: str) -> None:
        self.tag = tag

    @torch.no_grad()
    def on_checkpoint(self, trainer: Trainer, path: Path) -> None:
        if trainer.updates == 2:
            for parameter in trainer.policies[self.tag].model.parameters():
                parameter.fill_(torch.nan)


@pytest.mark.parametrize("algorithm", exhaustive(ALGORITHMS, ("ppo", "dqn", "sac")))
def test_the_message_names_policy_and_term(sections: Sections, trainer_of: TrainerOf, algorithm: str) -> None:
    tag, settings = ALGORITHMS[algorithm]
    other = "chooser" if tag == "aimer" else "aimer"
    overrides = (f"policy.{tag}={settings}", f"policy.{other}={{algorithm: random}}", "saving.checkpoint_every=1")
    values = sections("Aim", ("aimer", "chooser"), total_steps=1000)
    trainer = trainer_of(values, *overrides)
    told = (
        rf"policy '{tag}': [a-z_]+ became nan; the last good checkpoint is .*step_400\. Try a smaller policy\.{tag}\.lr"
    )
    with pytest.raises(TrainingError, match=told) as raised:
        trainer.train(callbacks=[Poison(tag)])
    logged = trainer_of(values, *overrides)
    logged.collect()
    term = str(raised.value).split(": ")[1].split(" ")[0]
    assert f"losses/{term}/{tag}" in logged.update(), "the term is one that is logged"


def test_what_is_left_goes_on_from_the_last_good_checkpoint(sections: Sections, trainer_of: TrainerOf) -> None:
    trainer = trainer_of(sections(total_steps=1000), "saving.checkpoint_every=2")
    with pytest.raises(TrainingError):
        trainer.train(callbacks=[Poison("odd")])
    (summary,) = (
        json.loads(path.read_text()) for path in Path(sections()["saving"]["folder"]).glob("*/*/summary.json")
    )
    assert summary["status"] == "failed" and "policy 'odd'" in summary["message"]
    again = Trainer.resume(summary["run_folder"])
    assert again.env_steps == 400
    assert again.train().status == "finished"


def test_returns_that_are_all_the_same_end_no_run() -> None:
    """The variance is 0, so explained variance may be NaN."""
    env = wd.EnvWrapper(MatrixGame([[[1.0]], [[1.0]]]), 8, "cpu")
    sizes = {"train_batch_size": 32, "total_steps": 96}
    settings = {"algorithm": "ppo", "model": {"hidden": []}, "minibatches": 1}
    trainer = Trainer(env, {"trainer": sizes, "policy": {"row": settings, "column": {"algorithm": "random"}}})
    assert trainer.train().env_steps == 96


@pytest.mark.parametrize(
    "policy",
    [
        {"algorithm": "ppo", "model": {"hidden": [8], "normalize_observations": True}, "normalize_returns": True},
        {"algorithm": "ppo", "centralized_critic": True, "model": {"type": "gru", "hidden": [8], "units": 8}},
        {"algorithm": "a2c", "steps_per_update": 30},
        {"algorithm": "reinforce"},
    ],
)
@pytest.mark.parametrize("after_leaving", exhaustive((True, False), (True,)))
def test_what_stands_for_agents_out_of_the_episode_spoils_nothing(
    sections: Sections, trainer_of: TrainerOf, policy: dict[str, Any], after_leaving: bool
) -> None:
    """NaN in their observations, actions, rewards and log-probabilities: as if 0 stood there, which is learned from."""
    trained = []
    for spoiled in (False, True):
        values = sections("Vanish" if spoiled else "Leave", TAGS["Leave"], train_batch_size=300)
        values["policy"] = {tag: {**policy, "returns_after_leaving": after_leaving} for tag in TAGS["Leave"]}
        trainer = trainer_of(values)
        trainer.collect()
        rollout: Any = trainer.rollout
        if not spoiled:
            rollout.rewards[~rollout.active] = 0.0
        else:
            rollout.observations[:-1][~rollout.active] = torch.nan
            rollout.log_probabilities[~rollout.active] = torch.inf
            rollout.clear_absent()
        losses = trainer.update()
        assert all(loss.isfinite() for loss in losses.values())
        trained.append([parameter for model in trainer.models.values() for parameter in model.state_dict().values()])
    torch.testing.assert_close(trained[0], trained[1], rtol=0, atol=0)
