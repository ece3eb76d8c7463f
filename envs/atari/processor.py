"""The 6507: fetches, decodes and executes instructions until a frame is complete.

Time advances by whole instructions: all cycles of one have passed when it accesses its operand. Source: MCS6500
microcomputer family programming manual (MOS Technology, 1976).
"""

from __future__ import annotations

import numpy as np

import warpdrive as wd
from warpdrive.envs.atari import cartridge, riot, tia
from warpdrive.envs.atari.machine import (
    CYCLES,
    E0,
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
    ABSOLUTE_X,
    ABSOLUTE_Y,
    ADC,
    ALR,
    ANC,
    AND,
    ANE,
    ARR,
    ASL,
    ASL_A,
    BCC,
    BCS,
    BEQ,
    BIT,
    BMI,
    BNE,
    BPL,
    BRK,
    BVC,
    BVS,
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
    IMMEDIATE,
    IMPLIED,
    INC,
    INDIRECT,
    INDIRECT_X,
    INX,
    INY,
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
    MODIFY,
    ORA,
    PHA,
    PHP,
    PLA,
    PLP,
    READ,
    RELATIVE,
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
    WRITE,
    ZERO_PAGE,
    ZERO_PAGE_X,
    ZERO_PAGE_Y,
)  # fmt: skip

MAX_INSTRUCTIONS = 25_000
"""Instructions after which a frame is cut off, and continued by the next call."""


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
    """Return True if reading an instruction switches no bank, and its bytes lie one after the other in ``rom``."""
    if kind == K2 or kind == K4 or kind == FE:
        return True
    if kind == E0:
        return place < 0xFDD and place & 0x3FF < 0x3FE
    return place < 0xFDD


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
    length = entry >> 11 & 7
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
def run(ram, registers, cartridge_ram, rom, objects, screen, kind, first_line, num_lines, last_line, drawn):
    """Execute instructions until the frame is complete, or ``MAX_INSTRUCTIONS`` of them."""
    # in registers of the host; what instructions use less often stays in memory
    a, x, y, pc = registers[A], registers[X], registers[Y], registers[PC]
    cycles = registers[CYCLES]
    carry, nz = registers[P] & 1, _unpacked_nz(registers[P])
    registers[FRAME_DONE] = 0

    for _instruction in range(MAX_INSTRUCTIONS):
        # fetch
        place = pc & 0xFFF
        if pc & 0x1000 and _is_plain(place, kind):
            word = rom[cartridge.offset(registers, pc, kind)]
        else:
            word = _fetch(ram, registers, cartridge_ram, rom, pc, kind)
        low, high = np.int32(word >> 8) & 0xFF, np.int32(word >> 16) & 0xFF
        entry = np.int32(word >> 24)
        operation, mode, access = entry & 0x7F, entry >> 7 & 0xF, entry >> 18 & 3
        cycles += entry >> 14 & 0xF

        # address of the operand. Each mode advances PC by a constant: as the host predicts branches, it can fetch the
        # next instruction before it knows the length of this one
        address, value = low, low
        if mode == IMPLIED:
            pc += 1
            if operation == PLA or operation == PLP:
                address = registers[S]
                if address & 0x80:
                    low = np.int32(ram[address & 0x7F])  # the chip reads it before it increments S
                address = (address + 1) & 0xFF
                registers[S] = address
        elif mode == IMMEDIATE or mode == ZERO_PAGE or mode == RELATIVE:
            pc += 2
        elif mode == ZERO_PAGE_X:
            pc += 2
            address = (low + x) & 0xFF
        elif mode == ZERO_PAGE_Y:
            pc += 2
            address = (low + y) & 0xFF
        elif mode == ABSOLUTE or mode == INDIRECT:
            pc += 3
            address = high << 8 | low
        elif mode == ABSOLUTE_X or mode == ABSOLUTE_Y:
            pc += 3
            index = x if mode == ABSOLUTE_X else y
            address = ((high << 8) + low + index) & 0xFFFF
            if low + index > 0xFF:
                cycles += entry >> 20
        elif mode == INDIRECT_X:
            pc += 2
            pointer = low + x
            low, high = np.int32(ram[pointer & 0x7F]), np.int32(ram[pointer + 1 & 0x7F])
            address = high << 8 | low
        else:
            pc += 2
            low, high = np.int32(ram[low & 0x7F]), np.int32(ram[low + 1 & 0x7F])
            address = ((high << 8) + low + y) & 0xFFFF
            if low + y > 0xFF:
                cycles += entry >> 20

        # operand
        if mode != IMMEDIATE and (access == READ or access == MODIFY):
            if address & 0x1000:
                cartridge.switch(registers, address, kind)
                value = cartridge.read(cartridge_ram, rom, registers, address, kind)
            elif address & 0x280 == 0x80:
                value = np.int32(ram[address & 0x7F])
            else:
                value = _read(
                    ram, registers, objects, screen, address, low if mode <= ZERO_PAGE_Y else high, cycles,
                    first_line, num_lines, drawn,
                )  # fmt: skip

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
        elif BPL <= operation <= BEQ:
            if operation == BPL:
                taken = nz & 0x180 == 0
            elif operation == BMI:
                taken = nz & 0x180 != 0
            elif operation == BVC:
                taken = registers[P] & FLAG_V == 0
            elif operation == BVS:
                taken = registers[P] & FLAG_V != 0
            elif operation == BCC:
                taken = carry == 0
            elif operation == BCS:
                taken = carry != 0
            elif operation == BNE:
                taken = nz & 0xFF != 0
            else:
                taken = nz & 0xFF == 0
            if taken:
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
            if mode == INDIRECT:
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
        if access >= WRITE:
            if address & 0x1000:
                cartridge.switch(registers, address, kind)
                cartridge.write(cartridge_ram, address, result, kind)
            elif address & 0x280 == 0x80:
                ram[address & 0x7F] = result
            else:
                cycles = _write(
                    ram, registers, objects, screen, address, result, cycles, first_line, num_lines, last_line, drawn
                )  # fmt: skip
                if registers[FRAME_DONE]:
                    break

    registers[A], registers[X], registers[Y], registers[PC] = a, x, y, pc & 0xFFFF
    registers[CYCLES] = cycles
    registers[P] = _packed(registers, nz, carry)
