"""The JSON Schema of run configurations accepts what WarpDrive accepts, and refuses mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

from warpdrive import registry
from warpdrive.training.config.json_schema import json_schema
from warpdrive.training.config.load import load_config, shipped_configs
from warpdrive.training.config.yaml import parse_override, read_yaml

jsonschema = pytest.importorskip("jsonschema")
FILE = ROOT / "training" / "run_configs" / "run_config.schema.json"


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(FILE.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_shipped_schema_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})  # by other tests
    written = json.loads(FILE.read_text())
    is_up_to_date = json_schema() == written  # apart, for a message without thousands of lines
    assert is_up_to_date, "run make generated"


@pytest.mark.parametrize("path", shipped_configs().values(), ids=lambda path: path.stem)
def test_shipped_configurations_are_valid_and_name_it(path: Path, validator: Any) -> None:
    validator.validate(read_yaml(path))
    named = path.read_text().partition("$schema=")[2].partition("\n")[0]
    assert path.read_text().startswith("# yaml-language-server: $schema=") and (path.parent / named).samefile(FILE)


@pytest.mark.parametrize("name", ["tag_gridworld", "cartpole_recurrent", "pendulum_td3", "battle_self_play"])
def test_complete_configurations_are_valid(name: str, validator: Any) -> None:
    validator.validate(load_config(name).model_dump(mode="json"))


GOOD = """
policy.tagger.lr=[[0, 1e-3], [1e6, 0]]
policy.tagger.lr={schedule: cosine, start: 1e-3, end: 0}
policy.tagger.model={type: gru, units: 8}
policy.tagger.model={type: my_models.py:Mine, width: 3}
trainer.use_cuda_graph=off
trainer.total_steps=2e6
trainer.rollout_device=cuda:1
env={name: my_game.py:MyGame, size: 3}
env={gymnasium: LunarLander-v3}
env={name: pettingzoo, id: mpe2.simple_spread_v3}
"""
BAD = """
trainer.num_env=5
trainer.num_envs=0
trainer.num_envs=1.5
trainer.env_backend=nubma
trainer.rollout_device=gpu
trainer.evaluation.evry=1
policy.tagger.algorithm=pppo
policy.tagger.epsilon=0.1
policy.tagger.lr=-1
policy.tagger.lr=[[0, -1]]
policy.tagger.lr={schedule: step, start: 1, end: 0}
policy.tagger.gamma=1.5
policy.tagger.model={type: gru, hiden: [3]}
policy.runner={lr: 1}
saving.best_mode=maximum
env.num_tagers=3
env.num_taggers=three
env={num_taggers: 3}
env={gymnasium: 3}
saved.folder=runs
"""


def changed(override: str) -> dict[str, Any]:
    config = read_yaml(FILE.with_name("tag_gridworld.yaml"))
    (*sections, last), value = parse_override(override)
    section = config
    for name in sections:
        section = section.setdefault(name, {})
    section[last] = value
    return config


@pytest.mark.parametrize("override", GOOD.split("\n")[1:-1])
def test_what_is_possible_is_valid(override: str, validator: Any) -> None:
    validator.validate(changed(override))


@pytest.mark.parametrize("override", BAD.split("\n")[1:-1])
def test_mistakes_are_invalid(override: str, validator: Any) -> None:
    config = changed(override)
    assert not validator.is_valid(config)
    with pytest.raises(ValueError):
        load_config(config)


def test_an_environment_of_a_file_is_described(tmp_path: Path) -> None:
    template = ROOT / "training" / "templates" / "my_env" / "my_env.py"
    validator = jsonschema.Draft202012Validator(json_schema([f"{template}:MyEnv"]))
    config = load_config("cartpole").model_dump(mode="json")
    assert validator.is_valid({**config, "env": {"name": f"{template}:MyEnv", "num_hunters": 2}})
    assert not validator.is_valid({**config, "env": {"name": f"{template}:MyEnv", "num_hunter": 2}})


def test_keys_have_descriptions_and_bounds() -> None:
    definitions = json.loads(FILE.read_text())["$defs"]
    num_envs = definitions["TrainerConfig"]["properties"]["num_envs"]
    assert (num_envs["minimum"], num_envs["exclusiveMaximum"]) == (1, 2**31)
    sync = definitions["TrainerConfig"]["properties"]["sync"]
    assert sync["enum"] == ["gradients", "rollouts"] and sync["description"].startswith("Synchronisation of several")
    (cartpole,) = (c["then"] for c in definitions["EnvironmentConfig"]["allOf"] if "cartpole" in str(c["if"]))
    assert cartpole["properties"]["gravity"]["description"].startswith("Gravitational acceleration in m/s^2")
