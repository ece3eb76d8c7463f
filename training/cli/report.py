"""``warpdrive report``: an HTML page about one or several runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from warpdrive.errors import ConfigError
from warpdrive.training.cli.printing import say
from warpdrive.training.report.write import write_report


def run(options: argparse.Namespace) -> int:
    """Write the page, and print its path."""
    output = options.output
    if output is not None and Path(output).suffix.lower() != ".html":
        raise ConfigError(f"{output}: expected a name that ends in .html")
    if output is not None and not Path(output).parent.is_dir():
        raise ConfigError(f"{output}: the folder {Path(output).parent} does not exist")
    say(str(write_report(options.runs, output)))
    return 0
