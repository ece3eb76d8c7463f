"""Output helpers shared by the commands."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from warpdrive.terminal import plain
from warpdrive.training.progress.console import PlainConsole

if TYPE_CHECKING:  # importing it needs PyTorch, which may be what is broken
    from warpdrive.environment import Environment

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def make_console() -> Console:
    """Return a console that does not wrap tables in files and pipes.

    Text printed with ``markup=True`` may contain colours, and has names escaped.
    """
    console = PlainConsole(markup=False)
    return console if console.is_terminal else PlainConsole(markup=False, width=160)


def say(text: str) -> None:
    """Print a line immediately, without wrapping or colours."""
    print(plain(text), flush=True)


def in_words(env: Environment) -> str:
    """Return the meaning of a terminated episode of ``env``, or "" if the environment does not define one."""
    return getattr(env, "termination_meaning", "")


def as_typed(command: str) -> str:
    """Return the shell command of this installation: with its folder, if it is not on the PATH."""
    own = Path(sys.executable).parent / command
    found = shutil.which(command)
    if not own.exists() or (found is not None and Path(found) == own):
        return command
    return min(str(own), os.path.relpath(own), key=len)
