"""Any instruction of the 6507, executed as its table entry says: operand, then operation.

Source: MCS6500 microcomputer family programming manual (MOS Technology, 1976).
"""

from __future__ import annotations

import numpy as np

import warpdrive as wd
from warpdrive.envs.atari import arithmetic, cartridge, opcodes as op, riot, tia
from warpdrive.envs.atari.machine import BANK, P, S

BPL, BMI, BNE, BEQ = 0, 1, 6, 7
"""Bits 5 to 7 of the opcodes of branches."""


@wd.device_function(inline=False)
def peek(ram, registers, cartridge_ram, rom, address, kind):
    """Return the byte of a program at an address of the cartridge or of RAM."""
    if address & 0x1000:
        cartridge.switch(registers, address, kind)
        return cartridge.read(cartridge_ram, rom, registers, address, kind)
    return np.int32(ram[address & 0x7F])


@wd.device_function(inline=False)
def _read(ram, registers, objects, screen, address, data_bus, cycles, first_line, num_lines, drawn):
    """Return the byte at an address of RAM, RIOT or TIA."""
    if address & 0x80 == 0:
        return tia.read(registers, objects, screen, address, data_bus, cycles, first_line, num_lines, drawn)
    if address & 0x200:
        return riot.read(registers, address, cycles)
    return np.int32(ram[address & 0x7F])


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
    is_load = operation == op.LDA or operation == op.LDX or operation == op.LDY
    if is_load and entry & 0x7F == op.BRANCH and following >> 8 & 0xFF == 0x100 - 5:
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


@wd.device_function(inline=False)
def execute(
    word, ram, registers, cartridge_ram, rom, objects, screen, kind, mask, plain_end, first_line, num_lines, drawn,
    a, x, y, pc, cycles, carry, nz, remaining,
):  # fmt: skip
    """Execute an instruction, except for its write to an address.

    Args:
        word: The instruction, from ``opcodes.decoded``.
        ram: RAM of the RIOT.
        registers: State of the chips.
        cartridge_ram: RAM of the cartridge.
        rom: The cartridge.
        objects: Lines of the objects (see ``beam.py``).
        screen: The pictures.
        kind: Kind of the cartridge.
        mask: Mask of the addresses of the cartridge.
        plain_end: End of the addresses that follow each other in ``rom`` and switch no bank.
        first_line: First visible line.
        num_lines: Number of visible lines.
        drawn: If False, ``screen`` is not updated.
        a: Register A.
        x: Register X.
        y: Register Y.
        pc: Address of the instruction.
        cycles: Time before it.
        carry: The carry.
        nz: N and Z.
        remaining: Number of instructions until the frame is cut off.

    Returns:
        True if the instruction writes; A, X, Y, the address of the next instruction, the time, the carry, N and Z; the
        address to write to, the byte, and ``remaining``.
    """
    low, operand = np.int32(word >> 8) & 0xFF, np.int32(word >> 8) & 0xFFFF
    high = operand >> 8
    entry = np.int32(word >> 24)
    operation = entry & 0x7F
    pc += entry >> 11 & 3
    cycles += entry >> 14 & 0xF

    # address of the operand
    index = 0
    if entry & op.ADDS_X:
        index = x
    if entry & op.ADDS_Y:
        index = y
    address, value = operand + index & (entry >> 16 & 0xFF00 | 0xFF), low
    cycles += low + index >> 8 & entry >> 20 & 1
    if entry & op.IS_IN_MEMORY:
        mode = entry >> 7 & 0xF
        if mode == op.IMPLIED:
            address = registers[S]
            if address & 0x80:
                low = np.int32(ram[address & 0x7F])  # the chip reads it before it increments S
            high = low
            address = (address + 1) & 0xFF
            registers[S] = address
        elif mode == op.INDIRECT_X:
            pointer = low + x
            low, high = np.int32(ram[pointer & 0x7F]), np.int32(ram[pointer + 1 & 0x7F])
            address = high << 8 | low
        else:
            low, high = np.int32(ram[low & 0x7F]), np.int32(ram[low + 1 & 0x7F])
            address = ((high << 8) + low + y) & 0xFFFF
            cycles += low + y >> 8 & entry >> 20 & 1

    # operand
    if entry & op.READS:
        if address & 0x1000:
            cartridge.switch(registers, address, kind)
            value = cartridge.read(cartridge_ram, rom, registers, address, kind)
        elif address & 0x280 == 0x80:
            value = np.int32(ram[address & 0x7F])
        else:
            data_bus = high if entry & (op.IS_IN_MEMORY | op.IS_ABSOLUTE) else low
            value = _read(
                ram, registers, objects, screen, address, data_bus, cycles, first_line, num_lines, drawn
            )  # fmt: skip
            place, is_timer = pc & mask, address & riot.IS_TIMER == riot.TIMER_ADDRESS
            if is_timer and entry >> 7 & 0xF == op.ABSOLUTE and pc & 0x1000 and place < plain_end:
                word = rom[registers[BANK] + place & 0x7FFF]
                cycles, remaining, value = _wait_for_timer(registers, operation, word, pc, cycles, remaining, value)

    # operation
    result = 0
    if operation == op.LDA:
        a = nz = value
    elif operation == op.LDX:
        x = nz = value
    elif operation == op.LDY:
        y = nz = value
    elif operation == op.STA:
        result = a
    elif operation == op.STX:
        result = x
    elif operation == op.STY:
        result = y
    elif operation == op.BRANCH:  # bits of the entry select a flag, and its state
        flags = (nz & 0x180 != 0) | (registers[P] & arithmetic.FLAG_V != 0) << 1 | carry << 2 | (nz & 0xFF == 0) << 3
        if (flags >> (entry >> 25 & 3) ^ entry >> 24) & 1 == 0:
            pc, cycles = arithmetic.branched(pc, cycles, low)
    elif operation == op.DEX:
        x = nz = (x - 1) & 0xFF
    elif operation == op.DEY:
        y = nz = (y - 1) & 0xFF
    elif operation == op.INX:
        x = nz = (x + 1) & 0xFF
    elif operation == op.INY:
        y = nz = (y + 1) & 0xFF
    elif operation == op.CMP or operation == op.CPX or operation == op.CPY:
        register = a if operation == op.CMP else x if operation == op.CPX else y
        carry, nz = arithmetic.compared(register, value)
    elif operation == op.AND:
        a = nz = a & value
    elif operation == op.ORA:
        a = nz = a | value
    elif operation == op.EOR:
        a = nz = a ^ value
    elif operation == op.ADC:
        a, carry = arithmetic.add(registers, a, value, carry)
        nz = a
    elif operation == op.SBC:
        a, carry = arithmetic.subtract(registers, a, value, carry)
        nz = a
    elif operation == op.BIT:
        nz = (value & 0x80) << 1 | a & value
        arithmetic.set_overflow(registers, value << 1)
    elif operation == op.INC:
        result = nz = (value + 1) & 0xFF
    elif operation == op.DEC:
        result = nz = (value - 1) & 0xFF
    elif operation == op.ASL:
        carry, result = value >> 7, value << 1 & 0xFF
        nz = result
    elif operation == op.LSR:
        carry, result = value & 1, value >> 1
        nz = result
    elif operation == op.ROL:
        result, carry = (value << 1 | carry) & 0xFF, value >> 7
        nz = result
    elif operation == op.ROR:
        result, carry = value >> 1 | carry << 7, value & 1
        nz = result
    elif operation == op.ASL_A:
        carry, a = a >> 7, a << 1 & 0xFF
        nz = a
    elif operation == op.LSR_A:
        carry, a = a & 1, a >> 1
        nz = a
    elif operation == op.ROL_A:
        a, carry = (a << 1 | carry) & 0xFF, a >> 7
        nz = a
    elif operation == op.ROR_A:
        a, carry = a >> 1 | carry << 7, a & 1
        nz = a
    elif operation == op.TAX:
        x = nz = a
    elif operation == op.TAY:
        y = nz = a
    elif operation == op.TXA:
        a = nz = x
    elif operation == op.TYA:
        a = nz = y
    elif operation == op.TSX:
        x = nz = registers[S]
    elif operation == op.TXS:
        registers[S] = x
    elif operation == op.CLC:
        carry = 0
    elif operation == op.SEC:
        carry = 1
    elif operation == op.CLD:
        registers[P] &= ~arithmetic.FLAG_D
    elif operation == op.SED:
        registers[P] |= arithmetic.FLAG_D
    elif operation == op.CLV:
        registers[P] &= ~arithmetic.FLAG_V
    elif operation == op.CLI:
        registers[P] &= ~arithmetic.FLAG_I
    elif operation == op.SEI:
        registers[P] |= arithmetic.FLAG_I
    elif operation == op.JMP:
        pc = address
        if entry >> 7 & 0xF == op.INDIRECT:
            following = address & 0xFF00 | (address + 1) & 0xFF  # the carry is lost
            pc = peek(ram, registers, cartridge_ram, rom, address, kind)
            pc |= peek(ram, registers, cartridge_ram, rom, following, kind) << 8
    elif operation == op.PHA or operation == op.PHP:
        result = a
        if operation == op.PHP:
            result = arithmetic.packed(registers, nz, carry)
        address = registers[S]
        registers[S] = (address - 1) & 0xFF
    elif operation == op.PLA:
        a = nz = value
    elif operation == op.PLP:
        registers[P] = value
        carry, nz = value & 1, arithmetic.unpacked_nz(value)
    elif operation == op.JSR:  # programs with subroutines have their stack in RAM
        s = registers[S]
        ram[s & 0x7F], ram[(s - 1) & 0x7F] = (pc - 1) >> 8 & 0xFF, (pc - 1) & 0xFF
        registers[S] = (s - 2) & 0xFF
        pc = address
    elif operation == op.RTS:
        s = registers[S]
        pc = (np.int32(ram[(s + 1) & 0x7F]) + (np.int32(ram[(s + 2) & 0x7F]) << 8) + 1) & 0xFFFF
        registers[S] = (s + 2) & 0xFF
    elif operation == op.BRK:
        s = registers[S]
        ram[s & 0x7F], ram[(s - 1) & 0x7F] = (pc + 1) >> 8 & 0xFF, (pc + 1) & 0xFF
        ram[(s - 2) & 0x7F] = arithmetic.packed(registers, nz, carry)
        registers[S] = (s - 3) & 0xFF
        registers[P] |= arithmetic.FLAG_I
        start = cartridge.offset(registers, 0xFFFE, kind)
        pc = np.int32(rom[start] & 0xFF) | np.int32(rom[start + 1] & 0xFF) << 8
    elif operation == op.RTI:
        s = registers[S]
        value = np.int32(ram[(s + 1) & 0x7F])
        registers[P] = value
        carry, nz = value & 1, arithmetic.unpacked_nz(value)
        pc = np.int32(ram[(s + 2) & 0x7F]) | np.int32(ram[(s + 3) & 0x7F]) << 8
        registers[S] = (s + 3) & 0xFF
    elif operation == op.LAX:
        a = x = nz = value
    elif operation == op.SAX:
        result = a & x
    elif operation == op.DCP:
        result = (value - 1) & 0xFF
        carry, nz = arithmetic.compared(a, result)
    elif operation == op.ISC:
        result = (value + 1) & 0xFF
        a, carry = arithmetic.subtract(registers, a, result, carry)
        nz = a
    elif operation == op.SLO:
        carry, result = value >> 7, value << 1 & 0xFF
        a = nz = a | result
    elif operation == op.RLA:
        result, carry = (value << 1 | carry) & 0xFF, value >> 7
        a = nz = a & result
    elif operation == op.SRE:
        carry, result = value & 1, value >> 1
        a = nz = a ^ result
    elif operation == op.RRA:
        result, carry = value >> 1 | carry << 7, value & 1
        a, carry = arithmetic.add(registers, a, result, carry)
        nz = a
    elif operation == op.ANC:
        a &= value
        carry = a >> 7
        nz = a
    elif operation == op.ALR:
        a &= value
        carry, a = a & 1, a >> 1
        nz = a
    elif operation == op.ARR:
        a = (a & value) >> 1 | carry << 7
        carry = a >> 6 & 1
        arithmetic.set_overflow(registers, (a << 1 ^ a << 2) & 0x80)
        nz = a
    elif operation == op.ANE:
        a = nz = (a | 0xEE) & x & value
    elif operation == op.LXA:
        a = nz = x = (a | 0xEE) & value
    elif operation == op.SBX:
        carry = 1 if a & x >= value else 0
        x = nz = ((a & x) - value) & 0xFF
    elif operation == op.LAS:
        a = x = registers[S] & value
        registers[S] = a
        nz = a
    elif operation == op.SHA:
        result = a & x & (high + 1)
    elif operation == op.SHX:
        result = x & (high + 1)
    elif operation == op.SHY:
        result = y & (high + 1)
    elif operation == op.TAS:
        registers[S] = a & x
        result = a & x & (high + 1)
    return entry & op.WRITES != 0, a, x, y, pc, cycles, carry, nz, address, result, remaining
