"""Parts of Markdown pages: tables, code spans and anchors."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def page_of(parts: Iterable[str]) -> str:
    """Return a page of paragraphs, tables and blocks of code; paragraphs in one line are wrapped."""
    return "\n\n".join(map(_wrapped, (part.strip("\n") for part in parts))) + "\n"


def _wrapped(part: str) -> str:
    is_paragraph = "\n" not in part and not part.startswith(("|", "#", ":::"))
    return textwrap.fill(part, 120, break_long_words=False, break_on_hyphens=False) if is_paragraph else part


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; pipes in cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |" for cells in lines)


def code(text: object) -> str:
    """Return a code span."""
    return f"`{text}`"


def link(target: str) -> str:
    """Return a link to ``page.md`` or ``page.md#anchor``, relative to docs/reference/, with the title found there.

    Raises:
        StopIteration: there is no such heading.
    """
    page, _, anchor = target.partition("#")
    headings = re.findall(r"^#+ (.*)$", (REFERENCE / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    title = next(heading for heading in headings if not anchor or slug(heading) == anchor)
    is_named = not anchor or page.rpartition("/")[2] == "index.md" or len(title.split()) > 1
    return f"[{title if is_named else f'{headings[0]}, {title.lower()}'}]({target})"


def with_code_spans(text: str) -> str:
    """Return plain text with code spans around options, dotted names, files, commands and placeholders."""
    parts = re.split(r"(`[^`]*`|\[[^]]*\]\([^)]*\))", text)  # existing code spans and links
    return "".join(part if number % 2 else _CODE.sub(_as_code, part) for number, part in enumerate(parts))


def _as_code(found: re.Match[str]) -> str:
    return code(found[0].strip("'") if found[0].startswith("'") else found[0])


_CODE = re.compile(
    "|".join(
        (
            r"'(?:warpdrive|pytest) [^']+'",
            r"pip install '[^']+'",
            r"(?<![\w-])--[a-z][\w-]*(?:=[\w,]+)?",  # an option
            r"[\w./=]*<[\w /]+>(?:[\w./:]*\w)?",  # a placeholder
            r"(?<![\w/])[a-z]\w*=\w+",
            r"(?<![\w.])(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*(?:[:=]\w+)*",  # a dotted name or a file
            r"\w+(?:/\w+)+\.\w+(?::\w+)?",  # a path
            r"(?<![\w.])\.[a-z]\w+",  # the extension of a file
            r"\b[a-z]+_[a-z_]+\b",
        )
    )
)


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and Python-Markdown make it."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())
