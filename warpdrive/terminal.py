"""Text for terminals: sanitised, so that untrusted names cannot move the cursor; or none, with ``--quiet``."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and newline, bidirectional formatting characters, and lone surrogates."""

_quiet = False


def set_quiet(quiet: bool) -> None:
    """Suppress, or allow again, all output of commands except errors and results."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """Return True if only errors and results are printed."""
    return _quiet


def plain(text: str) -> str:
    r"""Escape the control characters of a text, for example ``\x1b`` for escape."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
