"""Execution of user code: imported files, constructors, and methods called by the library."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warpdrive.errors import DefinitionError, WarpDriveError, one_line

_OTHERS = ("<", str(Path(__file__).parent), sysconfig.get_path("stdlib"))
"""Path prefixes of files other than the user's: this package and Python."""


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
    place = place_of_error(error)
    return name + (f": {text}" if text and text != "None" else "") + (f" ({place})" if place else "")


def place_of_error(error: BaseException) -> str:
    """Return the file and line of the last frame in a file of the user's; ``""`` if there is none."""
    if isinstance(error, SyntaxError):
        return ""  # part of its message
    places = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_of_user(frame.f_code.co_filename, frame.f_globals.get("__name__", ""))
    ]
    return places[-1] if places else ""


def _is_of_user(file: str, module: str) -> bool:
    # folders beside this package's belong to it where it is installed in editable mode
    is_ours = module.partition(".")[0] == __package__
    return not is_ours and not file.startswith(_OTHERS) and "site-packages" not in file
