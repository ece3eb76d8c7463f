"""The most frequent instructions of the 6507, nine tenths of what games execute, in a short form for host processors.

``decoded.py`` executes any instruction from its table entry. Here each opcode has its own branch, in which the length
and the cycles are constants: the address of the next instruction then follows from a predicted jump, not from loaded
data, so that a host overlaps instructions. Threads of a GPU would diverge, and do without.
"""

from __future__ import annotations

import numpy as np

import warpdrive as wd
from warpdrive.envs.atari import arithmetic
from warpdrive.envs.atari.machine import BANK, S

UNKNOWN, DONE, WRITES = range(3)
"""The instruction is left to ``decoded.py``, was executed, or was executed except for its write to an address."""


@wd.device_function
def _loaded(ram, registers, rom, address, mask, plain_end):
    """Return the byte at an address of RAM or of the plain part of a cartridge, or -1 for others."""
    place = address & mask
    if address & 0x1000 and place < plain_end:
        return np.int32(rom[registers[BANK] + place & 0x7FFF] & 0xFF)
    if address & 0x1280 == 0x80:
        return np.int32(ram[address & 0x7F])
    return -1


@wd.device_function
def _branched(pc, cycles, low, taken):
    """Return the address of the instruction after a branch, and the time."""
    pc += 2
    cycles += 2
    if taken:
        pc, cycles = arithmetic.branched(pc, cycles, low)
    return pc, cycles


@wd.device_function
def execute(word, ram, registers, rom, mask, plain_end, a, x, y, pc, cycles, carry, nz):
    """Execute an instruction if it is a frequent one, on RAM or the plain part of a cartridge.

    Args:
        word: The instruction, from ``opcodes.decoded``.
        ram: RAM of the RIOT.
        registers: State of the chips.
        rom: The cartridge.
        mask: Mask of the addresses of the cartridge.
        plain_end: End of the addresses that follow each other in ``rom`` and switch no bank.
        a: Register A.
        x: Register X.
        y: Register Y.
        pc: Address of the instruction.
        cycles: Time before it.
        carry: The carry.
        nz: N and Z.

    Returns:
        ``UNKNOWN``, ``DONE`` or ``WRITES``; A, X, Y, the address of the next instruction, the time, the carry, N and Z;
        and the address to write to, and the byte.
    """
    opcode, operand = np.int32(word) & 0xFF, np.int32(word >> 8) & 0xFFFF
    low = operand & 0xFF
    address, result, outcome = low, 0, DONE
    if opcode == 0x85:  # STA d
        pc, cycles = pc + 2, cycles + 3
        result, outcome = a, WRITES
    elif opcode == 0x86:  # STX d
        pc, cycles = pc + 2, cycles + 3
        result, outcome = x, WRITES
    elif opcode == 0x84:  # STY d
        pc, cycles = pc + 2, cycles + 3
        result, outcome = y, WRITES
    elif opcode == 0x95:  # STA d,X
        pc, cycles = pc + 2, cycles + 4
        address, result, outcome = (low + x) & 0xFF, a, WRITES
    elif opcode == 0x8D:  # STA a
        pc, cycles = pc + 3, cycles + 4
        address, result, outcome = operand, a, WRITES
    elif opcode == 0x08:  # PHP
        pc, cycles = pc + 1, cycles + 3
        address, result, outcome = registers[S], arithmetic.packed(registers, nz, carry), WRITES
        registers[S] = (address - 1) & 0xFF

    elif opcode == 0xA9:  # LDA #i
        pc, cycles = pc + 2, cycles + 2
        a = nz = low
    elif opcode == 0xA2:  # LDX #i
        pc, cycles = pc + 2, cycles + 2
        x = nz = low
    elif opcode == 0xA0:  # LDY #i
        pc, cycles = pc + 2, cycles + 2
        y = nz = low
    elif opcode == 0xA5 and low & 0x80:  # LDA d
        pc, cycles = pc + 2, cycles + 3
        a = nz = np.int32(ram[low & 0x7F])
    elif opcode == 0xA6 and low & 0x80:  # LDX d
        pc, cycles = pc + 2, cycles + 3
        x = nz = np.int32(ram[low & 0x7F])
    elif opcode == 0xA4 and low & 0x80:  # LDY d
        pc, cycles = pc + 2, cycles + 3
        y = nz = np.int32(ram[low & 0x7F])
    elif opcode == 0xB5 and low + x & 0x80:  # LDA d,X
        pc, cycles = pc + 2, cycles + 4
        a = nz = np.int32(ram[low + x & 0x7F])
    elif opcode == 0xB1 or opcode == 0xB9 or opcode == 0xBD:  # LDA (d),Y; a,Y; a,X
        index = x if opcode == 0xBD else y
        start = operand
        if opcode == 0xB1:
            start = np.int32(ram[low & 0x7F]) | np.int32(ram[low + 1 & 0x7F]) << 8
        value = _loaded(ram, registers, rom, start + index & 0xFFFF, mask, plain_end)
        if value < 0:
            outcome = UNKNOWN
        else:
            pc, cycles = pc + (2 if opcode == 0xB1 else 3), cycles + (5 if opcode == 0xB1 else 4)
            cycles += (start & 0xFF) + index >> 8  # a page is crossed
            a = nz = value

    elif opcode == 0x8A:  # TXA
        pc, cycles = pc + 1, cycles + 2
        a = nz = x
    elif opcode == 0x98:  # TYA
        pc, cycles = pc + 1, cycles + 2
        a = nz = y
    elif opcode == 0xAA:  # TAX
        pc, cycles = pc + 1, cycles + 2
        x = nz = a
    elif opcode == 0xA8:  # TAY
        pc, cycles = pc + 1, cycles + 2
        y = nz = a
    elif opcode == 0xE8:  # INX
        pc, cycles = pc + 1, cycles + 2
        x = nz = (x + 1) & 0xFF
    elif opcode == 0xC8:  # INY
        pc, cycles = pc + 1, cycles + 2
        y = nz = (y + 1) & 0xFF
    elif opcode == 0xCA:  # DEX
        pc, cycles = pc + 1, cycles + 2
        x = nz = (x - 1) & 0xFF
    elif opcode == 0x88:  # DEY
        pc, cycles = pc + 1, cycles + 2
        y = nz = (y - 1) & 0xFF
    elif opcode == 0xC6 and low & 0x80:  # DEC d
        pc, cycles = pc + 2, cycles + 5
        nz = (np.int32(ram[low & 0x7F]) - 1) & 0xFF
        ram[low & 0x7F] = nz

    elif opcode == 0x29:  # AND #i
        pc, cycles = pc + 2, cycles + 2
        a = nz = a & low
    elif opcode == 0x25 and low & 0x80:  # AND d
        pc, cycles = pc + 2, cycles + 3
        a = nz = a & np.int32(ram[low & 0x7F])
    elif opcode == 0x05 and low & 0x80:  # ORA d
        pc, cycles = pc + 2, cycles + 3
        a = nz = a | np.int32(ram[low & 0x7F])
    elif opcode == 0x65 and low & 0x80:  # ADC d
        pc, cycles = pc + 2, cycles + 3
        a, carry = arithmetic.add(registers, a, np.int32(ram[low & 0x7F]), carry)
        nz = a
    elif opcode == 0xE5 and low & 0x80:  # SBC d
        pc, cycles = pc + 2, cycles + 3
        a, carry = arithmetic.subtract(registers, a, np.int32(ram[low & 0x7F]), carry)
        nz = a
    elif opcode == 0xC9:  # CMP #i
        pc, cycles = pc + 2, cycles + 2
        carry, nz = arithmetic.compared(a, low)
    elif opcode == 0xE0:  # CPX #i
        pc, cycles = pc + 2, cycles + 2
        carry, nz = arithmetic.compared(x, low)
    elif opcode == 0xC0:  # CPY #i
        pc, cycles = pc + 2, cycles + 2
        carry, nz = arithmetic.compared(y, low)
    elif opcode == 0x24 and low & 0x80:  # BIT d
        pc, cycles = pc + 2, cycles + 3
        value = np.int32(ram[low & 0x7F])
        nz = (value & 0x80) << 1 | a & value
        arithmetic.set_overflow(registers, value << 1)
    elif opcode == 0x0A:  # ASL A
        pc, cycles = pc + 1, cycles + 2
        carry = a >> 7
        a = nz = a << 1 & 0xFF
    elif opcode == 0x4A:  # LSR A
        pc, cycles = pc + 1, cycles + 2
        carry = a & 1
        a = nz = a >> 1
    elif opcode == 0x18:  # CLC
        pc, cycles = pc + 1, cycles + 2
        carry = 0
    elif opcode == 0x38:  # SEC
        pc, cycles = pc + 1, cycles + 2
        carry = 1
    elif opcode == 0xEA:  # NOP
        pc, cycles = pc + 1, cycles + 2

    elif opcode == 0x10:  # BPL
        pc, cycles = _branched(pc, cycles, low, nz & 0x180 == 0)
    elif opcode == 0x30:  # BMI
        pc, cycles = _branched(pc, cycles, low, nz & 0x180 != 0)
    elif opcode == 0x90:  # BCC
        pc, cycles = _branched(pc, cycles, low, carry == 0)
    elif opcode == 0xB0:  # BCS
        pc, cycles = _branched(pc, cycles, low, carry != 0)
    elif opcode == 0xD0:  # BNE
        pc, cycles = _branched(pc, cycles, low, nz & 0xFF != 0)
    elif opcode == 0xF0:  # BEQ
        pc, cycles = _branched(pc, cycles, low, nz & 0xFF == 0)
    elif opcode == 0x4C:  # JMP a
        pc, cycles = operand, cycles + 3
    elif opcode == 0x20:  # JSR a
        stack = registers[S]
        ram[stack & 0x7F], ram[(stack - 1) & 0x7F] = (pc + 2) >> 8 & 0xFF, (pc + 2) & 0xFF
        registers[S] = (stack - 2) & 0xFF
        pc, cycles = operand, cycles + 6
    elif opcode == 0x60:  # RTS
        stack = registers[S]
        pc = (np.int32(ram[(stack + 1) & 0x7F]) + (np.int32(ram[(stack + 2) & 0x7F]) << 8) + 1) & 0xFFFF
        registers[S] = (stack + 2) & 0xFF
        cycles += 6
    else:
        outcome = UNKNOWN
    return outcome, a, x, y, pc, cycles, carry, nz, address, result
