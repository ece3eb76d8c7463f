"""Run configurations that are built in Python."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import warpdrive as wd
from warpdrive.training.config.load import load_config, shipped_configs

SIZES = wd.TrainerConfig(num_envs=8, train_batch_size=80, total_steps=160, env_backend="cpu")


def cartpole(**policy: Any) -> wd.RunConfig:
    return wd.RunConfig(env="cartpole", trainer=SIZES, policy={"agent": wd.PPOConfig(**policy)})


def test_it_equals_the_same_configuration_in_yaml(tmp_path: Path) -> None:
    config = cartpole(lr=[[0, 1e-3], [100, 0.0]], model=wd.GRUConfig(units=8))
    (tmp_path / "c.yaml").write_text(
        "env: {name: cartpole}\n"
        "trainer: {num_envs: 8, train_batch_size: 80, total_steps: 160, env_backend: cpu}\n"
        "policy: {agent: {algorithm: ppo, lr: [[0, 1e-3], [100, 0.0]], model: {type: gru, units: 8}}}\n"
    )
    assert config == load_config(tmp_path / "c.yaml")
    config.save(tmp_path / "saved.yaml")
    assert wd.RunConfig.load(tmp_path / "saved.yaml") == config
    assert (tmp_path / "saved.yaml").read_text() == config.to_yaml()
    assert wd.RunConfig.load("cartpole", ["trainer.seed=3"]).trainer.seed == 3
    named = wd.RunConfig.load("cartpole", ["name='1e5'"])  # a word that looks like a number
    named.save(tmp_path / "saved.yaml")
    assert wd.RunConfig.load(tmp_path / "saved.yaml") == named


@pytest.mark.parametrize("name", shipped_configs())
def test_its_arguments_can_express_every_shipped_configuration(name: str) -> None:
    config = load_config(name)
    assert wd.RunConfig(**dict(config)) == config


def test_a_trainer_is_made_of_it_or_of_a_dictionary() -> None:
    config = cartpole()
    assert wd.Trainer(config.model_dump()).config == wd.Trainer(config).config
    short = {"env": "cartpole", "trainer": SIZES.model_dump(), "policy": {"agent": {"algorithm": "ppo"}}}
    assert wd.Trainer(short).config == wd.Trainer(config).config


def test_a_trainer_takes_it() -> None:
    trainer = wd.Trainer(cartpole())
    trainer.collect()
    assert trainer.env.num_envs == 8 and set(trainer.update())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: wd.TrainerConfig(num_env=4, train_batch_size=40, total_steps=40),
            "TrainerConfig: num_env: unknown key",
        ),
        (lambda: wd.PPOConfig(learning_rate=1e-3), "PPOConfig: learning_rate: unknown key, .* Did you mean 'lr'"),
        (lambda: wd.QMIXConfig(mixing_embed_dim=32), "mixing_embed_dim: unknown key, .* Did you mean 'mixing_units'"),
        (lambda: wd.PPOConfig(obs_agent_id=True), "obs_agent_id: unknown key, .* Did you mean 'agent_ids'"),
        (lambda: wd.PPOConfig(lr=-1.0), "PPOConfig: lr: found -1.0 .a number., expected a number greater than 0"),
        (lambda: wd.PPOConfig(model={"hiden": [8]}), "PPOConfig: model.hiden: unknown key, .* Did you mean 'hidden'"),
        (lambda: wd.RunConfig(env="cartpol", trainer=SIZES, policy={}), "Did you mean 'cartpole'"),
        (lambda: wd.RunConfig(env="cartpole", trainer=SIZES, policy={"agnt": wd.PPOConfig()}), "Did you mean 'agent'"),
        (
            lambda: wd.RunConfig(
                env={"name": "cartpole", "gravty": 1.0}, trainer=SIZES, policy={"agent": wd.PPOConfig()}
            ),
            "env.gravty: unknown parameter of CartPole, .* Did you mean 'gravity'",
        ),
        (
            lambda: wd.DDPGConfig(noise={"type": "gausian"}),
            "noise: found type: 'gausian', expected one of 'gaussian', 'ornstein_uhlenbeck'. Did you mean 'gaussian'",
        ),
        (lambda: wd.DDPGConfig(noise={"std": 0.1}), r"noise: found .* \(a section\), expected the key 'type' as well"),
        (
            lambda: wd.RunConfig.load("cartpole", ["policy.agent.model={type: 'warpdrive:ActorCritic', width: 8}"]),
            r"model\.width: unknown parameter of ActorCritic \(.*\), expected none\.$",
        ),
    ],
)
def test_mistakes_are_reported_as_those_of_yaml(build: Any, message: str) -> None:
    with pytest.raises(wd.WarpDriveError, match=message):
        build()


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("wd.TrainerConfig(num_", "num_envs="),
        ("wd.RunConfig(env='x', tr", "trainer="),
        ("wd.PPOConfig(entr", "entropy_coef="),
    ],
)
def test_notebooks_complete_the_keys(typed: str, completed: str) -> None:
    jedi = pytest.importorskip("jedi", reason="installed with IPython")
    assert completed in [found.name for found in jedi.Interpreter(typed, [{"wd": wd}]).complete()]


@pytest.mark.parametrize("name", [name for name in wd.__all__ if name.endswith("Config")])
def test_signatures_name_the_keys_with_plain_types(name: str) -> None:
    section = getattr(wd, name)
    signature = inspect.signature(section)
    assert set(signature.parameters) == set(section.model_fields)
    assert "Annotated" not in str(signature) and "FieldInfo" not in str(signature)
