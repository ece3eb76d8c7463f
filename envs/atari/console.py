"""A frame of the console: rebase the clocks, and run the processor until the vertical synchronisation."""

from __future__ import annotations

import numpy as np
from numba import cuda

import warpdrive as wd
from warpdrive.envs.atari import beam, processor
from warpdrive.envs.atari.machine import (
    CHANGED,
    COLUP0,
    CYCLES,
    CYCLES_PER_LINE,
    DRAWN_UNTIL,
    DUMP_END,
    FRAME_DONE,
    HMOVED,
    PARITY,
    TIMER_FLAG_RESET,
    TIMER_SET,
    VSYNC_END,
)
from warpdrive.envs.atari.tia import NEVER

LAST_NTSC_LINE = 290
"""Line after which ale-py ends a frame without vertical synchronisation; it is a later one with PAL."""


@wd.device_function
def run_frame(ram, registers, cartridge_ram, rom, screen, kind, first_line, num_lines, last_line, drawn, on_gpu):
    """Emulate one frame of a console.

    Args:
        ram: RAM of the RIOT, uint8 ``[128]``.
        registers: State of the chips, int32 ``[machine.SIZE]``, with the inputs of the frame.
        cartridge_ram: uint8 ``[128]``.
        rom: The cartridge, int64, from ``opcodes.decoded``.
        screen: Colours of this frame and of the one before, uint8 ``[2, num_lines, 160]``.
        kind: Kind of the cartridge, an index of ``machine.CARTRIDGES``.
        first_line: First visible line.
        num_lines: Number of visible lines.
        last_line: Line after which a frame ends without vertical synchronisation: 290, or 342 of PAL.
        drawn: If False, ``screen`` is not updated, which is faster.
        on_gpu: If False, frequent instructions are executed in the short form for host processors.
    """
    objects = cuda.local.array((6, 4), np.int64)
    if registers[FRAME_DONE]:
        cycles = registers[CYCLES] % CYCLES_PER_LINE
        passed = registers[CYCLES] - cycles
        registers[CYCLES] = cycles
        registers[TIMER_SET] -= passed
        registers[TIMER_FLAG_RESET] -= passed
        registers[DUMP_END] -= passed
        registers[HMOVED] -= 3 * passed
        if registers[VSYNC_END] != NEVER:
            registers[VSYNC_END] -= 3 * passed
        if drawn:
            registers[PARITY] ^= 1
        registers[DRAWN_UNTIL] = 0
        if last_line > LAST_NTSC_LINE:  # PAL loses the colours of a frame after an odd number of lines
            for which in range(COLUP0, COLUP0 + 4):
                registers[which] = registers[which] & 0xFE | passed // CYCLES_PER_LINE & 1
    registers[CHANGED] = 63
    processor.run(
        ram, registers, cartridge_ram, rom, objects, screen, kind, first_line, num_lines, last_line, drawn,
        on_gpu,
    )  # fmt: skip
    if registers[FRAME_DONE]:
        beam.advance(registers, objects, screen, 3 * registers[CYCLES], first_line, num_lines, drawn)
