"""The TIA: its registers. ``beam.py`` has the picture and the collisions.

A write takes effect some colour clocks later: the picture is computed up to there with the former value first. Source:
Stella Programmer's Guide (S. Wright, 1979); A. Towers, "Atari TIA hardware notes".
"""

from __future__ import annotations

import numpy as np

import warpdrive as wd
from warpdrive.envs.atari import beam
from warpdrive.envs.atari.machine import (
    BLANK_CLOCKS,
    BLANKED,
    CHANGED,
    CLOCKS_PER_LINE,
    COLLISIONS,
    COLUBK,
    COLUP0,
    COLUP1,
    COLUPF,
    CTRLPF,
    CYCLES_PER_LINE,
    DUMP_END,
    ENABL,
    ENAM0,
    ENAM1,
    FRAME_DONE,
    GRP0,
    GRP1,
    HMOVED,
    HMP0,
    INPT4,
    NUSIZ0,
    NUSIZ1,
    OLD_ENABL,
    OLD_GRP0,
    OLD_GRP1,
    PADDLES,
    PLAYFIELD,
    POSITIONS,
    REFLECTED,
    REFP0,
    REFP1,
    RESMP0,
    RESMP1,
    STARS,
    SUPPRESSED,
    VBLANK,
    VDELBL,
    VDELP0,
    VDELP1,
    VSYNC,
    VSYNC_END,
    WIDTH,
)

WSYNC = 0x02
NEVER = 0x7FFFFFFF
P0, P1, M0, M1, BALL, FIELD = (1 << i for i in range(6))
_WRITES = {
    # address: (register, bits, colour clocks until it takes effect, objects that change)
    0x01: (VBLANK, 0xFF, 1, 0),
    0x04: (NUSIZ0, 0xFF, 8, P0 | M0),
    0x05: (NUSIZ1, 0xFF, 8, P1 | M1),
    0x06: (COLUP0, 0xFE, 0, 0),
    0x07: (COLUP1, 0xFE, 0, 0),
    0x08: (COLUPF, 0xFE, 0, 0),
    0x09: (COLUBK, 0xFE, 0, 0),
    0x0A: (CTRLPF, 0xFF, 0, BALL | FIELD),
    0x0B: (REFP0, 0x08, 1, P0),
    0x0C: (REFP1, 0x08, 1, P1),
    0x0D: (PLAYFIELD, 0xFF, 0, FIELD),
    0x0E: (PLAYFIELD, 0xFF, 0, FIELD),
    0x0F: (PLAYFIELD, 0xFF, 0, FIELD),
    0x10: (0, 0, 0, P0),
    0x11: (0, 0, 0, P1),
    0x12: (0, 0, 8, M0),
    0x13: (0, 0, 8, M1),
    0x14: (0, 0, 0, BALL),
    0x1B: (GRP0, 0xFF, 1, P0 | P1),
    0x1C: (GRP1, 0xFF, 1, P0 | P1 | BALL),
    0x1D: (ENAM0, 0x02, 0, M0),
    0x1E: (ENAM1, 0x02, 0, M1),
    0x1F: (ENABL, 0x02, 0, BALL),
    **{0x20 + i: (HMP0 + i, 0xFF, 0, 0) for i in range(5)},
    0x25: (VDELP0, 0x01, 0, P0),
    0x26: (VDELP1, 0x01, 0, P1),
    0x27: (VDELBL, 0x01, 0, BALL),
    0x28: (RESMP0, 0x02, 0, M0),
    0x29: (RESMP1, 0x02, 0, M1),
    0x2A: (0, 0, 3, P0 | P1 | M0 | M1 | BALL),
    0x2C: (0, 0, 0, 0),
}
REGISTER, MASK, DELAY, CHANGES = (
    np.array([_WRITES.get(place, (0, 0, 0, 0))[i] for place in range(64)], np.uint8) for i in range(4)
)
KEEPS = (REGISTER != 0) & (REGISTER != GRP0) & (REGISTER != GRP1) & ((REGISTER < HMP0) | (REGISTER > HMP0 + 4))
"""Registers for which repeated writes of a value have no effect: not GRP0, GRP1, and those that HMCLR clears."""
PADDLE_CYCLES, PADDLE_OHMS = 119, 6250
"""Cycles per ohms: time in which the capacitor of a paddle is charged: 1.6 R C at 1.19 MHz, with C = 0.01 uF."""


@wd.device_function
def read(registers, objects, screen, address, data_bus, cycles, first_line, num_lines, drawn):
    """Return a collision latch or an input; the lower bits are the last value on the bus."""
    place = address & 0x0F
    rest = data_bus & 0x3F
    if place < 8:
        beam.advance(registers, objects, screen, 3 * cycles, first_line, num_lines, drawn)
        return ((registers[COLLISIONS] >> (2 * place)) & 3) << 6 | rest
    if place < 12:
        ohm = registers[PADDLES + place - 8]
        if ohm < 0 or registers[VBLANK] & 0x80:
            return rest
        charged = registers[DUMP_END] + PADDLE_CYCLES * ohm // PADDLE_OHMS
        return (0x80 if cycles > charged >= 0 else 0) | rest  # ale-py: never, if due before this frame
    if place < 14:
        return registers[INPT4 + place - 12] | rest
    return rest


@wd.device_function
def end_of_line(cycles):
    """Return the time until which WSYNC stops the processor."""
    return (cycles + CYCLES_PER_LINE - 1) // CYCLES_PER_LINE * CYCLES_PER_LINE


@wd.device_function
def write(
    registers, objects, screen, address, value, cycles, first_line, num_lines, last_line, drawn
):  # fmt: skip
    """Write to a register.

    Returns:
        The time after it: WSYNC stops the processor until the end of the line.
    """
    place = address & 0x3F
    clock = 3 * cycles
    if clock >= (last_line + 1) * CLOCKS_PER_LINE:
        registers[FRAME_DONE] = 1
    if place == 0x00:
        _write_vsync(registers, value, clock)
        return cycles
    if place == WSYNC:
        return end_of_line(cycles)
    if place > 0x2C or 0x15 <= place <= 0x1A or place == 0x03:  # sound, and unconnected addresses
        return cycles

    # the state that does not change the picture
    stored, value = np.int32(REGISTER[place]), value & np.int32(MASK[place])
    if place == 0x0D:
        value = registers[PLAYFIELD] & 0xFFFF0 | value >> 4
    elif place == 0x0E:
        value = registers[PLAYFIELD] & 0xFF00F | beam.reversed_bits(value) << 4
    elif place == 0x0F:
        value = registers[PLAYFIELD] & 0x00FFF | value << 12
    elif 0x06 <= place <= 0x09:  # colours; bit 0 is set if they are lost in this frame
        value |= registers[stored] & 1
    elif 0x20 <= place <= 0x24:  # HMP0 to HMBL
        if place == 0x22 and registers[stored] == 7 and value == 0x60 and clock - registers[HMOVED] == 63:
            registers[STARS] = 4  # HMOVE does not find the end of the motion any more
        registers[stored] = value >> 4
        return cycles
    elif place == 0x2B:  # HMCLR
        for which in range(5):
            registers[HMP0 + which] = 0
        return cycles
    if stored != 0 and registers[stored] == value:
        if place == 0x1B:  # GRP0
            if registers[OLD_GRP1] == registers[GRP1]:
                return cycles
        elif place == 0x1C:  # GRP1
            if registers[OLD_GRP0] == registers[GRP0] and registers[OLD_ENABL] == registers[ENABL]:
                return cycles
        else:
            return cycles

    # the picture until the change takes effect
    delay = np.int32(DELAY[place])
    position, phase = 0, 0
    if 0x0D <= place <= 0x0F:  # from the next group of four pixels on that is two clocks away or more
        delay = 2 + (-2 - clock & 3)
    elif 0x10 <= place <= 0x14:
        in_line = clock % CLOCKS_PER_LINE
        is_player = place <= 0x11
        position = 3 if is_player else 2
        if in_line >= BLANK_CLOCKS:
            position = (in_line - BLANK_CLOCKS + position + 2) % WIDTH
        position = _reset_during_hmove(place, clock - registers[HMOVED], in_line, position)
        if is_player:
            phase = beam.phase_of_player(registers, place - 0x10, position)
            delay = 11 if phase == 1 else 0
    if drawn or place < 0x06 or place > 0x09:
        beam.advance(registers, objects, screen, clock + delay, first_line, num_lines, drawn)

    # the change
    changed = np.int32(CHANGES[place])
    if place == 0x01:
        if registers[VBLANK] & 0x80 and value & 0x80 == 0:
            registers[DUMP_END] = cycles
    elif place == 0x0A:  # CTRLPF
        if clock % CLOCKS_PER_LINE < BLANK_CLOCKS + WIDTH // 2 - 1:
            registers[REFLECTED] = value & 1
    elif 0x10 <= place <= 0x14:  # RESP0 to RESBL
        registers[POSITIONS + place - 0x10] = position
        if place <= 0x11:
            bit = 1 << (place - 0x10)
            registers[SUPPRESSED] = registers[SUPPRESSED] & ~bit if phase == -1 else registers[SUPPRESSED] | bit
    elif place == 0x1B:  # GRP0
        registers[OLD_GRP1] = registers[GRP1]
    elif place == 0x1C:  # GRP1
        registers[OLD_GRP0] = registers[GRP0]
        registers[OLD_ENABL] = registers[ENABL]
    elif (place == 0x28 or place == 0x29) and value == 0:  # RESMP0, RESMP1: released in the middle of the player
        which = place - 0x28
        size = registers[NUSIZ0 + which] & 7
        middle = 8 if size == 5 else 16 if size == 7 else 4
        registers[POSITIONS + 2 + which] = (registers[POSITIONS + which] + middle) % WIDTH
    elif place == 0x2A:  # HMOVE
        in_line = clock % CLOCKS_PER_LINE
        if in_line > 222:  # moves in the blank of the next line
            in_line -= CLOCKS_PER_LINE
        registers[HMOVED], registers[STARS] = clock, 0
        blank = in_line <= 60
        if blank and registers[BLANKED] == 0:
            registers[BLANKED] = 1
        for which in range(5):
            pulses = registers[HMP0 + which] ^ 8  # of which those in the blank move the object
            left = min(pulses, (70 - in_line) >> 2) - 8 if blank else max(pulses - ((222 - in_line) >> 2), 0)
            registers[POSITIONS + which] = (registers[POSITIONS + which] - left + WIDTH) % WIDTH
    elif place == 0x2C:  # CXCLR
        registers[COLLISIONS] = 0
    if stored != 0:
        registers[stored] = value
    registers[CHANGED] |= changed
    return cycles


@wd.device_function
def _reset_during_hmove(place, elapsed, in_line, position):
    """Return the position of an object that is reset while HMOVE still moves it, in the cases that ale-py emulates."""
    if in_line - elapsed == 9:
        if in_line == 18 and (place == 0x13 or place == 0x14):
            return 3
        if place == 0x14 and (in_line == 27 or in_line == 30):
            return 5 if in_line == 27 else 6
        if place == 0x12 and in_line == 69:
            return 8
    elif in_line - elapsed == 15 and place == 0x14 and in_line == 69:
        return 10
    return position


@wd.device_function
def _write_vsync(registers, value, clock):
    """Begin or end the vertical synchronisation, whose end is the end of the frame."""
    registers[VSYNC] = value
    if value & 2:
        registers[VSYNC_END] = clock + CLOCKS_PER_LINE
    elif clock >= registers[VSYNC_END]:
        registers[VSYNC_END] = NEVER
        registers[FRAME_DONE] = 1
