"""Atomic writes of small files, syncs to disk, and errors of full disks."""

from __future__ import annotations

import errno
import json
import math
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from warpdrive.arguments import check_path
from warpdrive.errors import CheckpointError

_NO_ROOM = {
    errno.ENOSPC: "no space left on device",
    errno.EDQUOT: "disk quota exceeded",
    errno.EFBIG: "file size limit exceeded (ulimit -f)",
}

_IN_USE = (5, 32)
"""Errors of Windows when a file is renamed that another process has open, such as a virus scanner a new one."""
_TRIES, _BETWEEN_TRIES = 50, 0.1
_CAN_SYNC_FOLDERS = hasattr(os, "O_DIRECTORY")
"""False on Windows, where folders cannot be opened."""


def replace_file(source: Path, target: Path) -> None:
    """Rename a file or folder like ``os.replace``; on Windows, wait up to five seconds for others to close it."""
    for tries_left in reversed(range(_TRIES)):
        try:
            return os.replace(source, target)
        except OSError as error:
            if getattr(error, "winerror", None) not in _IN_USE or not tries_left:
                raise
        time.sleep(_BETWEEN_TRIES)


def write_atomically(path: Path, text: str) -> None:
    """Write a small text file atomically: to a temporary file that is renamed.

    If several threads or processes write a file at once, it has the text of one of them. An ``OSError`` names the file.

    Raises:
        DefinitionError: If the name has a NUL character.
    """
    check_path(path=path)
    beside = path.with_name(f".{path.name[:50]}.{secrets.token_hex(4)}.part")
    with writing(path):
        try:
            with beside.open("x", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            replace_file(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


def sync(path: Path) -> None:
    """Sync a file, or the entries of a folder where that is possible, to disk."""
    if path.is_dir() and not _CAN_SYNC_FOLDERS:
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # on Windows only what can be written is synced
    try:
        os.fsync(handle)
    except OSError as error:
        if not path.is_dir() or error.errno not in (errno.EBADF, errno.EINVAL):  # of file systems that sync no folders
            raise
    finally:
        os.close(handle)


def write_json(path: Path, value: Any, indent: int | None = None) -> None:
    """Write plain data as JSON, atomically; NaN and infinities, which JSON lacks, become null."""
    write_atomically(path, json.dumps(replace_non_finite(value, lambda _: None), indent=indent, allow_nan=False) + "\n")


def replace_non_finite(value: Any, replacement: Callable[[float], Any]) -> Any:
    """Return plain data in which each NaN and infinity is replaced by ``replacement`` of it."""
    if isinstance(value, Mapping):
        return {key: replace_non_finite(part, replacement) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [replace_non_finite(part, replacement) for part in value]
    return replacement(value) if isinstance(value, float) and not math.isfinite(value) else value


def check_no_link(path: Path) -> None:
    """Check that a file of a run, which may be from others, is not a link to a file that would be overwritten.

    Raises:
        CheckpointError: If it is a link.
    """
    if path.is_symlink():
        raise CheckpointError(f"{path}: is a symbolic link, whose target would be overwritten; remove it")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Add the file name to an ``OSError`` within the block: Python does when opening a file, not when it is full."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, no_room(error) or error.strerror, str(path)) from error


def no_room(error: BaseException) -> str:
    """Return a description of a full disk, if that is the cause of an error, else ""."""
    return _NO_ROOM.get(error.errno or 0, "") if isinstance(error, OSError) else ""
