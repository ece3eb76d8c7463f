"""What the commands share in talking to a person."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from warpdrive.terminal import plain
from warpdrive.training.plain_console import PlainConsole

if TYPE_CHECKING:  # importing it needs PyTorch, which may be what is broken
    from warpdrive.environment import Environment

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def console_for_people() -> Console:
    """Return a console that does not fold tables where nobody watches: in files and pipes.

    What is printed with ``markup=True`` may have colours, and has names escaped.
    """
    console = PlainConsole(markup=False)
    return console if console.is_terminal else PlainConsole(markup=False, width=160)


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
