"""Layout of ``registers``, the state of all chips of a console: an index for each value.

Times are in cycles of the processor since the beginning of the first line of the frame. A cycle is three colour clocks.
"""

from __future__ import annotations

# 6507: registers, and the time
A, X, Y, S, P, PC, CYCLES = range(7)

# cartridge: first byte of the selected bank, or of the three slices of E0
BANK = 7
SLICES = 7  # to 9

# 6532 (RIOT): I/O ports, and the timer
DDRA, OUTA = 10, 11
TIMER = 12
"""Value written to the timer."""
TIMER_SHIFT = 13
"""Binary logarithm of the interval in cycles: 0, 3, 6 or 10."""
TIMER_SET = 14
"""Time of the last write to the timer."""
TIMER_FLAG_RESET = 15
"""Time of the first read of the timer after it ran out."""
TIMER_READ = 16
"""1 if the timer was read after it ran out."""

# TIA: registers as last written
VSYNC, VBLANK = 17, 18
NUSIZ0, NUSIZ1 = 19, 20
COLUP0, COLUP1, COLUPF, COLUBK = 21, 22, 23, 24
CTRLPF, REFP0, REFP1 = 25, 26, 27
PLAYFIELD = 28
"""Playfield of the left half: PF0, PF1 and PF2 as 20 bits, the lowest one at the left."""
GRP0, GRP1, OLD_GRP0, OLD_GRP1 = 29, 30, 31, 32
ENAM0, ENAM1, ENABL, OLD_ENABL = 33, 34, 35, 36
HMP0, HMP1, HMM0, HMM1, HMBL = 37, 38, 39, 40, 41
VDELP0, VDELP1, VDELBL = 42, 43, 44
RESMP0, RESMP1 = 45, 46

# TIA: positions, and the state of the beam
POSITIONS = 47  # to 51
"""Pixel at which an object begins, 0 to 159: player 0, player 1, missile 0, missile 1, ball."""
COLLISIONS = 52
"""Latches: two bits for each of CXM0P to CXPPMM, bit 7 of the read value above bit 6."""
SUPPRESSED = 53
"""Bits 0 and 1: the first copy of that player is not drawn in the rest of the line, as its position was reset."""
CHANGED = 54
"""Bit k is set if the line of object k has to be computed again (see ``beam.py``)."""
REFLECTED = 55
"""1 if the right half of the playfield is reflected in this line."""
BLANKED = 56
"""1 if HMOVE blanks the first eight pixels of this line, -1 if it never does (as in four games, for ale-py)."""
DRAWN_UNTIL = 57
"""Colour clock up to which the picture and the collisions are computed."""
VSYNC_END = 58
"""Colour clock from which a fall of VSYNC ends the frame."""
DUMP_END = 59
"""Time at which VBLANK released the capacitors of the paddles."""

# the frame
FRAME_DONE = 60
"""1 if the frame is complete, 0 if it was cut off, and continues."""
PARITY = 61
"""Index of the frame's picture in ``screen``."""

# inputs: the pins that controllers and console switches drive
SWCHA, SWCHB, INPT4, INPT5 = 62, 63, 64, 65
PADDLES = 66  # to 69
"""Resistance of each paddle in ohm; -1 if there is none."""

# TIA: what ale-py knows of objects that are reset or changed while HMOVE moves them
HMOVED = 70
"""Colour clock of the last HMOVE."""
STARS = 71
"""4 plus the line modulo 4 if missile 0 moves in each line, as its motion changed under HMOVE; else 0."""

SIZE = 72

CYCLES_PER_LINE, CLOCKS_PER_LINE, BLANK_CLOCKS, WIDTH = 76, 228, 68, 160

# kinds of cartridges
CARTRIDGES = ("2K", "4K", "F8", "F8SC", "F6", "F6SC", "E0", "FE")
K2, K4, F8, F8SC, F6, F6SC, E0, FE = range(8)
