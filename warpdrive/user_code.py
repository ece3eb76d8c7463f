"""Run code of the user's: files that are imported, constructors, methods that the library calls."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warpdrive.errors import DefinitionError, WarpDriveError, one_line

_OTHERS = ("<frozen ", str(Path(__file__).parent), sysconfig.get_path("stdlib"))
"""Beginnings of the names of files that are not the user's: of this package and of Python."""


@contextmanager
def user_code(what: str) -> Iterator[None]:
    """Raise :class:`DefinitionError` for whatever the block raises: ``what`` it is, the error, and its file and line.

    Ending the process (``sys.exit()``) is such an error, too: to the caller it would look as if all were well.
    """
    try:
        yield
    except WarpDriveError:
        raise
    except (Exception, SystemExit) as error:
        raise DefinitionError(f"{what}: {told(error)}") from error


def told(error: BaseException) -> str:
    """Return an error in one line: its type, its message, and where in the user's code it was raised."""
    name = "sys.exit() was called" if isinstance(error, SystemExit) else type(error).__name__
    text = one_line(str(error))
    place = _place(error)
    return name + (f": {text}" if text and text != "None" else "") + (f" ({place})" if place else "")


def _place(error: BaseException) -> str:
    """Return the file and line of the last frame that is in a file of the user's, as far as can be told."""
    if isinstance(error, SyntaxError):
        return ""  # its message has it
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OTHERS)]
    frames = [frame for frame in frames if "site-packages" not in frame.filename]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
