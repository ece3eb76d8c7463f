"""States of ale-py's emulator: parsed from the bytes of ``ALEState.serialize()``, and written back.

The layout was found by experiment with ale-py 0.12.1: a program in the RAM of a state writes to one register, and the
words that differ after a frame are that register's (``tests/envs/test_atari_state.py`` repeats the experiments).

The bytes are little-endian words of 32 bits. A string is its length and its bytes; true is 0xFAB1FAB2, false
0xBAD1BAD2.

Times are in cycles of the processor, or in colour clocks, three a cycle. Both count from the end of the frame before:
a frame that begins subtracts ``cycles`` from all times. The first line of the frame began at ``Tia.frame_start``, which
is not positive: the frame before ended in the middle of a line.
"""

from __future__ import annotations

import dataclasses
import re
import struct
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

TRUE, FALSE = 0xFAB1FAB2, 0xBAD1BAD2
RAM_SIZE = 128
"""Size of the RAM of a console, and of that of a cartridge which has one."""
NEVER = 0x7FFFFFFF
"""Largest time; ``Tia.vsync_finish`` if VSYNC does not end a frame. It is decremented with the other times."""


@dataclass
class Processor:
    """The 6507. Flags are booleans; ``not_z`` is the complement of Z."""

    a: int
    x: int
    y: int
    s: int
    opcode: int
    """Last instruction executed."""
    pc: int
    n: bool
    v: bool
    b: bool
    """Set in a pushed status; it stays true."""
    d: bool
    i: bool
    not_z: bool
    c: bool
    stopped: int
    """Bit 0: the frame ended; if it is not set, the frame was cut off after 25,000 instructions.

    The frame goes on only if the same ``ALEInterface`` cut it off: a restored state begins a new one.
    Bit 1: an instruction was illegal, and the processor stands still.
    """


@dataclass
class Riot:
    """The 6532: RAM, timer and ports. Written outputs of the ports are not stored."""

    ram: np.ndarray
    timer: int
    """Value written."""
    shift: int
    """Binary logarithm of the interval: 0, 3, 6 or 10."""
    timer_set: int
    """Cycle at which the timer was written."""
    flag_reset: int
    """Cycle of the first read of the timer after it ran out."""
    read_after: bool
    """Set if the timer was read after it ran out: ``flag_reset`` holds."""
    ddra: int
    unknown_ddrb: int
    """Never anything but 0: no write changes it. By its place, the direction of port B, which is all inputs."""


@dataclass
class Tia:
    """The TIA: times in colour clocks unless said otherwise, registers in the order of their addresses."""

    frame_start: int
    """First clock of the frame's first line: 0 to -227."""
    display_start: int
    """First clock of the first visible line: ``frame_start`` + 228 lines."""
    display_stop: int
    """Clock after the last visible line."""
    updated_until: int
    """Clock up to which picture and collisions are computed."""
    clocks_left: int
    """Clocks of the line that is left to compute from ``updated_until`` on: 0 at the end of the picture."""
    lines_before: int
    """Lines of the frame before."""
    lines: int
    """Lines since ``frame_start``, at the last write to the TIA."""
    vsync_finish: int
    """Clock from which a fall of VSYNC ends the frame: one line after its rise."""
    enabled: int
    """Objects with any bits set: player 0, missile 0, player 1, missile 1, ball, playfield."""
    vsync: int
    vblank: int
    nusiz: np.ndarray
    colours: np.ndarray
    """COLUP0, COLUP1, COLUPF, COLUBK, each repeated in the four bytes."""
    ctrlpf: int
    priority: int
    """128 if the playfield is in front of the players, plus 64 in score mode; set by CTRLPF."""
    refp: np.ndarray
    playfield: int
    """PF0 >> 4 | PF1 << 4 | PF2 << 12."""
    grp: np.ndarray
    """GRP0, GRP1 as written last."""
    old_grp: np.ndarray
    """Shown if VDELP0, VDELP1: GRP0 as of the last write to GRP1, and the reverse."""
    enam: np.ndarray
    enabl: bool
    old_enabl: bool
    """Shown if VDELBL: ENABL as of the last write to GRP1."""
    motion: np.ndarray
    """HMP0, HMP1, HMM0, HMM1, HMBL: the upper nibble, 0 to 15."""
    vdelp: np.ndarray
    vdelbl: bool
    resmp: np.ndarray
    collisions: int
    """Bits 7 and 6 of CXM0P, CXM1P, CXP0FB, CXP1FB, CXM0FB and CXM1FB, then 7 of CXBLPF, then 7 and 6 of CXPPMM."""
    positions: np.ndarray
    """Pixel of player 0, player 1, missile 0, missile 1 and ball: 0 to 159."""
    shown_grp: np.ndarray
    """Bits of the players in the picture, as REFP and VDELP make them."""
    hmove_clock: int
    """Clock of the last HMOVE."""
    hmove_blank: bool
    """Set if the next pixels at the left edge are blanked by HMOVE."""
    stars: bool
    """Set if missile 0 moves by 17 pixels a line: HMM0 changed from 7 to 6, 63 clocks after HMOVE. HMOVE ends it."""
    star_line: int
    """Lines since then, modulo 4: they determine how wide the missile is."""
    dump_enabled: bool
    """Set while VBLANK discharges the capacitors of the paddles (bit 7)."""
    dump_disabled: int
    """Cycle (no colour clock) at which VBLANK released them last."""


@dataclass
class Cartridge:
    """The cartridge: kind, selected banks and RAM."""

    kind: str
    """One of ``CARTRIDGES``."""
    banks: np.ndarray
    """Number of the selected bank of F8 and F6, or of the four slices of E0 (the last one is always 7); else empty."""
    ram: np.ndarray
    """128 bytes of F8SC and F6SC; else empty."""


@dataclass
class AleState:
    """A state of ale-py's emulator."""

    paddles: np.ndarray
    """Resistance of paddles 0 and 1 in ohm, as actions last moved them."""
    frame: int
    """Frames since the ROM was loaded."""
    episode_frame: int
    """Frames since the start of the episode."""
    mode: int
    difficulty: int
    md5: str
    """Digest of the ROM."""
    cycles: int
    """Time now, in cycles."""
    random: bytes
    """Generator that the emulator draws its power-on state from, as text."""
    processor: Processor
    riot: Riot
    tia: Tia
    sound: np.ndarray
    """Seven words of the sound, which stays silent here: 0."""
    cartridge: Cartridge
    game: np.ndarray
    """What ale-py keeps for the game besides: reward, score, end, lives or others, by game."""
    generator: bytes | None
    """Generator of the repeated actions, as text, if the state was cloned with ``include_rng=True``."""
    paddle_limits: np.ndarray
    """Smallest and largest resistance."""

    def serialize(self) -> bytes:
        """Return the bytes of the state, as ``ALEState.serialize()`` of ale-py: ``ALEState(bytes)`` takes them."""
        cartridge = self.cartridge
        name = next(name for name, (kind, _, _) in CARTRIDGES.items() if kind == cartridge.kind)
        inner = b"".join(
            (
                _string(self.md5.encode()),
                _string(b"System"), _ints(self.cycles), _string(self.random),
                _string(b"M6502Low"), _write_fields(self.processor),
                _string(b"M6532"), _write_fields(self.riot),
                _string(b"TIA"), _write_fields(self.tia),
                _string(b"TIASound"), _ints(*self.sound),
                _string(name.encode()),
                _ints(*([len(cartridge.banks)] if len(cartridge.banks) == 4 else []), *cartridge.banks),
                _ints(len(cartridge.ram), *cartridge.ram) if len(cartridge.ram) else b"",
                _ints(*self.game),
                struct.pack("<I", FALSE if self.generator is None else TRUE),
                b"" if self.generator is None else _string(self.generator),
            )
        )  # fmt: skip
        header = _ints(*self.paddles, self.frame, self.episode_frame, self.mode, self.difficulty)
        return header + _string(inner) + _ints(*self.paddle_limits)


CARTRIDGES = {
    "Cartridge2K": ("2K", 0, 0),
    "Cartridge4K": ("4K", 0, 0),
    "CartridgeF8": ("F8", 1, 0),
    "CartridgeF8SC": ("F8SC", 1, 128),
    "CartridgeF6": ("F6", 1, 0),
    "CartridgeF6SC": ("F6SC", 1, 128),
    "CartridgeE0": ("E0", 4, 0),
    "CartridgeFE": ("FE", 0, 0),
}
"""Kind, number of stored banks and size of the RAM, by the emulator's name of a cartridge."""
_SIZES = {"nusiz": 2, "colours": 4, "refp": 2, "grp": 2, "old_grp": 2, "enam": 2, "motion": 5, "vdelp": 2, "resmp": 2}
_SIZES |= {"positions": 5, "shown_grp": 2}
_BOOLEANS = {"refp", "enam", "vdelp", "resmp"}


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def ints(self, count: int) -> np.ndarray:
        if not 0 <= 4 * count <= len(self.data) - self.place:
            raise ValueError(
                f"Expected {count} words at byte {self.place} of an ALE state, which has {len(self.data)}."
            )
        values = np.frombuffer(self.data, "<i4", count, self.place).astype(np.int32)
        self.place += 4 * count
        return values

    def integer(self) -> int:
        return int(self.ints(1)[0])

    def booleans(self, count: int) -> np.ndarray:
        words = self.ints(count).view(np.uint32)
        if not ((words == TRUE) | (words == FALSE)).all():
            raise ValueError(f"Expected a boolean of an ALE state at byte {self.place - 4 * count}, found {words}.")
        truths: np.ndarray = words == TRUE
        return truths

    def string(self) -> bytes:
        size = self.integer()
        if not 0 <= size <= len(self.data) - self.place:
            raise ValueError(f"Expected a string of an ALE state at byte {self.place - 4}, found a size of {size}.")
        self.place += size
        return self.data[self.place - size : self.place]

    def memory(self) -> np.ndarray:
        place, size = self.place, self.integer()
        values = self.ints(size) if size == RAM_SIZE else None
        if values is None or ((values < 0) | (values > 0xFF)).any():
            found = f"found {size}" if values is None else f"found {values.max()}"
            raise ValueError(f"Expected {RAM_SIZE} bytes of memory at byte {place} of an ALE state, {found}.")
        return values.astype(np.uint8)

    def label(self, expected: str) -> None:
        place, found = self.place, self.string()
        if found != expected.encode():
            raise ValueError(f"Expected {expected!r} at byte {place} of an ALE state, found {found[:20]!r}.")


_T = TypeVar("_T")


def _parse_fields(reader: _Reader, chip: type[_T]) -> _T:
    values: dict[str, Any] = {}
    for entry in dataclasses.fields(chip):  # type: ignore[arg-type]
        name = entry.name
        if name in _SIZES:
            values[name] = (reader.booleans if name in _BOOLEANS else reader.ints)(_SIZES[name])
        elif entry.type == "bool":
            values[name] = bool(reader.booleans(1)[0])
        elif name == "ram":
            values[name] = reader.memory()
        else:
            values[name] = reader.integer()
    return chip(**values)


def parse(state: Any) -> AleState:
    """Parse a state.

    Args:
        state: A state of ale-py 0.12, ``ale.cloneState()``; its bytes, ``state.serialize()``; or an :class:`AleState`,
            which is copied.

    Returns:
        The state.

    Raises:
        TypeError: If the argument is no state.
        ValueError: If the bytes are not a state, or the cartridge is not emulated (DPC).
    """
    if not isinstance(state, bytes) and not hasattr(state, "serialize"):
        raise TypeError(f"Expected a state of ale-py, ale.cloneState(), or its bytes, found {type(state).__name__}.")
    serialized = state if isinstance(state, bytes) else state.serialize()
    reader = _Reader(serialized)
    paddles = reader.ints(2)
    frame, episode_frame, mode, difficulty = (reader.integer() for _ in range(4))
    end = reader.integer() + reader.place
    md5 = reader.string().decode("ascii", "replace")
    if not re.fullmatch("[0-9a-f]{32}", md5):
        raise ValueError(f"Expected the MD5 of a ROM in an ALE state, found {md5[:40]!r}.")
    reader.label("System")
    cycles, random = reader.integer(), reader.string()
    reader.label("M6502Low")
    processor = _parse_fields(reader, Processor)
    reader.label("M6532")
    riot = _parse_fields(reader, Riot)
    reader.label("TIA")
    tia = _parse_fields(reader, Tia)
    reader.label("TIASound")
    sound = reader.ints(7)
    name = reader.string().decode("ascii", "replace")
    if name not in CARTRIDGES:
        raise ValueError(f"The state has a {name!r}, which is not emulated; expected one of {[*CARTRIDGES]}.")
    kind, num_banks, ram_size = CARTRIDGES[name]
    if num_banks == 4:
        reader.integer()  # their number
    banks = reader.ints(num_banks)
    ram = reader.memory() if ram_size else np.zeros(0, np.uint8)
    # words of the game up to the last boolean, which the text of the generator follows if it is true
    rest = serialized[reader.place : end]
    flag = len(rest) - 4 if rest.endswith(struct.pack("<I", FALSE)) else rest.rfind(struct.pack("<I", TRUE))
    game = reader.ints(flag // 4)
    generator = reader.string() if reader.booleans(1)[0] else None
    paddle_limits = reader.ints(2)
    if reader.place != len(serialized):
        raise ValueError(f"Expected the end of an ALE state at byte {reader.place}, found {len(serialized)} bytes.")
    return AleState(
        paddles, frame, episode_frame, mode, difficulty, md5, cycles, random, processor, riot, tia, sound,
        Cartridge(kind, banks, ram), game, generator, paddle_limits,
    )  # fmt: skip


def _string(value: bytes) -> bytes:
    return struct.pack("<i", len(value)) + value


def _ints(*values: Any) -> bytes:
    return np.array(values, np.int64).astype("<i4").tobytes()


def _write_fields(chip: object) -> bytes:
    parts = []
    for entry in dataclasses.fields(chip):  # type: ignore[arg-type]
        value = getattr(chip, entry.name)
        if entry.name in _BOOLEANS or entry.type == "bool":
            parts.append(np.where(np.atleast_1d(value), TRUE, FALSE).astype("<u4").tobytes())
        elif entry.name == "ram":
            parts.append(_ints(len(value), *value))
        else:
            parts.append(_ints(*np.atleast_1d(value)))
    return b"".join(parts)
