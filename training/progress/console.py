"""Console that prints text literally."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from warpdrive.terminal import plain


class PlainConsole(Console):
    """Console that escapes control characters in text, see ``terminal.plain``, and keeps its own.

    Colours and bold text follow ``NO_COLOR`` (any text but an empty one turns them off), then ``FORCE_COLOR``, then the
    terminal.
    """

    def __init__(self, **settings: Any) -> None:
        plain_text = bool(os.environ.get("NO_COLOR"))
        super().__init__(no_color=plain_text, color_system=None if plain_text else "auto", **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the rendered segments."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Raise ``BrokenPipeError``, where Rich exits with code 1: the command line has a code of its own for it."""
        raise BrokenPipeError


def is_live(console: Console) -> bool:
    """Return True if lines on a console can be drawn again.

    ``FORCE_COLOR`` turns on colours in files and pipes, which have no cursor to move.
    """
    is_forced = bool(os.environ.get("FORCE_COLOR")) and not console.file.isatty()
    return console.is_terminal and not (console.is_dumb_terminal or console.quiet or is_forced)
