"""Generated code and its machine code on disk, found again by the content of what they were made from."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

import llvmlite
import numba
import numpy as np
import platformdirs

import warpdrive.kernels

CACHE_VARIABLE = "WARPDRIVE_CACHE_DIR"

ONE_AT_A_TIME = threading.RLock()
"""Held by whoever compiles or imports: another thread would see half of a module that is being imported."""


@contextmanager
def one_process_at_a_time(key: str) -> Iterator[None]:
    """Within the block no other thread compiles or imports, and no other process of this machine works on the key.

    So what several processes need at the same time is compiled once. A process that is killed gives it free.
    """
    with ONE_AT_A_TIME:
        _folder(key).parent.mkdir(parents=True, exist_ok=True)
        lock = _folder(key).parent / f".lock-{key}"
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def cache_folder() -> Path:
    """Return the folder of all compiled kernels: ``$WARPDRIVE_CACHE_DIR``, or the user's cache directory."""
    root = os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("warpdrive", appauthor=False)
    return Path(root) / "kernels"


def key_of(*content: str) -> str:
    """Return the name under which code made of ``content`` is stored.

    It changes with everything that could change the code: the versions of Python, numba, llvmlite and numpy, and
    this library's own front end and backends.
    """
    versions = (sys.version, numba.__version__, llvmlite.__version__, np.__version__, _own_content())
    return hashlib.sha256("\0".join([*versions, *content]).encode()).hexdigest()[:32]


def is_stored(key: str) -> bool:
    """Whether anything is stored under the key."""
    return _folder(key).is_dir()


def store(key: str, files: Mapping[str, str | bytes]) -> None:
    """Store files, by their names, under the key: all of them, or on an error none."""
    folder = _folder(key)
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    for name, content in files.items():
        (beside / name).write_bytes(content.encode() if isinstance(content, str) else content)
    try:
        beside.rename(folder)
    except OSError:  # another process was quicker: what it stored is the same
        shutil.rmtree(beside, ignore_errors=True)


def discard(key: str) -> None:
    """Forget what is stored under the key, which are damaged or cannot be compiled."""
    shutil.rmtree(_folder(key), ignore_errors=True)
    for name in [name for name in sys.modules if name.startswith(module_name(key, ""))]:
        del sys.modules[name]


def load(key: str, name: str) -> ModuleType:
    """Import a stored module."""
    return import_file(module_name(key, name), path(key, f"{name}.py"))


def path(key: str, name: str) -> Path:
    """Return a stored file."""
    return _folder(key) / name


def module_name(key: str, name: str) -> str:
    """Return the name that a stored module is imported under."""
    return f"warpdrive_generated_{key}_{name}"


def import_file(name: str, path: Path) -> ModuleType:
    """Import the file at ``path`` as the module ``name``, once."""
    if name not in sys.modules:
        specification = importlib.util.spec_from_file_location(name, path)
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        sys.modules[name] = module
        try:
            specification.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _folder(key: str) -> Path:
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    return (folder if writable else _temporary_folder()) / key


@cache
def _temporary_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="warpdrive-kernels-"))


@cache
def _own_content() -> str:
    folders = (Path(warpdrive.kernels.__file__).parent, Path(__file__).parent)
    texts = (path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.py")))
    return hashlib.sha256(b"\0".join(texts)).hexdigest()
