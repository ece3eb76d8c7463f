"""Arithmetic and flags of the 6507, and targets of branches.

N and Z are kept as one number: Z is set if its lowest 8 bits are 0, N if bit 7 or 8 is set. The carry is 0 or 1, and
the other flags are in ``registers[P]``. Source: MCS6500 microcomputer family programming manual (MOS Technology, 1976).
"""

from __future__ import annotations

import warpdrive as wd
from warpdrive.envs.atari.machine import P

FLAG_V, FLAG_D, FLAG_I = 0x40, 0x08, 0x04
"""Bits of the status register that are kept in ``registers[P]``."""


@wd.device_function
def add(registers, a, value, carry):
    """Add a value and the carry to A, and set V.

    Returns:
        The sum and the carry. In decimal mode N, Z and V follow from the decimal result.
    """
    if registers[P] & FLAG_D:
        total = decimal(a) + decimal(value) + carry
        result, carry = coded(total & 0xFF), 1 if total > 99 else 0
    else:
        result = a + value + carry
        carry = result >> 8
        result &= 0xFF
    set_overflow(registers, ~(a ^ value) & (a ^ result))
    return result, carry


@wd.device_function
def subtract(registers, a, value, carry):
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
        total = decimal(a) - decimal(value) - borrow
        if total < 0:
            total += 100
        # digits above 9 are undefined, and may give less than 0: as in ale-py
        result = coded(total) if total >= 0 else decimal(total & 0xFF)
        different = ~different  # V is undefined there; it is the one of an addition, as games rely on ale-py's
    set_overflow(registers, different & (a ^ result))
    return result, carry


@wd.device_function
def compared(register, value):
    """Return the carry, and N and Z, of a comparison."""
    return 1 if register >= value else 0, (register - value) & 0xFF


@wd.device_function
def branched(pc, cycles, offset):
    """Return the target of a branch that is taken, from the address of the next instruction, and the time."""
    target = (pc + (offset ^ 0x80) - 0x80) & 0xFFFF
    return target, cycles + (2 if (target ^ pc) & 0xFF00 else 1)


@wd.device_function
def decimal(byte):
    """Return the number of two decimal digits."""
    return 10 * (byte >> 4) + (byte & 15)


@wd.device_function
def coded(number):
    """Return the last two decimal digits of a number."""
    number %= 100
    return number // 10 << 4 | number % 10


@wd.device_function
def set_overflow(registers, sign):
    """Set V to bit 7 of a number."""
    registers[P] = registers[P] & ~FLAG_V | (sign & 0x80) >> 1


@wd.device_function
def packed(registers, nz, carry):
    """Return the status register, with B set."""
    return (
        (0x80 if nz & 0x180 else 0) | registers[P] & (FLAG_V | FLAG_D | FLAG_I) | 0x30 | (0 if nz & 0xFF else 2) | carry
    )


@wd.device_function
def unpacked_nz(status):
    """Return a number for N and Z: Z is set if its lowest 8 bits are 0, N if bit 7 or 8 is set."""
    return (status & 0x80) << 1 | (status & 2 ^ 2)
