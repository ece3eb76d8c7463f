"""Pages: their code runs and prints what is shown, their run configurations are valid, their links lead somewhere.

``support/pages.py`` has the comments by which a page says how its code is run.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path

import pytest
import yaml
from exhaustive import exhaustive
from pages import blocks_of, is_shown, outputs_of
from paths import ROOT

import warpdrive as wd
from warpdrive import registry as environments
from warpdrive.training.config.load import load_config
from warpdrive.training.config.run_config import SavingConfig, TrainerConfig
from warpdrive.training.models import registry as models

FOLDERS = (".", "docs/**", "benchmarks/**", "tools/**", "examples/**")
EVERYWHERE = {path for folder in FOLDERS for path in ROOT.glob(f"{folder}/*.md")}
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if "```" in path.read_text()]
OTHERS = (
    *("atari", "authoring", "coming_from", "export", "host_environments"),
    *("interop", "memory", "porting", "warpdrive2", "web"),
)
USUAL = [path for path in PAGES if path.stem not in OTHERS]
"""Pages whose code `make test` runs: all but those that compile the most for what other tests compile, too."""
CODE = re.compile(r"(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)", re.DOTALL)
OF_WARPDRIVE2 = {("trainer", key) for key in ("num_episodes", "num_gpus", "n_step", "evaluator")}
RUN_CONFIG = {"env", "trainer", "policy"}


@pytest.mark.parametrize("page", exhaustive(PAGES, USUAL), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_prints_what_is_shown(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for registry in (environments, models):  # what a page registers is forgotten
        monkeypatch.setattr(registry, "_registered", {**registry._registered})
    try:
        for block, printed in outputs_of(text, tmp_path):
            assert is_shown(printed, block.shown), f"{page.name}:{block.line}: it prints\n{printed}"
        for block in blocks_of(text, "yaml"):
            if "not run" not in block.marks and set(yaml.safe_load(block.code) or ()) >= RUN_CONFIG:
                (tmp_path / "page.yaml").write_text(block.code)
                load_config(tmp_path / "page.yaml")
        for block in blocks_of(text, "python"):
            ast.parse(block.code)  # also those that are not run
    finally:
        if "warp_drive" in sys.modules:
            sys.modules["warpdrive.interop.warpdrive2"].uninstall()
        for module, found in list(sys.modules.items()):  # of the page
            if (getattr(found, "__file__", None) or "").startswith(str(tmp_path)):
                del sys.modules[module]


def test_the_names_of_pages_exist() -> None:
    sections = {"trainer": TrainerConfig, "saving": SavingConfig}
    for path in PAGES:
        text = path.read_text()
        for name in set(re.findall(r"`wd\.(\w+)", text)):
            assert hasattr(wd, name), f"{path.name}: wd.{name}"
        for section, key in set(re.findall(r"`(trainer|saving)\.(\w+)[`=]", text)) - OF_WARPDRIVE2:
            assert key in sections[section].model_fields or hasattr(wd.Trainer, key), f"{path.name}: {section}.{key}"


def test_links_of_pages_lead_somewhere() -> None:
    texts = {
        path: re.sub(r"^ *```.*?^ *```$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE) for path in EVERYWHERE
    }
    anchors = {path: anchors_of(text) for path, text in texts.items()}
    dead = []
    for path, text in texts.items():
        for target in re.findall(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", CODE.sub("", text)):
            link = "".join(target)
            if re.match(r"[a-z]+:", link):
                continue
            place, _, anchor = link.partition("#")
            found = Path(os.path.normpath(path.parent / place)) if place else path
            if not found.exists() or (anchor and found in anchors and anchor not in anchors[found]):
                dead.append(f"{path.relative_to(ROOT)}: {link}")
    assert not dead, "\n".join(dead)


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page: those that GitHub gives to headings, of HTML, and of API entries in the site."""
    found = {"".join(names) for names in re.findall(r"\bid=\"([^\"]+)\"|^::: ([\w.]+)", text, re.MULTILINE)}
    for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        title = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)
        anchor = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        number = sum(each == anchor or re.fullmatch(rf"{re.escape(anchor)}-\d+", each) is not None for each in found)
        found.add(f"{anchor}-{number}" if number else anchor)
    return found
