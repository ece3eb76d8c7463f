"""Actions in boxes of any range: the fused step, the loss, loaded policies and exported files agree."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from problems import Bandit
from torch import Tensor, nn

import warpdrive as wd
from warpdrive.errors import ConfigError
from warpdrive.training.checkpoint.checkpoint import read_checkpoint, write_checkpoint

OPTIONS: dict[str, dict[str, Any]] = {
    "normalized": {"initial_log_std": -1.0},
    "as they are": {"normalize_actions": False},
    "squashed": {"squash_actions": True},
    "depending on the state": {"state_dependent_std": True, "initial_log_std": 0.5},
    "gru": {"type": "gru", "hidden": [], "units": 3, "state_dependent_std": True},
    "own": {"type": f"{__file__}:Own"},
    "own, squashed and checked": {"type": f"{__file__}:Own", "squash_actions": True, "check_device": True},
}


class Own(wd.ActorCritic):
    """A model of a user's, which knows nothing of units, and puts its outputs in place itself."""

    def __init__(self, observation_space: spaces.Space[Any], num_logits: int) -> None:
        super().__init__()
        self.policy, self.value = nn.Linear(1, num_logits), nn.Linear(1, 1)

    def logits(self, observations: Any) -> Tensor:
        return self.policy(observations)

    def values(self, observations: Any) -> Tensor:
        return self.value(observations).squeeze(-1)

    def act(self, env: wd.EnvWrapper, tag: str) -> None:
        env.logits(tag).copy_(self.logits(env.observations(tag)))


def trainer_of(model: dict[str, Any], **policy: Any) -> wd.Trainer:
    env = wd.EnvWrapper(Bandit(), 20, "cpu", seed=3)
    section = {"algorithm": "ppo", "model": {**({} if "type" in model else {"hidden": []}), **model}, **policy}
    return wd.Trainer(env, {"trainer": {"train_batch_size": 60, "total_steps": 60}, "policy": {"player": section}})


def perturbed(trainer: wd.Trainer) -> wd.Trainer:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in trainer.policies["player"].model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    return trainer


@pytest.mark.parametrize("name", OPTIONS)
def test_all_make_the_same_of_a_model(name: str, tmp_path: Path) -> None:
    trainer = perturbed(trainer_of(OPTIONS[name]))
    trainer.collect()
    policy, env = trainer.policies["player"], trainer.env
    replayed = policy.replay(trainer.rollout)
    torch.testing.assert_close(
        replayed.log_probabilities.detach(), trainer.rollout.log_probabilities, rtol=1e-4, atol=1e-3
    )
    seen = np.ones((20, 1), np.float32)
    trainer.save(tmp_path / "saved")
    loaded = wd.load_policy(tmp_path / "saved", seed=0)
    env.greedy = True
    trainer.collect()
    greedy = env.actions("player")[:, 0]  # of episodes of one step, so that a GRU remembers nothing
    torch.testing.assert_close(torch.from_numpy(loaded.act(seen, deterministic=True)), greedy, rtol=1e-5, atol=1e-5)
    env.greedy = False
    drawn = loaded.act(np.ones((4000, 1), np.float32) if not loaded.is_recurrent else seen)
    space = env.env.action_space
    assert (drawn >= space.low).all() and (drawn <= space.high).all()  # type: ignore[union-attr]
    if not loaded.is_recurrent:  # 4000 and 2000 draws: means within 5 of their standard errors, once in 1e5 runs not
        means = []
        for _ in range(33):
            trainer.collect()
            means.append(env.actions("player")[:, 0].numpy().copy())
        inside = np.concatenate(means)
        error = inside.std(0) * (1 / 4000 + 1 / len(inside)) ** 0.5
        assert (np.abs(inside.mean(0) - drawn.mean(0)) <= 5 * error).all()


def test_means_and_deviations_are_in_units_of_half_the_range() -> None:
    """The first actions of every algorithm's own policy are about the centre, and as wide as the Box."""
    trainer = trainer_of({})
    trainer.collect()
    drawn = trainer.rollout.of("actions", "player").reshape(-1, 5)
    space: Any = trainer.env.env.action_space
    numbers = (drawn - torch.from_numpy(space.low + space.high) / 2) / torch.from_numpy(space.high - space.low) * 2
    # 60 standard normal numbers each: five standard errors, exceeded once in 1e5 runs
    assert numbers.mean(0).abs().max() < 5 / 60**0.5 and (numbers.std(0) - 1).abs().max() < 5 / 120**0.5


def test_policies_of_before_act_as_they_did(tmp_path: Path) -> None:
    """Their configurations say nothing of units: means and deviations were numbers of the Box."""
    trainer = perturbed(trainer_of({"normalize_actions": False}))
    trainer.save(tmp_path / "new")
    checkpoint = read_checkpoint(tmp_path / "new")
    config = copy.deepcopy(checkpoint.config)
    for key in ("normalize_actions", "squash_actions", "initial_log_std", "state_dependent_std"):
        del config["policy"]["player"]["model"][key]
    write_checkpoint(tmp_path / "old", replace(checkpoint, config=config))
    seen = np.ones((3, 1), np.float32)
    model = trainer.policies["player"].model
    means = model.logits(torch.ones(3, 1))[:, :5].detach().numpy()
    space: Any = trainer.env.env.action_space
    for name in ("old", "new"):
        actions = wd.load_policy(tmp_path / name).act(seen, deterministic=True)
        np.testing.assert_allclose(actions, np.clip(means, space.low, space.high), rtol=1e-6)
        resumed = wd.Trainer.load(tmp_path / name, env=trainer.env)
        assert resumed.policies["player"].model.action_units == "box"
    with pytest.raises(
        ConfigError, match=r"policy.player.load: 'player' in .* maps the outputs of its model to actions differently"
    ):
        trainer_of({}, load=str(tmp_path / "old"))
    assert trainer_of({"normalize_actions": False}, load=str(tmp_path / "old")).policies["player"].config.load


def test_options_that_do_not_fit_are_told() -> None:
    sizes = {"num_envs": 4, "train_batch_size": 4, "total_steps": 4}
    model = {"squash_actions": True, "initial_log_std": -1.0}
    values = {"env": {"name": "cartpole"}, "trainer": sizes, "policy": {"agent": {"algorithm": "ppo", "model": model}}}
    told = r"initial_log_std: found -1.0.* for the action space Discrete\(2\), which is not a Box"
    with pytest.raises(ConfigError, match=told):
        wd.Trainer(wd.EnvWrapper(env_name="cartpole", num_envs=4), values)
