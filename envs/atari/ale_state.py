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

import copy
import dataclasses
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from warpdrive.envs.atari import controllers, games, machine, rules

TRUE, FALSE = 0xFAB1FAB2, 0xBAD1BAD2
RAM_SIZE = 128
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


# kind, number of banks and size of the RAM by the name of a cartridge
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
_SIZES = {"nusiz": 2, "colours": 4, "refp": 2, "grp": 2, "old_grp": 2, "enam": 2, "motion": 5, "vdelp": 2, "resmp": 2}
_SIZES |= {"positions": 5, "shown_grp": 2}
_BOOLEANS = {"refp", "enam", "vdelp", "resmp"}


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def ints(self, count: int) -> np.ndarray:
        values = np.frombuffer(self.data, "<i4", count, self.place).astype(np.int32)
        self.place += 4 * count
        return values

    def integer(self) -> int:
        return int(self.ints(1)[0])

    def booleans(self, count: int) -> np.ndarray:
        words = self.ints(count).view(np.uint32)
        if not np.isin(words, (TRUE, FALSE)).all():
            raise ValueError(f"Expected a boolean of an ALE state at byte {self.place - 4 * count}, found {words}.")
        truths: np.ndarray = words == TRUE
        return truths

    def string(self) -> bytes:
        size = self.integer()
        if not 0 <= size <= len(self.data) - self.place:
            raise ValueError(f"Expected a string of an ALE state at byte {self.place - 4}, found a size of {size}.")
        self.place += size
        return self.data[self.place - size : self.place]

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
            values[name] = reader.ints(reader.integer()).astype(np.uint8)
        else:
            values[name] = reader.integer()
    return chip(**values)


def parse(serialized: bytes) -> AleState:
    """Parse a state.

    Args:
        serialized: ``ALEState.serialize()`` of ale-py 0.12.

    Raises:
        ValueError: The bytes are no state, or the cartridge is not emulated (DPC).
    """
    reader = _Reader(serialized)
    paddles = reader.ints(2)
    frame, episode_frame, mode, difficulty = (reader.integer() for _ in range(4))
    end = reader.integer() + reader.place
    md5 = reader.string().decode()
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
    ram = reader.ints(reader.integer() if ram_size else 0).astype(np.uint8)
    # words of the game up to the last boolean, which the text of the generator follows if it is true
    rest = serialized[reader.place : end]
    flag = len(rest) - 4 if rest.endswith(struct.pack("<I", FALSE)) else rest.rfind(struct.pack("<I", TRUE))
    game = reader.ints(flag // 4)
    generator = reader.string() if reader.booleans(1)[0] else None
    return AleState(
        paddles, frame, episode_frame, mode, difficulty, md5, cycles, random, processor, riot, tia, sound,
        Cartridge(kind, banks, ram), game, generator, reader.ints(2),
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


def write(state: AleState) -> bytes:
    """Return the bytes of a state: ``ALEState(write(state))`` restores it in ale-py."""
    cartridge = state.cartridge
    name = next(name for name, (kind, _, _) in CARTRIDGES.items() if kind == cartridge.kind)
    inner = b"".join(
        (
            _string(state.md5.encode()),
            _string(b"System"), _ints(state.cycles), _string(state.random),
            _string(b"M6502Low"), _write_fields(state.processor),
            _string(b"M6532"), _write_fields(state.riot),
            _string(b"TIA"), _write_fields(state.tia),
            _string(b"TIASound"), _ints(*state.sound),
            _string(name.encode()),
            _ints(*([len(cartridge.banks)] if len(cartridge.banks) == 4 else []), *cartridge.banks),
            _ints(len(cartridge.ram), *cartridge.ram) if len(cartridge.ram) else b"",
            _ints(*state.game),
            struct.pack("<I", FALSE) if state.generator is None else struct.pack("<I", TRUE) + _string(state.generator),
        )
    )  # fmt: skip
    header = _ints(*state.paddles, state.frame, state.episode_frame, state.mode, state.difficulty)
    return header + _string(inner) + _ints(*state.paddle_limits)


# words of ``registers`` that are one field of a state each
_SAME = {
    "processor": {"a": machine.A, "x": machine.X, "y": machine.Y, "s": machine.S, "pc": machine.PC},
    "riot": {
        "ddra": machine.DDRA, "timer": machine.TIMER, "shift": machine.TIMER_SHIFT, "read_after": machine.TIMER_READ,
    },
    "tia": {
        "vsync": machine.VSYNC, "vblank": machine.VBLANK, "nusiz": machine.NUSIZ0, "ctrlpf": machine.CTRLPF,
        "grp": machine.GRP0, "old_grp": machine.OLD_GRP0, "motion": machine.HMP0,
        "vdelp": machine.VDELP0, "vdelbl": machine.VDELBL, "positions": machine.POSITIONS,
        "hmove_blank": machine.BLANKED,
    },
}  # fmt: skip
# booleans that are one bit of a register
_BITS = {
    "refp": (machine.REFP0, 8), "enam": (machine.ENAM0, 2), "enabl": (machine.ENABL, 2),
    "old_enabl": (machine.OLD_ENABL, 2), "resmp": (machine.RESMP0, 2),
}  # fmt: skip
_FLAGS = {"n": 0x80, "v": 0x40, "d": 8, "i": 4, "c": 1}
_LATCHES = (1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 15, 14)
"""Bit of ``machine.COLLISIONS`` by that of ``Tia.collisions``."""


def from_ale(state: Any) -> dict[str, np.ndarray]:
    """Convert a state of ale-py to the arrays of a console, without the axis of the environments.

    The screen is black, as a state has none, and the inputs are those of controllers that nobody touches. The console
    goes on with a frame that was cut off, as the interface does that the state was cloned from.

    Args:
        state: A state of ale-py, ``ale.cloneState()``, its bytes, ``serialize()`` of it, or an :class:`AleState`.

    Returns:
        ``ram``, ``registers``, ``cartridge_ram`` and ``screen``; of the games of ``wd.atari.games()`` also ``score``,
        ``second_score`` and ``lives``.
    """
    if not isinstance(state, AleState):
        state = parse(state if isinstance(state, bytes) else state.serialize())
    cpu, riot, tia, cartridge = state.processor, state.riot, state.tia, state.cartridge
    registers = np.zeros(machine.SIZE, np.int64)
    for chip, fields in _SAME.items():
        for name, index in fields.items():
            values = np.atleast_1d(getattr(getattr(state, chip), name))
            registers[index : index + len(values)] = values
    for name, (index, bit) in _BITS.items():
        values = np.atleast_1d(getattr(tia, name))
        registers[index : index + len(values)] = np.where(values, bit, 0)
    status = 0x30 | (0 if cpu.not_z else 2)
    registers[machine.P] = status | sum(bit for name, bit in _FLAGS.items() if getattr(cpu, name))
    registers[machine.COLUP0 : machine.COLUP0 + 4] = tia.colours & 0xFF
    registers[machine.COLLISIONS] = sum(1 << bit for k, bit in enumerate(_LATCHES) if tia.collisions >> k & 1)
    registers[machine.PLAYFIELD] = _mirrored(tia.playfield)
    registers[machine.REFLECTED] = tia.ctrlpf & 1
    registers[machine.BANK : machine.BANK + len(cartridge.banks[:3])] = cartridge.banks[:3] << (
        10 if cartridge.kind == "E0" else 12
    )
    # times since the beginning of the first line
    line = tia.frame_start
    registers[machine.CYCLES] = state.cycles - line // 3
    registers[machine.TIMER_SET] = riot.timer_set - line // 3
    registers[machine.TIMER_FLAG_RESET] = riot.flag_reset - line // 3
    registers[machine.DUMP_END] = tia.dump_disabled - line // 3
    registers[machine.HMOVED] = tia.hmove_clock - line
    registers[machine.STARS] = 4 + tia.star_line if tia.stars else 0
    registers[machine.DRAWN_UNTIL] = tia.updated_until - line
    registers[machine.VSYNC_END] = NEVER if tia.vsync_finish > NEVER // 2 else tia.vsync_finish - line
    registers[machine.FRAME_DONE] = cpu.stopped & 1
    registers[[machine.SWCHA, machine.SWCHB]] = 0xFF, 0x3F | (state.difficulty & 3) << 6
    registers[[machine.INPT4, machine.INPT5]] = 0x80
    registers[machine.PADDLES : machine.PADDLES + 4] = controllers.resistances(
        int(state.paddles[0]), int(state.paddles[1]), *_controllers_of(state)
    )
    ram = np.zeros(RAM_SIZE, np.uint8)
    ram[: len(cartridge.ram)] = cartridge.ram
    height = (tia.display_stop - tia.display_start) // machine.CLOCKS_PER_LINE
    game = _game_of(state)
    if game is not None and not game.blanks:
        registers[machine.BLANKED] = -1
    return {
        "ram": riot.ram.copy(),
        "registers": np.clip(registers, -NEVER - 1, NEVER).astype(np.int32),
        "cartridge_ram": ram,
        "screen": np.zeros((2, height, machine.WIDTH), np.uint8),
        **({} if game is None else _numbers(state, game)),
    }


def _numbers(state: AleState, game: games.Game) -> dict[str, np.ndarray]:
    """Return scores and lives: ale-py's lives if the memory does not give them, as the last word that is a number."""
    score, lives = rules.score_and_lives(state.riot.ram, rules.program(game))
    second_score, _ = rules.score_and_lives(state.riot.ram, rules.sum_of(game.second_score, game))
    if game.keeps_lives:
        lives = [int(word) for word in state.game if int(word) & 0xFFFFFFFF not in (TRUE, FALSE)][-1]
    numbers = {"score": score, "second_score": second_score, "lives": lives}
    return {name: np.array(number, np.int32) for name, number in numbers.items()}


def to_ale(arrays: Mapping[str, np.ndarray], template: AleState | bytes) -> AleState:
    """Convert the arrays of a console to a state of ale-py: the reverse of ``from_ale``.

    Args:
        arrays: ``ram``, ``registers`` and ``cartridge_ram`` of one environment.
        template: A state of the same game with what a console lacks: counters, limits of the paddles, generators. What
            ale-py keeps of the rules, reward and lives among them, is the template's until the next action.
    """
    state = parse(template) if isinstance(template, bytes) else copy.deepcopy(template)
    registers = np.asarray(arrays["registers"]).astype(np.int64)
    cpu, riot, tia, cartridge = state.processor, state.riot, state.tia, state.cartridge
    for chip, fields in _SAME.items():
        for name, index in fields.items():
            _assign(getattr(state, chip), name, registers[index:])
    for name, (index, _) in _BITS.items():
        _assign(tia, name, registers[index:] != 0)
    for name, bit in _FLAGS.items():
        setattr(cpu, name, bool(registers[machine.P] & bit))
    cpu.not_z = not registers[machine.P] & 2
    cpu.stopped = int(registers[machine.FRAME_DONE])
    tia.hmove_blank = bool(registers[machine.BLANKED] > 0)
    riot.ram = np.array(arrays["ram"], np.uint8)
    tia.colours = (registers[machine.COLUP0 : machine.COLUP0 + 4] * 0x01010101).astype(np.uint32).view(np.int32)
    tia.priority = (tia.ctrlpf & 4) << 5 | (tia.ctrlpf & 2) << 5
    tia.playfield = _mirrored(int(registers[machine.PLAYFIELD]))
    latches = int(registers[machine.COLLISIONS])
    tia.collisions = sum(1 << k for k, bit in enumerate(_LATCHES) if latches >> bit & 1)
    tia.dump_enabled = bool(tia.vblank & 0x80)
    graphics = np.where(tia.vdelp, tia.old_grp, tia.grp)
    tia.shown_grp = np.where(tia.refp, [_reversed(value) for value in graphics], graphics)
    ball = tia.old_enabl if tia.vdelbl else tia.enabl
    shown = (graphics[0], tia.enam[0], graphics[1], tia.enam[1], ball, tia.playfield)
    tia.enabled = sum(1 << k for k, bits in enumerate(shown) if bits)
    banks = cartridge.banks[:3]
    banks[:] = registers[machine.BANK : machine.BANK + len(banks)] >> (10 if cartridge.kind == "E0" else 12)
    cartridge.ram = np.array(arrays["cartridge_ram"][: len(cartridge.ram)], np.uint8)
    # times since the end of the frame before, which ended in the template's column
    line = tia.frame_start
    state.cycles = int(registers[machine.CYCLES]) + line // 3
    riot.timer_set = int(registers[machine.TIMER_SET]) + line // 3
    riot.flag_reset = int(registers[machine.TIMER_FLAG_RESET]) + line // 3
    tia.dump_disabled = int(registers[machine.DUMP_END]) + line // 3
    tia.updated_until = int(registers[machine.DRAWN_UNTIL]) + line
    end = int(registers[machine.VSYNC_END])
    tia.vsync_finish = end if end == NEVER else end + line
    tia.hmove_clock = int(registers[machine.HMOVED]) + line
    tia.stars = bool(registers[machine.STARS])
    if tia.stars:
        tia.star_line = int(registers[machine.STARS]) & 3
    has_paddles, swapped = _controllers_of(state)
    if has_paddles:
        paddles = registers[machine.PADDLES : machine.PADDLES + 2]
        state.paddles[:] = paddles[::-1] if swapped else paddles
    return state


def _game_of(state: AleState) -> games.Game | None:
    """Return the game of a state, None if it is not in the table."""
    return next((game for game in games.GAMES.values() if game.md5 == state.md5), None)


def _controllers_of(state: AleState) -> tuple[bool, bool]:
    """Return True if the game of a state is played with paddles, and True if the players' controllers are swapped."""
    game = _game_of(state)
    return (False, False) if game is None else (game.controller == "paddles", game.swapped_ports)


def _reversed(byte: int) -> int:
    return int(f"{byte:08b}"[::-1], 2)


def _mirrored(playfield: int) -> int:
    """Return the bits of a playfield with those of PF1 in the reverse order: a console's are in the picture's order."""
    return playfield & 0xFF00F | _reversed(playfield >> 4 & 0xFF) << 4


def _assign(chip: object, name: str, words: np.ndarray) -> None:
    """Set a field to the first words: as many as it has."""
    value = getattr(chip, name)
    if isinstance(value, np.ndarray):
        setattr(chip, name, words[: len(value)].astype(value.dtype))
    else:
        setattr(chip, name, type(value)(words[0]))
