"""ROMs of games, read from the installed package ``ale-py``; none is part of this one."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from warpdrive.envs.atari.games import Game
from warpdrive.envs.atari.opcodes import decoded
from warpdrive.errors import DefinitionError


def rom_path(game: Game) -> Path:
    """Return the path of a game's ROM.

    Raises:
        DefinitionError: ``ale-py`` is not installed, or lacks the ROM.
    """
    package = find_spec("ale_py")
    if package is None or package.origin is None:
        raise DefinitionError(
            f"the ROM of {game.name} comes with ale-py, which is not installed: pip install 'warpdrive[atari]'"
        )
    path = Path(package.origin).parent / "roms" / f"{game.name}.bin"
    if not path.is_file():
        raise DefinitionError(f"the ROM of {game.name} is not in the installed package ale-py: {path} does not exist")
    return path


def load(game: Game) -> npt.NDArray[np.int64]:
    """Return a game's cartridge in the form that the processor reads (:func:`.opcodes.decoded`).

    Raises:
        DefinitionError: There is no ROM, or it is another than the one that the table of games describes.
    """
    path = rom_path(game)
    contents = path.read_bytes()
    found = hashlib.md5(contents, usedforsecurity=False).hexdigest()
    if found != game.md5:
        raise DefinitionError(f"{path}: the MD5 of the ROM is {found}, expected {game.md5}")
    return decoded(contents)
