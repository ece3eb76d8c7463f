"""Output helpers shared by the commands."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from warpdrive.terminal import is_quiet, plain
from warpdrive.training.progress.console import PlainConsole

if TYPE_CHECKING:  # importing it needs PyTorch, which may be broken
    from warpdrive.environment import Environment

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def make_console(of_results: bool = False) -> Console:
    """Return a console that does not wrap tables in files and pipes, unless ``FORCE_COLOR`` and ``COLUMNS`` are set.

    Text printed with ``markup=True`` may contain colours, and has names escaped.

    Args:
        of_results: If True, it prints with ``--quiet``, too.
    """
    of_terminal = sys.stdout.isatty() or (os.environ.get("FORCE_COLOR") and os.environ.get("COLUMNS"))
    width = None if of_terminal else 160
    console = PlainConsole(markup=False, quiet=is_quiet() and not of_results)
    if width is not None and not console.is_jupyter:
        console.width = width
    return console


def say(text: str) -> None:
    """Print a line of the result immediately, without wrapping or colours."""
    print(plain(text), flush=True)


def note(text: str) -> None:
    """Print a line immediately unless ``--quiet`` is given, without wrapping or colours."""
    if not is_quiet():
        say(text)


def in_words(env: Environment) -> str:
    """Return the meaning of a terminated episode of ``env``, or "" if the environment does not define one."""
    return getattr(env, "termination_meaning", "")


def as_typed(command: str, *arguments: str | Path) -> str:
    """Return a shell command of this installation, with its folder if it is not on the PATH; arguments are quoted."""
    own = Path(sys.executable).parent / command
    found = shutil.which(command)
    if own.exists() and (found is None or Path(found) != own):
        command = min(str(own), os.path.relpath(own), key=len)
    words = [command, *map(str, arguments)]
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)
