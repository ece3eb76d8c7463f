"""The documentation site: it builds, links lead somewhere, environments run, and the search works without a server."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import Opened, browser, opened  # noqa: F401 (fixtures)
from paths import ROOT

from warpdrive.file_lock import locked

pytest.importorskip("zensical", reason="the documentation is built with the extra 'docs'")
sys.path.insert(0, str(ROOT / "tools"))

import docs_site

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Links(HTMLParser):
    """Targets and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = {""}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is not None and name in ("id", "name"):
                self.anchors.add(value)
            elif value and name in ("href", "src"):
                (self.targets if tag == "a" else self.loaded).add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, testrun_uid: str) -> Path:
    """Give the site, which is built once for all workers."""
    folder = tmp_path_factory.getbasetemp().parent / f"site_{testrun_uid}"
    with locked(folder.with_suffix(".lock")):
        if not folder.exists():
            assert docs_site.main(["--output", str(folder), "--live", "cartpole"]) == 0
            assert docs_site.is_replaceable(folder)
    return folder


def test_links_lead_somewhere_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = {path: Links() for path in site.rglob("*.html") if path.name != "404.html"}
    for path, links in pages.items():
        links.feed(path.read_text(encoding="utf-8"))
    for path, links in pages.items():
        for target in links.targets | links.loaded:
            url = urlsplit(target)
            if url.scheme in ("http", "https", "mailto"):
                assert target not in links.loaded, f"{path}: {target}"
            elif url.scheme != "data":
                found = (path.parent / unquote(url.path)).resolve() if url.path else path
                assert found.is_file(), f"{path}: {target}"
                if found in pages and target in links.targets:
                    assert unquote(url.fragment) in pages[found].anchors, f"{path}: {target}"


def test_other_folders_are_not_replaced_by_the_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert docs_site.is_replaceable(tmp_path) and docs_site.is_replaceable(tmp_path / "new")
    kept = tmp_path / "index.html"
    kept.write_text("years of work")
    with pytest.raises(SystemExit):
        docs_site.main(["--output", str(tmp_path)])
    assert "is no site of this program" in capsys.readouterr().err and kept.is_file()


def test_every_page_is_in_the_navigation() -> None:
    def places(entry: object) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        for part in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else []:
            yield from places(part)

    with (ROOT / "zensical.toml").open("rb") as file:
        navigation = list(places(tomllib.load(file)["project"]["nav"]))
    names = [path.relative_to(ROOT).as_posix() for path in docs_site.sources() if path.suffix in (".md", ".ipynb")]
    pages = {place for name in names if (place := docs_site.place_in_site(name))}
    assert len(navigation) == len(set(navigation))
    assert set(navigation) == {page for page in pages if not page.startswith("benchmarks/results/")}


def test_pages_have_formulas_notebooks_and_sources(site: Path) -> None:
    formula = docs_site.page("`$x$` and $x_1$ cost $5", "docs/index.md", "index.md", print)
    assert re.fullmatch(r"`\$x\$` and <span><math.*<msub>.*</math></span> cost \$5", formula)
    text = "# `wd.gae`\n[`wd.gae`](x) `wd.gae` and `wd.gae`, `wd.nothing`"
    assert docs_site.page(text, "docs/guides/a.md", "guides/a.md", print) == text.replace(
        " `wd.gae` and", " [`wd.gae`](../reference/api/algorithms.md#warpdrive.gae) and"
    )
    tutorial = site / "tutorials" / "01_quickstart.html"
    assert "data:image/gif" in tutorial.read_text(encoding="utf-8")
    assert (tutorial.parent / "01_quickstart.ipynb").is_file()
    assert "cartpole.yaml" in (site / "source" / "training" / "run_configs.html").read_text(encoding="utf-8")


def test_an_environment_runs_in_its_page(site: Path, opened: Opened) -> None:  # noqa: F811
    page = opened(site / "environments" / "cartpole.html")
    page.locator("iframe.live").scroll_into_view_if_needed()
    (game,) = [frame for frame in page.frames if frame.url.endswith("/live/cartpole.html")]
    game.wait_for_function("window.warpdrive && warpdrive.game.step > 10")


def test_the_search_finds_pages_without_a_server(site: Path, opened: Opened) -> None:  # noqa: F811
    page = opened(site / "index.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("reset_pool_size")
    page.get_by_text("Start states and saved states").first.wait_for()
