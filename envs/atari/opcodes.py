"""Instruction set of the 6507, as a table that the processor decodes with.

Source: MCS6500 microcomputer family programming manual (MOS Technology, 1976), appendices A and B. Undocumented
opcodes: the combined operations follow from the decoder of the chip; names are those of "NMOS 6510 unintended
opcodes" (Groepaz). The numbers of cycles depend on the addressing mode and on the kind of access alone, except for
jumps, branches and the stack.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# addressing modes
IMPLIED, IMMEDIATE, ZERO_PAGE, ZERO_PAGE_X, ZERO_PAGE_Y, ABSOLUTE, ABSOLUTE_X, ABSOLUTE_Y = range(8)
INDIRECT_X, INDIRECT_Y, INDIRECT, RELATIVE = range(8, 12)

# accesses to the operand
NONE, READ, WRITE, MODIFY = range(4)

# bits of an entry of :data:`DECODED`
READS, WRITES = 1 << 13, 1 << 19
"""The instruction reads its operand from an address, or writes to one."""
ADDS_X, ADDS_Y = 1 << 21, 1 << 22
"""X or Y is added to the operand, which is an address."""
IS_IN_MEMORY = 1 << 23
"""The address is in memory or in S: ``(d,X)``, ``(d),Y``, PLA and PLP."""
IS_ABSOLUTE = 1 << 24
"""The address has 16 bits, not 8. Bits 25 to 31 are set, too."""

LENGTHS = (1, 2, 2, 2, 2, 3, 3, 3, 2, 2, 3, 2)
"""Bytes of an instruction, by addressing mode."""
CYCLES = {
    NONE: {IMPLIED: 2, IMMEDIATE: 2, RELATIVE: 2, ABSOLUTE: 3, INDIRECT: 5},
    READ: dict(zip(range(1, 10), (2, 3, 4, 4, 4, 4, 4, 6, 5), strict=True)),
    WRITE: dict(zip(range(2, 10), (3, 4, 4, 4, 5, 5, 6, 6), strict=True)),
    MODIFY: dict(zip(range(2, 10), (5, 6, 6, 6, 7, 7, 8, 8), strict=True)),
}
"""Cycles by access and addressing mode. A read with an index takes one more if it crosses a page."""
STACK_CYCLES = {"PHA": 3, "PHP": 3, "PLA": 4, "PLP": 4, "JSR": 6, "RTS": 6, "RTI": 6, "BRK": 7}

_MODES = ["imp", "imm", "zp", "zpx", "zpy", "abs", "abx", "aby", "inx", "iny", "ind", "rel"]
_TABLE = """
read   ADC imm 69 zp 65 zpx 75 abs 6D abx 7D aby 79 inx 61 iny 71
read   AND imm 29 zp 25 zpx 35 abs 2D abx 3D aby 39 inx 21 iny 31
read   BIT zp 24 abs 2C
read   CMP imm C9 zp C5 zpx D5 abs CD abx DD aby D9 inx C1 iny D1
read   CPX imm E0 zp E4 abs EC
read   CPY imm C0 zp C4 abs CC
read   EOR imm 49 zp 45 zpx 55 abs 4D abx 5D aby 59 inx 41 iny 51
read   LDA imm A9 zp A5 zpx B5 abs AD abx BD aby B9 inx A1 iny B1
read   LDX imm A2 zp A6 zpy B6 abs AE aby BE
read   LDY imm A0 zp A4 zpx B4 abs AC abx BC
read   ORA imm 09 zp 05 zpx 15 abs 0D abx 1D aby 19 inx 01 iny 11
read   SBC imm E9 zp E5 zpx F5 abs ED abx FD aby F9 inx E1 iny F1
write  STA zp 85 zpx 95 abs 8D abx 9D aby 99 inx 81 iny 91
write  STX zp 86 zpy 96 abs 8E
write  STY zp 84 zpx 94 abs 8C
modify ASL zp 06 zpx 16 abs 0E abx 1E
modify DEC zp C6 zpx D6 abs CE abx DE
modify INC zp E6 zpx F6 abs EE abx FE
modify LSR zp 46 zpx 56 abs 4E abx 5E
modify ROL zp 26 zpx 36 abs 2E abx 3E
modify ROR zp 66 zpx 76 abs 6E abx 7E
none   ASL_A imp 0A
none   LSR_A imp 4A
none   ROL_A imp 2A
none   ROR_A imp 6A
none   BRANCH rel 10
none   BRANCH rel 30
none   BRANCH rel 50
none   BRANCH rel 70
none   BRANCH rel 90
none   BRANCH rel B0
none   BRANCH rel D0
none   BRANCH rel F0
none   BRK imp 00
none   CLC imp 18
none   CLD imp D8
none   CLI imp 58
none   CLV imp B8
none   SEC imp 38
none   SED imp F8
none   SEI imp 78
none   DEX imp CA
none   DEY imp 88
none   INX imp E8
none   INY imp C8
none   JMP abs 4C ind 6C
none   JSR abs 20
none   NOP imp EA
write  PHA imp 48
write  PHP imp 08
read   PLA imp 68
read   PLP imp 28
none   RTI imp 40
none   RTS imp 60
none   TAX imp AA
none   TAY imp A8
none   TSX imp BA
none   TXA imp 8A
none   TXS imp 9A
none   TYA imp 98
"""
_UNDOCUMENTED = """
read   LAX zp A7 zpy B7 abs AF aby BF inx A3 iny B3
read   LAS aby BB
read   SBC imm EB
read   ANC imm 0B
read   ANC imm 2B
read   ALR imm 4B
read   ARR imm 6B
read   ANE imm 8B
read   LXA imm AB
read   SBX imm CB
read   IGN imm 80 zp 04 zpx 14 abs 0C abx 1C
read   IGN imm 82 zp 44 zpx 34 abx 3C
read   IGN imm 89 zp 64 zpx 54 abx 5C
read   IGN imm C2 zpx 74 abx 7C
read   IGN imm E2 zpx D4 abx DC
read   IGN zpx F4 abx FC
write  SAX zp 87 zpy 97 abs 8F inx 83
write  SHA aby 9F iny 93
write  SHX aby 9E
write  SHY abx 9C
write  TAS aby 9B
modify DCP zp C7 zpx D7 abs CF abx DF aby DB inx C3 iny D3
modify ISC zp E7 zpx F7 abs EF abx FF aby FB inx E3 iny F3
modify RLA zp 27 zpx 37 abs 2F abx 3F aby 3B inx 23 iny 33
modify RRA zp 67 zpx 77 abs 6F abx 7F aby 7B inx 63 iny 73
modify SLO zp 07 zpx 17 abs 0F abx 1F aby 1B inx 03 iny 13
modify SRE zp 47 zpx 57 abs 4F abx 5F aby 5B inx 43 iny 53
none   NOP imp 1A
none   NOP imp 3A
none   NOP imp 5A
none   NOP imp 7A
none   NOP imp DA
none   NOP imp FA
"""

_ROWS = [line.split() for line in (_TABLE + _UNDOCUMENTED).splitlines() if line]
OPERATIONS = tuple(dict.fromkeys(row[1] for row in _ROWS))
"""Names of the operations; the number of one is its index. ``JAM``, which stops the chip, is the next number."""
(
    ADC, AND, BIT, CMP, CPX, CPY, EOR, LDA, LDX, LDY, ORA, SBC, STA, STX, STY, ASL, DEC, INC, LSR, ROL, ROR,
    ASL_A, LSR_A, ROL_A, ROR_A, BRANCH, BRK, CLC, CLD, CLI, CLV, SEC, SED, SEI,
    DEX, DEY, INX, INY, JMP, JSR, NOP, PHA, PHP, PLA, PLP, RTI, RTS, TAX, TAY, TSX, TXA, TXS, TYA,
    LAX, LAS, ANC, ALR, ARR, ANE, LXA, SBX, IGN, SAX, SHA, SHX, SHY, TAS, DCP, ISC, RLA, RRA, SLO, SRE,
) = range(len(OPERATIONS))  # fmt: skip
JAM = len(OPERATIONS)


def _decoded() -> np.ndarray:
    """Return the table, uint32 ``[256]``: see the masks and shifts below."""
    table = np.full(256, JAM | 1 << 11 | 2 << 14, np.uint32)
    for access, name, *modes in _ROWS:
        kind = ("none", "read", "write", "modify").index(access)
        for mode_name, opcode in zip(modes[::2], modes[1::2], strict=True):
            mode = _MODES.index(mode_name)
            cycles = STACK_CYCLES.get(name) or CYCLES[kind][mode]
            crossing = kind == READ and mode in (ABSOLUTE_X, ABSOLUTE_Y, INDIRECT_Y)
            entry = (
                OPERATIONS.index(name) | mode << 7 | LENGTHS[mode] << 11 | cycles << 14 | kind << 18 | crossing << 20
            )
            entry |= ADDS_X if mode in (ZERO_PAGE_X, ABSOLUTE_X) else 0
            entry |= ADDS_Y if mode in (ZERO_PAGE_Y, ABSOLUTE_Y) else 0
            entry |= IS_IN_MEMORY if mode in (INDIRECT_X, INDIRECT_Y) or name in ("PLA", "PLP") else 0
            entry |= READS if kind in (READ, MODIFY) and mode != IMMEDIATE else 0
            entry |= int(opcode, 16) >> 5 << 24 if mode == RELATIVE else 0
            entry |= 0xFF * IS_ABSOLUTE if LENGTHS[mode] == 3 else 0
            table[int(opcode, 16)] = entry
    return table


DECODED = _decoded()
"""For each opcode: operation (bits 0 to 6), addressing mode (7 to 10), length in bytes (11 and 12), cycles (14 to 17),
access (18 and 19), 1 if crossing a page takes a cycle more (20), and the bits above. Branches have bits 5 to 7 of the
opcode in 24 to 26: the state of a flag in which they are taken, and the flag, N, V, C or Z."""


PADDING = 2
"""Number of instructions after the cartridge's last byte, which are its first ones again."""


def decoded(contents: bytes) -> npt.NDArray[np.int64]:
    """Return the bytes of a cartridge, each with the instruction that begins there, as the processor reads them.

    Returns:
        ``[size + PADDING]``. Bits 0 to 7: the byte; 8 to 23: the next two, the second only if the instruction has
        three; from 24: the entry of :data:`DECODED`.
    """
    values = np.frombuffer(contents + contents[: PADDING + 2], np.uint8).astype(np.int64)
    first, second, third = values[:-2], values[1:-1], values[2:]
    entries = DECODED[first].astype(np.int64)
    return first | second << 8 | np.where(entries >> 11 & 3 == 3, third, 0) << 16 | entries << 24
