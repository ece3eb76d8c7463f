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
    """Terms whose sum is the score; the reward of a frame is its increase, within ``rewards``."""
    lives: tuple[Term, ...] = ()
    """Terms whose sum is the number of lives; none for games without lives."""
    loss_if: tuple[Compare, ...] = ()
    """One life less than in the frame before counts only if all of these hold."""
    over: tuple[tuple[Compare, ...], ...] = ()
    """The game is over if all comparisons of one of these tuples hold."""
    score_if: tuple[Compare, ...] = ()
    """Unless all of these hold, the score is that of the frame before."""
    rewards: tuple[int, int] = (-(2**31), 2**31 - 1)
    """Least and largest reward of a frame."""
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


def _decimal(*addresses: int, unit: int = 1) -> tuple[Term, ...]:
    """Return terms of bytes with two decimal digits each, the most significant byte first."""
    weights = [unit * 100**power for power in reversed(range(len(addresses)))]
    return tuple(Term(address, weight, bcd=True) for address, weight in zip(addresses, weights, strict=True))


# fmt: off
_GAMES = (
    Game(
        "alien",
        md5="f1a0a23e6464d954e3a9579c4ccd01c8",
        cartridge="4K",
        actions=ALL_ACTIONS,
        score=(Term(0x83, 100000, mask=0xF8, shift=3, when=(Compare(0x83, "!=", 0x80),)),
               Term(0x85, 10000, mask=0xF8, shift=3, when=(Compare(0x85, "!=", 0x80),)),
               Term(0x87, 1000, mask=0xF8, shift=3, when=(Compare(0x87, "!=", 0x80),)),
               Term(0x89, 100, mask=0xF8, shift=3, when=(Compare(0x89, "!=", 0x80),)),
               Term(0x8B, 10, mask=0xF8, shift=3, when=(Compare(0x8B, "!=", 0x80),)),),
        lives=(Term(0xC0, mask=0x0F),),
        over=((Compare(0xC0, "==", 0, mask=0x0F),),),
        modes=(0, 1, 2, 3),
        difficulties=(0, 1, 2, 3),
        mode=(Term(0x81),),
    ),
    Game(
        "amidar",
        md5="acb7750b4d0c4bd34969802a7deb2990",
        cartridge="4K",
        actions=(0, 1, 2, 3, 4, 5, 10, 11, 12, 13),
        score=_decimal(0xDB, 0xDA, 0xD9),
        lives=(Term(0xD6, mask=0x0F),),
        over=((Compare(0xD6, "==", 0x80),),),
        difficulties=(0, 3),
    ),
    Game(
        "assault",
        md5="de78b3a064d374390ac0710f95edde92",
        cartridge="4K",
        actions=(0, 1, 2, 3, 4, 11, 12),
        score=_decimal(0x80, 0x81, 0x82),
        lives=(Term(0xE5),),
        over=((Compare(0xE5, "==", 0),),),
    ),
    Game(
        "asterix",
        md5="89a68746eff7f266bbf08de2483abe55",
        cartridge="F8",
        actions=(0, 2, 3, 4, 5, 6, 7, 8, 9),
        score=_decimal(0xDE, 0xDF, 0xE0),
        lives=(Term(0xD3, mask=0x0F),),
        over=((Compare(0xD3, "==", 1, mask=0x0F), Compare(0xC7, "==", 1)),),
    ),
    Game(
        "atlantis",
        md5="9ad36e699ef6f45d9eb6c4cf90475c9f",
        cartridge="4K",
        actions=(0, 1, 11, 12),
        score=_decimal(0xA1, 0xA3, 0xA2, unit=100),
        lives=(Term(0xF1),),
        over=((Compare(0xF1, "==", 0xFF),),),
        modes=(0, 1, 2, 3),
        score_if=(Compare(0xF1, "!=", 0xFF),),
        mode=(Term(0x8D),),
    ),
    Game(
        "bank_heist",
        md5="00ce0bdd43aed84a983bef38fe7f5ee3",
        cartridge="4K",
        actions=ALL_ACTIONS,
        score=_decimal(0xD8, 0xD9, 0xDA),
        lives=(Term(0xD5),),
        over=((Compare(0xD5, "==", 0), Compare(0xCE, "==", 1)),),
        modes=(0, 4, 8, 12, 16, 20, 24, 28),
        difficulties=(0, 1, 2, 3),
        mode=(Term(0x80),),
    ),
    Game(
        "battle_zone",
        md5="41f252a66c6301f1e8ab3612c19bc5d4",
        cartridge="F8",
        actions=ALL_ACTIONS,
        score=(Term(0x9D, 1000, mask=0xF0, shift=4, when=(Compare(0x9D, "!=", 0xA0, mask=0xF0),)),
               Term(0x9E, 10000, mask=0x0F, when=(Compare(0x9E, "!=", 0x0A, mask=0x0F),)),
               Term(0x9E, 100000, mask=0xF0, shift=4, when=(Compare(0x9E, "!=", 0xA0, mask=0xF0),)),),
        lives=(Term(0xBA, mask=0x0F),),
        over=((Compare(0xBA, "==", 0, mask=0x0F),),),
        modes=(1, 2, 3),
        mode=(Term(0xA1),),
    ),
    Game(
        "beam_rider",
        md5="79ab4123a83dc11d468fb2108ea09e2e",
        cartridge="F8",
        actions=(0, 1, 2, 3, 4, 6, 7, 11, 12),
        score=_decimal(0x8B, 0x8A, 0x89),
        lives=(Term(0x85, plus=1),),
        over=((Compare(0x85, "==", 0xFF),),),
        difficulties=(0, 1),
        loss_if=(Compare(0x8C, "==", 1),),
    ),
    Game(
        "berzerk",
        md5="136f75c4dd02c29283752b7e5799f978",
        cartridge="4K",
        actions=ALL_ACTIONS,
        score=_decimal(0xDD, 0xDE, 0xDF),
        lives=(Term(0xDA, plus=1),),
        over=((Compare(0xDA, "==", 0xFF),),),
        modes=(1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 18),
        mode=(Term(0x80),),
    ),
    Game(
        "bowling",
        md5="c9b7afad3bfd922e006a6bfc1d4f3fe7",
        cartridge="2K",
        actions=(0, 1, 2, 5, 10, 13),
        score=_decimal(0xA6, 0xA1),
        over=((Compare(0xA4, ">=", 17),),),
        modes=(0, 2, 4),
        difficulties=(0, 1),
        mode=(Term(0x82),),
    ),
    Game(
        "boxing",
        md5="c3ef5c4653212088eda54dc91d787870",
        cartridge="2K",
        actions=ALL_ACTIONS,
        score=(Term(0x92, bcd=True, when=(Compare(0x92, "!=", 0xC0),)),
               Term(0x92, 0, plus=100, when=(Compare(0x92, "==", 0xC0),)),
               Term(0x93, -1, bcd=True, when=(Compare(0x93, "!=", 0xC0),)),
               Term(0x93, 0, plus=-100, when=(Compare(0x93, "==", 0xC0),)),),
        over=((Compare(0x92, "==", 0xC0),), (Compare(0x93, "==", 0xC0),),
              (Compare(0x90, "==", 0, mask=0xF0), Compare(0x91, "==", 0)),),
        difficulties=(0, 1, 2, 3),
    ),
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
        "chopper_command",
        md5="c1cb228470a87beb5f36e90ac745da26",
        cartridge="4K",
        actions=ALL_ACTIONS,
        score=_decimal(0xEC, 0xEE, unit=100),
        lives=(Term(0xE4, mask=0x0F),),
        over=((Compare(0xE4, "==", 0, mask=0x0F),),),
        modes=(0, 2),
        difficulties=(0, 1),
        mode=(Term(0xE0),),
    ),
    Game(
        "crazy_climber",
        md5="55ef7b65066428367844342ed59f956c",
        cartridge="F8",
        actions=(0, 2, 3, 4, 5, 6, 7, 8, 9),
        score=(Term(0x82, 100), Term(0x83, 1000), Term(0x84, 10000), Term(0x85, 100000),),
        lives=(Term(0xAA),),
        over=((Compare(0xAA, "==", 0),),),
        modes=(0, 1, 2, 3),
        difficulties=(0, 1),
        rewards=(0, 2**31 - 1),
        mode=(Term(0x80),),
    ),
    Game(
        "demon_attack",
        md5="f0e0addc07971561ab80d9abe1b8d333",
        cartridge="4K",
        actions=(0, 1, 3, 4, 11, 12),
        score=(*_decimal(0x81, 0x83, 0x85),
               Term(weight=0, plus=-1_123_450,  # before the first frame
                    when=(Compare(0x81, "==", 0xAB), Compare(0x83, "==", 0xCD), Compare(0x85, "==", 0xEA))),),
        lives=(Term(0xF2, plus=1),),
        over=((Compare(0xF2, "==", 0), Compare(0xF1, "==", 0xBD)),),
        modes=(1, 3, 5, 7),
        difficulties=(0, 1),
        mode=(Term(0xEA),),
    ),
    Game(
        "fishing_derby",
        md5="b8865f05676e64f3bec72b9defdacfa7",
        cartridge="2K",
        actions=ALL_ACTIONS,
        score=(Term(0xBD, bcd=True), Term(0xBE, -1, bcd=True),),
        over=((Compare(0xBD, "==", 0x99),), (Compare(0xBE, "==", 0x99),),),
        difficulties=(0, 1, 2, 3),
    ),
    Game(
        "freeway",
        md5="8e0ab801b1705a740b476b7f588c6d16",
        cartridge="2K",
        actions=(0, 2, 5),
        score=(Term(0xE7, bcd=True),),
        over=((Compare(0xE9, ">=", 32),),),
        modes=tuple(range(8)),
        difficulties=(0, 1),
        rewards=(0, 1),
        mode=(Term(0x80),),
    ),
    Game(
        "frostbite",
        md5="4ca73eb959299471788f0b685c3ba0b5",
        cartridge="4K",
        actions=ALL_ACTIONS,
        score=_decimal(0xC8, 0xC9, 0xCA),
        lives=(Term(0xCC, mask=0x0F, plus=1),),
        over=((Compare(0xCC, "==", 0, mask=0x0F), Compare(0xF1, "==", 0x80, mask=0x80)),),
        modes=(0, 2),
        mode=(Term(0x80),),
    ),
    Game(
        "gopher",
        md5="c16c79aad6272baffb8aae9a7fff0864",
        cartridge="4K",
        actions=(0, 1, 2, 3, 4, 10, 11, 12),
        score=_decimal(0xB0, 0xB1, 0xB2),
        lives=(Term(0xB4, mask=1), Term(0xB4, mask=2, shift=1), Term(0xB4, mask=4, shift=2),),
        over=((Compare(0xB4, "==", 0, mask=7),),),
        modes=(0, 2),
        difficulties=(0, 1),
        mode=(Term(0xD3),),
    ),
    Game(
        "gravitar",
        md5="8ac18076d01a6b63acf6e2cab4968940",
        cartridge="F8",
        actions=ALL_ACTIONS,
        score=_decimal(0x87, 0x88, 0x89),
        lives=(Term(0x84, plus=1),),
        over=((Compare(0x81, "==", 1),),),
        modes=tuple(range(5)),
        mode=(Term(0x80),),
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
