"""File locks between processes, released when a process is killed."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # on Windows
    _msvcrt: Any = importlib.import_module("msvcrt")
    _CAN_OPEN_FOLDERS = False
    _LOCKED_ERRNO = (13, 36)

    def _lock(handle: int, wait: bool) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        while True:
            try:
                _msvcrt.locking(handle, _msvcrt.LK_LOCK if wait else _msvcrt.LK_NBLCK, 1)
                return
            except OSError as error:
                if not wait and error.errno in _LOCKED_ERRNO:
                    raise BlockingIOError(error.errno, error.strerror) from None
                if not wait or error.errno not in _LOCKED_ERRNO:
                    raise
else:
    _CAN_OPEN_FOLDERS = True

    def _lock(handle: int, wait: bool) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file (created if missing) or of a folder within the block.

    Raises:
        BlockingIOError: If another process holds it, and ``wait`` is False.
    """
    handle = _opened(path, os.O_CREAT)
    try:
        _lock(handle, wait)
        yield
    finally:
        os.close(handle)


def is_locked(path: Path) -> bool:
    """Return True if a process holds the lock of a file or folder; False if there is no such file or folder."""
    try:
        handle = _opened(path)
    except FileNotFoundError:
        return False
    try:
        _lock(handle, wait=False)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(handle)


def _opened(path: Path, flags: int = 0) -> int:
    if path.is_dir() and not _CAN_OPEN_FOLDERS:
        path /= ".lock"
    return os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | flags, 0o600)
