"""Import of objects given as ``package.module:Name`` or ``path/to/file.py:Name``.

Code that is named in data is loaded by ``load_attribute`` only, which registers it with ``used_code``.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from warpdrive.errors import DefinitionError, nearest, shown
from warpdrive.used_code import note_used
from warpdrive.user_code import user_code

_NOTHING = object()
_MOST_NAMES = 10


def load_attribute(target: str, what: str, kind: str = "class") -> Any:
    """Import an attribute of a module or file and return it.

    The code is executed, and registered as used by this user (see :mod:`warpdrive.used_code`): callers must first check
    code named by runs from other users.

    Args:
        target: Module or file and attribute, separated by a colon.
        what: The purpose of the import, for error messages.
        kind: The kind of object expected, for error messages.

    Returns:
        The attribute.

    Raises:
        DefinitionError: If the module cannot be imported, or has no such attribute.
    """
    place, _, attribute = target.rpartition(":")
    module = _import_file(Path(place)) if place.endswith(".py") else _import(place, what)
    with user_code(f"'{attribute}' of '{place}'"):
        found = getattr(module, attribute, _NOTHING)
    if found is _NOTHING:
        hint = nearest(attribute, dir(module)) or _defined(module, kind)
        raise DefinitionError(f"'{place}' has no {kind} {shown(attribute)}.{hint}")
    note_used(target)
    return found


def load_module(name: str, what: str) -> ModuleType:
    """Import a module and return it.

    Args:
        name: The name of the module.
        what: The purpose of the import, for error messages.

    Raises:
        DefinitionError: If the module does not exist, or cannot be imported.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        raise DefinitionError(f"{what}: {shown(name)} is not the name of a module")
    if not _is_found(name.partition(".")[0]):
        _can_import_from(Path.cwd())
    if not _is_found(name.partition(".")[0]):
        raise DefinitionError(f"{what}: there is no module {shown(name.partition('.')[0])}: is its package installed?")
    return _import(name, what)


def module_command(name: str) -> list[str]:
    """Return the command that runs a module in a new process without importing from the working directory.

    By default Python searches that directory first; before 3.11 no option prevents this.
    """
    return [sys.executable, *(["-P"] if sys.version_info >= (3, 11) else []), "-m", name]


def place_of(definition: Any) -> str:
    """Return the definition site of a class, function or instance: ``name (file:line)``, as far as known."""
    if not (isinstance(definition, type) or inspect.isroutine(definition)):
        definition = type(definition)
    try:
        file, line = inspect.getsourcefile(definition), inspect.getsourcelines(definition)[1]
    except (OSError, TypeError):  # interactive, or not written in Python
        return str(definition.__qualname__)
    return f"{definition.__qualname__} ({file}:{line})"


def _defined(module: ModuleType, kind: str) -> str:
    """Return a sentence with the classes, or the functions, that a module defines itself; "" if there are none."""
    is_wanted = inspect.isclass if kind == "class" else inspect.isfunction
    names = [name for name, value in inspect.getmembers(module, is_wanted) if value.__module__ == module.__name__]
    return f" It has: {', '.join(names[:_MOST_NAMES])}" if names else ""


def _import(place: str, what: str) -> ModuleType:
    if not _is_found(place.partition(".")[0]):
        _can_import_from(Path.cwd())  # searched by default in scripts, but not in installed commands
    with user_code(f"{what} cannot be imported"):
        return importlib.import_module(place)


def _import_file(path: Path) -> Any:
    if not path.is_file():
        raise DefinitionError(f"no such file: '{path}'")
    name = f"warpdrive_file_{path.stem}_{abs(hash(path.resolve()))}"
    if name not in sys.modules:
        _can_import_from(path.resolve().parent)  # a file can import its siblings, as a script can
        specification = importlib.util.spec_from_file_location(name, path)
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        sys.modules[name] = module
        try:
            with user_code(f"file '{path}' cannot be imported"):
                specification.loader.exec_module(module)
        except BaseException:  # also an interrupt: the next import would find half a module
            del sys.modules[name]
            raise
    return sys.modules[name]


def _is_found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _can_import_from(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # at the end, so that installed packages take precedence
