"""Training with agent ids, team rewards and separate parameters: policies act as trained, and runs go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from resuming import check_goes_on

import warpdrive as wd
from warpdrive.errors import ActionError, ConfigError, ExportError
from warpdrive.training.config.load import load_config
from warpdrive.training.rollout.loop import act, in_replicas_of
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]

TAGS = {"Aim": ("aimer", "chooser"), "Echo": ("even", "odd"), "Leave": ("inner", "outer"), "Spell": ("inner", "outer")}
RECURRENT = {"model": {"type": "gru", "hidden": [8], "units": 8}}


def cooperating(sections: Sections, game: str, **options: Any) -> dict[str, Any]:
    values = sections(game, TAGS[game])
    first, second = TAGS[game]
    policy = values["policy"]
    return {**values, "policy": {first: {**policy[first], **options}, second: policy[second]}}


@pytest.mark.parametrize(
    ("game", "options"),
    [
        pytest.param("Echo", {"agent_ids": True}, marks=pytest.mark.exhaustive),
        pytest.param(
            "Echo", {"agent_ids": True, "parameter_sharing": False, **RECURRENT}, marks=pytest.mark.exhaustive
        ),
        ("Leave", {"agent_ids": True, "team_reward": "mean", **RECURRENT}),
        pytest.param("Leave", {"parameter_sharing": False}, marks=pytest.mark.exhaustive),
    ],
)
def test_a_loaded_policy_acts_on_observations_of_the_environment(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path, game: str, options: dict[str, Any]
) -> None:
    trainer = trainer_of(cooperating(sections, game, **options))
    trainer.collect()
    trainer.update()
    with wd.no_host_transfers(trainer.env.device):
        trainer.collect()
    trainer.update()
    trainer.save(tmp_path / "saved")
    tag, env = TAGS[game][0], trainer.env
    policy, agents = wd.load_policy(tmp_path / "saved", tag), env.env.original.policy_tags[tag]
    env.reset()
    env.greedy = True
    actors = in_replicas_of(env, trainer.models)
    for step in range(4):
        env.ctx["timestep"].fill_(step)  # a recurrent state begins with an episode
        seen = env.ctx["observations"][:, list(agents)].clone()
        mask = env.ctx["action_mask"][:, list(agents)] if "action_mask" in env.ctx else None
        absent = ~env.ctx["active"][:, list(agents)] if "active" in env.ctx else torch.zeros(seen.shape[:2]).bool()
        act(env, actors)
        taken = torch.cat([env.logits(name) for name in env.policy_tags if name.startswith(tag)], dim=1)
        parts = taken.split([4, 2], -1) if game == "Leave" else [taken]
        if mask is not None:
            masks = mask.split([4, 2], -1) if game == "Leave" else [mask]
            parts = [part.masked_fill(~allowed, -torch.inf) for part, allowed in zip(parts, masks, strict=True)]
        wanted = torch.stack([part.argmax(-1) for part in parts], -1)
        found = policy.act(seen, deterministic=True, action_mask=mask).view_as(wanted)
        np.testing.assert_array_equal(found[~absent], wanted[~absent])


@pytest.mark.parametrize("algorithm", exhaustive(["a2c", "reinforce", "dqn", "pqn"], ("dqn",)))
def test_every_algorithm_goes_on_after_a_checkpoint(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path, algorithm: str
) -> None:
    options = {"agent_ids": True, "team_reward": "sum", "parameter_sharing": algorithm == "pqn"}
    small = {"algorithm": algorithm, "model": {"hidden": [8]}}
    values = sections("Echo")
    values["policy"] = {"even": {**small, **options}, "odd": {**small, "agent_ids": True}}
    if algorithm == "dqn":
        for section in values["policy"].values():
            section |= {"learning_starts": 200, "buffer_size": 2000, "batch_size": 32}
    check_goes_on(trainer_of(values), tmp_path / "saved", updates=2)


def test_sections_for_agents_that_share_no_parameters(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path
) -> None:
    trainer = trainer_of(cooperating(sections, "Echo", parameter_sharing=False), "policy.even.lr=0.002")
    assert list(trainer.config.policy) == ["even_0", "even_1", "odd"]
    assert trainer.env.policy_tags == {"even_0": [0], "even_1": [2], "odd": [3, 1]}
    run = trainer.train(progress=False).run_folder
    resumed = Trainer.resume(run, ["trainer.total_steps=800", "policy.even_1.lr=0.001"])
    assert resumed.policies["even_0"].lr == 0.002 and resumed.policies["even_1"].lr == 0.001
    resumed.train(progress=False)
    policy = wd.load_policy(run, "even")
    with pytest.raises(ActionError, match=r"found observations of shape \(3, 3\), expected \[..., 2, n\]"):
        policy.act(np.zeros((3, 3), np.float32))
    with pytest.raises(ExportError, match="expected the tag of one: even_0, even_1"):
        policy.export(tmp_path / "even.pt2")


def test_a_policy_with_ids_needs_to_know_the_agents(sections: Sections, trainer_of: TrainerOf, tmp_path: Path) -> None:
    trainer_of(cooperating(sections, "Echo", agent_ids=True)).save(tmp_path / "saved")
    policy = wd.load_policy(tmp_path / "saved", "even")
    seen = np.eye(3, dtype=np.float32)[[0, 1, 1, 2]]
    of_all = policy.act(seen.reshape(2, 2, 3), deterministic=True)
    np.testing.assert_array_equal(policy.act(seen, deterministic=True, agents=[0, 1, 0, 1]), of_all.ravel())
    for agents in (None, [0, 1, 2, 0]):
        with pytest.raises(ActionError, match="with the index of each row's agent, 0 to 1"):
            policy.act(seen, agents=agents)


@pytest.mark.parametrize(
    ("game", "option", "message"),
    [
        ("Spell", {"agent_ids": True}, r"policy.inner.agent_ids: found observations in Dict.*expected a Box"),
        ("Aim", {"parameter_sharing": False}, r"policy.aimer_0.parameter_sharing: found false, expected true"),
        ("Echo", {"team_reward": "max"}, r"policy.even.team_reward: found 'max'.*expected 'own', 'sum' or 'mean'"),
    ],
)
def test_what_is_refused(sections: Sections, game: str, option: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(cooperating(sections, game, **option))
