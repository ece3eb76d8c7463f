"""Exported policies act as the originals."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from exhaustive import exhaustive
from gymnasium import spaces
from torch import Tensor, nn

import warpdrive as wd
from warpdrive.errors import ExportError
from warpdrive.training.cli import export as command
from warpdrive.training.cli.main import main
from warpdrive.training.inference import export
from warpdrive.training.inference.trained_policy import TrainedPolicy
from warpdrive.training.models.base import Actor
from warpdrive.training.models.distributions import SquashedGaussian, distribution_of
from warpdrive.training.trainer import Trainer

Sections = Callable[..., dict[str, Any]]
TrainerOf = Callable[..., Trainer]

GAMES = [
    ("Echo", "even", True),
    ("Leave", "outer", True),  # MultiDiscrete
    ("Spell", "inner", False),  # Dict observations
    ("Aim", "aimer", False),  # a Box, to which actions are clipped
]
FURTHER = {("Echo", ".onnx"), ("Aim", ".onnx"), ("Echo", ".pt2"), ("Leave", ".pt2"), ("Spell", ".onnx")}
"""Like others: Leave has masks, too, and the squashed actions of a Box are exported to ONNX."""


@pytest.mark.parametrize(
    ("game", "tag", "masked", "suffix"),
    [
        pytest.param(*game, suffix, marks=[pytest.mark.exhaustive] * ((game[0], suffix) in FURTHER))
        for suffix in (".onnx", ".pt2")
        for game in GAMES
    ],
)
def test_an_exported_policy_does_what_the_policy_does(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path, game: str, tag: str, masked: bool, suffix: str
) -> None:
    tags = {
        "Echo": ("even", "odd"),
        "Leave": ("inner", "outer"),
        "Spell": ("outer", "inner"),
        "Aim": ("aimer", "chooser"),
    }
    trainer = trainer_of(sections(game, tags[game]))
    with torch.no_grad():  # larger than at the beginning, so that every action is taken, and the aimer's leave the Box
        trainer.policies[tag].model.policy[-1].weight.normal_(std=3.0, generator=torch.Generator().manual_seed(0))
    trainer.save(tmp_path / "saved")
    policy = wd.load_policy(tmp_path / "saved", tag)
    path = policy.export(tmp_path / f"policy{suffix}", action_mask=masked)
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == [path.name]  # and nothing beside it
    draws = np.random.default_rng(0)
    seen = _observations(policy.observation_space, 50, draws)
    mask = None
    if masked:
        choices = policy.distribution.num_outputs
        mask = draws.random((50, choices)) < 0.6
        mask[:, [0, -1]] = True  # something is allowed, of each choice
    actions, logits = _run(path, seen, mask)
    expected = policy.act(seen, deterministic=True, action_mask=mask)
    np.testing.assert_allclose(actions, expected, rtol=0, atol=1e-6 if tag == "aimer" else 0)
    wanted = policy.model.logits(_as_tensors(seen)).detach().numpy()
    np.testing.assert_allclose(logits, wanted, rtol=0, atol=1e-6 * max(1, np.abs(wanted).max()))
    assert actions.dtype == (np.float32 if tag == "aimer" else np.int64)
    assert len(np.unique(actions)) > 1


def _observations(space: spaces.Space[Any], count: int, draws: np.random.Generator) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _observations(space[key], count, draws) for key in space}
    if isinstance(space, spaces.Discrete):
        return draws.integers(space.n, size=count)
    assert isinstance(space, spaces.Box)
    return draws.uniform(space.low, space.high, (count, *space.shape)).astype(space.dtype)


def _as_tensors(seen: Any) -> Any:
    return {k: torch.from_numpy(v) for k, v in seen.items()} if isinstance(seen, dict) else torch.from_numpy(seen)


def _run(path: Path, seen: Any, mask: Any) -> tuple[Any, Any]:
    """Run an exported file by docs/guides/export.md alone."""
    if path.suffix == ".pt2":
        inputs = {k: torch.from_numpy(seen[k]) for k in sorted(seen)} if isinstance(seen, dict) else _as_tensors(seen)
        masks = {} if mask is None else {"action_mask": torch.from_numpy(mask)}
        actions, logits = torch.export.load(path).module()(inputs, **masks)
        return actions.detach().numpy(), logits.detach().numpy()
    named = {f"observations_{k}": v for k, v in seen.items()} if isinstance(seen, dict) else {"observations": seen}
    if mask is not None:
        named["action_mask"] = mask
    import onnxruntime

    actions, logits = onnxruntime.InferenceSession(path).run(["actions", "logits"], named)
    return actions, logits


@pytest.mark.parametrize(
    ("kind", "suffix"), exhaustive([("gru", ".pt2"), ("lstm", ".onnx"), ("mingru", ".onnx")], ("lstm",))
)
def test_a_policy_that_remembers_hands_its_state_over(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path, kind: str, suffix: str
) -> None:
    model = f"{{type: {kind}, hidden: [8], units: 6}}"
    trainer = trainer_of(sections(), f"policy.even={{algorithm: ppo, minibatches: 2, model: {model}}}")
    with torch.no_grad():  # far from where they begin, so that actions depend on the state
        for parameter in trainer.policies["even"].model.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(0))
    trainer.save(tmp_path / "saved")
    policy = wd.load_policy(tmp_path / "saved", "even")
    path = policy.export(tmp_path / f"policy{suffix}", action_mask=True)
    draws = np.random.default_rng(0)
    state = np.zeros((5, 12 if kind == "lstm" else 6), np.float32)
    for step in range(4):
        seen, mask = draws.uniform(0, 1, (5, 3)).astype(np.float32), draws.random((5, 3)) < 0.6
        mask[:, 1] = True
        begins = np.array([True, False, step == 2, False, False])
        state[begins] = 0.0
        inputs = {"action_mask": mask, "state": state}
        if suffix == ".pt2":
            as_tensors = {name: torch.from_numpy(given) for name, given in inputs.items()}
            outputs = torch.export.load(path).module()(torch.from_numpy(seen), **as_tensors)
            actions, _, state = (output.detach().numpy() for output in outputs)
        else:
            import onnxruntime

            session = onnxruntime.InferenceSession(path)
            actions, state = session.run(["actions", "next_state"], {"observations": seen, **inputs})
        expected = policy.act(seen, deterministic=True, action_mask=mask, episode_start=begins)
        np.testing.assert_array_equal(actions, expected)
        assert policy._memory is not None
        np.testing.assert_allclose(state, policy._memory.numpy(), rtol=0, atol=1e-6)
        state = state.copy()


class _Line(Actor):
    """The simplest policy there is."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.policy = nn.Linear(2, outputs)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-0.3, 0.3, generator=torch.Generator().manual_seed(0))

    def logits(self, observations: Any) -> Tensor:
        outputs: Tensor = self.policy(observations)
        return outputs


def test_squashed_actions_are_exported(tmp_path: Path) -> None:
    seen, box = spaces.Box(-np.inf, np.inf, (2,), np.float32), spaces.Box(-2.0, 6.0, (3,), np.float32)
    policy = TrainedPolicy("agent", _Line(6), seen, box, SquashedGaussian(box))
    path = policy.export(tmp_path / "policy.onnx")
    given = np.array([[0.5, -3.0], [1.0, 2.0]], np.float32)
    actions, logits = _run(path, given, None)
    np.testing.assert_allclose(actions, 2.0 + 4.0 * np.tanh(logits[:, :3]), atol=1e-5)
    np.testing.assert_allclose(actions, policy.act(given, deterministic=True), atol=4e-6)


def test_a_file_that_does_something_else_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = TrainedPolicy(
        "agent", _Line(3), spaces.Box(-1, 1, (2,)), spaces.Discrete(3), distribution_of(spaces.Discrete(3))
    )
    (tmp_path / "policy.pt2").write_text("what was there")
    monkeypatch.setattr(
        torch.export, "save", lambda program, path, save=torch.export.save: save(_with_other_weights(program), path)
    )
    with pytest.raises(ExportError, match=r"logits differ by [\d.e-]+ \(tolerance: 1e-06\).*nothing was written"):
        policy.export(tmp_path / "policy.pt2")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["what was there"]


def _with_other_weights(program: Any) -> Any:
    changed = {name: nn.Parameter(value + 1e-5) for name, value in program.state_dict.items()}
    program._state_dict = changed
    return program


def test_what_cannot_be_exported_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = spaces.Box(-1, 1, (2,), np.float32)
    policy = TrainedPolicy("agent", _Line(4), box, box, distribution_of(box))
    for name, told in [
        ("policy.onx", r"ends in .onnx \(ONNX\) or .pt2 \(torch.export\)\. Did you mean '.onnx'"),
        ("policy", "ends in .onnx"),
        ("nowhere/policy.onnx", "no such folder"),
    ]:
        with pytest.raises(ExportError, match=told):
            policy.export(tmp_path / name)
    with pytest.raises(ExportError, match=r"found action_mask, but Box.* has no discrete actions"):
        policy.export(tmp_path / "policy.onnx", action_mask=True)
    find = export.importlib.util.find_spec
    monkeypatch.setattr(
        export.importlib.util, "find_spec", lambda name: None if name.startswith("onnx") else find(name)
    )
    with pytest.raises(
        ExportError, match=r"requires onnx and onnxscript and onnxruntime: pip install 'warpdrive\[onnx\]'"
    ):
        policy.export(tmp_path / "policy.onnx")


def test_the_command_says_what_goes_in_and_comes_out(
    sections: Sections, trainer_of: TrainerOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer_of(sections("Spell", ("outer", "inner"))).save(tmp_path / "saved")
    path = tmp_path / "inner.pt2"
    assert main(["export", str(tmp_path / "saved"), "--tag", "inner", "-o", str(path), "--action-mask"]) == 0
    told = capsys.readouterr().out
    assert path.is_file() and "'inner'" in told
    assert "inputs   observations_number, observations_picture, action_mask\n  outputs  actions, logits" in told
    assert main(["export", str(tmp_path / "saved"), "-o", str(path)]) == 2
    assert "several policies were trained" in capsys.readouterr().err


def test_the_tag_of_a_policy_of_others_is_no_path(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = SimpleNamespace(tag="../up", export=lambda path, action_mask: path, observation_space="", action_space="")
    monkeypatch.setattr(command, "load_policy", lambda *_, **__: policy)
    for names in ("input_names", "output_names"):
        monkeypatch.setattr(command, names, lambda *_: ())
    options = {"tag": None, "best": False, "trust": False, "output": None, "action_mask": False}
    assert command.run(argparse.Namespace(run="runs/others", **options)) == 0
    assert capsys.readouterr().out.startswith("up.onnx: ")
