"""The committed pages of the environments are those generated from their docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest
from paths import ROOT

import warpdrive as wd

sys.path.append(str(ROOT / "tools"))
environment_pages = importlib.import_module("environment_pages")

pytest.importorskip("ale_py", reason="the page of `atari` needs a ROM, of the extra `atari`")
PAGES = dict(environment_pages.pages())
SECTIONS = [
    "Description",
    "Action Space",
    "Observation Space",
    "Rewards",
    "Starting State",
    "Episode End",
    "Arguments",
    "References",
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_committed_page_is_that_of_the_docstring(path: Path) -> None:
    assert path.read_text() == PAGES[path], "run make generated"


def test_there_are_no_other_pages() -> None:
    others = {path.name for path in set((ROOT / "docs" / "environments").iterdir()) - set(PAGES)}
    assert others == {"index.md", "gallery.md"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_has_all_sections_and_arguments(path: Path) -> None:
    text = PAGES[path]
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    parameters = inspect.signature(type(wd.make(path.stem))).parameters
    table = text.partition("\n## Arguments\n")[2]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(parameters)


def test_the_overview_links_to_every_page() -> None:
    overview = (ROOT / "docs" / "environments" / "index.md").read_text()
    for path in PAGES:
        assert f"]({path.name})" in overview
