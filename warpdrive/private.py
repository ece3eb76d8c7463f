"""Files and folders owned by this user and not writable by other users."""

from __future__ import annotations

import os
import stat
import tempfile
from functools import cache
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "WARPDRIVE_CACHE_DIR"


def is_own(path: Path) -> bool:
    """Return True if a file or folder exists, is no symbolic link, and is owned by this user.

    On Windows, which has no user ids, every existing path counts: user profiles are protected by default.
    """
    try:
        status = path.lstat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):
        return True
    return not stat.S_ISLNK(status.st_mode) and status.st_uid == os.getuid()


def is_private(folder: Path) -> bool:
    """Return True if a folder exists, is owned by this user, and cannot be written or replaced by other users.

    A folder can be replaced by anyone with write access to one of its parents, unless the parent has the sticky bit,
    like ``/tmp``. The administrator does not count as another user.
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
    """Create a folder accessible to this user only, unless it exists; return True if it is private afterwards."""
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
    """Return the ids of privileged users; in some containers the administrator's id differs."""
    return frozenset({0, os.getuid(), os.stat("/").st_uid})


@cache
def _is_own_group(number: int) -> bool:
    """Return True for the private group that many systems create for each user, with the user's name."""
    import grp  # Unix only
    import pwd

    try:
        user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(number)
    except KeyError:
        return False
    return group.gr_name == user and set(group.gr_mem) <= {user}


def user_folder(name: str) -> Path:
    """Return a folder for data kept between processes, which only this user can write to.

    It is ``name`` in ``$WARPDRIVE_CACHE_DIR``, or in the user's cache directory. If that is owned or writable by other
    users, like a shared folder, it is a private folder below it; if other users could replace that, the one in the
    user's cache directory. If none is writable, it is a temporary folder used by this process only.
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
