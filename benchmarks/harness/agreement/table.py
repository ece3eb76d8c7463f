"""Output of the agreement commands: tables of docs/environments/index.md."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_PAGE = Path(__file__).parents[3] / "docs" / "environments" / "index.md"


def row(cells: Iterable[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def cells_of(text: str) -> list[str]:
    """Return the cells of a row, see :func:`row`."""
    return text.strip("| ").split(" | ")


def read_rows(name: str) -> dict[str, list[str]]:
    """Return the rows of the table ``name`` on the page, by environment."""
    table = _PAGE.read_text().split(f"<!-- {name} -->")[1].split(f"<!-- end of {name} -->")[0]
    found: dict[str, list[str]] = {}
    for text in table.splitlines():
        environment = re.match(r"\| `(\w+)`", text)
        if environment:
            found.setdefault(environment[1], []).append(text)
    return found


def write_table(name: str, lines: Iterable[str]) -> None:
    """Write ``lines`` to the page, between the comments ``name`` and ``end of name``."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    table = "\n".join([begin, *lines, end])
    _PAGE.write_text(re.sub(f"{begin}.*{end}", lambda _: table, _PAGE.read_text(), flags=re.DOTALL))
