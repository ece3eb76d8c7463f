"""``warpdrive web``: a page in which an environment and its policies run."""

from __future__ import annotations

import argparse
from pathlib import Path

from warpdrive.errors import WarpDriveError
from warpdrive.training.checkpoint.checkpoint import Which
from warpdrive.training.cli.printing import make_console, note, say
from warpdrive.training.runtime.atomic_write import check_no_link, write_atomically
from warpdrive.training.web.page import PageOptions, web_page
from warpdrive.training.web.source import source_of

_LARGE = 300_000
"""Bytes from which on the command says so."""


def run(options: argparse.Namespace) -> int:
    """Write the page, and print its path and size."""
    if options.output is not None and Path(options.output).suffix.lower() not in (".html", ".htm"):
        raise WarpDriveError(f"{options.output}: expected a name that ends in .html")
    which: Which = "best" if options.best else "latest"
    with make_console().status("compiling to WebAssembly, and stepping natively to compare"):
        source = source_of(
            options.source,
            options.overrides,
            which=which,
            seed=options.seed,
            random=options.random,
            trust=options.trust,
        )
        path = Path(options.output) if options.output else (source.folder or Path(".")) / f"{_plain(source.name)}.html"
        check_no_link(path)
        about = "" if source.policies else "All agents act at random, but for those that you play."
        settings = PageOptions(
            source.name, about, options.replicas, options.fps, options.deterministic, options.verified_steps
        )
        page = web_page(source.env, source.policies, settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, page.html)
    size = path.stat().st_size
    say(f"{path}  ({size / 1000:.0f} kB)")
    trained = ", ".join(page.policies) or "none"
    note(f"  policies     {trained}")
    note(f"  WebAssembly  {page.module_bytes / 1000:.0f} kB, and {page.data_bytes / 1000:.0f} kB of data, deflated")
    note(f"  verified     {settings.verified_steps} steps, {page.digest}")
    if size > _LARGE:
        note("  The page is large: smaller hidden layers make a smaller one.")
    return 0


def _plain(name: str) -> str:
    return name.replace("/", "_")
