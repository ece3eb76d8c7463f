"""Rank prefixes for the output lines of several processes on one terminal or in one file."""

from __future__ import annotations

import sys
import threading
from typing import Any, TextIO

from warpdrive.terminal import is_quiet


class _Marked:
    """Text stream that writes whole lines with a prefix, and otherwise delegates to another stream."""

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
    """Prefix the output of this process with ``[rank <n>]`` from now on.

    Rank 0 prints without it on a terminal, where it draws its progress, and the result with ``--quiet``.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        is_plain = rank == 0 and (stream.isatty() or (is_quiet() and name == "stdout"))
        if not isinstance(stream, _Marked) and not is_plain:
            setattr(sys, name, _Marked(stream, f"[rank {rank}] "))
