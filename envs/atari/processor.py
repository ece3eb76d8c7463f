"""The 6507: fetches, decodes and executes instructions until a frame is complete.

Time advances by whole instructions: all cycles of one have passed when it accesses its operand. Source: MCS6500
microcomputer family programming manual (MOS Technology, 1976).
"""

from __future__ import annotations

import numpy as np

import warpdrive as wd
from warpdrive.envs.atari import cartridge, riot, tia
from warpdrive.envs.atari.machine import (
    BANK,
    CYCLES,
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
    INC,
    INDIRECT,
    INDIRECT_X,
    INDIRECT_Y,
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
    ZERO_PAGE_X,
    ZERO_PAGE_Y,
)  # fmt: skip

MAX_INSTRUCTIONS = 25_000
"""Instructions after which a frame is cut off, and continued by the next call."""


@wd.device_function
def _add(a, value, carry, decimal):
    """Return the sum of A, a value and the carry: result, carry, overflow."""
    total = a + value + carry
    result, carry_out = total & 0xFF, total >> 8
    if decimal:
        decimals = _decimal(a) + _decimal(value) + carry
        result, carry_out = _coded(decimals & 0xFF), 1 if decimals > 99 else 0
    return result, carry_out, (~(a ^ value) & (a ^ result)) >> 7 & 1


@wd.device_function
def _subtract(a, value, carry, decimal):
    """Return the difference of A, a value and the borrow: result, carry, overflow."""
    total = a + (value ^ 0xFF) + carry
    result = total & 0xFF
    if decimal:  # overflow is undefined there; it is the one of an addition, as games rely on ale-py's
        digits = _decimal(a) - _decimal(value) - 1 + carry
        result = _coded(digits + 100 if digits < 0 else digits)
        value ^= 0xFF
    return result, total >> 8, ((a ^ value) & (a ^ result)) >> 7 & 1


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
def _packed(negative, overflow, decimal, interrupt, nonzero, carry):
    """Return the status register, with B set."""
    return negative & 0x80 | overflow << 6 | 0x30 | decimal << 3 | interrupt << 2 | (nonzero == 0) << 1 | carry


@wd.device_function
def _read(ram, registers, objects, screen, address, data_bus, cycles, first_line, num_lines, drawn):
    """Return the byte at an address of RAM, RIOT or TIA."""
    if address & 0x80 == 0:
        return tia.read(registers, objects, screen, address, data_bus, cycles, first_line, num_lines, drawn)
    if address & 0x200:
        return riot.read(registers, address, cycles)
    return np.int32(ram[address & 0x7F])


@wd.device_function
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
    a, x, y, s, pc = registers[A], registers[X], registers[Y], registers[S], registers[PC]
    cycles, bank = registers[CYCLES], registers[BANK]
    flags = registers[P]
    carry, interrupt, decimal, overflow = flags & 1, flags >> 2 & 1, flags >> 3 & 1, flags >> 6 & 1
    negative = flags & 0x80  # bit 7 of this is N
    nonzero = (flags & 2) ^ 2  # Z is set if this is 0
    registers[FRAME_DONE] = 0

    for _instruction in range(MAX_INSTRUCTIONS):
        # fetch
        place = pc & 0xFFF
        if pc & 0x1000 and (place < 0xFDD or kind == K2 or kind == K4 or kind == FE):
            start = cartridge.offset(registers, pc, bank, kind)
            opcode, low, high = np.int32(rom[start]), np.int32(rom[start + 1]), np.int32(rom[start + 2])
            entry = np.int32(DECODED[opcode])
            length = entry >> 11 & 7
        else:
            opcode, low, high = 0, 0, 0
            length, i = 1, 0
            entry = 0
            while i < length:
                address = pc + i
                if address & 0x1000:
                    bank = cartridge.switched(registers, address, bank, kind)
                    value = cartridge.read(cartridge_ram, rom, registers, address, bank, kind)
                else:
                    value = np.int32(ram[address & 0x7F])
                if i == 0:
                    opcode = value
                    entry = np.int32(DECODED[opcode])
                    length = entry >> 11 & 7
                elif i == 1:
                    low = value
                else:
                    high = value
                i += 1
        operation, mode, access = entry & 0x7F, entry >> 7 & 0xF, entry >> 18 & 3
        cycles += entry >> 14 & 0xF
        pc = (pc + length) & 0xFFFF

        # address of the operand
        address, data_bus, value = low, low, low
        if mode == ZERO_PAGE_X:
            address = (low + x) & 0xFF
        elif mode == ZERO_PAGE_Y:
            address = (low + y) & 0xFF
        elif mode == ABSOLUTE:
            address, data_bus = high << 8 | low, high
        elif mode == ABSOLUTE_X or mode == ABSOLUTE_Y:
            low += x if mode == ABSOLUTE_X else y
            address, data_bus = ((high << 8) + low) & 0xFFFF, high
            if low > 0xFF:
                cycles += entry >> 20
        elif mode == INDIRECT_X or mode == INDIRECT_Y:
            pointer = (low + x) & 0xFF if mode == INDIRECT_X else low
            following = (pointer + 1) & 0xFF
            low, high = np.int32(ram[pointer & 0x7F]), np.int32(ram[following & 0x7F])
            data_bus = high
            if mode == INDIRECT_Y:
                low += y
                if low > 0xFF:
                    cycles += entry >> 20
            address = ((high << 8) + low) & 0xFFFF
        elif operation == PLA or operation == PLP:
            if s & 0x80:
                data_bus = np.int32(ram[s & 0x7F])
            s = (s + 1) & 0xFF
            address = s

        # operand
        if mode != IMMEDIATE and (access == READ or access == MODIFY):
            if address & 0x1000:
                bank = cartridge.switched(registers, address, bank, kind)
                value = cartridge.read(cartridge_ram, rom, registers, address, bank, kind)
            elif address & 0x280 == 0x80:
                value = np.int32(ram[address & 0x7F])
            else:
                value = _read(
                    ram, registers, objects, screen, address, data_bus, cycles, first_line, num_lines, drawn
                )  # fmt: skip

        # operation
        result = 0
        if operation == LDA:
            a = value
            negative = nonzero = value
        elif operation == LDX:
            x = value
            negative = nonzero = value
        elif operation == LDY:
            y = value
            negative = nonzero = value
        elif operation == STA:
            result = a
        elif operation == STX:
            result = x
        elif operation == STY:
            result = y
        elif BPL <= operation <= BEQ:
            if operation == BPL:
                taken = negative & 0x80 == 0
            elif operation == BMI:
                taken = negative & 0x80 != 0
            elif operation == BVC:
                taken = overflow == 0
            elif operation == BVS:
                taken = overflow != 0
            elif operation == BCC:
                taken = carry == 0
            elif operation == BCS:
                taken = carry != 0
            elif operation == BNE:
                taken = nonzero != 0
            else:
                taken = nonzero == 0
            if taken:
                target = (pc + (low ^ 0x80) - 0x80) & 0xFFFF
                cycles += 2 if (target ^ pc) & 0xFF00 else 1
                pc = target
        elif operation == DEX:
            x = (x - 1) & 0xFF
            negative = nonzero = x
        elif operation == DEY:
            y = (y - 1) & 0xFF
            negative = nonzero = y
        elif operation == INX:
            x = (x + 1) & 0xFF
            negative = nonzero = x
        elif operation == INY:
            y = (y + 1) & 0xFF
            negative = nonzero = y
        elif operation == CMP or operation == CPX or operation == CPY:
            register = a if operation == CMP else x if operation == CPX else y
            carry = 1 if register >= value else 0
            negative = nonzero = (register - value) & 0xFF
        elif operation == AND:
            a &= value
            negative = nonzero = a
        elif operation == ORA:
            a |= value
            negative = nonzero = a
        elif operation == EOR:
            a ^= value
            negative = nonzero = a
        elif operation == ADC:
            a, carry, overflow = _add(a, value, carry, decimal)
            negative = nonzero = a
        elif operation == SBC:
            a, carry, overflow = _subtract(a, value, carry, decimal)
            negative = nonzero = a
        elif operation == BIT:
            negative, overflow, nonzero = value, value >> 6 & 1, a & value
        elif operation == INC:
            result = (value + 1) & 0xFF
            negative = nonzero = result
        elif operation == DEC:
            result = (value - 1) & 0xFF
            negative = nonzero = result
        elif operation == ASL:
            carry, result = value >> 7, value << 1 & 0xFF
            negative = nonzero = result
        elif operation == LSR:
            carry, result = value & 1, value >> 1
            negative = nonzero = result
        elif operation == ROL:
            result, carry = (value << 1 | carry) & 0xFF, value >> 7
            negative = nonzero = result
        elif operation == ROR:
            result, carry = value >> 1 | carry << 7, value & 1
            negative = nonzero = result
        elif operation == ASL_A:
            carry, a = a >> 7, a << 1 & 0xFF
            negative = nonzero = a
        elif operation == LSR_A:
            carry, a = a & 1, a >> 1
            negative = nonzero = a
        elif operation == ROL_A:
            a, carry = (a << 1 | carry) & 0xFF, a >> 7
            negative = nonzero = a
        elif operation == ROR_A:
            a, carry = a >> 1 | carry << 7, a & 1
            negative = nonzero = a
        elif operation == TAX:
            x = a
            negative = nonzero = x
        elif operation == TAY:
            y = a
            negative = nonzero = y
        elif operation == TXA:
            a = x
            negative = nonzero = a
        elif operation == TYA:
            a = y
            negative = nonzero = a
        elif operation == TSX:
            x = s
            negative = nonzero = x
        elif operation == TXS:
            s = x
        elif operation == CLC:
            carry = 0
        elif operation == SEC:
            carry = 1
        elif operation == CLD:
            decimal = 0
        elif operation == SED:
            decimal = 1
        elif operation == CLV:
            overflow = 0
        elif operation == CLI:
            interrupt = 0
        elif operation == SEI:
            interrupt = 1
        elif operation == JMP:
            pc = address
            if mode == INDIRECT:
                pointer = high << 8 | low
                following = pointer & 0xFF00 | (pointer + 1) & 0xFF  # the carry is lost
                pc = 0
                for i in range(2):
                    place = following if i else pointer
                    if place & 0x1000:
                        bank = cartridge.switched(registers, place, bank, kind)
                        part = cartridge.read(cartridge_ram, rom, registers, place, bank, kind)
                    else:
                        part = np.int32(ram[place & 0x7F])
                    pc |= part << (8 * i)
        elif operation == PHA or operation == PHP:
            result = a
            if operation == PHP:
                result = _packed(negative, overflow, decimal, interrupt, nonzero, carry)
            address = s
            s = (s - 1) & 0xFF
        elif operation == PLA:
            a = value
            negative = nonzero = a
        elif operation == PLP:
            carry, nonzero, interrupt = value & 1, (value & 2) ^ 2, value >> 2 & 1
            decimal, overflow, negative = value >> 3 & 1, value >> 6 & 1, value & 0x80
        elif operation == JSR:  # programs with subroutines have their stack in RAM
            ram[s & 0x7F], ram[(s - 1) & 0x7F] = (pc - 1 & 0xFFFF) >> 8, pc - 1 & 0xFF
            s = (s - 2) & 0xFF
            pc = address
        elif operation == RTS:
            pc = (np.int32(ram[(s + 1) & 0x7F]) + (np.int32(ram[(s + 2) & 0x7F]) << 8) + 1) & 0xFFFF
            s = (s + 2) & 0xFF
        elif operation == BRK:
            pc = (pc + 1) & 0xFFFF
            ram[s & 0x7F], ram[(s - 1) & 0x7F] = pc >> 8, pc & 0xFF
            ram[(s - 2) & 0x7F] = _packed(negative, overflow, decimal, interrupt, nonzero, carry)
            s = (s - 3) & 0xFF
            interrupt = 1
            start = cartridge.offset(registers, 0xFFFE, bank, kind)
            pc = np.int32(rom[start]) | np.int32(rom[start + 1]) << 8
        elif operation == RTI:
            value = np.int32(ram[(s + 1) & 0x7F])
            carry, nonzero, interrupt = value & 1, (value & 2) ^ 2, value >> 2 & 1
            decimal, overflow, negative = value >> 3 & 1, value >> 6 & 1, value & 0x80
            pc = np.int32(ram[(s + 2) & 0x7F]) | np.int32(ram[(s + 3) & 0x7F]) << 8
            s = (s + 3) & 0xFF
        elif operation == LAX:
            a = x = value
            negative = nonzero = value
        elif operation == SAX:
            result = a & x
        elif operation == DCP:
            result = (value - 1) & 0xFF
            carry = 1 if a >= result else 0
            negative = nonzero = (a - result) & 0xFF
        elif operation == ISC:
            result = (value + 1) & 0xFF
            a, carry, overflow = _subtract(a, result, carry, decimal)
            negative = nonzero = a
        elif operation == SLO:
            carry, result = value >> 7, value << 1 & 0xFF
            a |= result
            negative = nonzero = a
        elif operation == RLA:
            result, carry = (value << 1 | carry) & 0xFF, value >> 7
            a &= result
            negative = nonzero = a
        elif operation == SRE:
            carry, result = value & 1, value >> 1
            a ^= result
            negative = nonzero = a
        elif operation == RRA:
            result, carry = value >> 1 | carry << 7, value & 1
            a, carry, overflow = _add(a, result, carry, decimal)
            negative = nonzero = a
        elif operation == ANC:
            a &= value
            carry = a >> 7
            negative = nonzero = a
        elif operation == ALR:
            a &= value
            carry, a = a & 1, a >> 1
            negative = nonzero = a
        elif operation == ARR:
            a = (a & value) >> 1 | carry << 7
            carry, overflow = a >> 6 & 1, (a >> 6 ^ a >> 5) & 1
            negative = nonzero = a
        elif operation == ANE:
            a = (a | 0xEE) & x & value
            negative = nonzero = a
        elif operation == LXA:
            a = x = (a | 0xEE) & value
            negative = nonzero = a
        elif operation == SBX:
            carry = 1 if a & x >= value else 0
            x = ((a & x) - value) & 0xFF
            negative = nonzero = x
        elif operation == LAS:
            a = x = s = s & value
            negative = nonzero = a
        elif operation == SHA:
            result = a & x & (data_bus + 1)
        elif operation == SHX:
            result = x & (data_bus + 1)
        elif operation == SHY:
            result = y & (data_bus + 1)
        elif operation == TAS:
            s = a & x
            result = s & (data_bus + 1)

        # result
        if access >= WRITE:
            if address & 0x1000:
                bank = cartridge.switched(registers, address, bank, kind)
                cartridge.write(cartridge_ram, address, result, kind)
            elif address & 0x280 == 0x80:
                ram[address & 0x7F] = result
            else:
                cycles = _write(
                    ram, registers, objects, screen, address, result, cycles, first_line, num_lines, last_line, drawn
                )  # fmt: skip
                if registers[FRAME_DONE]:
                    break

    registers[A], registers[X], registers[Y], registers[S], registers[PC] = a, x, y, s, pc
    registers[CYCLES], registers[BANK] = cycles, bank
    registers[P] = _packed(negative, overflow, decimal, interrupt, nonzero, carry)
