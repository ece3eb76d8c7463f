"""Conversion of states of ale-py to arrays of a console, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from warpdrive.envs.atari import controllers, games, machine, rules
from warpdrive.envs.atari.ale_state import FALSE, NEVER, RAM_SIZE, TRUE, AleState, Cartridge, parse
from warpdrive.errors import DefinitionError

MOST_LINES = 312
"""Lines of a frame, PAL."""

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
    """Convert a state of ale-py to the arrays of one console, without the axis ``num_envs``.

    The screen is black, as states have none, and the inputs are those of released controllers. A frame that was cut off
    is continued, as by the interface that the state was cloned from.

    Args:
        state: A state of ale-py, ``ale.cloneState()``; its bytes, ``state.serialize()``; or an :class:`AleState`.

    Returns:
        ``ram``, ``registers``, ``cartridge_ram`` and ``screen``, and ``md5``, the digest of the ROM; of the games of
        ``wd.atari.games()`` also ``score``, ``second_score`` and ``lives``.

    Raises:
        DefinitionError: The state has impossible values.
        TypeError, ValueError: As from :func:`.ale_state.parse`.
    """
    if not isinstance(state, AleState):
        state = parse(state)
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
    registers[machine.ROM] = machine.identity(state.md5)
    banks = cartridge.banks[:3].astype(np.int64)
    registers[machine.BANK : machine.BANK + len(banks)] = banks << _bank_bits(cartridge)
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
    if not 0 < height <= MOST_LINES:
        raise DefinitionError(f"the state of ale-py is damaged: its picture has {height} lines, not 1 to {MOST_LINES}")
    game = games.of_rom(state.md5)
    if game is not None and not game.blanks:
        registers[machine.BLANKED] = -1
    machine.check(registers, cartridge.kind, "the state of ale-py")
    return {
        "ram": riot.ram.copy(),
        "registers": np.clip(registers, -NEVER - 1, NEVER).astype(np.int32),
        "cartridge_ram": ram,
        "screen": np.zeros((2, height, machine.WIDTH), np.uint8),
        "md5": np.array(state.md5),
        **({} if game is None else _numbers(state, game)),
    }


def _numbers(state: AleState, game: games.Game) -> dict[str, np.ndarray]:
    """Return scores and lives: ale-py's lives if the memory does not give them, as the last word that is a number."""
    score, lives = rules.score_and_lives(state.riot.ram, rules.program(game))
    second_terms = () if game.two is None else game.two.second_score
    second_score, _ = rules.score_and_lives(state.riot.ram, rules.sum_of(second_terms, game))
    if game.keeps_lives:
        words = [int(word) for word in state.game if int(word) & 0xFFFFFFFF not in (TRUE, FALSE)]
        if not words:
            raise DefinitionError(f"the state of ale-py is damaged: it has no lives of {game.name}")
        lives = words[-1]
    numbers = {"score": score, "second_score": second_score, "lives": lives}
    return {name: np.array(number, np.int32) for name, number in numbers.items()}


def to_ale(arrays: Mapping[str, np.ndarray], template: Any) -> AleState:
    """Convert the arrays of a console to a state of ale-py: the reverse of :func:`from_ale`.

    Args:
        arrays: ``ram``, ``registers`` and ``cartridge_ram`` of one environment.
        template: A state of the same game, of any type that :func:`from_ale` takes, with what a console lacks:
            counters, limits of the paddles, generators. What ale-py keeps of the rules, reward and lives among them, is
            the template's until the next action. It is not modified.

    Returns:
        The state: ``ale.restoreState(ale_py.ALEState(state.serialize()))`` continues from it.

    Raises:
        DefinitionError: The console has another ROM than the template, or impossible values, or an array has another
            shape or is missing.
        TypeError, ValueError: As from :func:`.ale_state.parse`.
    """
    state = parse(template)
    for name, size in (("ram", RAM_SIZE), ("registers", machine.SIZE), ("cartridge_ram", RAM_SIZE)):
        shape = np.shape(arrays[name]) if name in arrays else None
        if shape != (size,):
            found = "is missing" if shape is None else f"has the shape {shape}"
            raise DefinitionError(f"'{name}' {found}, expected ({size},), as in env.state(0) or of wd.atari.from_ale")
    registers = np.asarray(arrays["registers"]).astype(np.int64)
    games.check_rom(registers, state.md5, "arrays")
    machine.check(registers, state.cartridge.kind, "arrays")
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
    banks[:] = registers[machine.BANK : machine.BANK + len(banks)] >> _bank_bits(cartridge)
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


def _controllers_of(state: AleState) -> tuple[bool, bool]:
    """Return True if the game of a state is played with paddles, and True if the players' controllers are swapped."""
    game = games.of_rom(state.md5)
    return (False, False) if game is None else (game.controller == "paddles", game.swapped_ports)


def _bank_bits(cartridge: Cartridge) -> int:
    """Return the number of address bits within a bank: 1 KiB in E0, 4 KiB in others."""
    return 10 if cartridge.kind == "E0" else 12


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
