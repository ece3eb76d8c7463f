"""Table of Atari games: cartridge, controllers, and memory locations of score, lives and the end of the game.

Addresses are those of the console: 0x80 to 0xFF. `tools/atari_game.py` finds the bytes of a game by experiments with
ale-py, and compares the rows of this table with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy.typing as npt

from warpdrive.envs.atari import machine, roms
from warpdrive.errors import DefinitionError, nearest, shown


class Compare(NamedTuple):
    """Comparison of the bits ``mask`` of a byte with a value."""

    address: int
    relation: str
    """``==``, ``!=``, ``<`` or ``>=``; ``was`` if the byte equalled the value before the frame; ``by`` if the frame
    increased the byte by the value, modulo 256, and ``not by`` if it did not."""
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
class Two:
    """Rules of a game that differ with two players."""

    modes: tuple[int, ...]
    """Modes in which two play at the same time."""
    score: tuple[Term, ...] = ()
    """Terms whose sum is the first player's score; if there are none, those of one player."""
    second_score: tuple[Term, ...] = ()
    """Terms whose sum is the second player's score; if there are none, it loses what the first one gains."""
    over: tuple[tuple[Compare, ...], ...] = ()
    """The end of the game, as in ``Game``; if there is none, that with one player."""


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
    start_lives: int = 0
    """Lives before the first frame, if ``lives_if`` or ``loss`` keep them."""
    lives_if: tuple[Compare, ...] = ()
    """Unless all of these hold, the lives are those of the frame before."""
    loss: tuple[Compare, ...] = ()
    """Instead of ``lives``: the frames in which all of these hold take a life."""
    loss_if: tuple[Compare, ...] = ()
    """One life less than in the frame before counts only if all of these hold."""
    over: tuple[tuple[Compare, ...], ...] = ()
    """The game is over if all comparisons of one of these tuples hold."""
    score_if: tuple[Compare, ...] = ()
    """Unless all of these hold, the score is that of the frame before."""
    reward_unless: tuple[tuple[Compare, ...], ...] = ()
    """If all comparisons of one of these tuples hold, the reward is not the increase of the score, but the sum of
    ``reward_otherwise``."""
    reward_otherwise: tuple[Term, ...] = ()
    score_limit: int = 0
    """The score begins anew from 0 at this number, if it is not 0: a decrease counts as that."""
    rewards: tuple[int, int] = (-(2**31), 2**31 - 1)
    """Least and largest reward of a frame."""
    modes: tuple[int, ...] = (0,)
    """Modes for one player; none if the game is for two only."""
    mode: tuple[Term, ...] = ()
    """Terms whose sum is the mode; SELECT is pressed until it has the given value. None if there is one mode."""
    mode_before: tuple[Term, ...] = ()
    """Terms whose sum is the mode before the game is started, if ale-py presses SELECT until that is the wanted one,
    and not only until the game would start in it."""
    select_frames: int = 2
    """Frames for which SELECT is pressed."""
    frames_before_select: int = 0
    """Frames without action before SELECT is pressed."""
    resets: int = 2
    """Number of times that RESET is pressed after the mode was set, in games with several modes."""
    menu: tuple[int, ...] = ()
    """The bit of the mode that RIGHT sets in each line of the menu that SELECT opens, 0 in lines without one."""
    two: Two | None = None
    """Rules for two players at the same time; None if the game has no such mode."""
    difficulties: tuple[int, ...] = (0,)
    ignored: tuple[int, ...] = ()
    """Actions that ale-py replaces by 0."""
    start_actions: tuple[int, ...] = ()
    """Actions of a frame each after RESET."""
    controller: str = "joystick"
    """``joystick`` or ``paddles``."""
    swapped_ports: bool = False
    """The first player uses the right port."""
    display: str = "NTSC"
    blanks: bool = True
    """HMOVE blanks eight pixels at the left, as in the hardware; ale-py leaves it out in some games."""
    first_line: int = 34
    height: int = 210

    @property
    def keeps_lives(self) -> bool:
        """The memory alone does not give the number of lives."""
        return bool(self.start_lives or self.lives_if or self.loss or self.loss_if)

    def for_two(self) -> Game:
        """Return the game with its rules for two players."""
        assert self.two is not None
        return replace(self, score=self.two.score or self.score, over=self.two.over or self.over, modes=self.two.modes)


def _decimal(*addresses: int, unit: int = 1) -> tuple[Term, ...]:
    """Return terms of bytes with two decimal digits each, the most significant byte first."""
    weights = [unit * 100**power for power in reversed(range(len(addresses)))]
    return tuple(Term(address, weight, bcd=True) for address, weight in zip(addresses, weights, strict=True))


def _digits(*addresses: int, unit: int = 1) -> tuple[Term, ...]:
    """Return terms of bytes with one digit each in the low four bits, 10 if blank, the most significant byte first."""
    weights = [unit * 10**power for power in reversed(range(len(addresses)))]
    return tuple(
        Term(address, weight, mask=0x0F, when=(Compare(address, "!=", 0x0A, mask=0x0F),))
        for address, weight in zip(addresses, weights, strict=True)
    )


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
        select_frames=1,
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
        start_actions=(1,),
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
        select_frames=1,
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
        blanks=False,
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
        start_actions=(3,),
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
        frames_before_select=20,
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
        mode=(Term(0xD9, -1, plus=1),),
        two=Two((1,)),
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
        mode=(Term(0xB2),),
        select_frames=1,
        difficulties=(0, 1),
        controller="paddles",
    ),
    Game(
        "centipede",
        md5="91c2098e88a6b13f977af8c003e0bca5",
        cartridge="F8",
        actions=ALL_ACTIONS,
        score=_decimal(0xF4, 0xF5, 0xF6),
        lives=(Term(0xED, mask=0x70, shift=4, plus=1),),
        over=((Compare(0xA6, "!=", 0, mask=0x40),),),
        modes=(22, 86),
        rewards=(0, 2**31 - 1),
        mode=(Term(0xA7),),
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
        "combat",
        md5="0ef64cdbecccb7049752a3de0b7ade14",
        cartridge="2K",
        actions=ALL_ACTIONS,
        score=(Term(0xA1, bcd=True), Term(0xA2, -1, bcd=True)),
        over=((Compare(0x88, "==", 0),),),
        modes=(),
        mode=(Term(0x80, plus=1),),
        two=Two(tuple(range(1, 28))),
        display="PAL",
        height=250,
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
        select_frames=1,
    ),
    Game(
        "double_dunk",
        md5="368d88a6c071caba60b4f778615aae94",
        cartridge="F6",
        actions=ALL_ACTIONS,
        score=(Term(0xF6, bcd=True), Term(0xF7, -1, bcd=True),),
        over=((Compare(0xF6, ">=", 0x24), Compare(0xFE, "==", 0xE7)),
              (Compare(0xF7, ">=", 0x24), Compare(0xFE, "==", 0xE7)),),
        modes=tuple(range(16)),
        mode=(Term(0x80, mask=0x18, shift=3), Term(0x80, 4, mask=4, shift=2), Term(0x80, 8, mask=0x60, shift=5)),
        select_frames=10,
        menu=(16, 0, 1, 2, 4, 8),
        two=Two(tuple(range(16, 32))),
    ),
    Game(
        "enduro",
        md5="94b92a882f6dbaa6993a46e2dcc58402",
        cartridge="4K",
        actions=(0, 1, 3, 4, 5, 8, 9, 11, 12),
        score=(Term(0xAD, 300, plus=-100, when=(Compare(0xAD, "!=", 0),)),  # cars to pass until the next day
               Term(0xAC, -100, bcd=True, when=(Compare(0xAD, "!=", 0),)),
               Term(0xAB, -1, bcd=True, when=(Compare(0xAD, "!=", 0),)),),
        over=((Compare(0xAF, "==", 0xFF),),),
        start_actions=(1,),
    ),
    Game(
        "entombed",
        md5="6b683be69f92958abe0e2a9945157ad5",
        cartridge="4K",
        actions=ALL_ACTIONS,
        score=(Term(0xE3),),
        lives=(Term(weight=0, plus=1, when=(Compare(0xC7, "!=", 0, mask=0x03),)),),
        over=((Compare(0xC7, "==", 0, mask=0x03),),),
        difficulties=(0, 2),
        mode=(Term(0xF4, -1, plus=1),),
        two=Two((1,), score=(Term(0xC7, mask=0x03), Term(0xC7, -1, mask=0x30, shift=4)),
                over=((Compare(0xC7, "==", 0, mask=0x03),), (Compare(0xC7, "==", 0, mask=0x30),))),
        start_actions=(1, 0, 0, 0, 0, 0),
    ),
    Game(
        "fishing_derby",
        md5="b8865f05676e64f3bec72b9defdacfa7",
        cartridge="2K",
        actions=ALL_ACTIONS,
        score=(Term(0xBD, bcd=True), Term(0xBE, -1, bcd=True),),
        over=((Compare(0xBD, "==", 0x99),), (Compare(0xBE, "==", 0x99),),),
        difficulties=(0, 1, 2, 3),
        mode=(Term(0x80),),
        two=Two((1,)),
    ),
    Game(
        "flag_capture",
        md5="30512e0e83903fc05541d2f6a6a62654",
        cartridge="2K",
        actions=ALL_ACTIONS,
        score=_decimal(0xEA),
        lives=(Term(weight=0, plus=1, when=(Compare(0xEB, "!=", 0),)),),
        over=((Compare(0xEB, "==", 0),),),
        modes=(8, 9, 10),
        mode=(Term(0xD6),),
    ),
    Game(
        "freeway",
        md5="8e0ab801b1705a740b476b7f588c6d16",
        cartridge="2K",
        actions=(0, 2, 5),
        score=(Term(0xE7, bcd=True),),
        over=((Compare(0x96, "==", 1),),),
        modes=tuple(range(8)),
        difficulties=(0, 1),
        rewards=(0, 1),
        mode=(Term(0x80),),
        select_frames=1,
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
        select_frames=1,
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
        select_frames=5,
        resets=3,
        start_actions=(1,),
    ),
    Game(
        "gravitar",
        md5="8ac18076d01a6b63acf6e2cab4968940",
        cartridge="F8",
        actions=ALL_ACTIONS,
        score=_decimal(0x87, 0x88, 0x89),
        lives=(Term(0x84, plus=1, when=(Compare(0x81, "!=", 0),)),
               Term(weight=0, plus=6, when=(Compare(0x81, "==", 0),)),),
        over=((Compare(0x81, "==", 1),),),
        modes=tuple(range(5)),
        mode=(Term(0x80),),
        select_frames=10,
        start_actions=(1,) * 16,
    ),
    Game(
        "hero",
        md5="fca4a5be1251927027f2c24774a02160",
        cartridge="F8",
        actions=ALL_ACTIONS,
        score=_decimal(0xB7, 0xB8, 0xB9),
        lives=(Term(0xB3),),
        over=((Compare(0xB3, "==", 0),),),
        modes=(0, 1, 2, 3, 4),
        mode=(Term(0x80),),
        select_frames=1,
    ),
    Game(
        "ice_hockey",
        md5="a4c08c4994eb9d24fb78be1793e82e26",
        cartridge="4K",
        actions=ALL_ACTIONS,
        score=(Term(0x8A, bcd=True), Term(0x8B, -1, bcd=True)),
        over=((Compare(0x86, "==", 0), Compare(0x87, "==", 0)),),
        rewards=(-(2**31), 1),
        modes=(0, 2),
        mode=(Term(0x80),),
        select_frames=1,
        difficulties=(0, 1, 2, 3),
        two=Two((1, 3)),
    ),
    Game(
        "jamesbond",
        md5="e51030251e440cffaab1ac63438b44ae",
        cartridge="E0",
        actions=ALL_ACTIONS,
        score=_decimal(0xDE, 0xDD, 0xDC),
        lives=(Term(0x86, mask=0x0F, plus=1),),
        over=((Compare(0x86, "==", 0, mask=0x0F), Compare(0x8C, "==", 0x68)),),
        modes=(0, 1),
        mode=(Term(0x8C),),
    ),
    Game(
        "joust",
        md5="3276c777cbe97cdd2b4a63ffc16b7151",
        cartridge="F8",
        actions=ALL_ACTIONS,
        score=_decimal(0x83, 0x85, 0x87),
        lives=(Term(0x81, mask=0x0F, plus=1, when=(Compare(0x81, "!=", 0xFF),)),),
        over=((Compare(0x81, "==", 0xFF),),),
        modes=(0, 2),
        mode=(Term(0xF8),),
        two=Two((1, 3), second_score=_decimal(0x84, 0x86, 0x88),
                over=((Compare(0x81, "==", 0xFF), Compare(0x82, "==", 0xFF)),)),
    ),
    Game(
        "kangaroo",
        md5="4326edb70ff20d0ee5ba58fa5cb09d60",
        cartridge="F8",
        actions=ALL_ACTIONS,
        score=_decimal(0xA7, 0xA8, unit=100),
        lives=(Term(0xAD, mask=0x07, plus=1),),
        over=((Compare(0xAD, "==", 0xFF),),),
        modes=(0, 1),
        mode=(Term(0xA5, mask=0xF0, shift=4),),
        select_frames=1,
    ),
    Game(
        "krull",
        md5="4baada22435320d185c95b7dd2bcdb24",
        cartridge="F8",
        actions=ALL_ACTIONS,
        score=_decimal(0x9C, 0x9D, 0x9E),
        lives=(Term(0x9F, mask=0x07, plus=1),),
        over=((Compare(0x9F, "==", 0), Compare(0xA2, "==", 3), Compare(0x80, "==", 0x80)),),
    ),
    Game(
        "kung_fu_master",
        md5="5b92a93b23523ff16e2789b820e2a4c5",
        cartridge="F8",
        actions=(0, 2, 3, 4, 5, 8, 9, 11, 12, 13, 14, 15, 16, 17),
        score=_decimal(0x98, 0x99, 0x9A),
        lives=(Term(0x9D, mask=0x07, plus=1),),
        over=((Compare(0x9D, "==", 0xFF),),),
    ),
    Game(
        "mario_bros",
        md5="e908611d99890733be31733a979c62d8",
        cartridge="F8",
        actions=ALL_ACTIONS,
        score=_decimal(0x89, 0x8A, unit=100),
        lives=(Term(0x87),),
        over=((Compare(0x87, "==", 0),),),
        modes=(0, 2, 4, 6),
        mode=(Term(0x80),),
        select_frames=5,
        two=Two((1, 3, 5, 7), second_score=_decimal(0x8B, 0x8C, unit=100),
                over=((Compare(0x87, "==", 0), Compare(0x88, "==", 0)),)),
        start_actions=(0, *(1,) * 16),
    ),
    Game(
        "montezuma_revenge",
        md5="3347a6dd59049b15a38394aa2dafa585",
        cartridge="E0",
        actions=ALL_ACTIONS,
        score=_decimal(0x93, 0x94, 0x95),
        lives=(Term(0xBA, mask=0x07, plus=1),),
        over=((Compare(0xBA, "==", 0), Compare(0xFE, "==", 0x60)),),
    ),
    Game(
        "ms_pacman",
        md5="87e79cd41ce136fd4f72cc6e2c161bee",
        cartridge="F8",
        actions=(0, 2, 3, 4, 5, 6, 7, 8, 9),
        score=_decimal(0xFA, 0xF9, 0xF8),
        lives=(Term(0xFB, mask=0x07, plus=1),),
        over=((Compare(0xFB, "==", 0, mask=0x0F), Compare(0xA7, "==", 0x53)),),
        modes=(0, 1, 2, 3),
        mode=(Term(0x93, plus=1, when=(Compare(0x93, "!=", 3),)),),
        select_frames=10,
        blanks=False,
    ),
    Game(
        "name_this_game",
        md5="36306070f0c90a72461551a7a4f3a209",
        cartridge="4K",
        actions=(0, 1, 3, 4, 11, 12),
        score=_decimal(0xC4, 0xC5, 0xC6),
        lives=(Term(0xC7, mask=0x07),),
        over=((Compare(0xC7, "==", 0, mask=0x07),),),
        modes=(8, 24, 40),
        mode=(Term(0xEF, 8, plus=8),),
        mode_before=(Term(0xDE),),
        difficulties=(0, 1),
    ),
    Game(
        "phoenix",
        md5="7e52a95074a66640fcfde124fffd491a",
        cartridge="F8",
        actions=(0, 1, 3, 4, 5, 11, 12, 13),
        score=(*_decimal(0xC9, 0xC8, unit=100), Term(0xC7, 10, mask=0xF0, shift=4)),
        lives=(Term(0xCB, mask=0x07),),
        over=((Compare(0xCC, "==", 0x80),),),
    ),
    Game(
        "pitfall",
        md5="3e90cf23106f2e08b2781e41299de556",
        cartridge="4K",
        actions=ALL_ACTIONS,
        score=_decimal(0xD5, 0xD6, 0xD7),
        lives=(Term(weight=0, plus=1), Term(weight=0, plus=1, when=(Compare(0x80, "==", 0x80, mask=0xF0),)),
               Term(weight=0, plus=2, when=(Compare(0x80, "==", 0xA0, mask=0xF0),)),),
        over=((Compare(0x80, "<", 0x10), Compare(0x9E, "!=", 0)),),
        start_actions=(2,),
    ),
    Game(
        "pong",
        md5="60e0ea3cbe0913d39803477945e9e5ec",
        cartridge="2K",
        actions=(0, 1, 3, 4, 11, 12),
        score=(Term(0x8E), Term(0x8D, -1)),
        over=((Compare(0x8D, "==", 21),), (Compare(0x8E, "==", 21),),),
        modes=(0, 1),
        mode=(Term(0x96),),
        two=Two((2, 3, 8, 9, 12, 13, 18, 19, *range(22, 28), 34, 35, 38, 39, *range(42, 46))),
        difficulties=(0, 1, 2, 3),
        controller="paddles",
        swapped_ports=True,
    ),
    Game(
        "private_eye",
        md5="ef3a4f64b6494ba770862768caf04b86",
        cartridge="F8",
        actions=ALL_ACTIONS,
        score=_decimal(0xC8, 0xC9, 0xCA),
        over=((Compare(0xC2, ">=", 2),),),
        modes=(0, 1, 2, 3, 4),
        mode=(Term(0x80),),
        difficulties=(0, 1, 2, 3),
        start_actions=(2,),
    ),
    Game(
        "qbert",
        md5="484b0076816a104875e00467d431c2d2",
        cartridge="4K",
        actions=(0, 1, 2, 3, 4, 5),
        score=_decimal(0xD9, 0xDA, 0xDB),
        start_lives=4,
        loss=(Compare(0x88, "by", 0xFF),),
        over=((Compare(0x88, "==", 0xFE),), (Compare(0x88, "was", 0xFF), Compare(0x88, "==", 2))),
        reward_unless=((Compare(0x88, "==", 0xFE),), (Compare(0x88, "was", 0xFF), Compare(0x88, "==", 2))),
        difficulties=(0, 1),
        first_line=40,
    ),
    Game(
        "riverraid",
        md5="393948436d1f4cc3192410bb918f9724",
        cartridge="4K",
        actions=ALL_ACTIONS,
        score=(
            Term(0xCD, 100000, shift=3, when=(Compare(0xCD, "==", 0, mask=0x07), Compare(0xCD, "<", 0x50))),
            Term(0xCF, 10000, shift=3, when=(Compare(0xCF, "==", 0, mask=0x07), Compare(0xCF, "<", 0x50))),
            Term(0xD1, 1000, shift=3, when=(Compare(0xD1, "==", 0, mask=0x07), Compare(0xD1, "<", 0x50))),
            Term(0xD3, 100, shift=3, when=(Compare(0xD3, "==", 0, mask=0x07), Compare(0xD3, "<", 0x50))),
            Term(0xD5, 10, shift=3, when=(Compare(0xD5, "==", 0, mask=0x07), Compare(0xD5, "<", 0x50))),
            Term(0xD7, 1, shift=3, when=(Compare(0xD7, "==", 0, mask=0x07), Compare(0xD7, "<", 0x50))),
        ),
        lives=(Term(weight=0, plus=4, when=(Compare(0xC0, "==", 0x58),)),
               Term(weight=0, plus=1, when=(Compare(0xC0, "==", 0x59),)),
               Term(0xC0, shift=3, plus=1, when=(Compare(0xC0, "!=", 0x58), Compare(0xC0, "!=", 0x59))),),
        over=((Compare(0xC0, "was", 0x59), Compare(0xC0, "==", 0x58)),),
        difficulties=(0, 1),
    ),
    Game(
        "road_runner",
        md5="ce5cc62608be2cd3ed8abd844efb8919",
        cartridge="F6",
        actions=ALL_ACTIONS,
        score=_digits(0xCC, 0xCB, 0xCA, 0xC9, unit=100),
        lives=(Term(0xC4, mask=0x07, plus=1),),
        over=((Compare(0xC4, "==", 0, mask=0x07), Compare(0xB9, "!=", 0)),
              (Compare(0xC4, "==", 0, mask=0x07), Compare(0xBD, "!=", 0)),),
    ),
    Game(
        "robotank",
        md5="4f618c2429138e0280969193ed6c107e",
        cartridge="FE",
        actions=ALL_ACTIONS,
        score=(Term(0xB5), Term(0xB6, 12)),
        lives=(Term(0xA8, mask=0x0F, plus=1),),
        over=((Compare(0xA8, "==", 0), Compare(0xB4, "==", 0xFF)),),
    ),
    Game(
        "seaquest",
        md5="240bfbac5163af4df5ae713985386f92",
        cartridge="4K",
        actions=ALL_ACTIONS,
        score=_decimal(0xB8, 0xB9, 0xBA),
        lives=(Term(0xBB, plus=1),),
        over=((Compare(0xA3, "!=", 0),),),
        difficulties=(0, 1),
    ),
    Game(
        "skiing",
        md5="b76fbadc8ffb1f83e2ca08b6fb4d6c9f",
        cartridge="2K",
        actions=(0, 3, 4),
        score=(Term(0xE8, -6000), Term(0xE9, -100, bcd=True), Term(0xEA, -1, bcd=True)),
        over=((Compare(0x91, "==", 0xFF),),),
        ignored=(1, *range(10, 18)),
        start_actions=(5,) * 16,
    ),
    Game(
        "solaris",
        md5="e72eb8d4410152bdcb69e7fba327b420",
        cartridge="F6",
        actions=ALL_ACTIONS,
        score=_decimal(0xDE, 0xDD, 0xDC, unit=10),
        lives=(Term(0xD9, mask=0x0F),),
        over=((Compare(0xD9, "==", 0),),),
    ),
    Game(
        "space_invaders",
        md5="72ffbef6504b75e69ee1045af9075f66",
        cartridge="4K",
        actions=(0, 1, 3, 4, 11, 12),
        score=_decimal(0xE6, 0xE8),
        lives=(Term(0xC9),),
        over=((Compare(0xC9, "==", 0),), (Compare(0x98, ">=", 0x80),)),
        score_limit=10_000,
        modes=tuple(range(16)),
        mode=(Term(0xDC),),
        difficulties=(0, 1),
        two=Two(tuple(range(32, 64)), second_score=_decimal(0xE7, 0xE9)),
    ),
    Game(
        "space_war",
        md5="b702641d698c60bcdc922dbd8c9dd49c",
        cartridge="2K",
        actions=ALL_ACTIONS,
        score=_decimal(0xA7),
        lives=(Term(weight=0, plus=1, when=(Compare(0x80, "!=", 0), Compare(0xA7, "!=", 0x0A),
                                            Compare(0xA7, "!=", 0x10))),),
        over=((Compare(0x80, "==", 0),), (Compare(0xA7, "==", 0x0A),), (Compare(0xA7, "==", 0x10),)),
        modes=tuple(range(6, 18)),
        mode=(Term(0x83, plus=1),),
        select_frames=10,
        two=Two(tuple(range(1, 6)), score=(Term(0xA7, bcd=True), Term(0xA8, -1, bcd=True)),
                over=((Compare(0x80, "==", 0),), (Compare(0xA7, "==", 0x10),), (Compare(0xA8, "==", 0x10),))),
        display="PAL",
        height=250,
    ),
    Game(
        "star_gunner",
        md5="a3c1c70024d7aabb41381adbfb6d3b25",
        cartridge="4K",
        actions=ALL_ACTIONS,
        score=_digits(0x86, 0x85, 0x84, 0x83, unit=100),
        start_lives=5,
        lives=(Term(0x87, mask=0x0F),),
        lives_if=(Compare(0x87, "not by", 0),),
        over=((Compare(0x87, "==", 0),),),
        modes=(0, 1, 2, 3),
        mode=(Term(0xF4),),
        select_frames=1,
    ),
    Game(
        "surround",
        md5="4d7517ae69f95cfbc053be01312b7dba",
        cartridge="2K",
        actions=(0, 2, 3, 4, 5),
        score=(Term(0xF7, bcd=True), Term(0xF6, -1, bcd=True)),
        lives=(Term(weight=0, plus=1),),
        over=((Compare(0xF6, "==", 0x10),), (Compare(0xF6, "==", 0x0A),),
              (Compare(0xF7, "==", 0x10),), (Compare(0xF7, "==", 0x0A),),),
        modes=(0, 2),
        mode=(Term(0xF9, plus=-1),),
        select_frames=1,
        difficulties=(0, 1, 2, 3),
        swapped_ports=True,
        two=Two((-1, *range(3, 11))),
    ),
    Game(
        "tennis",
        md5="42cdd6a9e42a3639e190722b8ea3fc51",
        cartridge="2K",
        actions=ALL_ACTIONS,
        score=(Term(0xC7), Term(0xC8, -1), Term(0xC5), Term(0xC6, -1)),
        over=((Compare(0xC7, "==", 7),), (Compare(0xC8, "==", 7),), (Compare(0xC7, "==", 6), Compare(0xC8, "<", 5)),
              (Compare(0xC8, "==", 6), Compare(0xC7, "<", 5))),
        reward_unless=((Compare(0xC7, "not by", 0),), (Compare(0xC8, "not by", 0),)),
        reward_otherwise=(Term(weight=0, plus=1, when=(Compare(0xC7, "by", 1),)),
                          Term(weight=0, plus=-1, when=(Compare(0xC8, "by", 1),)),
                          # 6:6 is shown as 0:0
                          Term(weight=0, plus=-1, when=(Compare(0xC7, "was", 6), Compare(0xC7, "==", 0))),
                          Term(weight=0, plus=1, when=(Compare(0xC8, "was", 6), Compare(0xC8, "==", 0)))),
        modes=(0, 2),
        mode=(Term(0x80),),
        difficulties=(0, 1, 2, 3),
        two=Two((1, 3)),
    ),
    Game(
        "time_pilot",
        md5="fc2104dd2dadf9a6176c1c1c8f87ced9",
        cartridge="F8",
        actions=(0, 1, 2, 3, 4, 5, 10, 11, 12, 13),
        score=_decimal(0x8F, 0x8D, unit=100),
        start_lives=5,
        lives=(Term(0x8B, mask=0x07, plus=1),),
        lives_if=(Compare(0x80, "==", 2, mask=0x0F),),
        over=((Compare(0xA0, "!=", 0),),),
        difficulties=(0, 1, 2),
    ),
    Game(
        "tutankham",
        md5="085322bae40d904f53bdcc56df0593fc",
        cartridge="E0",
        actions=(0, 2, 3, 4, 5, 10, 11, 12),
        score=_decimal(0x9A, 0x9C),
        lives=(Term(0x9E, mask=0x03),),
        over=((Compare(0x9E, "==", 0), Compare(0x81, "!=", 0x84)),),
        modes=(0, 4, 8, 12),
        mode=(Term(0xA0),),
    ),
    Game(
        "up_n_down",
        md5="a499d720e7ee35c62424de882a3351b6",
        cartridge="F8",
        actions=(0, 1, 2, 5, 10, 13),
        score=_decimal(0x80, 0x81, 0x82),
        lives=(Term(0x86, mask=0x0F, plus=1),),
        over=((Compare(0x86, "==", 0, mask=0x0F), Compare(0x94, ">=", 0x41)),),
        difficulties=(0, 1, 2, 3),
        first_line=30,
        start_actions=(1,),
    ),
    Game(
        "venture",
        md5="3e899eba0ca8cd2972da1ae5479b4f0d",
        cartridge="4K",
        actions=ALL_ACTIONS,
        score=_decimal(0xC7, 0xC8, unit=100),
        lives=(Term(0xC6, mask=0x07, plus=1),),
        over=((Compare(0xC6, "==", 0), Compare(0xCD, "==", 0xFF), Compare(0xBF, ">=", 0x80)),),
        difficulties=(0, 1, 2, 3),
    ),
    Game(
        "video_pinball",
        md5="107cc025334211e6d29da0b6be46aec7",
        cartridge="4K",
        actions=(0, 1, 2, 3, 4, 5, 10, 11, 12),
        score=_decimal(0xB4, 0xB2, 0xB0),
        lives=(Term(0x99, -1, mask=0x07, plus=4), Term(0xA8, mask=0x01)),
        over=((Compare(0xAF, "==", 1, mask=0x01),),),
        modes=(0, 2),
        mode=(Term(0xA1, plus=-1),),
        difficulties=(0, 1),
    ),
    Game(
        "wizard_of_wor",
        md5="7e8aa18bc9502eb57daaf5e7c1e94da7",
        cartridge="4K",
        actions=(0, 1, 2, 3, 4, 5, 10, 11, 12, 13),
        score=(*_decimal(0x88, 0x86, unit=100), Term(weight=0, plus=-800_000, when=(Compare(0x88, ">=", 0x80),))),
        start_lives=3,
        lives=(Term(0x8D, mask=0x0F),),
        lives_if=(Compare(0xD7, "==", 0, mask=0x01),),
        over=((Compare(0x8D, "==", 0, mask=0x0F), Compare(0xF4, "==", 0xF8)),),
        difficulties=(0, 1),
        swapped_ports=True,
        mode=(Term(0x81),),
        two=Two((1,), second_score=_decimal(0x87, 0x85, unit=100)),
    ),
    Game(
        "yars_revenge",
        md5="c5930d0e8cdae3e037349bfa08e871be",
        cartridge="4K",
        actions=ALL_ACTIONS,
        score=_decimal(0xE0, 0xE1, 0xE2),
        lives=(Term(0x9E, mask=0xF0, shift=4),),
        over=((Compare(0x9E, "<", 0x10),),),
        modes=(0, 32, 64, 96),
        mode=(Term(0x80, 16),),
        mode_before=(Term(0x80, 16, plus=-16 * 0xC0),),
        difficulties=(0, 1),
        start_actions=(1,),
    ),
    Game(
        "zaxxon",
        md5="eea0da9b987d661264cce69a7c13c3bd",
        cartridge="F8",
        actions=ALL_ACTIONS,
        score=_decimal(0xE8, 0xE9, unit=100),
        lives=(Term(0xEA, mask=0x07),),
        over=((Compare(0xEA, "==", 0, mask=0x07),),),
        modes=(0, 8, 16, 24),
        mode=(Term(0x82),),
        select_frames=10,
    ),
)
# fmt: on

GAMES = {game.name: game for game in _GAMES}
"""Games by name, in alphabetical order."""


def of_rom(md5: str) -> Game | None:
    """Return the game of a ROM by its digest, or None if it is not in the table."""
    return next((game for game in GAMES.values() if game.md5 == md5), None)


def check_rom(registers: npt.NDArray[Any], md5: str, what: str) -> None:
    """Raise for console states of another ROM. States from before ROMs had an identity are accepted.

    Args:
        registers: ``[..., machine.SIZE]``.
        md5: Hexadecimal MD5 of the expected ROM.
        what: The owner of the registers, for the message.

    Raises:
        DefinitionError: The ROM is another one.
    """
    expected = of_rom(md5)
    found = registers[..., machine.ROM].ravel()
    for number in found[(found > 0xFF) & (found != machine.identity(md5))][:1]:
        name = next((game.name for game in GAMES.values() if machine.identity(game.md5) == number), "another game")
        raise DefinitionError(f"{what} is a state of {name}, but the game is {expected.name if expected else md5}")


UNSUPPORTED = ("maze_craze", "pitfall2", "warlords")
"""ROMs of ale-py to which rules cannot be added: see the limitations in docs/guides/atari.md."""


def game(name: str) -> Game:
    """Return the game of a name such as ``"pong"``, ``"MsPacman"`` or ``"ms_pacman"``."""
    wanted = _plain(str(name))
    for found in GAMES.values():
        if _plain(found.name) == wanted:
            return found
    of_gymnasium = re.sub(r"^ALE/|(NoFrameskip|Deterministic)?-v\d+$", "", str(name))  # an id such as ALE/Pong-v5
    known = f"The games are {', '.join(GAMES)}"
    for rom in roms.names():
        if _plain(rom) == _plain(of_gymnasium) and rom not in GAMES:
            if rom in UNSUPPORTED:
                raise DefinitionError(f"{rom} is not supported: see docs/guides/atari.md#limitations. {known}")
            raise DefinitionError(
                f"ale-py has the ROM of {rom}, but there are no rules for this game here: to add them, see "
                f"docs/guides/atari.md#adding-a-game. {known}"
            )
    raise DefinitionError(f"there is no Atari game {shown(name)}.{nearest(of_gymnasium, GAMES)} {known}")


def _plain(name: str) -> str:
    """Return a name without differences of case and separators."""
    return name.replace("_", "").replace("-", "").lower()
