"""Generated code and its machine code on disk, found again by the content of what they were made from."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType

import llvmlite
import numba
import numpy as np
from numba.core import caching

import warpdrive.kernels
from warpdrive.file_lock import locked
from warpdrive.private import CACHE_VARIABLE as CACHE_VARIABLE
from warpdrive.private import is_own, make_private, user_folder

ONE_AT_A_TIME = threading.RLock()
"""Held by whoever compiles or imports: another thread would see half of a module that is being imported."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_elsewhere: dict[str, Path] = {}
"""Where what found no room in its folder is stored, by its key."""


@contextmanager
def one_process_at_a_time(key: str) -> Iterator[None]:
    """Within the block no other thread compiles or imports, and no other process of this user works on the key.

    So what several processes need at the same time is compiled once. A process that is killed gives it free.
    """
    with ONE_AT_A_TIME, ExitStack() as stack:
        try:
            stack.enter_context(locked(cache_folder() / f".lock-{key}"))
        except OSError as error:  # then others compile it, too
            if error.errno not in NO_ROOM:
                raise
        yield


def cache_folder() -> Path:
    """Return the folder of all compiled kernels, which nobody but this user can write into: see ``user_folder``."""
    folder = user_folder("kernels")
    return folder if make_private(folder) else _spare_folder()


def key_of(*content: str) -> str:
    """Return the name under which code made of ``content`` is stored.

    It changes with everything that could change the code: the versions of Python, numba, llvmlite and numpy, and
    this library's own front end and backends.
    """
    versions = (sys.version, numba.__version__, llvmlite.__version__, np.__version__, _own_content())
    return hashlib.sha256("\0".join([*versions, *content]).encode()).hexdigest()[:32]


def is_stored(key: str) -> bool:
    """Return whether anything is stored under the key, all of it by this user."""
    folder = _folder(key)
    return folder.is_dir() and all(is_own(path) for path in (folder, *folder.rglob("*")))


def store(key: str, files: Mapping[str, str | bytes]) -> None:
    """Store files, by their names, under the key: all of them, or on an error none.

    Where the disk is full they are kept in a temporary folder for this process.
    """
    try:
        _store(key, files, cache_folder())
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        _elsewhere[key] = _spare_folder()
        _store(key, files, _elsewhere[key])


def _store(key: str, files: Mapping[str, str | bytes], parent: Path) -> None:
    beside = Path(tempfile.mkdtemp(prefix=".new-", dir=parent))
    try:
        for name, content in files.items():
            (beside / name).write_bytes(content.encode() if isinstance(content, str) else content)
        with suppress(FileExistsError):
            if not is_stored(key):  # of somebody else, from when others could write here
                shutil.rmtree(parent / key, ignore_errors=True)
            _rename(beside, parent / key)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _rename(beside: Path, folder: Path) -> None:
    try:
        beside.rename(folder)
    except OSError as error:
        if not folder.is_dir():
            raise
        raise FileExistsError(error.errno, "another process was quicker: what it stored is the same") from error


def discard(key: str) -> None:
    """Forget what is stored under the key, which are damaged or cannot be compiled."""
    shutil.rmtree(_folder(key), ignore_errors=True)
    for name in [name for name in sys.modules if name.startswith(module_name(key, ""))]:
        del sys.modules[name]


def load(key: str, name: str) -> ModuleType:
    """Import a stored module. Where there is no room for its machine code, the next process compiles it again."""
    with _beside_their_modules():
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


@contextmanager
def _beside_their_modules() -> Iterator[None]:
    """Have numba store machine code beside the modules that are imported within the block, if there is room.

    It reads what it finds there as pickles: ``$NUMBA_CACHE_DIR`` may be a folder that others can write into.
    """
    save_overload, folder = caching.Cache.save_overload, numba.config.CACHE_DIR

    def save(self: caching.Cache, signature: object, data: object) -> None:
        try:
            save_overload(self, signature, data)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise

    with ONE_AT_A_TIME:
        caching.Cache.save_overload, numba.config.CACHE_DIR = save, ""
        try:
            yield
        finally:
            caching.Cache.save_overload, numba.config.CACHE_DIR = save_overload, folder


def _folder(key: str) -> Path:
    return _elsewhere.get(key, cache_folder()) / key


@cache
def _spare_folder() -> Path:
    """Return a folder in memory, where there is one, else one of the system for temporary files."""
    for parent in (Path("/dev/shm"), None):
        with suppress(OSError):
            return Path(tempfile.mkdtemp(prefix="warpdrive-kernels-", dir=parent))
    raise OSError(errno.ENOSPC, "no space left for compiled kernels", tempfile.gettempdir())


@cache
def _own_content() -> str:
    folders = (Path(warpdrive.kernels.__file__).parent, Path(__file__).parent)
    texts = (path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.py")))
    return hashlib.sha256(b"\0".join(texts)).hexdigest()
