"""The 6532 (RIOT): I/O ports and the interval timer. Its RAM is the array ``ram``.

Source: MOS 6532 data sheet; Stella Programmer's Guide (S. Wright, 1979), "The PIA (6532)", sections 2 (timer) and 4
(ports).
"""

from __future__ import annotations

import warpdrive as wd
from warpdrive.envs.atari import addresses
from warpdrive.envs.atari.machine import DDRA, SWCHA, SWCHB, TIMER, TIMER_FLAG_RESET, TIMER_READ, TIMER_SET, TIMER_SHIFT

TIMER_ADDRESS, IS_TIMER = 0x280 | addresses.INTIM, 0x285
"""Address of the timer, and the bits of an address below 0x1000 that select it."""


@wd.device_function
def timer(registers, cycles):
    """Return the timer: it counts down once per interval, and below zero once per cycle until it is read."""
    start, shift = registers[TIMER], registers[TIMER_SHIFT]
    elapsed = cycles - 1 - registers[TIMER_SET]
    count = start - (elapsed >> shift) - 1
    if count < 0:
        below = (start << shift) - elapsed - 1
        if below <= -2 and registers[TIMER_READ] == 0:
            registers[TIMER_READ] = 1
            registers[TIMER_FLAG_RESET] = cycles
        if registers[TIMER_READ] != 0:
            late = registers[TIMER_FLAG_RESET] - registers[TIMER_SET] - (start << shift)
            count = start - (elapsed >> shift) - late
        else:
            count = below
    return count & 0xFF


@wd.device_function
def time_of(registers, count):
    """Return the time from which the timer, as it counts down once per interval, is at most ``count``."""
    return registers[TIMER_SET] + 1 + (registers[TIMER] - 1 - count << registers[TIMER_SHIFT])


@wd.device_function
def read(registers, address, cycles):
    """Return the value of a port or of the timer."""
    place = address & 0x07
    if place == addresses.SWCHA:
        return registers[SWCHA]
    if place == addresses.SWACNT:
        return registers[DDRA]
    if place == addresses.SWCHB:
        return registers[SWCHB]
    if place == addresses.SWBCNT:
        return 0
    if place & addresses.TIMINT == addresses.INTIM:
        return timer(registers, cycles)
    ran_out = cycles - 1 - registers[TIMER_SET] >= registers[TIMER] << registers[TIMER_SHIFT]
    return 0x80 if ran_out and registers[TIMER_READ] == 0 else 0


@wd.device_function
def write(registers, address, value, cycles):
    """Write to a port, or start the timer with an interval of 1, 8, 64 or 1024 cycles."""
    if address & 0x04 == 0:
        if address & 0x03 == addresses.SWACNT:
            registers[DDRA] = value
    elif address & 0x10:
        interval = address & 0x03
        registers[TIMER] = value
        registers[TIMER_SHIFT] = 10 if interval == 3 else 3 * interval
        registers[TIMER_SET] = cycles
        registers[TIMER_READ] = 0
