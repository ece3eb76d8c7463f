"""ROMs of games, read from the installed package ``ale-py``; none is part of this one."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from warpdrive.envs.atari.opcodes import decoded
from warpdrive.errors import DefinitionError


def names() -> list[str]:
    """Return the names of the ROMs of the installed package ``ale-py``, or an empty list if it is not installed."""
    folder = _folder()
    return [] if folder is None else sorted(path.stem for path in folder.glob("*.bin"))


def _folder() -> Path | None:
    """Return the directory of the ROMs, or None if ``ale-py`` is not installed."""
    package = find_spec("ale_py")
    return None if package is None or package.origin is None else Path(package.origin).parent / "roms"


def rom_path(name: str) -> Path:
    """Return the path of a ROM.

    Raises:
        DefinitionError: ``ale-py`` is not installed, or lacks the ROM.
    """
    folder = _folder()
    if folder is None:
        raise DefinitionError(
            f"the ROM of {name} comes with ale-py, which is not installed: pip install 'warpdrive[atari]'"
        )
    path = folder / f"{name}.bin"
    if not path.is_file():
        raise DefinitionError(f"the ROM of {name} is not in the installed package ale-py: {path} does not exist")
    return path


def load(name: str, md5: str) -> npt.NDArray[np.int64]:
    """Return a cartridge in the form that the processor reads (:func:`.opcodes.decoded`).

    Args:
        name: Name of the ROM.
        md5: Expected MD5 of the ROM, in hexadecimal digits.

    Returns:
        The decoded bytes.

    Raises:
        DefinitionError: There is no ROM of this name, or its MD5 differs.
    """
    path = rom_path(name)
    contents = path.read_bytes()
    found = hashlib.md5(contents, usedforsecurity=False).hexdigest()
    if found != md5:
        raise DefinitionError(f"{path}: the MD5 of the ROM is {found}, expected {md5}")
    return decoded(contents)
