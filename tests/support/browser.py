"""Pages in a headless browser: Chromium, driven by Playwright. Tests are skipped where one of them is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--force-device-scale-factor=1"),
)

Opened = Callable[..., Any]
"""Opens a file or an address: ``(page, width=1200, height=800, **context)``, and returns Playwright's page."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Give Playwright's browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pages are tested with Playwright (extra 'test')")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"pages are tested in a browser, of which none is installed: {', '.join(NAMES)}")
    with playwright.sync_playwright() as running:
        try:
            chromium = running.chromium.launch(executable_path=program, args=list(OPTIONS))
            with chromium.new_page() as page:
                page.set_content("<button>a text</button><select><option>one</option></select>", timeout=20_000)
                page.evaluate("document.createElement('canvas').getContext('2d').fillText('a text', 9, 9)")
                page.screenshot(timeout=20_000)
        except playwright.Error as error:  # it crashes without fonts
            pytest.skip(f"{program} shows no page: {error}")
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Opened]:
    """Give a function that opens pages; errors in their consoles fail the test."""
    contexts, complaints = [], []

    def open_page(address: str | Path, width: int = 1200, height: int = 800, **context: Any) -> Any:
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, **context))
        contexts[-1].set_default_timeout(120_000)
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.goto(address.as_uri() if isinstance(address, Path) else address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
