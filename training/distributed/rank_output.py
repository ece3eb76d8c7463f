"""Lines of several processes on one terminal or in one file: each says whose it is."""

from __future__ import annotations

import sys
import threading
from typing import Any, TextIO


class _Marked:
    """A text stream that writes whole lines, each with a mark in front. All else is as of the stream behind it."""

    def __init__(self, stream: TextIO, mark: str) -> None:
        self._stream, self._mark, self._rest = stream, mark, ""
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            if lines:
                self._stream.write("".join(f"{self._mark}{line}\n" for line in lines))
        return len(text)

    def flush(self) -> None:
        with self._lock:
            if self._rest:
                self._stream.write(f"{self._mark}{self._rest}\n")
                self._rest = ""
            self._stream.flush()

    def isatty(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def mark_output(rank: int) -> None:
    """Put ``[rank <n>]`` in front of what this process prints from now on.

    Only process 0 on a terminal prints as it would alone: it draws its progress there.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, _Marked) and not (rank == 0 and stream.isatty()):
            setattr(sys, name, _Marked(stream, f"[rank {rank}] "))
