"""Source texts of code run by ``exec``, which Python does not keep, so that kernels in them can be read."""

from __future__ import annotations
import __future__

import inspect
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

_MAX_TEXTS = 1000
_FUTURES = sum(getattr(__future__, name).compiler_flag for name in ("annotations", "generator_stop"))
"""Flags of code that ``exec`` inherits from the code that calls it."""
_texts: dict[tuple[str, str], None] = {}
"""File names and texts, the oldest first."""
_has_hook = _keeps_texts = False


def keep_texts(keep: bool = True) -> None:
    """Start to keep the texts compiled without a file, the last thousand of them, or stop and discard them.

    Python's audit events report them (PEP 578). Their hook cannot be removed, but does nothing after the stop.
    """
    global _has_hook, _keeps_texts
    _keeps_texts = keep
    if not keep:
        _texts.clear()
    elif not _has_hook:
        _has_hook = True
        sys.addaudithook(_listen)


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "compile" or not _keeps_texts:
        return
    text, file = arguments
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    if isinstance(text, str) and isinstance(file, str) and file.startswith("<"):
        _texts[file, text] = None
        if len(_texts) > _MAX_TEXTS:
            _texts.pop(next(iter(_texts)), None)


def lines_of(function: FunctionType) -> list[str] | None:
    """Return the lines of a function whose text was kept, or None if it was not."""
    code = function.__code__
    for file, text in reversed([*_texts]):
        if (
            file == code.co_filename
            and code.co_name in text
            and code in _codes_in(text, file, code.co_flags & _FUTURES)
        ):
            return inspect.getblock(text.splitlines(keepends=True)[code.co_firstlineno - 1 :])
    return None


def _codes_in(text: str, file: str, flags: int) -> Iterator[CodeType]:
    """Iterate over the code of a text and everything in it; nothing for a text that is an expression."""
    try:
        waiting = [compile(text, file, "exec", flags, dont_inherit=True)]
    except (SyntaxError, ValueError):
        return
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
