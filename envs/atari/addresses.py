"""Addresses of the registers of TIA and RIOT, with the names of the manual.

Source: Stella Programmer's Guide (S. Wright, 1979), "Write address summary", "Read address summary", and section 6 of
"The PIA (6532)". The lower address lines select a register: six for writes to the TIA, four for reads from it, and
three in the RIOT, where line 2 selects the timer.
"""

from __future__ import annotations

# TIA, written
(
    VSYNC, VBLANK, WSYNC, RSYNC, NUSIZ0, NUSIZ1, COLUP0, COLUP1, COLUPF, COLUBK, CTRLPF, REFP0, REFP1, PF0, PF1, PF2,
    RESP0, RESP1, RESM0, RESM1, RESBL, AUDC0, AUDC1, AUDF0, AUDF1, AUDV0, AUDV1, GRP0, GRP1, ENAM0, ENAM1, ENABL,
    HMP0, HMP1, HMM0, HMM1, HMBL, VDELP0, VDELP1, VDELBL, RESMP0, RESMP1, HMOVE, HMCLR, CXCLR,
) = range(0x2D)  # fmt: skip

# TIA, read
CXM0P, CXM1P, CXP0FB, CXP1FB, CXM0FB, CXM1FB, CXBLPF, CXPPMM = range(8)
INPT0, INPT1, INPT2, INPT3, INPT4, INPT5 = range(8, 14)

# RIOT, from 0x280 on
SWCHA, SWACNT, SWCHB, SWBCNT, INTIM, TIMINT = range(6)
