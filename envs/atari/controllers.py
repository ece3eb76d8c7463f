"""Controllers: actions of one or two players as the levels of the console's input pins.

Actions have ale-py's numbers, 0 to 17: see ``NAMES``. Source: Stella Programmer's Guide (S. Wright, 1979), "The TIA",
section 12, and "The PIA (6532)", sections 4 (console switches) and 5 (hand controllers).
"""

from __future__ import annotations

import numpy as np

import warpdrive as wd
from warpdrive.envs.atari.machine import INPT4, INPT5, PADDLES, SWCHA

NOOP, FIRE, UP, RIGHT, LEFT, DOWN = range(6)
NUM_ACTIONS = 18
NAMES = (
    *("NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT"),
    *("UPFIRE", "RIGHTFIRE", "LEFTFIRE", "DOWNFIRE", "UPRIGHTFIRE", "UPLEFTFIRE", "DOWNRIGHTFIRE", "DOWNLEFTFIRE"),
)
"""Names of the actions, as in ale-py."""

STICK_UP, STICK_DOWN, STICK_LEFT, STICK_RIGHT, TRIGGER = 1, 2, 4, 8, 16
SWITCHES = np.array([
    sum(bit for bit, word in ((STICK_UP, "UP"), (STICK_DOWN, "DOWN"), (STICK_LEFT, "LEFT"), (STICK_RIGHT, "RIGHT"),
                              (TRIGGER, "FIRE")) if word in name)
    for name in NAMES
], np.int8)  # fmt: skip
"""Closed switches of a joystick for each action: the lower four bits as in SWCHA, and the trigger."""

LOWEST_OHM, HIGHEST_OHM = 27_450, 790_196
CENTRE_OHM = (LOWEST_OHM + HIGHEST_OHM) // 2
OHM_PER_FRAME = 23_000
"""Resistances of a paddle, and the change in a frame."""

PADDLE_TRIGGERS = (0x80, 0x40)
"""Bits of SWCHA of the triggers of paddles 0 and 1."""

CONSOLE_SWITCHES = 0x3F
"""SWCHB without pressed switches, both difficulties B."""
RESET, SELECT = 0x01, 0x02
"""Bits of SWCHB that are low while a switch is pressed."""


def resistances(first: int, second: int, has_paddles: bool, swapped: bool) -> tuple[int, int, int, int]:
    """Return the resistances at the four inputs, in ohm, for those of both players' paddles; -1 where there is none."""
    if not has_paddles:
        return -1, -1, -1, -1
    return (second, first, 0, 0) if swapped else (first, second, -1, -1)


@wd.device_function
def press(registers, first, second, has_paddles, swapped):
    """Set the inputs of a frame.

    Args:
        registers: State of the chips, int32 ``[machine.SIZE]``.
        first: Action of the first player.
        second: Action of the second player; 0 for none.
        has_paddles: If True, the players have paddles, else joysticks.
        swapped: If True, the first player has the controller of the second, and the reverse.
    """
    one, two = (second, first) if swapped else (first, second)
    left, right = int(SWITCHES[one]), int(SWITCHES[two])
    if has_paddles:
        _turn(registers, 0, left)
        _turn(registers, 1, right)
        triggers = (PADDLE_TRIGGERS[0] if left & TRIGGER else 0) | (PADDLE_TRIGGERS[1] if right & TRIGGER else 0)
        registers[SWCHA] = 0xFF & ~triggers
    else:
        registers[SWCHA] = 0xFF & ~((left & 0x0F) << 4 | right & 0x0F)
        registers[INPT4] = 0 if left & TRIGGER else 0x80
        registers[INPT5] = 0 if right & TRIGGER else 0x80


@wd.device_function
def _turn(registers, paddle, switches):
    """Turn a paddle: to the right, its resistance decreases."""
    ohm = registers[PADDLES + paddle]
    if switches & STICK_RIGHT:
        ohm = max(ohm - OHM_PER_FRAME, LOWEST_OHM)
    elif switches & STICK_LEFT:
        ohm = min(ohm + OHM_PER_FRAME, HIGHEST_OHM)
    registers[PADDLES + paddle] = ohm
