"""``warpdrive web``: a page in which an environment and its policies run."""

from __future__ import annotations

import argparse
from pathlib import Path

from warpdrive.training.checkpoint.checkpoint import Which
from warpdrive.training.cli.printing import make_console, note, say
from warpdrive.training.web.page import check_output
from warpdrive.training.web.source import source_of

_LARGE = 300_000
"""Bytes from which on the command says so."""


def run(options: argparse.Namespace) -> int:
    """Write the page, and print its path and size."""
    if options.output is not None:
        check_output(Path(options.output))
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
        check_output(path)
        page = source.page(options.replicas, options.fps, options.deterministic, options.verified_steps)
        page.write(path)
    size = path.stat().st_size
    say(f"{path}  ({size / 1000:.0f} kB)")
    trained = ", ".join(page.policies) or "none"
    note(f"  policies     {trained}")
    module, data = page.module_bytes / 1000, page.data_bytes / 1000
    note(f"  WebAssembly  {module:.0f} kB, and {data:.0f} kB of data, before compression")
    note(f"  verified     {options.verified_steps} steps, {page.digest}")
    if size > _LARGE:
        note("  The page is large: smaller hidden layers make a smaller one.")
    return 0


def _plain(name: str) -> str:
    return name.replace("/", "_")
