"""Text for terminals: names of others cannot move the cursor, change the title or turn lines around."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and newline, those that turn the direction of writing, and bytes that are no text."""


def plain(text: str) -> str:
    r"""Return a text with what a terminal would take for a command as people write it: ``\x1b`` for escape."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
