"""ROMs of the games, read from the installed package ``ale-py`` when a program runs."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import numpy as np
import numpy.typing as npt

from warpdrive.envs.atari.games import Game
from warpdrive.errors import WarpDriveError

INSTALL = 'pip install "warpdrive[atari]"'


def read(game: Game) -> npt.NDArray[np.uint8]:
    """Return the bytes of a game's ROM, after comparing their MD5 with that of the table of games."""
    path = folder() / f"{game.name}.bin"
    try:
        rom = path.read_bytes()
    except OSError as error:
        raise WarpDriveError(
            f"the ROM of {game.name} cannot be read: {error}; the package ale-py brings it: {INSTALL}"
        ) from None
    md5 = hashlib.md5(rom, usedforsecurity=False).hexdigest()
    if md5 != game.md5:
        raise WarpDriveError(
            f"{path} has the MD5 {md5}, but that of {game.name} is {game.md5}: this is another version of the game; "
            f"install ale-py again: {INSTALL}"
        )
    return np.frombuffer(rom, np.uint8)


def folder() -> Path:
    """Return the folder of ale-py that contains the ROMs, without importing ale-py."""
    package = importlib.util.find_spec("ale_py")
    if package is None or package.origin is None:
        raise WarpDriveError(f"the ROMs of Atari games come with the package ale-py, which is not installed: {INSTALL}")
    return Path(package.origin).parent / "roms"
