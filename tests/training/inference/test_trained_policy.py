"""Loaded policies choose the actions of the fused step."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import warpdrive as wd
from warpdrive.errors import ActionError, CheckpointError
from warpdrive.observations import mapped
from warpdrive.training.checkpoint.space_description import describe_space, space_of
from warpdrive.training.config.load import load_config
from warpdrive.training.inference.trained_policy import TrainedPolicy
from warpdrive.training.models import acting_distribution, build_actor_critic, distribution_of
from warpdrive.training.models.options import (
    ConvolutionsConfig,
    FullyConnectedConfig,
    GRUConfig,
    LSTMConfig,
    MinGRUConfig,
)
from warpdrive.training.models.q_network import QNetwork
from warpdrive.training.rollout.loop import act
from warpdrive.training.trainer import Trainer, make_env

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]


@pytest.mark.parametrize(
    ("game", "tags"),
    [
        ("Echo", ("even", "odd")),
        ("Leave", ("inner", "outer")),
        ("Aim", ("aimer", "chooser")),
        ("Spell", ("outer", "inner")),
    ],
)
def test_it_acts_as_the_fused_step_does(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path, game: str, tags: tuple[str, ...]
) -> None:
    trainer = trainer_of(sections(game, tags))
    trainer.train()
    trainer.save(tmp_path / "saved")
    env = trainer.env
    env.greedy = True
    rollout = env.allocate_rollout(1)
    for _ in range(10):
        rollout.begin()
        act(env, trainer.acting_models())
        env.step_rollout(rollout)
        for tag in tags:
            policy = wd.load_policy(tmp_path / "saved", tag)
            seen = mapped(itemgetter(0), rollout.of("observations", tag))
            mask = None
            if rollout.action_mask is not None:
                mask = rollout.of("action_mask", tag)[0].numpy()
            actions = policy.act(mapped(torch.Tensor.numpy, seen), deterministic=True, action_mask=mask)
            taken = rollout.of("actions", tag)[0].numpy()
            if isinstance(policy.action_space, spaces.Box):  # recorded as drawn; what the environment got is clipped
                taken = taken.clip(policy.action_space.low, policy.action_space.high)
            counts = np.ones(taken.shape[:2], bool) if rollout.active is None else rollout.of("active", tag)[0].numpy()
            np.testing.assert_allclose(actions[counts], taken[counts], rtol=1e-5, atol=1e-6)


def test_a_policy_trained_here_balances_the_pole_of_gymnasium(tmp_path: Path) -> None:
    """Seeds 0 to 4 reach 484 or more after these steps, random actions 22. Runs repeat, so chance plays no part."""
    config = load_config(
        "cartpole", ["trainer.total_steps=40000", f"saving.folder={tmp_path}", "saving.tensorboard=off"]
    )
    run = Trainer(make_env(config), config).train().run_folder
    policy = wd.load_policy(run)
    env = gymnasium.make("CartPole-v1")
    returns = []
    for seed in range(10):
        observation, _ = env.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(policy.act(observation, deterministic=True))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    assert np.mean(returns) > 300


def test_neither_kernels_nor_environments_are_loaded(sections: Sections, trainer_of: TrainerOf, tmp_path: Path) -> None:
    trainer_of(sections()).save(tmp_path / "saved")
    moved = tmp_path / "elsewhere"
    shutil.move(tmp_path / "saved", moved)
    program = (
        "import sys, numpy as np, warpdrive as wd\n"
        f"policy = wd.load_policy({str(moved)!r}, tag='even')\n"
        "assert policy.act(np.zeros(3), deterministic=True) in (0, 1, 2)\n"
        "for name in ('numba', 'warpdrive.env_wrapper', 'warpdrive.envs'):\n"
        "    assert name not in sys.modules, name\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_arrays_give_arrays_and_tensors_tensors(sections: Sections, trainer_of: TrainerOf, tmp_path: Path) -> None:
    trainer_of(sections("Aim", ("aimer", "chooser"))).save(tmp_path / "saved")
    chooser, aimer = (wd.load_policy(tmp_path / "saved", tag) for tag in ("chooser", "aimer"))
    one = chooser.act([0.5])
    assert isinstance(one, np.int64) and chooser.action_space.contains(one)
    assert aimer.action_space.contains(aimer.act(np.array([0.5], np.float32)))
    assert chooser.act(np.zeros((4, 1))).shape == (4,) and aimer.act(np.zeros((2, 4, 1))).shape == (2, 4, 2)
    many = aimer.act(torch.zeros(5, 1))
    assert isinstance(many, torch.Tensor) and many.shape == (5, 2) and many.dtype == torch.float32
    assert "'aimer'" in repr(aimer)


def test_what_is_seen_by_key_is_given_by_key(sections: Sections, trainer_of: TrainerOf, tmp_path: Path) -> None:
    trainer_of(sections("Spell", ("outer", "inner"))).save(tmp_path / "saved")
    policy = wd.load_policy(tmp_path / "saved", "inner")
    one = policy.act({"number": 2, "picture": np.zeros((2, 2), np.uint8)})
    assert isinstance(one, np.int64) and policy.action_space.contains(one)
    assert policy.act(policy.observation_space.sample()) in (0, 1, 2)
    many = policy.act({"number": torch.zeros(5), "picture": torch.zeros(5, 2, 2)})
    assert isinstance(many, torch.Tensor) and many.shape == (5,)
    for given, told in [
        (np.zeros((2, 2)), "found observations ndarray, expected a dict of .'number', 'picture'."),
        ({"number": 2}, r"found observations \['number'\], expected a dict of .'number', 'picture'."),
        ({"number": 2, "picture": np.zeros(4)}, r"found observations\['picture'\] of shape \(4,\), expected \(2, 2\)"),
        ({"number": [1, 2], "picture": np.zeros((3, 2, 2))}, "found different numbers of observations by key"),
        ({"number": 3, "picture": np.zeros((2, 2))}, r"found 3 in observations\['number'\], expected values in"),
        ({"number": [1.0, 1.5], "picture": np.zeros((2, 2, 2))}, r"found 1\.5 in observations\['number'\]"),
        ({"number": -1, "picture": np.zeros((2, 2))}, r"found -1 in observations\['number'\]"),
    ]:
        with pytest.raises(ActionError, match=told):
            policy.act(given)


@pytest.mark.parametrize("space", [spaces.Box(-1, 1, (3,)), spaces.Discrete(4), spaces.MultiDiscrete([2, 3])], ids=str)
@pytest.mark.parametrize("options", [FullyConnectedConfig(), GRUConfig(), LSTMConfig(), MinGRUConfig()])
def test_no_observations_give_no_actions(space: spaces.Space[Any], options: Any) -> None:
    shape = (2, 5)
    action_space = spaces.Box(-1.0, 1.0, shape)
    model = build_actor_critic(options, space, action_space)
    policy = TrainedPolicy("agent", model, space, action_space, acting_distribution(options, action_space))
    for deterministic in (False, True):
        assert policy.act(np.zeros((0, *(space.shape or ())), space.dtype), deterministic).shape == (0, *shape)


def test_no_images_give_no_actions() -> None:
    space, choices = spaces.Box(0, 255, (3, 8, 8), np.uint8), spaces.Discrete(3)
    model = QNetwork(space, 3, ConvolutionsConfig())
    policy = TrainedPolicy("agent", model, space, choices, distribution_of(choices))
    assert policy.act(np.zeros((0, 3, 8, 8), np.uint8)).shape == (0,)


def test_samples_have_the_policys_probabilities(sections: Sections, trainer_of: TrainerOf, tmp_path: Path) -> None:
    """Bounds of 5 standard errors: the six comparisons fail by chance in less than 1 of 250,000 seeds."""
    trainer = trainer_of(sections("Aim", ("aimer", "chooser")))
    with torch.no_grad():
        trainer.policies["chooser"].model.policy[-1].bias.copy_(torch.tensor([0.0, 1.0]))
        trainer.policies["aimer"].model.policy[-1].bias.copy_(torch.tensor([0.1, -0.2]))
        trainer.policies["aimer"].model.log_std.fill_(-2.5)
    trainer.save(tmp_path / "saved")
    seen = torch.zeros(20_000, 1)
    chosen = wd.load_policy(tmp_path / "saved", "chooser", seed=1).act(seen)
    p = float(torch.softmax(trainer.policies["chooser"].model.logits(seen[0]).detach(), 0)[1])
    assert float(chosen.float().mean()) == pytest.approx(p, abs=5 * (p * (1 - p) / 20_000) ** 0.5)
    aimed = wd.load_policy(tmp_path / "saved", "aimer", seed=1).act(seen)
    mean, deviation = trainer.policies["aimer"].model.logits(seen[0])[:2], np.exp(-2.5)
    np.testing.assert_allclose(aimed.mean(0), mean.detach(), atol=5 * deviation / 20_000**0.5)
    np.testing.assert_allclose(aimed.std(0), deviation, rtol=5 / 40_000**0.5)
    again = wd.load_policy(tmp_path / "saved", "chooser", seed=1)
    assert torch.equal(again.act(seen), chosen) and not torch.equal(again.act(seen), chosen)


def test_choices_that_are_not_allowed_are_not_taken(sections: Sections, trainer_of: TrainerOf, tmp_path: Path) -> None:
    trainer_of(sections()).save(tmp_path / "saved")
    policy = wd.load_policy(tmp_path / "saved", "even", seed=0)
    mask = np.tile([True, False, True], (1000, 1))
    assert set(policy.act(np.zeros((1000, 3)), action_mask=mask)) == {0, 2}
    assert policy.act(np.zeros(3), action_mask=[False, False, True], deterministic=True) == 2


def test_what_does_not_fit_is_told(sections: Sections, trainer_of: TrainerOf, tmp_path: Path) -> None:
    trainer_of(sections(), "policy.odd={algorithm: random}").save(tmp_path / "one")
    policy = wd.load_policy(tmp_path / "one")
    assert policy.tag == "even"
    with pytest.raises(ActionError, match=r"found observations of shape \(4,\), expected \(3,\) for one, or \(n, 3\)"):
        policy.act(np.zeros(4))
    with pytest.raises(ActionError, match=r"found an action_mask of shape \(2,\), expected \(3,\)"):
        policy.act(np.zeros(3), action_mask=[True, True])
    with pytest.raises(ActionError, match="policy 'even': found NaN in the outputs of the model"):
        policy.act(np.full(3, np.nan))
    with pytest.raises(CheckpointError, match="the agents of 'odd' act at random"):
        wd.load_policy(tmp_path / "one", "odd")
    with pytest.raises(
        CheckpointError, match=r"unknown policy tag 'evn'; trained policies: 'even'\. Did you mean 'even'"
    ):
        wd.load_policy(tmp_path / "one", "evn")
    trainer_of(sections("Aim", ("aimer", "chooser"))).save(tmp_path / "two")
    with pytest.raises(CheckpointError, match="several policies were trained"):
        wd.load_policy(tmp_path / "two")
    with pytest.raises(ActionError, match="has no discrete actions"):
        wd.load_policy(tmp_path / "two", "aimer").act(np.zeros(1), action_mask=[True])


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (2, 3), np.float32),
        spaces.Box(np.array([-np.inf, 0.1], np.float32), np.array([np.inf, 7], np.float32)),
        spaces.Box(0, 255, (4, 4, 3), np.uint8),
        spaces.Box(-np.inf, np.inf, (), np.float32),
        spaces.Discrete(5),
        spaces.MultiDiscrete([2, 3]),
        spaces.Dict({"grid": spaces.Box(0, 1, (2, 2), np.float32), "age": spaces.Discrete(3)}),
    ],
)
def test_spaces_are_read_back(space: spaces.Space[Any]) -> None:
    assert space_of(json.loads(json.dumps(describe_space(space), allow_nan=False))) == space


@pytest.mark.parametrize(
    "description",
    [
        {"type": "Box", "shape": [2**20, 2**20], "dtype": "float32", "low": 0.0, "high": 1.0},
        {"type": "Box", "shape": [2**12, 2**13], "dtype": "uint8", "low": 0, "high": 1},
        {"type": "Box", "shape": [1], "dtype": "float32", "low": 0.0, "high": 1.0, "num_ids": 2**25},
        {"type": "Box", "shape": [1], "dtype": "S1000000", "low": 0.0, "high": 1.0},
        {"type": "Discrete", "n": 2**40, "start": 0},
        {"type": "Discrete", "n": 2**25, "start": 0},
        {"type": "MultiDiscrete", "nvec": [2, 2**40]},
        {"type": "Dict", "spaces": {name: {"type": "Discrete", "n": 2**23, "start": 0} for name in "abc"}},
    ],
)
def test_spaces_too_large_for_any_model_are_refused(description: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="which is not what was saved"):
        space_of(description)
