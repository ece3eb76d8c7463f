"""A store in a private folder, where the processes of one machine meet: nothing listens, and no other user gets in."""

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
"""A file in the folder that the launcher keeps locked for as long as it lives."""
_BETWEEN_LOOKS = 0.02  # seconds


class Store(Protocol):
    """What processes that meet need of a store; those of ``torch.distributed`` have it."""

    def set(self, key: str, value: str) -> None:
        """Write a value."""

    def get(self, key: str) -> bytes:
        """Read a value, which is waited for."""

    def check(self, keys: list[str]) -> bool:
        """Return whether values are there."""

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """Read several values, which are waited for."""


class FolderStore:
    """A file for each key, which is there whole or not at all.

    As the stores of ``torch.distributed`` it raises ``RuntimeError`` where it is gone, which is when the launcher has
    ended.

    Args:
        folder: of this user alone.
        timeout: seconds that :meth:`get` waits.

    Raises:
        TeamError: other users can write into the folder.
    """

    def __init__(self, folder: Path, timeout: float) -> None:
        if not is_private(folder):
            raise TeamError(f"processes cannot meet in {folder}: it is not there, or other users can write into it")
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
                raise RuntimeError(f"nothing was written under '{key}' within {self._timeout:.0f} seconds")
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
    return RuntimeError("the launcher has ended, and what processes meet at with it")
