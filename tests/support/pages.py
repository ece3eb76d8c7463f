"""Code blocks of the Markdown pages: they are run in order, and print what is shown below them.

    python tests/support/pages.py docs/guides/interop.md    # run these pages, and write what their blocks print

The ``python`` blocks of a page are one program. What a block prints is shown in a ``text`` block right after it, where
``...`` stands for any text. Comments right before a block, which readers do not see, say otherwise:

``<!-- new program -->``, ``<!-- new program: game.py -->``
    The block begins a new program, in a file of this name.
``<!-- file: gather.yaml -->``
    The block is written to a file, and not run.
``<!-- run -->``
    A ``bash`` block is run; others are not.
``<!-- needs: torchrl -->``
    The block is run where this module is installed.
``<!-- not run: needs Isaac Lab -->``
    The block is not run, and why.
``<!-- setup ... -->``
    The lines between are run as a part of the program.

Several are separated by semicolons: ``<!-- new program; needs: torchrl -->``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import linecache
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from doctest import DONT_ACCEPT_BLANKLINE, ELLIPSIS, OutputChecker
from itertools import zip_longest
from pathlib import Path
from typing import Any

from paths import ROOT

_PROGRAM = "program.py"
_BLOCK = re.compile(
    r"^<!-- setup\n(?P<setup>.*?)^-->$"
    r"|(?:^ *<!-- (?P<marks>[^\n]*?) -->\n)?^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """Code block of a page.

    Attributes:
        language: first word after the fence, or "".
        code: its lines.
        line: number of the line before the first of them.
        marks: what the comment before it says, by the first words.
        shown: output that is shown right after it, "" if none is.
        place: first and last position in the page of the output or, without any, of its place.
    """

    language: str
    code: str
    line: int
    marks: dict[str, str]
    shown: str
    place: tuple[int, int]


def blocks_of(text: str, language: str | None = None) -> list[Block]:
    """Return the code blocks of a page, without those of outputs.

    Args:
        text: text of the page.
        language: only those in this language; None: all.
    """
    found: list[Block] = []
    matches = list(_BLOCK.finditer(text))
    for match, following in zip_longest(matches, matches[1:]):
        if match["language"] == "text":
            continue
        shown, place = "", (match.end(), match.end())
        if following and following["language"] == "text" and not text[match.end() : following.start()].strip():
            shown, place = following["code"], following.span("code")
        parts = [part.partition(":") for part in (match["marks"] or "").split(";")]
        start = match.start("code" if match["setup"] is None else "setup")
        found.append(
            Block(
                "python" if match["setup"] is not None else match["language"],
                match["code"] if match["setup"] is None else match["setup"],
                text.count("\n", 0, start),
                {name.strip(): detail.strip() for name, _, detail in parts},
                shown,
                place,
            )
        )
    return [block for block in found if language in (None, block.language)]


def outputs_of(text: str, folder: Path) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a page in order, and give each with what it prints.

    Args:
        text: text of the page.
        folder: empty working directory. Pages that load trained policies find those of the gallery.
    """
    if "tools/gallery" in text:
        (folder / "tools").symlink_to(ROOT / "tools", target_is_directory=True)
    program: _Program | None = None
    for block in blocks_of(text):
        marks = block.marks
        if "not run" in marks or ("needs" in marks and importlib.util.find_spec(marks["needs"]) is None):
            continue
        if "file" in marks:
            (folder / marks["file"]).write_text(block.code)
        elif block.language == "python":
            if program is None or "new program" in marks:
                program = _Program(folder / (marks.get("new program") or _PROGRAM))
            yield block, program.run(block.code).replace(f"{folder}{os.sep}", "")
        elif "run" in marks:
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            done = subprocess.run(
                ["bash", "-ec", block.code],
                cwd=folder,
                env={**os.environ, "PATH": path},
                stdout=subprocess.PIPE,
                text=True,
            )
            assert done.returncode == 0, f"line {block.line}: exit code {done.returncode}"
            yield block, done.stdout


def write_files(text: str, folder: Path) -> None:
    """Write the blocks of a page that are files."""
    for block in blocks_of(text):
        if "file" in block.marks:
            (folder / block.marks["file"]).write_text(block.code)


def is_shown(printed: str, shown: str) -> bool:
    """Return True if ``printed`` is the output that is shown, in which ``...`` stands for any text."""
    return OutputChecker().check_output(shown, printed, ELLIPSIS | DONT_ACCEPT_BLANKLINE)


@dataclass
class _Program:
    """Program of a page, in a file, as kernels are read from their source."""

    path: Path
    source: str = ""
    names: dict[str, Any] = field(default_factory=dict)

    def run(self, code: str) -> str:
        """Append ``code``, run it, and return what it prints."""
        lines_before = self.source.count("\n")
        self.source += code
        self.path.write_text(self.source)
        linecache.clearcache()  # another program may have been in this file
        self.names |= {"__name__": "__main__", "__file__": str(self.path)}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile("\n" * lines_before + code, self.path, "exec"), self.names)
        return printed.getvalue()


def with_outputs(text: str, folder: Path) -> str:
    """Return the text of a page with what its blocks print.

    Args:
        text: text of the page.
        folder: empty working directory.
    """
    for block, printed in reversed(list(outputs_of(text, folder))):
        if not is_shown(printed, block.shown):
            first, last = block.place
            new = printed if block.shown else f"\n\n```text\n{printed}```"
            text = text[:first] + new + text[last:]
    return text


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name).resolve()
        with tempfile.TemporaryDirectory() as temporary:
            os.chdir(temporary)
            page.write_text(with_outputs(page.read_text(), Path(temporary)))
            os.chdir(page.parent)
