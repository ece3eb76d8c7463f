"""The 6507: fetches and executes instructions until a frame is complete.

Time advances by whole instructions: all cycles of one have passed when it accesses its operand. Source: MCS6500
microcomputer family programming manual (MOS Technology, 1976).
"""

from __future__ import annotations

import numpy as np
from numba import cuda

import warpdrive as wd
from warpdrive.envs.atari import addresses, arithmetic, cartridge, decoded, frequent, riot, tia
from warpdrive.envs.atari.machine import (
    BANK,
    CYCLES,
    CYCLES_PER_LINE,
    E0,
    F6SC,
    F8SC,
    FE,
    FRAME_DONE,
    K2,
    K4,
    PC,
    A,
    P,
    X,
    Y,
)
from warpdrive.envs.atari.opcodes import DECODED

MAX_INSTRUCTIONS = 25_000
"""Instructions after which a frame is cut off, and continued by the next call."""


@wd.device_function
def _is_plain(place, kind):
    """Return True if, of kinds with parts of banks or RAM, an instruction lies within ``rom``, and switches no bank."""
    if kind == F8SC or kind == F6SC:
        return 0x100 <= place < 0xFDD  # after the RAM
    return kind == FE or (kind == E0 and place < 0xFDD and place & 0x3FF < 0x3FE)


@wd.device_function(inline=False)
def _fetch(ram, registers, cartridge_ram, rom, pc, kind):
    """Return an instruction as ``opcodes.decoded`` does. No byte after it is read, as that may switch banks."""
    opcode = decoded.peek(ram, registers, cartridge_ram, rom, pc, kind)
    entry = np.int64(DECODED[opcode])
    length = entry >> 11 & 3
    low, high = np.int64(0), np.int64(0)
    if length > 1:
        low = np.int64(decoded.peek(ram, registers, cartridge_ram, rom, pc + 1, kind))
    if length > 2:
        high = np.int64(decoded.peek(ram, registers, cartridge_ram, rom, pc + 2, kind))
    return entry << 24 | high << 16 | low << 8 | opcode


@wd.device_function(inline=False)
def _write(ram, registers, objects, screen, address, value, cycles, first_line, num_lines, last_line, drawn):
    """Write to an address of RAM, RIOT or TIA, and return the time after it."""
    if address & 0x80 == 0:
        return tia.write(registers, objects, screen, address, value, cycles, first_line, num_lines, last_line, drawn)
    if address & 0x200:
        riot.write(registers, address, value, cycles)
    else:
        ram[address & 0x7F] = value
    return cycles


@wd.device_function
def run(ram, registers, cartridge_ram, rom, objects, screen, kind, first_line, num_lines, last_line, drawn, on_gpu):
    """Execute instructions until the frame is complete, or ``MAX_INSTRUCTIONS`` of them."""
    # in registers of the host; less frequently used values stay in memory
    a, x, y, pc = registers[A], registers[X], registers[Y], registers[PC]
    cycles = registers[CYCLES]
    carry, nz = registers[P] & 1, arithmetic.unpacked_nz(registers[P])
    registers[FRAME_DONE] = 0

    # in most kinds of cartridges, instructions before this place follow each other in ``rom``, and switch no bank
    is_parted = kind == E0 or kind == FE or kind == F8SC or kind == F6SC
    plain_end = 0x1000 if kind == K2 or kind == K4 else 0 if is_parted else 0xFDD
    mask = 0x7FF if kind == K2 else 0xFFF
    frame_end = (last_line + 1) * CYCLES_PER_LINE
    written = cuda.local.array(64, np.int16)  # by register of the TIA: value whose repeated write has no effect, or -1
    for place in range(written.size):
        written[place] = -1

    remaining = MAX_INSTRUCTIONS
    while remaining > 0:
        remaining -= 1

        # fetch
        place = pc & mask
        if pc & 0x1000 and place < plain_end:
            word = rom[registers[BANK] + place & 0x7FFF]
        elif pc & 0x1000 and _is_plain(place, kind):
            word = rom[cartridge.offset(registers, pc, kind) & 0x7FFF]
        else:
            word = _fetch(ram, registers, cartridge_ram, rom, pc, kind)

        # execute
        outcome, address, result = frequent.UNKNOWN, 0, 0
        if not on_gpu:
            outcome, a, x, y, pc, cycles, carry, nz, address, result = frequent.execute(
                word, ram, registers, rom, mask, plain_end, a, x, y, pc, cycles, carry, nz
            )
        writes = outcome == frequent.WRITES
        if outcome == frequent.UNKNOWN:
            writes, a, x, y, pc, cycles, carry, nz, address, result, remaining = decoded.execute(
                word, ram, registers, cartridge_ram, rom, objects, screen, kind, mask, plain_end, first_line,
                num_lines, drawn, a, x, y, pc, cycles, carry, nz, remaining,
            )  # fmt: skip

        # write
        if writes:
            if address & 0x1000:
                cartridge.switch(registers, address, kind)
                cartridge.write(cartridge_ram, address, result, kind)
            elif address & 0x280 == 0x80:
                ram[address & 0x7F] = result
            elif address & 0xBF == addresses.WSYNC and cycles < frame_end:
                cycles = tia.end_of_line(cycles)
            elif address & 0x80 or cycles >= frame_end or written[address & 0x3F] != result:
                cycles = _write(
                    ram, registers, objects, screen, address, result, cycles, first_line, num_lines, last_line, drawn
                )  # fmt: skip
                if registers[FRAME_DONE]:
                    break
                if address & 0x80 == 0 and tia.KEEPS[address & 0x3F]:
                    written[address & 0x3F] = result

    registers[A], registers[X], registers[Y], registers[PC] = a, x, y, pc & 0xFFFF
    registers[CYCLES] = cycles
    registers[P] = arithmetic.packed(registers, nz, carry)
