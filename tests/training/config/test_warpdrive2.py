"""Run configurations of WarpDrive 2, converted."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from warpdrive.errors import ConfigError
from warpdrive.training.cli.main import main
from warpdrive.training.config.load import load_config
from warpdrive.training.config.warpdrive2 import convert, is_of_warpdrive2

SAVING = {"metrics_log_freq": 10, "model_params_save_freq": 500, "basedir": "out", "name": "mine", "tag": "first"}
ACTOR_CRITIC = {
    "to_train": True,
    "algorithm": "A2C",
    "vf_loss_coeff": 0.5,
    "entropy_coeff": [[0, 0.5], [2000, 0.05]],
    "clip_grad_norm": True,
    "max_grad_norm": 3,
    "normalize_advantage": False,
    "normalize_return": False,
    "gamma": 0.97,
    "lr": 0.005,
    "model": {"type": "fully_connected", "fc_dims": [32, 16], "model_ckpt_filepath": ""},
}
DDPG = {
    "to_train": True,
    "algorithm": "DDPG",
    "gamma": 0.99,
    "tau": 0.05,
    "lr": {"actor": 0.001, "critic": 0.0001},
    "model": {
        "actor": {"type": "fully_connected_actor", "fc_dims": [64, 64], "output_w": 2.0},
        "critic": {"type": "fully_connected_action_value_critic", "fc_dims": [64, 64]},
        "model_ckpt_filepath": {"actor": "", "critic": ""},
    },
}
TAG = {"num_taggers": 3, "grid_length": 8, "episode_length": 50, "seed": 20}


def former(name: str, env: dict[str, Any], policy: dict[str, Any], **trainer: Any) -> dict[str, Any]:
    sizes = {"num_envs": 10, "num_episodes": 40, "train_batch_size": 200}
    sections = {"trainer": {**sizes, **trainer}, "policy": policy, "saving": SAVING}
    return copy.deepcopy({"name": name, "env": env, **sections})


CONFIGURATIONS = [
    former("tag_gridworld", TAG, {"shared": ACTOR_CRITIC}, env_backend="pycuda"),
    former("tag_gridworld_with_reset_pool", TAG, {"runner": ACTOR_CRITIC, "tagger": ACTOR_CRITIC}, num_gpus=2),
    former("tag_continuous", {"num_taggers": 2, "num_runners": 5, "max_speed": 1.0}, {"t": ACTOR_CRITIC}),
    *(
        former(f"single_{name}", {"episode_length": 500, "reset_pool_size": 100}, {"shared": ACTOR_CRITIC})
        for name in ("cartpole", "acrobot", "mountain_car")
    ),
    *(
        {
            **former(f"single_{name}", {"episode_length": 200}, {"shared": DDPG}, n_step=5, evaluator=True),
            "sampler": {"params": {"damping": 0.1, "stddev": 0.5, "scale": 2.0}},
        }
        for name in ("pendulum", "continuous_mountain_car")
    ),
]


@pytest.mark.parametrize("raw", CONFIGURATIONS, ids=lambda raw: raw["name"])
def test_configurations_of_its_environments_are_valid_after_conversion(raw, tmp_path):
    assert is_of_warpdrive2(raw)
    converted, notes = convert(raw)
    assert not is_of_warpdrive2(converted)
    written = tmp_path / "new.yaml"
    written.write_text(yaml.safe_dump(converted))
    assert load_config(written) == load_config(converted)
    assert notes and all(": " in note for note in notes)


def test_an_actor_critic_keeps_its_meaning():
    converted, notes = convert(CONFIGURATIONS[0])
    config = load_config(converted)
    assert config.trainer.total_steps == 40 * 50 and config.trainer.train_batch_size == 200
    assert config.trainer.seed == 20 and config.saving.folder == "out/first" and config.saving.log_every == 10
    assert set(config.policy) == {"tagger", "runner"}
    policy: Any = config.policy["runner"]
    assert (policy.lr, policy.gamma, policy.max_grad_norm, policy.gae_lambda) == (0.005, 0.97, 3.0, 1.0)
    assert policy.value_coef == 1.0  # of half the squared error
    assert policy.entropy_coef == [(0, 0.5), (2000, 0.05)] or policy.entropy_coef == [[0, 0.5], [2000, 0.05]]
    assert (policy.model.hidden, policy.model.activation, policy.model.trunk) == ([32, 16], "relu", "shared")
    assert any(note.startswith("policy.shared: one policy for all agents") for note in notes)


def test_ddpg_keeps_its_targets_and_noise():
    converted, notes = convert(CONFIGURATIONS[-2])
    policy: Any = load_config(converted).policy["agent"]
    assert (policy.tau, policy.n_step, policy.lr, policy.batch_size) == (0.05, 5, 0.001, 200)
    assert (policy.noise.type, policy.noise.decay, policy.noise.std) == ("ornstein_uhlenbeck", 0.1, 1.0)
    assert converted["trainer"]["evaluation"] == {"every": 10, "deterministic": True}
    assert any(note.startswith("policy.shared.lr.critic: 0.0001 dropped") for note in notes)


def test_ppo_takes_one_gradient_step_and_defaults_are_those_of_warpdrive_2():
    section = {"algorithm": "PPO", "clip_grad_norm": False}
    policy: Any = load_config(convert(former("tag_gridworld", TAG, {"all": section}))[0]).policy["tagger"]
    assert (policy.clip, policy.epochs, policy.minibatches) == (0.01, 1, 1)
    assert (policy.to_train, policy.gamma, policy.lr, policy.entropy_coef) == (False, 0.98, 0.0001, 0.05)
    assert policy.max_grad_norm >= 1e6


def test_unknown_keys_are_dropped_with_the_nearest_name():
    raw = former("tag_gridworld", {**TAG, "num_tagers": 3}, {"shared": {**ACTOR_CRITIC, "vf_loss_coef": 1.0}})
    raw["trainer"]["num_env"] = 5
    raw["saving"] = {"print_metrics_freq": 7, "save_model_params_freq": 9, "verbose": True}  # of WarpDrive 1
    converted, notes = convert(raw)
    assert "env.num_tagers: 3 dropped: the environment has no such parameter. Did you mean 'num_taggers'?" in notes
    assert "trainer.num_env: unknown, dropped. Did you mean 'num_envs'?" in notes
    assert "policy.shared.vf_loss_coef: unknown, dropped. Did you mean 'vf_loss_coeff'?" in notes
    assert any(note.startswith("saving.verbose: unknown") for note in notes)
    assert (converted["saving"]["log_every"], converted["saving"]["checkpoint_every"]) == (7, 9)
    load_config(converted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trainer": 3}, "trainer: found 3, expected a section"),
        ({"policy": {"a": {"algorithm": "SAC", "vf_loss_coeff": 1}}}, "policy.a.algorithm: found 'SAC'"),
        ({"trainer": {"train_batch_size": 0}}, "trainer.train_batch_size: found 0, expected at least 1"),
        ({"trainer": {"num_episodes": "many"}}, "trainer.num_episodes: found 'many', expected a finite number"),
        ({"policy": {"a": {"model": [1], "gamma": 1}}}, r"model: found \[1\], expected a section"),
    ],
)
def test_mistakes_are_one_line(change, message):
    with pytest.raises(ConfigError, match=message):
        convert({**CONFIGURATIONS[0], **change})


def test_the_command_writes_notes_and_problems_as_comments(tmp_path, capsys):
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(yaml.safe_dump(former("my_game", {"size": 3}, {"all": ACTOR_CRITIC})))
    assert main(["convert", str(old), "-o", str(new)]) == 0
    assert capsys.readouterr().out.endswith(" notes, 1 problem to correct; see its first lines\n")
    text = new.read_text()
    assert "# - name: no environment 'my_game' is registered" in text and "# To correct:" in text
    assert yaml.safe_load(text)["env"] == {"name": "my_game", "size": 3}
    assert main(["convert", str(new)]) == 2
    assert "expected a run configuration of WarpDrive 2" in capsys.readouterr().err


def test_other_commands_convert_with_a_warning(tmp_path: Path):
    old = tmp_path / "old.yaml"
    old.write_text(yaml.safe_dump(CONFIGURATIONS[0]))
    with pytest.warns(UserWarning, match=r"old.yaml: converted from WarpDrive 2: warpdrive convert .*old.yaml"):
        config = load_config(old, ["trainer.total_steps=400"])
    assert config.trainer.total_steps == 400
