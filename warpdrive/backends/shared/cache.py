"""On-disk cache of generated code and its machine code, addressed by content."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import logging
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import llvmlite
import numba
import numpy as np
from numba.core import caching

import warpdrive.backends
import warpdrive.kernels
from warpdrive.file_lock import locked
from warpdrive.private import CACHE_VARIABLE as CACHE_VARIABLE, is_own, make_private, user_folder

ONE_AT_A_TIME = threading.RLock()
"""Lock held while compiling or importing, so that no thread sees a partially imported module."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_elsewhere: dict[str, Path] = {}
"""Folders of entries that did not fit into the cache folder, by cache key."""


@contextmanager
def one_process_at_a_time(key: str, what: str) -> Iterator[None]:
    """Exclude other threads from compiling or importing, and other processes of this user from the same cache key.

    A kernel that several processes need at the same time is thus compiled once. A killed process releases its lock.

    Args:
        key: Cache key.
        what: Name of the code, for the log.
    """
    with ONE_AT_A_TIME, ExitStack() as stack:
        try:
            stack.enter_context(locked(cache_folder() / f".lock-{key}"))
        except OSError as error:  # without the lock, other processes may compile it as well
            if error.errno not in NO_ROOM:
                raise
        done, began = "loaded from the cache" if is_stored(key) else "compiled", time.perf_counter()
        yield
        logging.getLogger("warpdrive").info("%s: %s in %.2f s (%s)", what, done, time.perf_counter() - began, key)


def cache_folder() -> Path:
    """Return the folder of all compiled kernels, writable by this user only; see ``user_folder``."""
    folder = user_folder("kernels")
    return folder if make_private(folder) else _spare_folder()


def key_of(*content: str) -> str:
    """Return the cache key of code generated from ``content``.

    It also depends on everything else that affects the code: the versions of Python, numba, llvmlite and NumPy, and the
    source of this library's front end and backends.
    """
    versions = (sys.version, numba.__version__, llvmlite.__version__, np.__version__, _own_content())
    return hashlib.sha256("\0".join([*versions, *content]).encode()).hexdigest()[:32]


def is_stored(key: str) -> bool:
    """Return True if the cache has an entry under the key that is owned entirely by this user."""
    folder = _folder(key)
    return folder.is_dir() and all(is_own(path) for path in (folder, *folder.rglob("*")))


def store(key: str, files: Mapping[str, str | bytes]) -> None:
    """Store files, by name, under the key: either all or, on an error, none of them.

    If the disk is full, they are stored in a temporary folder for this process.
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
            if not is_stored(key):  # an entry of another user, from before the folder was private
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
    """Delete the entry under the key, which is damaged or cannot be compiled."""
    shutil.rmtree(_folder(key), ignore_errors=True)
    for name in [name for name in sys.modules if name.startswith(module_name(key, ""))]:
        del sys.modules[name]


def load(key: str, name: str) -> ModuleType:
    """Import a stored module. If its machine code cannot be stored for lack of space, other processes recompile it."""
    with _cached_beside_modules():
        return import_file(module_name(key, name), path(key, f"{name}.py"))


def path(key: str, name: str) -> Path:
    """Return the path of a stored file."""
    return _folder(key) / name


_PREFIX = "warpdrive_generated_"


def module_name(key: str, name: str) -> str:
    """Return the name under which a stored module is imported."""
    return f"{_PREFIX}{key}_{name}"


class StoredModules:
    """Finder of the stored modules.

    Device functions that several kernels of a process have are lowered once. Machine code refers to the module of each
    of its functions, which may thus be that of another kernel; unpickling imports it by its name.
    """

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Return the specification of a stored module, or None for other modules."""
        key, _, name = fullname.removeprefix(_PREFIX).partition("_")
        if not fullname.startswith(_PREFIX) or not is_stored(key):
            return None
        return importlib.util.spec_from_file_location(fullname, _folder(key) / f"{name}.py")


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
def _cached_beside_modules() -> Iterator[None]:
    """Make numba store the machine code of modules imported within the block next to them, if there is space.

    Numba unpickles the files it finds, and ``$NUMBA_CACHE_DIR`` may be writable by other users. Cached code is loaded
    without refreshing numba's registries, which takes a third of a second and which only compilation needs.
    """
    save_overload, load_overload = caching.Cache.save_overload, caching.Cache.load_overload
    folder = numba.config.CACHE_DIR

    def save(self: caching.Cache, signature: object, data: object) -> None:
        try:
            save_overload(self, signature, data)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise

    def load(self: caching.Cache, signature: object, context: object) -> object:
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, context)
        return None

    with ONE_AT_A_TIME:
        caching.Cache.save_overload, caching.Cache.load_overload = save, load
        numba.config.CACHE_DIR = ""
        sys.meta_path.append(StoredModules)
        try:
            yield
        finally:
            sys.meta_path.remove(StoredModules)
            caching.Cache.save_overload, caching.Cache.load_overload = save_overload, load_overload
            numba.config.CACHE_DIR = folder


def _folder(key: str) -> Path:
    return _elsewhere.get(key, cache_folder()) / key


@cache
def _spare_folder() -> Path:
    """Return a temporary folder in shared memory if available, else in the system's temporary directory."""
    for parent in (Path("/dev/shm"), None):
        with suppress(OSError):
            return Path(tempfile.mkdtemp(prefix="warpdrive-kernels-", dir=parent))
    raise OSError(errno.ENOSPC, "no space left for compiled kernels", tempfile.gettempdir())


@cache
def _own_content() -> str:
    folders = (Path(warpdrive.kernels.__file__).parent, Path(warpdrive.backends.__file__).parent)
    texts = (path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.py")))
    return hashlib.sha256(b"\0".join(texts)).hexdigest()
