"""Assessment of the reaction to bad input: one clear line, exit code 2, unchanged files, within a time limit."""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import io
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from warpdrive.errors import WarpDriveError
from warpdrive.training.cli.main import main

SECONDS = 120
"""Bound of a case, of which most take milliseconds: those beyond it would not end."""
_LONGEST_LINE = 700
_DEEP_INSIDE = re.compile(
    r"Traceback|<class '| object at 0x|<function |pydantic|\[Errno|has no attribute '__|NoneType|"
    r"site-packages|not subscriptable|this is a bug in WarpDrive|pybind|UntypedStorage|TypedStorage"
)
"""Marks of messages that are not meant for the user."""


@dataclass(frozen=True)
class Case:
    """Bad input.

    Attributes:
        name: what is bad about it.
        call: hands it over; a command returns its exit code and prints, a call of the Python API raises.
        expected: what the message must contain, if it is certain: the key, the file, the value.
        keeps: the folder of the user's files, which must not change.
    """

    name: str
    call: Callable[[], Any]
    expected: str = ""
    keeps: Path | None = None


def command(name: str, *arguments: str, expected: str = "", keeps: Path | None = None) -> Case:
    """Return a case that is given to the command line."""
    return Case(name, lambda: exit_code(arguments), expected, keeps)


def verdict(case: Case) -> str:
    """Return why a case is not met as it should be, or "" if it is."""
    before = _contents(case.keeps)
    try:
        with _bounded(SECONDS):
            why = _how_it_is_met(case)
    except _TooLong:
        why = f"not done after {SECONDS} s"
    after = _contents(case.keeps)
    changed = [name for name in before if after.get(name) != before[name]]
    return f"{changed[0]} was changed" if changed and not why else why


def _how_it_is_met(case: Case) -> str:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = case.call()
        except WarpDriveError as error:
            return _unclear(str(error), case.expected)
        except _TooLong:
            raise
        except BaseException as error:
            return f"raised {type(error).__name__}: {error}"[:300]
    if not isinstance(code, int) or isinstance(code, bool):
        return "accepted"
    if code != 2:
        return f"exit code {code}: {err.getvalue() or out.getvalue()}"[:300]
    return _unclear(err.getvalue().removesuffix("\n"), case.expected)


def exit_code(arguments: Sequence[str]) -> int:
    """Run a command in this process."""
    try:
        return main(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1


def _unclear(message: str, expected: str) -> str:
    """Return what is wrong with a message, or ""."""
    lines = message.split("\n")
    several = re.search(r"\d+ problems:$", lines[0]) and all(line.startswith("  ") for line in lines[1:])
    if not message.strip():
        return "no message"
    if len(lines) > 1 and not several:
        return f"{len(lines)} lines: {message}"[:300]
    if max(map(len, lines)) > _LONGEST_LINE:
        return f"a line of {max(map(len, lines))} characters: {message}"[:300]
    if not all(line.isprintable() for line in lines):
        return f"control characters: {message!r}"[:300]
    if found := _DEEP_INSIDE.search(message):
        return f"{found[0]!r} in: {message}"[:400]
    if expected not in message:
        return f"'{expected}' is not in: {message}"[:300]
    return ""


def _contents(folder: Path | None) -> dict[str, str]:
    if folder is None:
        return {}
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if not path.is_symlink() and path.is_file()
    }


class _TooLong(BaseException):
    """The time of a case is over."""


@contextlib.contextmanager
def _bounded(seconds: int) -> Iterator[None]:
    """Raise in the block when the time is over; end the process where even that does not help."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("signals reach the main thread only")

    def raise_it(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    former = signal.signal(signal.SIGALRM, raise_it)
    signal.alarm(seconds)
    faulthandler.dump_traceback_later(3 * seconds, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)
        faulthandler.cancel_dump_traceback_later()
