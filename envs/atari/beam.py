"""The TIA's picture and collisions, computed for all pixels of an object at once.

A line of an object is 160 bits, in four words of 40 (``objects[object, word]``, int64): players, missiles, the ball and
the playfield. Objects collide where the conjunction of their bits is not zero, so that frames that are not displayed
need no pixels. ``advance`` computes what the beam has passed, and before it the words of the objects whose registers
have changed (bits of ``registers[CHANGED]``).

Source: Stella Programmer's Guide (S. Wright, 1979), "The TIA", sections 4 (colours), 5 (playfield), 6 (players,
missiles and ball), 9 (priorities) and 10 (collisions).
"""

from __future__ import annotations

import numpy as np
from numba import cuda

import warpdrive as wd
from warpdrive.envs.atari.machine import (
    BLANK_CLOCKS,
    BLANKED,
    CHANGED,
    CLOCKS_PER_LINE,
    COLLISIONS,
    COLUBK,
    COLUP0,
    COLUPF,
    CTRLPF,
    DRAWN_UNTIL,
    ENABL,
    ENAM0,
    GRP0,
    NUSIZ0,
    OLD_ENABL,
    OLD_GRP0,
    PARITY,
    PLAYFIELD,
    POSITIONS,
    REFLECTED,
    REFP0,
    RESMP0,
    STARS,
    SUPPRESSED,
    VBLANK,
    VDELBL,
    VDELP0,
    WIDTH,
)

P0, P1, M0, M1, BALL, FIELD = range(6)
WORD = 40
ALL = (1 << WORD) - 1
COPIES = np.array([0b1, 0b11, 0b101, 0b111, 0b10001, 0b1, 0b10101, 0b1], np.uint8)
"""By NUSIZ: bit k is set if there is a copy of the player and its missile 16 k pixels to the right."""
DOUBLE, QUADRUPLE = 5, 7


def _repeated(width: int) -> np.ndarray:
    """Return a table of the nibbles with each bit repeated ``width`` times."""
    bits = [sum(((1 << width) - 1) << (width * i) for i in range(4) if nibble >> i & 1) for nibble in range(16)]
    return np.array(bits, np.uint16)


REPEATED_2, REPEATED_4 = _repeated(2), _repeated(4)
REVERSED = np.array([int(f"{value:08b}"[::-1], 2) for value in range(256)], np.uint8)


@wd.device_function
def reversed_bits(value):
    """Return a byte with its bits in the reverse order."""
    return np.int64(REVERSED[value])


@wd.device_function
def _put(objects, which, pattern, pixel):
    """Add up to 40 pixels to the line of an object, the lowest bit at ``pixel``, around the edge of the screen."""
    word, shift = pixel // WORD, pixel % WORD
    objects[which, word] |= (pattern << shift) & ALL
    objects[which, (word + 1) & 3] |= pattern >> (WORD - shift)


@wd.device_function
def _clear(objects, which):
    for word in range(4):
        objects[which, word] = 0


@wd.device_function
def _place_player(registers, objects, which):
    """Compute the line of player 0 or 1."""
    _clear(objects, P0 + which)
    graphics = registers[OLD_GRP0 + which] if registers[VDELP0 + which] else registers[GRP0 + which]
    if graphics == 0:
        return
    pattern = graphics if registers[REFP0 + which] else reversed_bits(graphics)
    size = registers[NUSIZ0 + which] & 7
    position = registers[POSITIONS + which]
    if size == DOUBLE:
        pattern = np.int64(REPEATED_2[pattern & 15]) | np.int64(REPEATED_2[pattern >> 4]) << 8
        position += 1
    elif size == QUADRUPLE:
        pattern = np.int64(REPEATED_4[pattern & 15]) | np.int64(REPEATED_4[pattern >> 4]) << 16
        position += 1
    copies = np.int64(COPIES[size])
    if registers[SUPPRESSED] >> which & 1:
        copies &= ~1
    for copy in range(5):
        if copies >> copy & 1:
            _put(objects, P0 + which, pattern, (position + 16 * copy) % WIDTH)


@wd.device_function
def _place_missile(registers, objects, which):
    """Compute the line of missile 0 or 1."""
    _clear(objects, M0 + which)
    if registers[ENAM0 + which] == 0 or registers[RESMP0 + which]:
        return
    size = registers[NUSIZ0 + which]
    if which == 0 and registers[STARS]:
        line = registers[STARS] & 3
        if line == 2:
            return
        if line == 1:
            size |= 0x10
    pattern = (1 << (1 << (size >> 4 & 3))) - 1
    copies = np.int64(COPIES[size & 7])
    for copy in range(5):
        if copies >> copy & 1:
            _put(objects, M0 + which, pattern, (registers[POSITIONS + 2 + which] + 16 * copy) % WIDTH)


@wd.device_function
def _place_ball(registers, objects):
    """Compute the line of the ball."""
    _clear(objects, BALL)
    if registers[OLD_ENABL] if registers[VDELBL] else registers[ENABL]:
        _put(objects, BALL, (1 << (1 << (registers[CTRLPF] >> 4 & 3))) - 1, registers[POSITIONS + 4])


@wd.device_function
def _place_playfield(registers, objects):
    """Compute the line of the playfield: each of 20 bits is four pixels, and the right half is a copy or an image."""
    bits = registers[PLAYFIELD]
    low, high = _ten(bits & 0x3FF), _ten(bits >> 10)
    objects[FIELD, 0], objects[FIELD, 1] = low, high
    if registers[REFLECTED]:
        bits = reversed_bits(bits & 0xFF) << 12 | reversed_bits(bits >> 8 & 0xFF) << 4 | reversed_bits(bits >> 12) & 0xF
        low, high = _ten(bits & 0x3FF), _ten(bits >> 10)
    objects[FIELD, 2], objects[FIELD, 3] = low, high


@wd.device_function
def _ten(bits):
    """Return ten bits, each repeated four times."""
    return (
        np.int64(REPEATED_4[bits & 15])
        | np.int64(REPEATED_4[bits >> 4 & 15]) << 16
        | np.int64(REPEATED_4[bits >> 8]) << 32
    )


@wd.device_function
def phase_of_player(registers, which, position):
    """Return the effect of a reset of a player's position to ``position``.

    Returns:
        -1 if a copy is about to be drawn, and begins at the new position; 1 if one is being drawn, which goes on; 0
        otherwise.
    """
    size = registers[NUSIZ0 + which] & 7
    width = 16 if size == DOUBLE else 32 if size == QUADRUPLE else 8
    copies = np.int64(COPIES[size])
    phase = 0
    for copy in range(5):
        if copies >> copy & 1:
            passed = (position - registers[POSITIONS + which] - 16 * copy + 2 * WIDTH) % WIDTH
            if passed < 4:
                phase = -1
            elif passed < 4 + width:
                phase = 1
    return phase


@wd.device_function
def _place(registers, objects):
    """Compute the lines of the objects that have changed."""
    changed = registers[CHANGED]
    for which in range(2):
        if changed >> (P0 + which) & 1:
            _place_player(registers, objects, which)
        if changed >> (M0 + which) & 1:
            _place_missile(registers, objects, which)
    if changed >> BALL & 1:
        _place_ball(registers, objects)
    if changed >> FIELD & 1:
        _place_playfield(registers, objects)
    registers[CHANGED] = 0


@wd.device_function
def advance(registers, objects, screen, clock, first_line, num_lines, drawn):
    """Compute picture and collisions of the visible lines up to a colour clock."""
    first = first_line * CLOCKS_PER_LINE
    begin, end = max(registers[DRAWN_UNTIL], first - 1), min(clock, first + num_lines * CLOCKS_PER_LINE)
    if end <= first or end <= begin:
        return
    line = begin // CLOCKS_PER_LINE
    while begin < end:
        line_begin = line * CLOCKS_PER_LINE
        stop = min(end, line_begin + CLOCKS_PER_LINE)
        left, right = max(begin - line_begin - BLANK_CLOCKS, 0), stop - line_begin - BLANK_CLOCKS
        if left < right and line >= first_line:
            if registers[VBLANK] & 2:
                if drawn:
                    _fill(registers, screen, line - first_line, left, right, 0)
            else:
                if registers[CHANGED]:
                    _place(registers, objects)
                if drawn:
                    _fill(registers, screen, line - first_line, left, right, registers[COLUBK])
                for word in range(left // WORD, (right - 1) // WORD + 1):
                    _draw_word(registers, objects, screen, line - first_line, word, left, right, drawn)
                if drawn and left < 8 and registers[BLANKED] == 1:
                    _fill(registers, screen, line - first_line, left, min(right, 8), 0)
        if stop == line_begin + CLOCKS_PER_LINE:  # the end of what holds for one line
            if registers[BLANKED] == 1 and line >= first_line:
                registers[BLANKED] = 0
            if registers[STARS]:  # 17 pixels a line, but for the phase of the missile's own counter
                phase = registers[STARS] + 1 & 3
                left = 33 if phase == 1 else 0 if phase == 2 else 17 if phase == 3 else 18
                registers[POSITIONS + 2] = (registers[POSITIONS + 2] - left + WIDTH) % WIDTH
                registers[STARS] = 4 | phase
                registers[CHANGED] |= 1 << M0
            registers[CHANGED] |= registers[SUPPRESSED]
            registers[SUPPRESSED] = 0
            if registers[REFLECTED] != registers[CTRLPF] & 1:
                registers[REFLECTED] = registers[CTRLPF] & 1
                registers[CHANGED] |= 1 << FIELD
        begin = stop
        line += 1
    registers[DRAWN_UNTIL] = end


@wd.device_function
def _fill(registers, screen, row, left, right, colour):
    line = screen[registers[PARITY] & 1, row & 0xFF]
    left &= 0xFF  # known to be positive
    for offset in range((right & 0xFF) - left):
        line[left + offset] = colour


@wd.device_function
def _draw(registers, screen, row, first, bits, colour):
    """Draw the pixels of a word whose bits are set, run by run."""
    while bits != 0:
        begin = cuda.ffs(bits) - 1
        end = begin + cuda.ffs(~(bits >> begin)) - 1
        _fill(registers, screen, row, first + begin, first + end, colour)
        bits = bits >> end << end


@wd.device_function
def _draw_word(registers, objects, screen, row, word, left, right, drawn):
    """Compute the pixels from ``left`` to ``right`` that are in a word."""
    first = word * WORD
    low, high = max(left - first, 0), min(right - first, WORD)
    span = (ALL >> (WORD - (high - low))) << low
    p0, p1 = objects[P0, word] & span, objects[P1, word] & span
    m0, m1 = objects[M0, word] & span, objects[M1, word] & span
    ball, field = objects[BALL, word] & span, objects[FIELD, word] & span
    if not drawn and p0 | p1 | m0 | m1 | ball == 0:
        return

    latches = 0
    if m0 != 0:
        latches |= (m0 & p1 != 0) << 1 | (m0 & p0 != 0) | (m0 & field != 0) << 9 | (m0 & ball != 0) << 8
        latches |= (m0 & m1 != 0) << 14
    if m1 != 0:
        latches |= (m1 & p0 != 0) << 3 | (m1 & p1 != 0) << 2 | (m1 & field != 0) << 11 | (m1 & ball != 0) << 10
    if p0 != 0:
        latches |= (p0 & field != 0) << 5 | (p0 & ball != 0) << 4 | (p0 & p1 != 0) << 15
    if p1 != 0:
        latches |= (p1 & field != 0) << 7 | (p1 & ball != 0) << 6
    if ball & field != 0:
        latches |= 1 << 13
    if latches != 0:
        registers[COLLISIONS] |= latches

    if drawn:
        control = registers[CTRLPF]
        colour = registers[COLUPF]
        if control & 6 == 2:  # score mode: each half in the colour of its player
            colour = registers[COLUP0 + word // 2]
        if control & 4 == 0:
            _draw(registers, screen, row, first, ball, registers[COLUPF])
            _draw(registers, screen, row, first, field, colour)
        _draw(registers, screen, row, first, p1 | m1, registers[COLUP0 + 1])
        _draw(registers, screen, row, first, p0 | m0, registers[COLUP0])
        if control & 4:
            _draw(registers, screen, row, first, field | ball, colour)
