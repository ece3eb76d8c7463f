"""Execution of user code: imported files, constructors, and methods called by the library."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warpdrive.errors import DefinitionError, WarpDriveError, one_line

_OTHERS = ("<frozen ", str(Path(__file__).parent), sysconfig.get_path("stdlib"))
"""Path prefixes of files that are not the user's: those of this package and of Python."""


@contextmanager
def user_code(what: str) -> Iterator[None]:
    """Convert any exception of the block to :class:`DefinitionError` with ``what``, the error, and its file and line.

    ``sys.exit()`` is converted as well: otherwise the process would appear to succeed.
    """
    try:
        yield
    except WarpDriveError:
        raise
    except (Exception, SystemExit) as error:
        raise DefinitionError(f"{what}: {describe_error(error)}") from error


def describe_error(error: BaseException) -> str:
    """Return a one-line description of an error: its type, message, and location in the user's code."""
    name = "sys.exit() was called" if isinstance(error, SystemExit) else type(error).__name__
    text = one_line(str(error))
    place = _place(error)
    return name + (f": {text}" if text and text != "None" else "") + (f" ({place})" if place else "")


def _place(error: BaseException) -> str:
    """Return the file and line of the last frame in a file of the user's, as far as known."""
    if isinstance(error, SyntaxError):
        return ""  # part of its message
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OTHERS)]
    frames = [frame for frame in frames if "site-packages" not in frame.filename]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
