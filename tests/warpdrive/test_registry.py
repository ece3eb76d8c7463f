"""Environments by name: registered, in a module, in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import warpdrive as wd
from warpdrive import registry
from warpdrive.envs.tag_gridworld import TagGridworld
from warpdrive.errors import DefinitionError

GAME = """
from warpdrive.envs.tag_gridworld import TagGridworld
from {helper} import SIDE
class Game(TagGridworld):
    def __init__(self, grid_length: int = SIDE) -> None:
        super().__init__(grid_length=grid_length)
"""


@pytest.fixture(autouse=True)
def _keep_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_a_file_can_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "sides_beside_a_file.py").write_text("SIDE = 7")
    (tmp_path / "game.py").write_text(GAME.format(helper="sides_beside_a_file"))
    assert registry.make(f"{tmp_path / 'game.py'}:Game").grid_length == 7  # type: ignore[attr-defined]


def test_a_module_in_the_working_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sides_of_a_module.py").write_text("SIDE = 8")
    (tmp_path / "game_in_a_module.py").write_text(GAME.format(helper="sides_of_a_module"))
    monkeypatch.chdir(tmp_path)
    assert registry.make("game_in_a_module:Game").grid_length == 8  # type: ignore[attr-defined]


def test_a_variant_is_named_after_a_slash(monkeypatch: pytest.MonkeyPatch) -> None:
    class Small(TagGridworld):
        @classmethod
        def variant(cls, name: str) -> type[wd.Environment]:
            return {"tiny": type("Tiny", (cls,), {"__init__": lambda self: cls.__init__(self, grid_length=4)})}[name]

    monkeypatch.setattr(registry, "_registered", {"small": Small})
    assert wd.EnvWrapper("small/tiny", env_backend="cpu").env.grid_length == 4  # type: ignore[attr-defined]
    with pytest.raises(DefinitionError, match="environment tag_gridworld has no variants: found 'tag_gridworld/tiny'"):
        wd.make("tag_gridworld/tiny")


def test_a_file_whose_import_was_interrupted_is_imported_again(tmp_path: Path) -> None:
    file = tmp_path / "slow.py"
    file.write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        registry.make(f"{file}:Game")
    file.write_text("from warpdrive.envs.tag_gridworld import TagGridworld as Game\n")
    assert isinstance(registry.make(f"{file}:Game"), TagGridworld)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tag_gridwrold", "unknown environment 'tag_gridwrold'. Did you mean 'tag_gridworld'?"),
        ("nowhere.py:Game", "no such file: 'nowhere.py'"),
        ("no_such_module:Game", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("warpdrive.envs.tag_gridworld:TagGridwrld", "has no class 'TagGridwrld'. Did you mean 'TagGridworld'?"),
        ("json:loads", "expected a subclass of warpdrive.Environment"),
    ],
)
def test_names_that_lead_nowhere(name: str, told: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        registry.make(name)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("simple_spread", {"N": 4}, "unexpected keyword argument 'N'. Did you mean 'num_agents'?"),
        ("simple_adversary", {"N": 4}, "Did you mean 'num_good_agents'?"),
        ("simple_crypto", {"max_cycles": 4}, "Did you mean 'episode_length'?"),
        ("simple_tag", {"dynamic_rescaling": True}, "'dynamic_rescaling'. It changes the pictures of mpe2 only."),
        ("simple_world_comm", {"num_good": 1}, "Did you mean 'num_good_agents'?"),
        ("lbf", {"render_mode": "human"}, "Pictures are drawn by wd.replay."),
        ("overcooked", {"cook_time": 5}, "It is a key of params_to_overwrite."),
        ("overcooked", {"layout": "large_room"}, "or all of a .layout file of the package"),
        ("overcooked", {"layout": "XPXX\nO1SX\nXDXX"}, "expected at least two: 1, 2 and so on"),
        ("smax", {"num_allies": 4}, "Did you mean 'scenario'?"),
        ("smax", {"observation_type": "conic"}, "observation_type='unit_list'"),
        ("battle", {"attack_opponent_reward": 0.2}, "Did you mean 'hit_reward'?"),
        ("overcooked", {"reward_shaping_factor": 0.5}, "Did you mean 'shaping_coefficient'?"),
        ("overcooked", {"num_agents": 2}, "Layouts mark the start of each chef with its number."),
        ("lbf", {"num_agents": 2}, "Did you mean 'players'?"),
        ("simple_spread", {"n_players": 2}, "Did you mean 'num_agents'?"),
        ("simple_reference", {"words": 2}, "unexpected keyword argument 'words'. Its parameters: "),
        ("atari/pong", {"num_stack": 4}, "Did you mean 'frame_stack'?"),
        ("atari/pong", {"frame_skip": (4, 4)}, "frame_skip is (4, 4), expected a second number, exclusive, from 5 to"),
        ("atari/pong", {"players": 2, "mode": 0}, "mode is 0, but pong with players=2 has "),
        ("atari/ALE/Pong-v5", {}, "there is no Atari game 'ALE/Pong-v5'. Did you mean 'pong'?"),
        ("matrix_game", {"payoff": "penalty-100-nostate-v0"}, "Did you mean 'penalty'?"),
    ],
)
def test_names_of_the_original_packages_are_told(name: str, given: dict[str, Any], told: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        registry.make(name, **given)
    assert told in str(caught.value)


def test_names_are_strings_and_targets_are_classes_or_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    make, register = registry.make, registry.register
    for call, told in [
        (
            lambda: make(TagGridworld),
            r"is the class TagGridworld, expected a string: a class is called, TagGridworld\(\)",
        ),
        (lambda: make(None), "the name of an environment is None, expected a string"),
        (lambda: register(3, TagGridworld), "the name of an environment is 3"),
        (
            lambda: register("one", TagGridworld()),
            "environment 'one' is registered with an object of type TagGridworld",
        ),
        (lambda: register("one", "some.module.Game"), "expected a subclass .* or its path package.module:Class"),
        (lambda: register("one", dict), "is registered with the class dict"),
    ]:
        with pytest.raises(DefinitionError, match=told):
            call()
    assert not registry._registered


def test_what_is_registered_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    (tmp_path / "sides.py").write_text("SIDE = 6")
    (tmp_path / "game.py").write_text(GAME.format(helper="sides"))
    wd.register("little_game", f"{tmp_path / 'game.py'}:Game")
    assert "little_game" in wd.registered_names()
    assert wd.make("little_game").grid_length == 6  # type: ignore[attr-defined]
    env = wd.EnvWrapper("little_game", env_config={"grid_length": 5}, num_envs=2, env_backend="cpu")
    assert env.env.grid_length == 5  # type: ignore[attr-defined]
    wd.register("little_game", TagGridworld)  # a class, and in place of what was there
    assert type(wd.make("little_game")) is TagGridworld
    with pytest.raises(DefinitionError, match=r"unknown environment 'litle_game'. Did you mean 'little_game'"):
        wd.make("litle_game")
