"""Training in environments of other libraries, from run configurations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from host_environments import Chain, Relay

import warpdrive as wd
from warpdrive.errors import ConfigError, TrustError
from warpdrive.training.config.load import load_config
from warpdrive.training.trainer import make_env


def config(env, policy, **trainer):
    sizes = {"num_envs": 8, "train_batch_size": 256, "total_steps": 512, "torch_threads": 1}
    return {"env": env, "trainer": sizes | trainer, "policy": policy, "saving": {"tensorboard": False}}


@pytest.mark.exhaustive
def test_cartpole_of_gymnasium_is_solved(tmp_path, monkeypatch):
    """The return is 20 at random. Ten other seeds reached 403 to 500."""
    monkeypatch.chdir(tmp_path)
    ppo = {"algorithm": "ppo", "lr": 1e-3, "gamma": 0.98, "gae_lambda": 0.9, "epochs": 8, "minibatches": 8}
    settings = config({"gymnasium": "CartPole-v1"}, {"agent": ppo}, num_envs=32, train_batch_size=2048)
    settings["trainer"]["total_steps"] = 30_000
    found = load_config(settings)
    assert (found.name, found.env.name, found.env.parameters) == ("CartPole-v1", "gymnasium", {"id": "CartPole-v1"})
    trainer = wd.Trainer(make_env(found), found)
    summary = trainer.train(progress=False)
    result = trainer.evaluate(10, progress=False)
    assert result.mean_return["agent"] > 120
    assert result.mean_return["agent"] == pytest.approx(result.mean_length)  # a reward of 1 per step
    assert result == trainer.evaluate(10, progress=False)  # the same start states each time
    loaded = wd.Trainer.load(summary.run_folder)
    assert loaded.evaluate(10, progress=False) == result
    policy = wd.load_policy(summary.run_folder)
    assert policy.act(np.zeros((1, 4), np.float32)).shape == (1,)


def test_a_run_is_resumed_with_new_episodes(tmp_path):
    settings = config({"gymnasium": "CartPole-v1", "vectorization": "sync"}, {"agent": {"algorithm": "a2c"}})
    settings["saving"]["folder"] = str(tmp_path)
    found = load_config(settings)
    trainer = wd.Trainer(make_env(found), found)
    start = trainer.env.observations("agent").clone()
    run = trainer.train(progress=False).run_folder
    resumed = wd.Trainer.resume(run, ["trainer.total_steps=1024"])
    assert resumed.env_steps == 512
    assert not torch.equal(resumed.env.observations("agent"), start)
    assert (resumed.env.ctx["timestep"] == 0).all()
    assert resumed.train(progress=False).env_steps == 1024


@pytest.mark.parametrize(
    ("make", "policy", "critic"),
    [
        (Chain, {"agent": {"algorithm": "dqn", "learning_starts": 100}}, False),
        pytest.param(
            Chain, {"agent": {"algorithm": "ppo", "model": {"type": "gru"}}}, False, marks=pytest.mark.exhaustive
        ),
        (Relay, {"runner": {"algorithm": "ppo"}, "judge": {"algorithm": "random"}}, True),
        pytest.param(
            Relay, {"runner": {"algorithm": "pqn"}, "judge": {"algorithm": "ppo"}}, False, marks=pytest.mark.exhaustive
        ),
    ],
    ids=["dqn", "recurrent", "centralized critic", "two policies"],
)
def test_policies_of_every_kind_train(make, policy, critic, tmp_path):
    env = wd.HostEnv(make, 8, env_backend="cpu")
    if critic:
        policy = policy | {"runner": {"algorithm": "ppo", "centralized_critic": True}}
    settings = config(None, policy)
    settings["saving"]["folder"] = str(tmp_path)
    trainer = wd.Trainer(env, {key: value for key, value in settings.items() if key != "env"})
    before = {tag: [p.clone() for p in model.parameters()] for tag, model in trainer.models.items()}
    trainer.train(progress=False)
    for tag, model in trainer.models.items():
        assert all(p.isfinite().all() for p in model.parameters())
        assert any(not torch.equal(p, b) for p, b in zip(model.parameters(), before[tag], strict=True))
    assert all(np.isfinite(list(trainer.evaluate(8, progress=False).mean_return.values())))


def test_configurations_are_saved_and_overridden(tmp_path):
    settings = config({"gymnasium": "CartPole-v1"}, {"agent": {"algorithm": "ppo"}})
    found = load_config(settings, ["env.gymnasium=Acrobot-v1", "env.workers=2"])
    assert found.env.parameters == {"id": "Acrobot-v1", "workers": 2}
    found.save(tmp_path / "saved.yaml")
    assert load_config(tmp_path / "saved.yaml") == found


def test_mistakes_in_configurations():
    for env, message in [
        ({"gymnasium": "CartPol-v1"}, "Did you mean 'CartPole-v"),
        ({"pettingzoo": "nowhere_v1"}, "no module 'nowhere_v1'"),
        ({"gymnasium": "CartPole-v1", "worker": 2}, "worker"),
        ({"gymnasium": 3}, "env.id: found 3"),
    ]:
        with pytest.raises(ConfigError, match=message):
            load_config(config(env, {"agent": {"algorithm": "ppo"}}))
    with pytest.raises(ConfigError, match="the policy tags of the environment are 'agent'"):
        load_config(config({"gymnasium": "CartPole-v1"}, {"player": {"algorithm": "ppo"}}))
    agents = {"agent": {"algorithm": "a2c"}}
    staggered = load_config(config({"gymnasium": "CartPole-v1"}, agents, stagger_episodes=True))
    with pytest.raises(ConfigError, match="stagger_episodes"):
        wd.Trainer(make_env(staggered), staggered)


@pytest.mark.parametrize(
    "env",
    [
        {"pettingzoo": "evil_v1"},
        {"pettingzoo": "evil_v1:make"},
        {"gymnasium": "evil_v1:Evil-v0"},
        {"warpdrive2": "evil_v1:E"},
    ],
    ids=["module", "function", "id", "class"],
)
def test_runs_of_others_import_no_local_module(env, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil_v1.py").write_text("open('executed', 'w').close()\n")
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    settings = config(env, {"agent": {"algorithm": "ppo"}})
    (run / "config.yaml").write_text(f"{settings}")
    with pytest.raises(TrustError, match="evil_v1"):
        load_config(run / "config.yaml")
    assert not (tmp_path / "executed").exists()
    for library in ("pettingzoo", "warpdrive2"):
        settings["env"] = {library: "pytest:main", "args": ["--version"]}  # installed, but takes any arguments
        (run / "config.yaml").write_text(f"{settings}")
        with pytest.raises(TrustError, match="pytest:main"):
            load_config(run / "config.yaml")
