"""Command line and output of the agreement commands: tables of docs/environments/index.md."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path

_PAGE = Path(__file__).parents[3] / "docs" / "environments" / "index.md"


def options_of(description: str | None) -> argparse.Namespace:
    """Parse the command line options ``steps`` and ``no_write``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="steps compared in each row (default: 100000)")
    parser.add_argument("--no-write", action="store_true", help="print the table without writing it")
    return parser.parse_args()


def row(cells: Iterable[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def write_table(name: str, lines: Iterable[str]) -> None:
    """Write ``lines`` to the page, between the comments ``name`` and ``end of name``."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    table = "\n".join([begin, *lines, end])
    _PAGE.write_text(re.sub(f"{begin}.*{end}", lambda _: table, _PAGE.read_text(), flags=re.DOTALL))
