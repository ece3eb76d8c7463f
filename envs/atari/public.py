"""``wd.atari``: games, and states of ale-py's emulator as those of the environment ``atari``."""

from __future__ import annotations

from warpdrive.envs.atari.ale_conversion import from_ale, to_ale
from warpdrive.envs.atari.games import GAMES

__all__ = ["from_ale", "games", "to_ale"]


def games() -> list[str]:
    """Return the names of the games of ``wd.make("atari", game=...)``, in alphabetical order."""
    return list(GAMES)
