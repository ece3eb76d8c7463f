"""The 6507: fetches, decodes and executes instructions until a frame is complete.

Time advances by whole instructions: all cycles of one have passed when it accesses its operand. Source: MCS6500
microcomputer family programming manual (MOS Technology, 1976).
"""

from __future__ import annotations

import numpy as np
from numba import cuda

import warpdrive as wd
from warpdrive.envs.atari import cartridge, riot, tia
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
    S,
    X,
    Y,
)
from warpdrive.envs.atari.opcodes import (
    ABSOLUTE,
    ADC,
    ADDS_X,
    ADDS_Y,
    ALR,
    ANC,
    AND,
    ANE,
    ARR,
    ASL,
    ASL_A,
    BIT,
    BRANCH,
    BRK,
    CLC,
    CLD,
    CLI,
    CLV,
    CMP,
    CPX,
    CPY,
    DCP,
    DEC,
    DECODED,
    DEX,
    DEY,
    EOR,
    IMPLIED,
    INC,
    INDIRECT,
    INDIRECT_X,
    INX,
    INY,
    IS_ABSOLUTE,
    IS_IN_MEMORY,
    ISC,
    JMP,
    JSR,
    LAS,
    LAX,
    LDA,
    LDX,
    LDY,
    LSR,
    LSR_A,
    LXA,
    ORA,
    PHA,
    PHP,
    PLA,
    PLP,
    READS,
    RLA,
    ROL,
    ROL_A,
    ROR,
    ROR_A,
    RRA,
    RTI,
    RTS,
    SAX,
    SBC,
    SBX,
    SEC,
    SED,
    SEI,
    SHA,
    SHX,
    SHY,
    SLO,
    SRE,
    STA,
    STX,
    STY,
    TAS,
    TAX,
    TAY,
    TSX,
    TXA,
    TXS,
    TYA,
    WRITES,
)  # fmt: skip

MAX_INSTRUCTIONS = 25_000
"""Instructions after which a frame is cut off, and continued by the next call."""


BPL, BMI, BNE, BEQ = 0, 1, 6, 7
"""Bits 5 to 7 of the opcodes of branches."""
FLAG_V, FLAG_D, FLAG_I = 0x40, 0x08, 0x04
"""Bits of the status register that are kept in ``registers[P]``."""


@wd.device_function
def _add(registers, a, value, carry):
    """Add a value and the carry to A, and set V.

    Returns:
        The sum and the carry. In decimal mode N, Z and V follow from the decimal result.
    """
    if registers[P] & FLAG_D:
        total = _decimal(a) + _decimal(value) + carry
        result, carry = _coded(total & 0xFF), 1 if total > 99 else 0
    else:
        result = a + value + carry
        carry = result >> 8
        result &= 0xFF
    _set_overflow(registers, ~(a ^ value) & (a ^ result))
    return result, carry


@wd.device_function
def _subtract(registers, a, value, carry):
    """Subtract a value and the borrow, the complement of the carry, from A, and set V.

    Returns:
        The difference and the carry. In decimal mode N, Z and V follow from the decimal result.
    """
    borrow = 1 - carry
    result = a - value - borrow
    carry = 1 if result >= 0 else 0
    result &= 0xFF
    different = a ^ value
    if registers[P] & FLAG_D:
        total = _decimal(a) - _decimal(value) - borrow
        result = _coded(total + 100 if total < 0 else total)
        different = ~different  # V is undefined there; it is the one of an addition, as games rely on ale-py's
    _set_overflow(registers, different & (a ^ result))
    return result, carry


@wd.device_function
def _decimal(byte):
    """Return the number of two decimal digits."""
    return 10 * (byte >> 4) + (byte & 15)


@wd.device_function
def _coded(number):
    """Return the last two decimal digits of a number."""
    number %= 100
    return number // 10 << 4 | number % 10


@wd.device_function
def _set_overflow(registers, sign):
    """Set V to bit 7 of a number."""
    registers[P] = registers[P] & ~FLAG_V | (sign & 0x80) >> 1


@wd.device_function
def _packed(registers, nz, carry):
    """Return the status register, with B set."""
    return (
        (0x80 if nz & 0x180 else 0) | registers[P] & (FLAG_V | FLAG_D | FLAG_I) | 0x30 | (0 if nz & 0xFF else 2) | carry
    )


@wd.device_function
def _unpacked_nz(status):
    """Return a number for N and Z: Z is set if its lowest 8 bits are 0, N if bit 7 or 8 is set."""
    return (status & 0x80) << 1 | (status & 2 ^ 2)


@wd.device_function
def _is_plain(place, kind):
    """Return True if, of kinds with parts of banks or RAM, an instruction lies within ``rom``, and switches no bank."""
    if kind == F8SC or kind == F6SC:
        return 0x100 <= place < 0xFDD  # after the RAM
    return kind == FE or (kind == E0 and place < 0xFDD and place & 0x3FF < 0x3FE)


@wd.device_function(inline=False)
def _peek(ram, registers, cartridge_ram, rom, address, kind):
    """Return the byte of a program at an address of the cartridge or of RAM."""
    if address & 0x1000:
        cartridge.switch(registers, address, kind)
        return cartridge.read(cartridge_ram, rom, registers, address, kind)
    return np.int32(ram[address & 0x7F])


@wd.device_function(inline=False)
def _fetch(ram, registers, cartridge_ram, rom, pc, kind):
    """Return an instruction as ``opcodes.decoded`` does. No byte after it is read, as that may switch banks."""
    opcode = _peek(ram, registers, cartridge_ram, rom, pc, kind)
    entry = np.int64(DECODED[opcode])
    length = entry >> 11 & 3
    low, high = np.int64(0), np.int64(0)
    if length > 1:
        low = np.int64(_peek(ram, registers, cartridge_ram, rom, pc + 1, kind))
    if length > 2:
        high = np.int64(_peek(ram, registers, cartridge_ram, rom, pc + 2, kind))
    return entry << 24 | high << 16 | low << 8 | opcode


@wd.device_function(inline=False)
def _read(ram, registers, objects, screen, address, data_bus, cycles, first_line, num_lines, drawn):
    """Return the byte at an address of RAM, RIOT or TIA."""
    if address & 0x80 == 0:
        return tia.read(registers, objects, screen, address, data_bus, cycles, first_line, num_lines, drawn)
    if address & 0x200:
        return riot.read(registers, address, cycles)
    return np.int32(ram[address & 0x7F])


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
def _wait_for_timer(registers, operation, following, pc, cycles, remaining, value):
    """Execute a loop of two instructions that waits for the timer, up to its last turn.

    Many games spend the blank lines in such a loop: an instruction that loads the timer, and a branch back to it.

    Args:
        registers: State of the chips.
        operation: Operation of the first instruction, which has three bytes and takes four cycles.
        following: Next instruction.
        pc: Address of the next instruction.
        cycles: Time of the read.
        remaining: Number of instructions until the frame is cut off.
        value: The value read.

    Returns:
        ``cycles``, ``remaining`` and ``value`` of the last read.
    """
    entry = np.int32(following >> 24)
    is_load = operation == LDA or operation == LDX or operation == LDY
    if is_load and entry & 0x7F == BRANCH and following >> 8 & 0xFF == 0x100 - 5:
        condition = entry >> 24 & 7
        turn = 4 + (4 if (pc + 2 ^ pc - 3) & 0xFF00 else 3)
        ends = cycles
        if condition == BNE or condition == BPL:  # until the timer is zero, or below
            ends = riot.time_of(registers, 0 if condition == BNE else -1)
        while remaining > 2 and (
            (condition == BPL and value < 0x80)
            or (condition == BMI and value >= 0x80)
            or (condition == BNE and value != 0)
            or (condition == BEQ and value == 0)
        ):
            turns = 1
            if ends > cycles:  # the turns before are all alike
                turns = min((ends - cycles + turn - 1) // turn, (remaining - 1) // 2)
            cycles += turns * turn
            remaining -= 2 * turns
            value = riot.timer(registers, cycles)
    return cycles, remaining, value


@wd.device_function
def run(ram, registers, cartridge_ram, rom, objects, screen, kind, first_line, num_lines, last_line, drawn):
    """Execute instructions until the frame is complete, or ``MAX_INSTRUCTIONS`` of them."""
    # in registers of the host; less frequently used values stay in memory
    a, x, y, pc = registers[A], registers[X], registers[Y], registers[PC]
    cycles = registers[CYCLES]
    carry, nz = registers[P] & 1, _unpacked_nz(registers[P])
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
        low, operand = np.int32(word >> 8) & 0xFF, np.int32(word >> 8) & 0xFFFF
        high = operand >> 8
        entry = np.int32(word >> 24)
        operation = entry & 0x7F
        pc += entry >> 11 & 3
        cycles += entry >> 14 & 0xF

        # address of the operand
        index = 0
        if entry & ADDS_X:
            index = x
        if entry & ADDS_Y:
            index = y
        address, value = operand + index & (entry >> 16 & 0xFF00 | 0xFF), low
        cycles += low + index >> 8 & entry >> 20 & 1
        if entry & IS_IN_MEMORY:
            mode = entry >> 7 & 0xF
            if mode == IMPLIED:
                address = registers[S]
                if address & 0x80:
                    low = np.int32(ram[address & 0x7F])  # the chip reads it before it increments S
                high = low
                address = (address + 1) & 0xFF
                registers[S] = address
            elif mode == INDIRECT_X:
                pointer = low + x
                low, high = np.int32(ram[pointer & 0x7F]), np.int32(ram[pointer + 1 & 0x7F])
                address = high << 8 | low
            else:
                low, high = np.int32(ram[low & 0x7F]), np.int32(ram[low + 1 & 0x7F])
                address = ((high << 8) + low + y) & 0xFFFF
                cycles += low + y >> 8 & entry >> 20 & 1

        # operand
        if entry & READS:
            if address & 0x1000:
                cartridge.switch(registers, address, kind)
                value = cartridge.read(cartridge_ram, rom, registers, address, kind)
            elif address & 0x280 == 0x80:
                value = np.int32(ram[address & 0x7F])
            else:
                data_bus = high if entry & (IS_IN_MEMORY | IS_ABSOLUTE) else low
                value = _read(
                    ram, registers, objects, screen, address, data_bus, cycles, first_line, num_lines, drawn
                )  # fmt: skip
                place, is_timer = pc & mask, address & riot.IS_TIMER == riot.INTIM
                if is_timer and entry >> 7 & 0xF == ABSOLUTE and pc & 0x1000 and place < plain_end:
                    word = rom[registers[BANK] + place & 0x7FFF]
                    cycles, remaining, value = _wait_for_timer(registers, operation, word, pc, cycles, remaining, value)

        # operation
        result = 0
        if operation == LDA:
            a = value
            nz = value
        elif operation == LDX:
            x = value
            nz = value
        elif operation == LDY:
            y = value
            nz = value
        elif operation == STA:
            result = a
        elif operation == STX:
            result = x
        elif operation == STY:
            result = y
        elif operation == BRANCH:  # bits of the entry select a flag, and its state
            flags = (nz & 0x180 != 0) | (registers[P] & FLAG_V != 0) << 1 | carry << 2 | (nz & 0xFF == 0) << 3
            if (flags >> (entry >> 25 & 3) ^ entry >> 24) & 1 == 0:
                target = (pc + (low ^ 0x80) - 0x80) & 0xFFFF
                cycles += 2 if (target ^ pc) & 0xFF00 else 1
                pc = target
        elif operation == DEX:
            x = (x - 1) & 0xFF
            nz = x
        elif operation == DEY:
            y = (y - 1) & 0xFF
            nz = y
        elif operation == INX:
            x = (x + 1) & 0xFF
            nz = x
        elif operation == INY:
            y = (y + 1) & 0xFF
            nz = y
        elif operation == CMP or operation == CPX or operation == CPY:
            register = a if operation == CMP else x if operation == CPX else y
            carry = 1 if register >= value else 0
            nz = (register - value) & 0xFF
        elif operation == AND:
            a &= value
            nz = a
        elif operation == ORA:
            a |= value
            nz = a
        elif operation == EOR:
            a ^= value
            nz = a
        elif operation == ADC:
            a, carry = _add(registers, a, value, carry)
            nz = a
        elif operation == SBC:
            a, carry = _subtract(registers, a, value, carry)
            nz = a
        elif operation == BIT:
            nz = (value & 0x80) << 1 | a & value
            _set_overflow(registers, value << 1)
        elif operation == INC:
            result = (value + 1) & 0xFF
            nz = result
        elif operation == DEC:
            result = (value - 1) & 0xFF
            nz = result
        elif operation == ASL:
            carry, result = value >> 7, value << 1 & 0xFF
            nz = result
        elif operation == LSR:
            carry, result = value & 1, value >> 1
            nz = result
        elif operation == ROL:
            result, carry = (value << 1 | carry) & 0xFF, value >> 7
            nz = result
        elif operation == ROR:
            result, carry = value >> 1 | carry << 7, value & 1
            nz = result
        elif operation == ASL_A:
            carry, a = a >> 7, a << 1 & 0xFF
            nz = a
        elif operation == LSR_A:
            carry, a = a & 1, a >> 1
            nz = a
        elif operation == ROL_A:
            a, carry = (a << 1 | carry) & 0xFF, a >> 7
            nz = a
        elif operation == ROR_A:
            a, carry = a >> 1 | carry << 7, a & 1
            nz = a
        elif operation == TAX:
            x = a
            nz = x
        elif operation == TAY:
            y = a
            nz = y
        elif operation == TXA:
            a = x
            nz = a
        elif operation == TYA:
            a = y
            nz = a
        elif operation == TSX:
            x = registers[S]
            nz = x
        elif operation == TXS:
            registers[S] = x
        elif operation == CLC:
            carry = 0
        elif operation == SEC:
            carry = 1
        elif operation == CLD:
            registers[P] &= ~FLAG_D
        elif operation == SED:
            registers[P] |= FLAG_D
        elif operation == CLV:
            registers[P] &= ~FLAG_V
        elif operation == CLI:
            registers[P] &= ~FLAG_I
        elif operation == SEI:
            registers[P] |= FLAG_I
        elif operation == JMP:
            pc = address
            if entry >> 7 & 0xF == INDIRECT:
                following = address & 0xFF00 | (address + 1) & 0xFF  # the carry is lost
                pc = _peek(ram, registers, cartridge_ram, rom, address, kind)
                pc |= _peek(ram, registers, cartridge_ram, rom, following, kind) << 8
        elif operation == PHA or operation == PHP:
            result = a
            if operation == PHP:
                result = _packed(registers, nz, carry)
            address = registers[S]
            registers[S] = (address - 1) & 0xFF
        elif operation == PLA:
            a = value
            nz = a
        elif operation == PLP:
            registers[P] = value
            carry, nz = value & 1, _unpacked_nz(value)
        elif operation == JSR:  # programs with subroutines have their stack in RAM
            s = registers[S]
            ram[s & 0x7F], ram[(s - 1) & 0x7F] = (pc - 1) >> 8 & 0xFF, (pc - 1) & 0xFF
            registers[S] = (s - 2) & 0xFF
            pc = address
        elif operation == RTS:
            s = registers[S]
            pc = (np.int32(ram[(s + 1) & 0x7F]) + (np.int32(ram[(s + 2) & 0x7F]) << 8) + 1) & 0xFFFF
            registers[S] = (s + 2) & 0xFF
        elif operation == BRK:
            s = registers[S]
            ram[s & 0x7F], ram[(s - 1) & 0x7F] = (pc + 1) >> 8 & 0xFF, (pc + 1) & 0xFF
            ram[(s - 2) & 0x7F] = _packed(registers, nz, carry)
            registers[S] = (s - 3) & 0xFF
            registers[P] |= FLAG_I
            start = cartridge.offset(registers, 0xFFFE, kind)
            pc = np.int32(rom[start] & 0xFF) | np.int32(rom[start + 1] & 0xFF) << 8
        elif operation == RTI:
            s = registers[S]
            value = np.int32(ram[(s + 1) & 0x7F])
            registers[P] = value
            carry, nz = value & 1, _unpacked_nz(value)
            pc = np.int32(ram[(s + 2) & 0x7F]) | np.int32(ram[(s + 3) & 0x7F]) << 8
            registers[S] = (s + 3) & 0xFF
        elif operation == LAX:
            a = x = value
            nz = value
        elif operation == SAX:
            result = a & x
        elif operation == DCP:
            result = (value - 1) & 0xFF
            carry = 1 if a >= result else 0
            nz = (a - result) & 0xFF
        elif operation == ISC:
            result = (value + 1) & 0xFF
            a, carry = _subtract(registers, a, result, carry)
            nz = a
        elif operation == SLO:
            carry, result = value >> 7, value << 1 & 0xFF
            a |= result
            nz = a
        elif operation == RLA:
            result, carry = (value << 1 | carry) & 0xFF, value >> 7
            a &= result
            nz = a
        elif operation == SRE:
            carry, result = value & 1, value >> 1
            a ^= result
            nz = a
        elif operation == RRA:
            result, carry = value >> 1 | carry << 7, value & 1
            a, carry = _add(registers, a, result, carry)
            nz = a
        elif operation == ANC:
            a &= value
            carry = a >> 7
            nz = a
        elif operation == ALR:
            a &= value
            carry, a = a & 1, a >> 1
            nz = a
        elif operation == ARR:
            a = (a & value) >> 1 | carry << 7
            carry = a >> 6 & 1
            _set_overflow(registers, (a << 1 ^ a << 2) & 0x80)
            nz = a
        elif operation == ANE:
            a = (a | 0xEE) & x & value
            nz = a
        elif operation == LXA:
            a = x = (a | 0xEE) & value
            nz = a
        elif operation == SBX:
            carry = 1 if a & x >= value else 0
            x = ((a & x) - value) & 0xFF
            nz = x
        elif operation == LAS:
            a = x = registers[S] & value
            registers[S] = a
            nz = a
        elif operation == SHA:
            result = a & x & (high + 1)
        elif operation == SHX:
            result = x & (high + 1)
        elif operation == SHY:
            result = y & (high + 1)
        elif operation == TAS:
            registers[S] = a & x
            result = a & x & (high + 1)

        # result
        if entry & WRITES:
            if address & 0x1000:
                cartridge.switch(registers, address, kind)
                cartridge.write(cartridge_ram, address, result, kind)
            elif address & 0x280 == 0x80:
                ram[address & 0x7F] = result
            elif address & 0xBF == tia.WSYNC and cycles < frame_end:
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
    registers[P] = _packed(registers, nz, carry)
