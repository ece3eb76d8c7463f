"""Registry of the code outside of packages that this user has run; saved runs may only name registered code.

For each location of code, ``path/to/file.py:Name`` or ``module:Name``, a small file in the user's cache folder holds
the hash of the code when it was last used. Moved or modified code is thus not registered.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from warpdrive.private import make_private, user_folder

_in_this_process: dict[str, str] = {}


def note_used(target: str) -> None:
    """Register the code at a location as used by this user."""
    text, content = _described(target)
    if content is None or is_known(target):
        return
    _in_this_process[text] = content
    marker = _marker(text)
    with suppress(OSError):  # then it is registered for the lifetime of this process only
        if make_private(marker.parent):
            marker.write_text(content, encoding="ascii")


def is_known(target: str) -> bool:
    """Return True if this user has used the code at a location, and it is unchanged."""
    text, content = _described(target)
    return content is not None and content in (_in_this_process.get(text), _noted(text))


def was_known(target: str) -> bool:
    """Return True if this user has used the code at a location, possibly in an earlier version."""
    return _noted(_described(target)[0]) is not None


def is_installed(target: str) -> bool:
    """Return True if the module of ``package.module:Name`` belongs to an installed package, not to a local folder."""
    top = target.rpartition(":")[0].partition(".")[0]
    if not top.isidentifier() or target.rpartition(":")[0].endswith((".py", "__main__")):
        return False
    if top not in _installed_packages():
        return False
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    places = [found.origin, *(found.submodule_search_locations or ())] if found else []
    return not any(Path(place).parent == Path.cwd() for place in places if place)


def file_of(target: str) -> Path | None:
    """Return the file of the code at a location, if there is one, without an import."""
    place = target.rpartition(":")[0]
    if place.endswith(".py"):
        return Path(place).resolve()
    if place in sys.modules:
        origin = getattr(sys.modules[place], "__file__", None)
        return Path(origin).resolve() if origin else None
    for folder in map(Path, [*sys.path, "."]):
        for file in (folder / f"{place.replace('.', '/')}.py", folder / place.replace(".", "/") / "__init__.py"):
            if file.is_file():
                return file.resolve()
    return None


def _described(target: str) -> tuple[str, str | None]:
    """Return an identifier of the code at a location, and the hash of its file, or None if there is none."""
    file = file_of(target)
    place, _, name = target.rpartition(":")
    try:
        content = hashlib.sha256(file.read_bytes()).hexdigest() if file else None
    except OSError:
        content = None
    return f"{file or place}:{name}", content


def _noted(text: str) -> str | None:
    marker = _marker(text)
    try:
        return marker.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None


def _marker(text: str) -> Path:
    return user_folder("used_code") / hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


@cache
def _installed_packages() -> frozenset[str]:
    return frozenset(packages_distributions())
