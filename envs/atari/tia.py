"""The TIA: its registers. ``beam.py`` has the picture and the collisions.

A write takes effect some colour clocks later: the picture is computed up to there with the former value first. Source:
Stella Programmer's Guide (S. Wright, 1979), "The TIA": section 3 on VSYNC, VBLANK and WSYNC, 7 on RESP0 to RESBL, 8 on
HMOVE, 12 on the inputs; for delays A. Towers, "Atari TIA hardware notes".
"""

from __future__ import annotations

import numpy as np

import warpdrive as wd
from warpdrive.envs.atari import addresses, beam
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

NEVER = 0x7FFFFFFF
P0, P1, M0, M1, BALL, FIELD = (1 << i for i in range(6))
_WRITES = {
    # address: (register, bits, colour clocks until it takes effect, objects that change)
    addresses.VBLANK: (VBLANK, 0xFF, 1, 0),
    addresses.NUSIZ0: (NUSIZ0, 0xFF, 8, P0 | M0),
    addresses.NUSIZ1: (NUSIZ1, 0xFF, 8, P1 | M1),
    addresses.COLUP0: (COLUP0, 0xFE, 0, 0),
    addresses.COLUP1: (COLUP1, 0xFE, 0, 0),
    addresses.COLUPF: (COLUPF, 0xFE, 0, 0),
    addresses.COLUBK: (COLUBK, 0xFE, 0, 0),
    addresses.CTRLPF: (CTRLPF, 0xFF, 0, BALL | FIELD),
    addresses.REFP0: (REFP0, 0x08, 1, P0),
    addresses.REFP1: (REFP1, 0x08, 1, P1),
    addresses.PF0: (PLAYFIELD, 0xFF, 0, FIELD),
    addresses.PF1: (PLAYFIELD, 0xFF, 0, FIELD),
    addresses.PF2: (PLAYFIELD, 0xFF, 0, FIELD),
    addresses.RESP0: (0, 0, 0, P0),
    addresses.RESP1: (0, 0, 0, P1),
    addresses.RESM0: (0, 0, 8, M0),
    addresses.RESM1: (0, 0, 8, M1),
    addresses.RESBL: (0, 0, 0, BALL),
    addresses.GRP0: (GRP0, 0xFF, 1, P0 | P1),
    addresses.GRP1: (GRP1, 0xFF, 1, P0 | P1 | BALL),
    addresses.ENAM0: (ENAM0, 0x02, 0, M0),
    addresses.ENAM1: (ENAM1, 0x02, 0, M1),
    addresses.ENABL: (ENABL, 0x02, 0, BALL),
    **{addresses.HMP0 + i: (HMP0 + i, 0xFF, 0, 0) for i in range(5)},
    addresses.VDELP0: (VDELP0, 0x01, 0, P0),
    addresses.VDELP1: (VDELP1, 0x01, 0, P1),
    addresses.VDELBL: (VDELBL, 0x01, 0, BALL),
    addresses.RESMP0: (RESMP0, 0x02, 0, M0),
    addresses.RESMP1: (RESMP1, 0x02, 0, M1),
    addresses.HMOVE: (0, 0, 3, P0 | P1 | M0 | M1 | BALL),
    addresses.CXCLR: (0, 0, 0, 0),
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
    if place <= addresses.CXPPMM:
        beam.advance(registers, objects, screen, 3 * cycles, first_line, num_lines, drawn)
        return ((registers[COLLISIONS] >> (2 * place)) & 3) << 6 | rest
    if place <= addresses.INPT3:
        ohm = registers[PADDLES + place - addresses.INPT0]
        if ohm == 0:
            return 0x80 | rest
        if ohm < 0 or registers[VBLANK] & 0x80:
            return rest
        charged = registers[DUMP_END] + PADDLE_CYCLES * ohm // PADDLE_OHMS
        return (0x80 if cycles > charged >= 0 else 0) | rest  # ale-py: never, if due before this frame
    if place <= addresses.INPT5:
        return registers[INPT4 + place - addresses.INPT4] | rest
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
    if place == addresses.VSYNC:
        _write_vsync(registers, value, clock)
        return cycles
    if place == addresses.WSYNC:
        return end_of_line(cycles)
    is_sound = addresses.AUDC0 <= place <= addresses.AUDV1
    if is_sound or place == addresses.RSYNC or place > addresses.CXCLR:  # no register beyond the last one
        return cycles

    # the state that does not change the picture
    stored, value = np.int32(REGISTER[place]), value & np.int32(MASK[place])
    is_colour = addresses.COLUP0 <= place <= addresses.COLUBK
    if place == addresses.PF0:
        value = registers[PLAYFIELD] & 0xFFFF0 | value >> 4
    elif place == addresses.PF1:
        value = registers[PLAYFIELD] & 0xFF00F | beam.reversed_bits(value) << 4
    elif place == addresses.PF2:
        value = registers[PLAYFIELD] & 0x00FFF | value << 12
    elif is_colour:  # bit 0 is set if colours are lost in this frame
        value |= registers[stored] & 1
    elif addresses.HMP0 <= place <= addresses.HMBL:
        if place == addresses.HMM0 and registers[stored] == 7 and value == 0x60 and clock - registers[HMOVED] == 63:
            registers[STARS] = 4  # HMOVE does not find the end of the motion any more
        registers[stored] = value >> 4
        return cycles
    elif place == addresses.HMCLR:
        for which in range(5):
            registers[HMP0 + which] = 0
        return cycles
    if stored != 0 and registers[stored] == value:
        if place == addresses.GRP0:
            if registers[OLD_GRP1] == registers[GRP1]:
                return cycles
        elif place == addresses.GRP1:
            if registers[OLD_GRP0] == registers[GRP0] and registers[OLD_ENABL] == registers[ENABL]:
                return cycles
        else:
            return cycles

    # the picture until the change takes effect
    delay = np.int32(DELAY[place])
    position, phase = 0, 0
    is_reset = addresses.RESP0 <= place <= addresses.RESBL
    if addresses.PF0 <= place <= addresses.PF2:  # from the next group of four pixels on that is two clocks away or more
        delay = 2 + (-2 - clock & 3)
    elif is_reset:
        in_line = clock % CLOCKS_PER_LINE
        is_player = place <= addresses.RESP1
        position = 3 if is_player else 2
        if in_line >= BLANK_CLOCKS:
            position = (in_line - BLANK_CLOCKS + position + 2) % WIDTH
        position = _reset_during_hmove(place, clock - registers[HMOVED], in_line, position)
        if is_player:
            phase = beam.phase_of_player(registers, place - addresses.RESP0, position)
            delay = 11 if phase == 1 else 0
    if drawn or not is_colour:
        beam.advance(registers, objects, screen, clock + delay, first_line, num_lines, drawn)

    # the change
    changed = np.int32(CHANGES[place])
    if place == addresses.VBLANK:
        if registers[VBLANK] & 0x80 and value & 0x80 == 0:
            registers[DUMP_END] = cycles
    elif place == addresses.CTRLPF:
        if clock % CLOCKS_PER_LINE < BLANK_CLOCKS + WIDTH // 2 - 1:
            registers[REFLECTED] = value & 1
    elif is_reset:
        registers[POSITIONS + place - addresses.RESP0] = position
        if place <= addresses.RESP1:
            bit = 1 << (place - addresses.RESP0)
            registers[SUPPRESSED] = registers[SUPPRESSED] & ~bit if phase == -1 else registers[SUPPRESSED] | bit
    elif place == addresses.GRP0:
        registers[OLD_GRP1] = registers[GRP1]
    elif place == addresses.GRP1:
        registers[OLD_GRP0] = registers[GRP0]
        registers[OLD_ENABL] = registers[ENABL]
    elif (place == addresses.RESMP0 or place == addresses.RESMP1) and value == 0:  # to the middle of the player
        which = place - addresses.RESMP0
        size = registers[NUSIZ0 + which] & 7
        middle = 8 if size == 5 else 16 if size == 7 else 4
        registers[POSITIONS + 2 + which] = (registers[POSITIONS + which] + middle) % WIDTH
    elif place == addresses.HMOVE:
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
    elif place == addresses.CXCLR:
        registers[COLLISIONS] = 0
    if stored != 0:
        registers[stored] = value
    registers[CHANGED] |= changed
    return cycles


@wd.device_function
def _reset_during_hmove(place, elapsed, in_line, position):
    """Return the position of an object that is reset while HMOVE still moves it, in the cases that ale-py emulates."""
    if in_line - elapsed == 9:
        if in_line == 18 and (place == addresses.RESM1 or place == addresses.RESBL):
            return 3
        if place == addresses.RESBL and (in_line == 27 or in_line == 30):
            return 5 if in_line == 27 else 6
        if place == addresses.RESM0 and in_line == 69:
            return 8
    elif in_line - elapsed == 15 and place == addresses.RESBL and in_line == 69:
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
