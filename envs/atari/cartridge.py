"""Cartridges: where a byte of the cartridge's address space is, and the accesses that switch banks.

Kinds, with the usual names: 2K and 4K without banks; F8 and F6 have 2 and 4 banks of 4 KiB, F8SC and F6SC also 128
bytes of RAM; E0 has eight slices of 1 KiB, of which three are selected and the last is fixed; FE has two banks,
selected by address line 13. Source: K. Horton, "Cart information" (bank switching methods of 2600 cartridges).
"""

from __future__ import annotations

import numpy as np

import warpdrive as wd
from warpdrive.envs.atari.machine import BANK, E0, F6, F6SC, F8, F8SC, FE, K2, SLICES


@wd.device_function
def offset(registers, address, kind):
    """Return the index in ``rom`` of the byte at ``address``, in the selected bank."""
    if kind == K2:
        return address & 0x7FF
    if kind == F8 or kind == F8SC or kind == F6 or kind == F6SC:
        return registers[BANK] + (address & 0xFFF)
    if kind == FE:
        return (address & 0xFFF) + (0 if address & 0x2000 else 0x1000)
    if kind == E0:
        part = (address >> 10) & 3
        return (0x1C00 if part == 3 else registers[SLICES + part]) + (address & 0x3FF)
    return address & 0xFFF


@wd.device_function
def switch(registers, address, kind):
    """Select the bank that an access to ``address`` switches to, if it does."""
    place = address & 0xFFF
    if kind == F8 or kind == F8SC:
        if 0xFF8 <= place <= 0xFF9:
            registers[BANK] = (place - 0xFF8) << 12
    elif kind == F6 or kind == F6SC:
        if 0xFF6 <= place <= 0xFF9:
            registers[BANK] = (place - 0xFF6) << 12
    elif kind == E0 and 0xFE0 <= place <= 0xFF7:
        registers[SLICES + ((place - 0xFE0) >> 3)] = (place & 7) << 10


@wd.device_function
def read(cartridge_ram, rom, registers, address, kind):
    """Return the byte at ``address``, after the bank has been switched."""
    if (kind == F8SC or kind == F6SC) and (address & 0xF80) == 0x080:
        return np.int32(cartridge_ram[address & 0x7F])
    return np.int32(rom[offset(registers, address, kind)] & 0xFF)


@wd.device_function
def write(cartridge_ram, address, value, kind):
    """Write to the RAM of the cartridge, if there is one at ``address``."""
    if (kind == F8SC or kind == F6SC) and (address & 0xF80) == 0:
        cartridge_ram[address & 0x7F] = value
