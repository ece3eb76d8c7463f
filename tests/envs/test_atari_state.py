"""States of ale-py: the meaning of their fields by experiment, and the way back."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpdrive as wd
from warpdrive.envs.atari import ale_state, machine
from warpdrive.envs.atari.ale_conversion import from_ale, to_ale
from warpdrive.envs.atari.games import GAMES
from warpdrive.errors import DefinitionError

ale_py = pytest.importorskip("ale_py", reason="the extra `atari`")

CARTRIDGES = {
    "pong": "2K",
    "space_invaders": "4K",
    "asterix": "F8",
    "elevator_action": "F8SC",
    "solaris": "F6",
    "klax": "F6SC",
    "tutankham": "E0",
    "robotank": "FE",
}
PROGRAM = 0x80
INDICES = ((machine.BANK, 3, 0x2000), (machine.POSITIONS, 5, 160), (machine.GRP0, 4, 256))
"""First register, number of registers and exclusive bound of the values, of registers that index arrays."""


def game(name: str, frames: int = 0) -> Any:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("random_seed", 1)
    ale.loadROM(ale_py.roms.get_rom_path(name))
    ale.reset_game()
    minimal = ale.getMinimalActionSet()
    for frame in range(frames):
        ale.act(minimal[frame // 4 % len(minimal)])
    return ale


def state_of(ale: Any) -> ale_state.AleState:
    return ale_state.parse(ale.cloneState())


def after_program(ale: Any, code: list[int], start: ale_state.AleState) -> ale_state.AleState:
    """Run a program of the RAM, which ends the frame with VSYNC, from a state."""
    ends_frame = [0xA9, 2, 0x85, 0x00, 0x85, 0x02, 0x85, 0x02, 0xA9, 0, 0x85, 0x00]
    start.processor.pc = PROGRAM
    start.riot.ram[: len(code) + len(ends_frame)] = code + ends_frame
    ale.restoreState(ale_py.ALEState(start.serialize()))
    ale.act(0)
    return state_of(ale)


@pytest.mark.parametrize("name", CARTRIDGES)
@pytest.mark.parametrize("include_rng", [False, True])
def test_bytes_of_a_state_are_written_as_they_were(name: str, include_rng: bool) -> None:
    ale = game(name, 50)
    serialized = ale.cloneState(include_rng=include_rng).serialize()
    state = ale_state.parse(serialized)
    assert state.serialize() == serialized
    assert state.cartridge.kind == CARTRIDGES[name] and (state.generator is not None) == include_rng
    assert np.array_equal(state.riot.ram, ale.getRAM())
    assert (state.frame, state.episode_frame) == (ale.getFrameNumber(), ale.getEpisodeFrameNumber())


def test_registers_of_the_tia_are_where_a_program_writes_them() -> None:
    ale = game("pong", 10)
    start = ale.cloneState().serialize()
    expected = {  # by address: value after 0xA7 is written
        0x04: ("nusiz", 0, 0xA7), 0x05: ("nusiz", 1, 0xA7),
        0x0A: ("ctrlpf", None, 0xA7), 0x0B: ("refp", 0, False), 0x0C: ("refp", 1, False),
        0x0D: ("playfield", None, 0x0000A), 0x0E: ("playfield", None, 0x00A70), 0x0F: ("playfield", None, 0xA7000),
        0x1B: ("grp", 0, 0xA7), 0x1C: ("grp", 1, 0xA7),
        0x1D: ("enam", 0, True), 0x1E: ("enam", 1, True), 0x1F: ("enabl", None, True),
        0x20: ("motion", 0, 10), 0x21: ("motion", 1, 10), 0x22: ("motion", 2, 10), 0x23: ("motion", 3, 10),
        0x24: ("motion", 4, 10), 0x25: ("vdelp", 0, True), 0x26: ("vdelp", 1, True), 0x27: ("vdelbl", None, True),
        0x28: ("resmp", 0, True), 0x29: ("resmp", 1, True),
    }  # fmt: skip
    clear = [0xA9, 0, 0xA2, 0x2A, 0x95, 0x03, 0xCA, 0xD0, 0xFB]  # writes 0 to 0x04 and all after it
    for address, (name, index, value) in expected.items():
        tia = after_program(ale, [*clear, 0xA9, 0xA7, 0x85, address], ale_state.parse(start)).tia
        found = getattr(tia, name) if index is None else getattr(tia, name)[index]
        assert found == value, hex(address)
    for address, which in ((0x06, 0), (0x07, 1), (0x08, 2), (0x09, 3)):
        tia = after_program(ale, [0xA9, 0xA7, 0x85, address], ale_state.parse(start)).tia
        assert tia.colours[which] == np.uint32(0xA6A6A6A6).view(np.int32)


def test_collisions_are_the_latches_that_a_program_reads() -> None:
    ale = game("pong", 10)
    reads = [byte for place in range(8) for byte in (0xA5, place, 0x85, 0xF0 + place)]
    for bit in range(15):
        state = state_of(ale)
        state.tia.collisions = 1 << bit
        expected = from_ale(state.serialize())["registers"][machine.COLLISIONS]
        ram = after_program(game("pong", 10), reads, state).riot.ram
        read = [int(ram[0x70 + place]) >> 6 for place in range(8)]
        assert sum(latches << 2 * place for place, latches in enumerate(read)) == expected


def test_timer_is_where_a_program_writes_it() -> None:
    ale = game("pong", 10)
    for address, shift in ((0x94, 0), (0x95, 3), (0x96, 6), (0x97, 10)):
        state = state_of(ale)
        code = [0xEA, 0xA9, 0x5A, 0x8D, address, 2, 0xA9, 0x3C, 0x8D, 0x81, 2]
        riot = after_program(ale, code, state).riot
        assert (riot.timer, riot.shift, riot.ddra, riot.read_after) == (0x5A, shift, 0x3C, False)
        assert riot.timer_set == 2 + 2 + 4  # a frame begins at 0; all cycles of STA have passed
    riot = after_program(ale, [0xA9, 0, 0x8D, 0x94, 2, *[0xEA] * 20, 0xAD, 0x84, 2], state_of(ale)).riot
    assert riot.read_after and riot.flag_reset == 2 + 4 + 40 + 4


@pytest.mark.parametrize("name", [*CARTRIDGES, "breakout", "ms_pacman", "qbert", "tetris"])
def test_a_state_survives_the_console(name: str) -> None:
    ale = game(name)
    minimal = ale.getMinimalActionSet()
    for frame in range(40):
        ale.act(minimal[frame // 4 % len(minimal)])
        state = state_of(ale)
        again = to_ale(from_ale(state), state)
        for chip in ("processor", "riot", "tia", "cartridge"):
            for entry in dataclasses.fields(getattr(state, chip)):
                if entry.name != "vsync_finish":  # all times of the far future are one
                    left, right = (getattr(getattr(s, chip), entry.name) for s in (state, again))
                    assert np.array_equal(left, right), (frame, chip, entry.name)
        assert (state.cycles, state.paddles.tolist()) == (again.cycles, again.paddles.tolist())


@pytest.mark.parametrize("form", [lambda state: state, lambda state: state.serialize(), ale_state.parse])
def test_ale_continues_from_a_written_state(form: Callable[[Any], Any]) -> None:
    ale = game("breakout", 20)
    state = form(ale.cloneState())
    other = game("breakout")
    other.restoreState(ale_py.ALEState(to_ale(from_ale(state), state).serialize()))
    for frame in range(100):
        action = (0, 1, 3, 4)[frame // 4 % 4]
        assert ale.act(action) == other.act(action)
        assert np.array_equal(ale.getRAM(), other.getRAM()) and np.array_equal(ale.getScreen(), other.getScreen())


@pytest.mark.parametrize("name", ["beam_rider", "qbert", "star_gunner", "time_pilot", "wizard_of_wor"])
def test_lives_are_those_of_the_state_where_memory_does_not_give_them(name: str) -> None:
    """In the middle of a game, frame by frame while lives are lost."""
    ale, rng, seen = game(name), np.random.default_rng(0), set()
    minimal = ale.getMinimalActionSet()
    start = ale.lives()
    for frame in range(12_000):
        if frame % 4 == 0:
            action = minimal[rng.integers(len(minimal))]
        ale.act(action)
        if ale.game_over():
            break
        if frame % 50 == 0 or (ale.lives(), frame % 4) not in seen:
            seen.add((ale.lives(), frame % 4))
            assert from_ale(ale.cloneState())["lives"] == ale.lives(), frame
    assert min(lives for lives, _ in seen) < start


def test_hmove_never_blanks_where_it_does_not_in_ale() -> None:
    arrays = from_ale(game("ms_pacman", 20).cloneState())
    assert arrays["registers"][machine.BLANKED] == -1
    assert from_ale(game("pong", 20).cloneState())["registers"][machine.BLANKED] >= 0


def test_bytes_that_are_no_state_are_rejected() -> None:
    serialized = game("pong").cloneState().serialize()
    with pytest.raises(ValueError, match="Expected 'System' at byte"):
        ale_state.parse(serialized.replace(b"System", b"Sistem"))
    with pytest.raises(ValueError, match=r"Cartridge9K.*is not emulated"):
        ale_state.parse(serialized.replace(b"Cartridge2K", b"Cartridge9K"))
    with pytest.raises(ValueError, match="Expected 2 words at byte 0 of an ALE state, which has 0"):
        ale_state.parse(b"")
    with pytest.raises(ValueError, match="Expected the end of an ALE state at byte"):
        ale_state.parse(serialized + b"more")
    with pytest.raises(TypeError, match=r"ale\.cloneState\(\), or its bytes, found ALEInterface"):
        from_ale(game("pong"))


def test_damaged_words_of_a_state_are_refused_or_harmless() -> None:
    """Each word of two states with banks, replaced by values beyond all arrays: a ValueError, or indices in range."""
    refused = 0
    for name in ("tutankham", "elevator_action"):
        serialized = game(name, 50).cloneState().serialize()
        random = ale_state.parse(serialized).random  # any is accepted
        begin = serialized.index(random)
        for place in [*range(0, begin, 4), *range(begin + len(random), len(serialized) - 3, 4)]:
            for value in (-1, 1000, 0x70000000):
                damaged = serialized[:place] + struct.pack("<i", value) + serialized[place + 4 :]
                try:
                    registers = from_ale(damaged)["registers"]
                except ValueError:
                    refused += 1
                    continue
                for first, count, end in INDICES:
                    values = registers[first : first + count]
                    assert ((values >= 0) & (values < end)).all(), (name, place, value)
    assert refused > 500


def test_the_message_names_the_damaged_register() -> None:
    state = state_of(game("tutankham"))
    state.cartridge.banks[1] = 9
    told = r"the state of ale-py is damaged: BANK\[1\] is 9216, but it must be from 0 to 7168"
    with pytest.raises(DefinitionError, match=told):
        from_ale(state)
    state = state_of(game("pong"))
    state.tia.positions[4] = 160
    with pytest.raises(DefinitionError, match=r"POSITIONS\[4\] is 160, but it must be from 0 to 159"):
        from_ale(state)


def test_a_console_of_another_game_is_no_state_of_the_template() -> None:
    pong, breakout = game("pong").cloneState(), game("breakout").cloneState()
    env = wd.EnvWrapper(wd.make("atari/breakout", obs_type="ram"), env_backend="cpu")
    for arrays in (from_ale(breakout), env.state(0)):
        to_ale(arrays, breakout)
        with pytest.raises(DefinitionError, match="arrays is a state of breakout, but the game is pong"):
            to_ale(arrays, pong)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"ram": np.zeros((2, 128), np.uint8)}, r"'ram' has the shape \(2, 128\), expected \(128,\)"),
        ({"cartridge_ram": np.zeros(5, np.uint8)}, r"'cartridge_ram' has the shape \(5,\), expected \(128,\)"),
        ({"registers": None}, r"'registers' is missing, expected \(72,\), as in env\.state\(0\)"),
    ],
)
def test_arrays_of_several_consoles_or_without_registers_are_refused(changed: dict[str, Any], told: str) -> None:
    state = game("pong").cloneState()
    arrays = {name: array for name, array in (from_ale(state) | changed).items() if array is not None}
    with pytest.raises(DefinitionError, match=told):
        to_ale(arrays, state)


def test_snapshots_of_another_game_or_with_impossible_values_are_refused() -> None:
    options = {"obs_type": "ram", "full_action_space": True}
    pong, breakout = (
        wd.EnvWrapper(wd.make(f"atari/{name}", **options), 3, "cpu", reset_pool_size=3) for name in ("pong", "breakout")
    )
    before = pong.ctx.save_state()
    with pytest.raises(DefinitionError, match="the snapshot is a state of breakout, but the game is pong"):
        pong.ctx.load_state(breakout.ctx.save_state())
    for name, index, value in (("registers", machine.PARITY, 7), ("registers", machine.GRP0, -1), ("held", 0, 18)):
        damaged = wd.EnvWrapper(pong.env, 3, "cpu", reset_pool_size=3)
        damaged.ctx[name][2, index] = value
        with pytest.raises(DefinitionError, match=f"damaged: .* is {value}, but it must be from 0 to"):
            pong.ctx.load_state(damaged.ctx.save_state())
    assert (pong.ctx.save_state() == before).all()
    pong.ctx["registers"][:, machine.ROM] = 0xF0  # as saved before ROMs had an identity: what was written to port A
    unmarked = pong.ctx.save_state()
    pong.ctx.load_state(before)
    pong.ctx.load_state(unmarked)
    assert (pong.ctx["registers"][:, machine.ROM] == 0xF0).all()


def test_roms_have_identities_of_their_own() -> None:
    numbers = {machine.identity(game.md5) for game in GAMES.values()}
    assert len(numbers) == len(GAMES) and min(numbers) > 0xFF
