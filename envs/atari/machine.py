"""Layout of ``registers``, the state of all chips of a console: an index for each value.

Times are in cycles of the processor since the beginning of the first line of the frame. A cycle is three colour clocks.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from warpdrive.errors import DefinitionError

# 6507: registers, and the time
A, X, Y, S, P, PC, CYCLES = range(7)

# cartridge: first byte of the selected bank, or of the three slices of E0
BANK = 7
SLICES = 7  # to 9

# 6532 (RIOT): I/O ports, and the timer
DDRA = 10
TIMER = 12
"""Value written to the timer."""
TIMER_SHIFT = 13
"""Binary logarithm of the interval in cycles: 0, 3, 6 or 10."""
TIMER_SET = 14
"""Time of the last write to the timer."""
TIMER_FLAG_RESET = 15
"""Time of the first read of the timer after it ran out."""
TIMER_READ = 16
"""1 if the timer was read after it ran out."""

ROM = 11
"""Identity of the cartridge's ROM, see :func:`identity`; less than 256 in states of consoles without one."""

# TIA: registers as last written
VSYNC, VBLANK = 17, 18
NUSIZ0, NUSIZ1 = 19, 20
COLUP0, COLUP1, COLUPF, COLUBK = 21, 22, 23, 24
CTRLPF, REFP0, REFP1 = 25, 26, 27
PLAYFIELD = 28
"""Playfield of the left half: PF0, PF1 and PF2 as 20 bits, the lowest one at the left."""
GRP0, GRP1, OLD_GRP0, OLD_GRP1 = 29, 30, 31, 32
ENAM0, ENAM1, ENABL, OLD_ENABL = 33, 34, 35, 36
HMP0, HMP1, HMM0, HMM1, HMBL = 37, 38, 39, 40, 41
VDELP0, VDELP1, VDELBL = 42, 43, 44
RESMP0, RESMP1 = 45, 46

# TIA: positions, and the state of the beam
POSITIONS = 47  # to 51
"""Pixel at which an object begins, 0 to 159: player 0, player 1, missile 0, missile 1, ball."""
COLLISIONS = 52
"""Latches: two bits for each of CXM0P to CXPPMM, bit 7 of the read value above bit 6."""
SUPPRESSED = 53
"""Bits 0 and 1: the first copy of that player is not drawn in the rest of the line, as its position was reset."""
CHANGED = 54
"""Bit k is set if the line of object k has to be computed again (see ``beam.py``)."""
REFLECTED = 55
"""1 if the right half of the playfield is reflected in this line."""
BLANKED = 56
"""1 if HMOVE blanks the first eight pixels of this line, -1 if it never does (as in four games, for ale-py)."""
DRAWN_UNTIL = 57
"""Colour clock up to which the picture and the collisions are computed."""
VSYNC_END = 58
"""Colour clock from which a fall of VSYNC ends the frame."""
DUMP_END = 59
"""Time at which VBLANK released the capacitors of the paddles."""

# the frame
FRAME_DONE = 60
"""1 if the frame is complete, 0 if it was cut off, and continues."""
PARITY = 61
"""Index of the frame's picture in ``screen``."""

# inputs: the pins that controllers and console switches drive
SWCHA, SWCHB, INPT4, INPT5 = 62, 63, 64, 65
PADDLES = 66  # to 69
"""Resistance of each paddle in ohm; -1 if there is none."""

# TIA: what ale-py knows of objects that are reset or changed while HMOVE moves them
HMOVED = 70
"""Colour clock of the last HMOVE."""
STARS = 71
"""4 plus the line modulo 4 if missile 0 moves in each line, as its motion changed under HMOVE; else 0."""

SIZE = 72

CYCLES_PER_LINE, CLOCKS_PER_LINE, BLANK_CLOCKS, WIDTH = 76, 228, 68, 160

# kinds of cartridges
CARTRIDGES = ("2K", "4K", "F8", "F8SC", "F6", "F6SC", "E0", "FE")
K2, K4, F8, F8SC, F6, F6SC, E0, FE = range(8)

_BYTES = (
    *(A, X, Y, S, P, DDRA, TIMER, VSYNC, VBLANK, NUSIZ0, NUSIZ1, COLUP0, COLUP1, COLUPF, COLUBK, CTRLPF, REFP0, REFP1),
    *(GRP0, GRP1, OLD_GRP0, OLD_GRP1, ENAM0, ENAM1, ENABL, OLD_ENABL, VDELP0, VDELP1, VDELBL, RESMP0, RESMP1),
    *(SWCHA, SWCHB, INPT4, INPT5),
)
# addresses and times may be anything: kernels take their lowest bits, or compare them
_LIMITS = {
    TIMER_SHIFT: (0, 10), TIMER_READ: (0, 1), PLAYFIELD: (0, 0xFFFFF),
    COLLISIONS: (0, 0xFFFF), SUPPRESSED: (0, 3), CHANGED: (0, 63), REFLECTED: (0, 1), BLANKED: (-1, 1),
    FRAME_DONE: (0, 1), PARITY: (0, 1), STARS: (0, 7),
    **dict.fromkeys(_BYTES, (0, 0xFF)),
    **dict.fromkeys(range(HMP0, HMBL + 1), (0, 15)),
    **dict.fromkeys(range(POSITIONS, POSITIONS + 5), (0, WIDTH - 1)),
    **dict.fromkeys(range(PADDLES, PADDLES + 4), (-1, 10_000_000)),
}  # fmt: skip
_LAST_BANKS = {"F8": 0x1000, "F8SC": 0x1000, "F6": 0x3000, "F6SC": 0x3000}


def identity(md5: str) -> int:
    """Return the number of a ROM in ``registers[ROM]``, from its hexadecimal MD5: at least 256."""
    return int(md5[:7], 16) + 256


@cache
def names() -> dict[int, str]:
    """Return the names of the registers by index."""
    constants = {name: value for name, value in globals().items() if name.isupper() and isinstance(value, int)}
    no_registers = {"SIZE", "CYCLES_PER_LINE", "CLOCKS_PER_LINE", "BLANK_CLOCKS", "WIDTH", "SLICES", "K2", "K4"}
    found = {i: f"registers[{i}]" for i in range(SIZE)}
    found |= {i: name for name, i in constants.items() if name not in {*no_registers, *CARTRIDGES}}
    for name, first, count in (("BANK", BANK, 3), ("POSITIONS", POSITIONS, 5), ("PADDLES", PADDLES, 4)):
        found |= {first + i: f"{name}[{i}]" for i in range(count)}
    return found


def check(registers: npt.NDArray[Any], kind: str, what: str) -> None:
    """Raise for impossible values of a console, with which kernels would access arrays out of bounds.

    Args:
        registers: ``[..., SIZE]``.
        kind: Kind of the cartridge, one of ``CARTRIDGES``.
        what: The owner of the registers, for the message.

    Raises:
        DefinitionError: A value is out of range.
    """
    slices = range(SLICES, SLICES + 3)
    limits = _LIMITS | {i: (0, 0x1C00 if kind == "E0" else 0) for i in slices}
    if kind in _LAST_BANKS:
        limits[BANK] = 0, _LAST_BANKS[kind]
    order = list(limits)
    low, high = np.array([limits[i] for i in order]).T
    values = registers.reshape(-1, SIZE)[:, order]
    wrong = np.argwhere((values < low) | (values > high))
    if len(wrong):
        row, column = wrong[0]
        where = what if registers.ndim == 1 else f"row {row} of {what}"
        raise DefinitionError(
            f"{where} is damaged: {names()[order[column]]} is {values[row, column]}, "
            f"but it must be from {low[column]} to {high[column]}"
        )
