"""What the commands share in talking to a person."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from warpdrive.terminal import plain

if TYPE_CHECKING:  # importing it needs PyTorch, which may be what is broken
    from warpdrive.environment import Environment

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


class _PlainConsole(Console):
    """A console on which texts are texts, whatever they hold: see ``terminal.plain``."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Go through what is written, without control characters that are not this console's own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)


def console_for_people() -> Console:
    """Return a console that does not fold tables where nobody watches: in files and pipes.

    What is printed with ``markup=True`` may have colours, and has names escaped.
    """
    console = _PlainConsole(markup=False)
    return console if console.is_terminal else _PlainConsole(markup=False, width=160)


def say(text: str) -> None:
    """Print a line as it is, without folding or colours, at once."""
    print(plain(text), flush=True)


def in_words(env: Environment) -> str:
    """Return what it means that an episode of ``env`` terminated, or "" if the environment does not say."""
    return getattr(env, "termination_meaning", "")


def as_typed(command: str) -> str:
    """Return how to type a command of this installation: with its folder, if the shell would not find it there."""
    own = Path(sys.executable).parent / command
    found = shutil.which(command)
    if not own.exists() or (found is not None and Path(found) == own):
        return command
    return min(str(own), os.path.relpath(own), key=len)
