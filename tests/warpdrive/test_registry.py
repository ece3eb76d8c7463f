"""Environments by name: registered, in a module, in a file."""

from __future__ import annotations

import sys
from pathlib import Path

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
