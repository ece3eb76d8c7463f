"""Rendezvous store in a private folder of one machine: no listening sockets, no access for other users."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from warpdrive.errors import TeamError
from warpdrive.file_lock import is_locked
from warpdrive.private import is_private

LAUNCHER = "launcher"
"""File in the folder that the launcher keeps locked while it is alive."""
_BETWEEN_LOOKS = 0.02  # seconds


class Store(Protocol):
    """Interface of a rendezvous store, implemented by those of ``torch.distributed``."""

    def set(self, key: str, value: str) -> None:
        """Write a value."""

    def get(self, key: str) -> bytes:
        """Wait for a value and read it."""

    def check(self, keys: list[str]) -> bool:
        """Return True if all values are present."""

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """Wait for several values and read them."""


class FolderStore:
    """Store with a file for each key, written atomically.

    Like the stores of ``torch.distributed`` it raises ``RuntimeError`` if it is gone, that is, when the launcher has
    ended.

    Args:
        folder: Folder owned by this user alone.
        timeout: Timeout of :meth:`get`, in seconds.

    Raises:
        TeamError: If other users can write to the folder.
    """

    def __init__(self, folder: Path, timeout: float) -> None:
        if not is_private(folder):
            raise TeamError(f"{folder} cannot be used as a store: it does not exist, or other users can write to it")
        self._folder, self._timeout = folder, timeout

    def set(self, key: str, value: str) -> None:
        """See ``Store``."""
        path = self._path(key)
        beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            beside.write_text(value, encoding="utf-8")
            os.replace(beside, path)
        except FileNotFoundError as error:
            raise _gone() from error

    def get(self, key: str) -> bytes:
        """See ``Store``."""
        until = time.monotonic() + self._timeout
        while True:
            try:
                return self._path(key).read_bytes()
            except FileNotFoundError:
                self._check_launcher()
            if time.monotonic() > until:
                raise RuntimeError(f"no value was set for '{key}' within {self._timeout:.0f} seconds")
            time.sleep(_BETWEEN_LOOKS)

    def check(self, keys: Sequence[str]) -> bool:
        """See ``Store``."""
        self._check_launcher()
        return all(self._path(key).exists() for key in keys)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """See ``Store``."""
        self._check_launcher()
        return [self.get(key) for key in keys]

    def _path(self, key: str) -> Path:
        return self._folder / quote(key, safe="")

    def _check_launcher(self) -> None:
        if not is_locked(self._folder / LAUNCHER):
            raise _gone()


def _gone() -> RuntimeError:
    return RuntimeError("the launcher has exited, and its store with it")
