"""User-defined models: by name or path, from the configuration to a loaded policy; messages of CheckDevice."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from gymnasium import spaces
from own_models import Own, OwnMemory
from paths import SUPPORT

import warpdrive as wd
from warpdrive.errors import ConfigError, DefinitionError, ModelError
from warpdrive.training.config.load import load_config
from warpdrive.training.models import build_actor_critic
from warpdrive.training.models.options import FullyConnectedConfig
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]
FILE = SUPPORT / "own_models.py"


@pytest.mark.parametrize("place", ["own_models:Own", f"{FILE}:Own", "named"])
def test_a_model_of_ones_own_is_trained_and_loaded(
    sections: Sections, trainer_of: TrainerOf, place: str, tmp_path: Path
) -> None:
    wd.register_model("named", "own_models:Own")
    values = sections("Aim", ("aimer", "chooser"))
    values["policy"]["aimer"]["model"] = {"type": place, "width": 5}
    trainer = trainer_of(values)
    model = trainer.policies["aimer"].model
    assert type(model).__name__ == "Own" and model.body[0].out_features == 5  # type: ignore[index, union-attr]
    assert model.head.out_features == 2 * 2 + 1  # type: ignore[union-attr]
    run = trainer.train().run_folder
    policy = wd.load_policy(run, "aimer")
    for name, parameter in policy.model.state_dict().items():
        assert torch.equal(parameter, model.state_dict()[name])
    assert policy.act(np.zeros((3, 1))).shape == (3, 2)
    assert Trainer.resume(run).config == trainer.config


def test_one_with_a_memory_is_trained_over_sequences(sections: Sections, trainer_of: TrainerOf, tmp_path: Path) -> None:
    wd.register_model("memory", OwnMemory)
    values = sections("Recall", ("players",), reset_pool_size=1000, total_steps=2000)
    values["policy"]["players"] |= {"model": {"type": "memory", "decay": 0.9}, "lr": 0.2, "entropy_coef": 0.0}
    trainer = trainer_of(values)
    run = trainer.train().run_folder
    assert trainer.evaluate(num_episodes=200).mean_return["players"] > 3.5, "without a memory it is 2"
    assert wd.load_policy(run).is_recurrent
    with pytest.raises(ConfigError, match="expected at most 40, the sequences"):
        trainer_of(values, "policy.players.minibatches=41")


def test_files_are_looked_for_beside_the_configuration(sections: Sections, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE.read_text())
    values = sections()
    values["policy"]["odd"]["model"] = {"type": "mine.py:Own"}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    config: Any = load_config(tmp_path / "run.yaml")
    assert config.policy["odd"].model.type == f"{tmp_path / 'mine.py'}:Own"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (
            "{type: own_models:Own, widht: 3}",
            r"model\.widht: unknown parameter of Own \(.*own_models\.py:\d+\), expected one of width, wrong\. "
            "Did you mean 'width'",
        ),
        ("{type: own_models:Own, width: wide}", r"model\.width: found 'wide' \(a string\), expected an integer"),
        ("{type: own_models:On}", r"model\.type: 'own_models' has no class 'On'\. Did you mean 'Own'"),
        (
            "{type: own_models:NoModel}",
            r"model\.type: 'own_models:NoModel' is .*expected a subclass of warpdrive\.ActorCritic",
        ),
        (
            "{type: no_such_models:Own}",
            r"model\.type: model 'no_such_models:Own' cannot be imported: ModuleNotFoundError",
        ),
        (
            "{type: fully_conected}",
            r"model\.type: found 'fully_conected', expected one of fully_connected, convolutional, gru, lstm, mingru, "
            ".*Did you mean 'fully_connected'",
        ),
        ("{type: registred}", r"Did you mean 'registered'"),
        ("{type: 3}", r"model\.type: found 3 \(an integer\), expected a string"),
    ],
)
def test_what_is_wrong_is_told_with_key_file_and_nearest(sections: Sections, model: str, told: str) -> None:
    wd.register_model("registered", Own)
    with pytest.raises(ConfigError, match=r"run configuration|command line") as error:
        load_config(sections(), [f"policy.odd.model={model}"])
    error.match(told)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("shape", r"Own\.values: found a tensor of shape \(20, 2, 1\), expected \(20, 2\)"),
        ("nothing", r"Own\.logits: found None, expected a tensor"),
        ("constructor", r"{file}:Own: RuntimeError: not today \(.*own_models\.py:\d+\)"),
        ("call", r"Own\.logits: RuntimeError: not now \(.*own_models\.py:\d+\)"),
    ],
)
def test_a_model_that_cannot_be_built_or_called_is_reported_before_training(
    sections: Sections, trainer_of: TrainerOf, wrong: str, told: str
) -> None:
    expected = rf"^policy\.odd\.model\.type: {told.format(file=re.escape(str(FILE)))}"
    with pytest.raises(ConfigError, match=expected):
        trainer_of(sections(), f"policy.odd.model={{type: '{FILE}:Own', wrong: {wrong}}}")


def test_names_that_are_taken_are_refused() -> None:
    for name in ("gru", "a:b"):
        with pytest.raises(DefinitionError, match=f"register_model: found the name '{name}'"):
            wd.register_model(name, Own)


BOX = spaces.Box(-1, 1, (4,), np.float32)


@pytest.mark.parametrize(
    ("wrong", "call", "told"),
    [
        ("dtype", "logits", r"Own\.logits: found the output 'logits' of dtype float64, expected float32"),
        (
            "device",
            "logits",
            r"Own\.logits: found the output 'logits' on meta, expected cpu, where the model's parameters",
        ),
        ("device", "forward", r"Own\.forward: found the output 'logits' on meta, expected cpu"),
        ("shape", "values", r"Own\.values: found the output 'values' of shape \(5, 1\), expected \(5\)"),
        ("shape", "forward", r"Own\.forward: found the output 'values' of shape \(5, 1\), expected \(5\)"),
        ("attribute", "logits", r"Own\.logits: found the model's tensor 'factor' on meta \(register it with"),
    ],
)
def test_it_is_told_which_output_is_wrong(wrong: str, call: str, told: str) -> None:
    model = wd.CheckDevice(Own(BOX, 3, wrong=wrong), BOX, spaces.Discrete(3))
    with pytest.raises(ModelError, match=told):
        getattr(model, call)(torch.zeros(5, 4))
    getattr(wd.CheckDevice(Own(BOX, 3)), call)(torch.zeros(5, 4))


def test_it_is_told_which_input_is_wrong() -> None:
    model = wd.CheckDevice(Own(BOX, 3), BOX, spaces.Discrete(3))
    with pytest.raises(ModelError, match=r"Own\.forward: found the input 'observations' on meta, expected cpu"):
        model(torch.zeros(5, 4, device="meta"))
    with pytest.raises(
        ModelError, match=r"Own\.values: found the input 'observations' of shape \(5, 3\), expected \(\.\.\., 4\)"
    ):
        model.values(torch.zeros(5, 3))
    with pytest.raises(ModelError, match=r"Own\.logits: found the input 'observations' = ndarray, expected a tensor"):
        model.logits(np.zeros((5, 4)))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"the output 'logits' of shape \(5, 3\), expected \(5, 2\)"):
        wd.CheckDevice(Own(BOX, 3), BOX, spaces.Discrete(2)).logits(torch.zeros(5, 4))
    pair = spaces.Dict(near=BOX, far=BOX)
    by_key = wd.CheckDevice(build_actor_critic(FullyConnectedConfig(), pair, spaces.Discrete(2)), pair)
    with pytest.raises(ModelError, match=r"the input 'observations\['far'\]' on meta, expected cpu"):
        by_key.logits({"near": torch.zeros(5, 4), "far": torch.zeros(5, 4, device="meta")})
    with pytest.raises(ModelError, match=r"found observations \['near'\], expected a dict of \['far', 'near'\]"):
        by_key.logits({"near": torch.zeros(5, 4)})


def test_states_are_looked_at_too() -> None:
    model = wd.CheckDevice(OwnMemory(BOX, 3), BOX, spaces.Discrete(3))
    with pytest.raises(
        ModelError, match=r"OwnMemory\.step: found the input 'state' of shape \(5, 3\), expected \(5, 4\)"
    ):
        model.step(torch.zeros(5, 4), torch.zeros(5, 3))
    with pytest.raises(
        ModelError, match=r"OwnMemory\.forward_sequence: found the input 'begins' of dtype float32, expected bool"
    ):
        model.forward_sequence(torch.zeros(2, 5, 4), torch.zeros(5, 4), torch.zeros(2, 5))
    logits, values, states = model.forward_sequence(torch.zeros(2, 5, 4), torch.zeros(5, 4), torch.zeros(2, 5).bool())
    assert logits.shape == (2, 5, 3) and values.shape == (2, 5) and states.shape == (2, 5, 4)


@pytest.mark.parametrize("name", ["Own", "OwnMemory"])
def test_nothing_but_the_checks_changes(sections: Sections, trainer_of: TrainerOf, name: str) -> None:
    """Trajectories, losses, weights, and what a checkpoint holds, bit for bit."""
    trained = []
    for check in (False, True):
        values = sections("Leave", ("outer", "inner"))
        for policy in values["policy"].values():
            policy["model"] = {"type": f"own_models:{name}", "check_device": check}
        trainer = trainer_of(values)
        found: dict[str, Any] = {}
        for update in range(2):
            with wd.no_host_transfers(trainer.env.device):
                trainer.collect()
                found |= {f"{update} {key}": value for key, value in trainer.update().items()}
            rollout = vars(trainer.rollout).items()
            found |= {f"{update} {key}": part.clone() for key, part in rollout if isinstance(part, torch.Tensor)}
        checkpoint = trainer.checkpoint()
        for tag, weights in checkpoint.models.items():
            found |= {f"{tag} {key}": value for key, value in weights.items()}
        checked = isinstance(trainer.policies["outer"].model, wd.CheckDevice)
        assert checked == check
        trained.append(found)
    assert trained[0].keys() == trained[1].keys()
    torch.testing.assert_close(trained[1], trained[0], rtol=0, atol=0, equal_nan=True)
