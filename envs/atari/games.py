"""Games of Atari: cartridge, controllers, and where the memory holds score, lives and the end of the game.

Addresses are those of the console: 0x80 to 0xFF. `tools/atari_game.py` finds the bytes of a game by experiments with
ale-py, and compares the rows of this table with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from warpdrive.errors import DefinitionError, nearest


class Compare(NamedTuple):
    """Comparison of the bits ``mask`` of a byte with a value."""

    address: int
    relation: str
    """One of ``==``, ``!=``, ``<`` and ``>=``."""
    value: int
    mask: int = 0xFF


class Term(NamedTuple):
    """A number in memory: ``weight * ((byte & mask) >> shift) + plus``, or 0 unless all of ``when`` hold."""

    address: int = 0x80
    weight: int = 1
    mask: int = 0xFF
    shift: int = 0
    bcd: bool = False
    """The shifted bits are two decimal digits of four bits each."""
    plus: int = 0
    when: tuple[Compare, ...] = ()


ALL_ACTIONS = tuple(range(18))


@dataclass(frozen=True)
class Game:
    """A game, as ale-py defines it."""

    name: str
    """The name of ale-py's ROM."""
    md5: str
    """Hexadecimal MD5 of the ROM."""
    cartridge: str
    """``2K``, ``4K``, ``F8``, ``F8SC``, ``F6``, ``F6SC``, ``E0`` or ``FE``."""
    actions: tuple[int, ...]
    """Actions that have an effect, in ale-py's numbers 0 to 17."""
    score: tuple[Term, ...]
    """Terms whose sum is the score; the reward of a frame is its increase."""
    lives: tuple[Term, ...] = ()
    """Terms whose sum is the number of lives; none for games without lives."""
    over: tuple[tuple[Compare, ...], ...] = ()
    """The game is over if all comparisons of one of these tuples hold."""
    modes: tuple[int, ...] = (0,)
    mode: tuple[Term, ...] = ()
    """Terms whose sum is the mode; SELECT is pressed until it is the wanted one. None if there is one mode."""
    difficulties: tuple[int, ...] = (0,)
    start_actions: tuple[int, ...] = ()
    """Actions of a frame each after RESET."""
    controller: str = "joystick"
    """``joystick`` or ``paddles``."""
    swapped_ports: bool = False
    """The first player uses the right port."""
    display: str = "NTSC"
    first_line: int = 34
    height: int = 210


# fmt: off
_GAMES = (
    Game(
        "breakout",
        md5="f34f08e5eb96e500e851a80be3277a56",
        cartridge="2K",
        actions=(0, 1, 3, 4),
        score=(Term(0xCC, 100, mask=0x0F), Term(0xCD, bcd=True)),
        lives=(Term(0xB9),),
        over=((Compare(0xB9, "==", 0),),),
        modes=tuple(range(0, 48, 4)),
        difficulties=(0, 1),
        controller="paddles",
    ),
    Game(
        "pong",
        md5="60e0ea3cbe0913d39803477945e9e5ec",
        cartridge="2K",
        actions=(0, 1, 3, 4, 11, 12),
        score=(Term(0x8D, -1), Term(0x8E)),
        over=((Compare(0x8D, "==", 21),), (Compare(0x8E, "==", 21),)),
        modes=(0, 1),
        difficulties=(0, 1, 2, 3),
        controller="paddles",
        swapped_ports=True,
    ),
)
# fmt: on

GAMES = {game.name: game for game in _GAMES}
"""Games by name, in alphabetical order."""


def game(name: str) -> Game:
    """Return the game of a name such as ``"pong"``, ``"MsPacman"`` or ``"ms_pacman"``."""
    wanted = _plain(name)
    for found in GAMES.values():
        if _plain(found.name) == wanted:
            return found
    raise DefinitionError(f"there is no Atari game {name!r}.{nearest(name, GAMES)} The games are {', '.join(GAMES)}")


def _plain(name: str) -> str:
    """Return a name without differences of case and separators."""
    return name.replace("_", "").replace("-", "").lower()
