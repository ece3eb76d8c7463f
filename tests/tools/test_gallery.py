"""Policies and pictures of the gallery: each policy fits its entry's environment. Nothing is drawn."""

from __future__ import annotations

import importlib
import re
import sys

import pytest
from gymnasium import Space
from paths import ROOT
from PIL import Image

sys.path.append(str(ROOT / "tools"))
gallery = importlib.import_module("gallery")


def space_of(spaces: Space | dict[str, Space], tag: str) -> Space:
    return spaces[tag] if isinstance(spaces, dict) else spaces


@pytest.mark.parametrize("entry", gallery.ENTRIES, ids=lambda entry: entry.name)
def test_policies_act_in_the_environment(entry) -> None:
    env = entry.make()
    assert env.name == entry.name
    for tag, policy in entry.policies().items():
        observations, actions = (space_of(found, tag) for found in (env.observation_space, env.action_space))
        assert policy.observation_space == observations
        assert actions.contains(policy.act(observations.sample()))


def test_every_environment_has_an_entry_and_policies_are_small() -> None:
    pages = {path.stem for path in (ROOT / "docs/environments").iterdir()} - {"index", "gallery"}
    assert {entry.name for entry in gallery.ENTRIES} == pages
    assert sum(path.stat().st_size for path in gallery.POLICIES.rglob("*") if path.is_file()) < 3_000_000


def test_the_picture_of_the_readme_is_small_and_loops() -> None:
    path = ROOT / re.findall(r"!\[.*\]\((docs/images/.*)\)", (ROOT / "README.md").read_text())[0]
    with Image.open(path) as picture:
        assert picture.width <= 800 and picture.n_frames > 20 and picture.info["loop"] == 0
    assert path.stat().st_size < 2_000_000


def test_a_page_shows_every_entry_and_loads_nothing_else() -> None:
    page = gallery.page(gallery.ENTRIES)
    names = [entry.name for entry in gallery.ENTRIES]
    assert re.findall(r'src="(.*?)"', page) == [f"{name}.gif" for name in names]
    assert "//" not in page and "<script" not in page


def test_an_unknown_entry_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["gallery.py", "--only", "chess"])
    with pytest.raises(SystemExit):
        gallery.main()
    assert "invalid choice: 'chess'" in capsys.readouterr().err
