"""Files and folders that belong to this user, and that nobody else can change."""

from __future__ import annotations

import os
import stat
import tempfile
from functools import cache
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "WARPDRIVE_CACHE_DIR"


def is_own(path: Path) -> bool:
    """Return whether a file or folder, and no symbolic link in its place, is there and belongs to this user.

    On Windows, which has no numbers of users, everything that is there counts: profiles are protected by default.
    """
    try:
        status = path.lstat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):
        return True
    return not stat.S_ISLNK(status.st_mode) and status.st_uid == os.getuid()


def is_private(folder: Path) -> bool:
    """Return whether a folder is there, belongs to this user, and nobody else can write into it or replace it.

    Whoever can write into one of the folders above can replace it, unless that has the sticky bit, as ``/tmp`` has.
    The administrator is nobody else.
    """
    if not is_own(folder) or not folder.is_dir():
        return False
    if not hasattr(os, "getuid"):
        return True
    if _others_can_write(folder.stat()):
        return False
    whole = Path(os.path.abspath(folder))
    return all(_is_safe_above(above) for above in {*whole.parents, *whole.resolve().parents})


def make_private(folder: Path) -> bool:
    """Make a folder for this user alone, unless it is there; return whether it is one now."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return False
    return is_private(folder) and os.access(folder, os.W_OK)


def _is_safe_above(folder: Path) -> bool:
    try:
        status = folder.stat()
    except OSError:
        return False
    sticky = bool(status.st_mode & stat.S_ISVTX)
    return status.st_uid in _trusted() and (sticky or not _others_can_write(status))


def _others_can_write(status: os.stat_result) -> bool:
    by_group = bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)
    return by_group or bool(status.st_mode & stat.S_IWOTH)


@cache
def _trusted() -> frozenset[int]:
    """Return the users who can do everything here anyway; in some containers the administrator has another number."""
    return frozenset({0, os.getuid(), os.stat("/").st_uid})


@cache
def _is_own_group(number: int) -> bool:
    """Return whether a group is that which many systems make for each user alone, with the user's name."""
    import grp  # Unix only
    import pwd

    try:
        user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(number)
    except KeyError:
        return False
    return group.gr_name == user and set(group.gr_mem) <= {user}


def user_folder(name: str) -> Path:
    """Return a folder for what is kept from one process to the next, which nobody but this user can write into.

    It is ``name`` in ``$WARPDRIVE_CACHE_DIR``, or in the user's cache directory. Where that belongs to somebody else,
    or others can write into it, as into a folder that users share, it is one of the user's own below it; and where
    others could replace that, the one in the user's cache directory. Where nothing can be written it is a temporary
    one, which is there for this process.
    """
    usual = platformdirs.user_cache_dir("warpdrive", appauthor=False)
    return _usable(os.environ.get(CACHE_VARIABLE) or usual, usual) / name


@cache
def _usable(*roots: str) -> Path:
    mine = f"user-{os.getuid()}" if hasattr(os, "getuid") else "user"
    for root in (Path(root).absolute() for root in roots):
        for candidate in (root, root / mine):
            if make_private(candidate):
                return candidate
    return Path(tempfile.mkdtemp(prefix="warpdrive-"))
